// SPDX-License-Identifier: MIT
//! How many programs of a user are watched, and what the kernel half does when none is.

use std::env;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::ptr::NonNull;
use std::thread;
use std::time::{Duration, Instant};

use flexguard_abi::{FG_WANT_SLICE_FORECAST, fg_shared};
use flexguard_monitor::Options;
use nix::errno::Errno;
use nix::sys::mman::ProtFlags;
use nix::unistd::{ForkResult, pause};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use crate::harness::{
    Helper, Running, connect, is_root, pidfd, register, register_asking, registration, reply,
    start, start_with, timeout,
};
use crate::lifecycle::{map_page, read_page};
use crate::logged::{assert_refusal_logged, listen};
use crate::victim::{block_offset, fork_to_die_together, helper_command, say, wait_for_go};

const FULL: u32 = 54_401;
const OTHER: u32 = 54_402;
const MOST: u32 = 2;

/// Registers and says what came of it. Then forks now and then, and says how many children have inherited that.
pub fn play_member(socket: &str) {
    let mut stream = connect(socket);
    stream
        .write_all(&registration(block_offset(), &[]))
        .unwrap();
    say(&reply(&mut stream).status.to_string());
    loop {
        wait_for_go();
        // SAFETY: this process has one thread.
        if let ForkResult::Child = unsafe { fork_to_die_together() } {
            say(&std::process::id().to_string());
            loop {
                pause();
            }
        }
    }
}

/// Registers, and becomes a program that does so again and again, with another image, and says what came of it.
pub fn play_successor(socket: &str) {
    drop(register(socket, block_offset(), &[]));
    let error = helper_command(env::current_exe().unwrap(), "register-again").exec();
    panic!("exec: {error}");
}

pub fn play_register_again() {
    let socket = env::var("FLEXGUARD_SOCKET").unwrap();
    say("another program");
    loop {
        wait_for_go();
        let mut stream = connect(&socket);
        stream.write_all(&registration(-4096, &[])).unwrap();
        say(&reply(&mut stream).status.to_string());
    }
}

fn member(running: &Running, uid: u32) -> (Helper, i32) {
    let mut helper = running.helper(&format!("user {uid} member"));
    let status = helper.hear().parse().unwrap();
    (helper, status)
}

/// Whether the next child of that process is watched.
fn child_is_watched(running: &Running, parent: &mut Helper) -> bool {
    parent.go();
    let child = pidfd(parent.hear().parse().unwrap());
    running
        .monitor
        .registration(child.as_fd())
        .unwrap()
        .is_some()
}

#[test]
fn a_user_has_so_many_watched_programs_and_other_users_have_theirs() {
    listen();
    let Some(running) = start_with(Options {
        programs_of_user: Some(MOST),
        ..Options::default()
    }) else {
        return;
    };
    if !is_root() {
        return; // nobody to become
    }
    let (mut first, status) = member(&running, FULL);
    assert_eq!(status, 0);
    let (mut second, status) = member(&running, FULL);
    assert_eq!(status, 0);
    let (third, status) = member(&running, FULL);
    assert_eq!(status, libc::EDQUOT);
    assert_refusal_logged(third.pid(), FULL, Errno::EDQUOT);
    let stats = running.stats();
    assert_eq!((stats.too_many_programs, stats.unmonitored), (1, 1));
    assert!(!child_is_watched(&running, &mut first));
    let stats = running.stats();
    assert_eq!((stats.too_many_programs, stats.unmonitored), (2, 2));
    assert_eq!(stats.rejected_registrations, 2, "the sum of the reasons");
    let (mut other, status) = member(&running, OTHER);
    assert_eq!(status, 0);
    assert!(child_is_watched(&running, &mut other));
    second.kill();
    let deadline = Instant::now() + timeout();
    while member(&running, FULL).1 != 0 {
        assert!(
            Instant::now() < deadline,
            "one has ended, and none may come"
        );
    }
}

/// Registers, wanting slice forecasts, and says which descriptor the page has.
pub fn play_wanting(socket: &str) {
    let page = register_asking(socket, block_offset(), FG_WANT_SLICE_FORECAST.into());
    say(&page.as_raw_fd().to_string());
    wait_for_go(); // holds the page
}

/// The page that the helper has: this process is not registered.
fn page_of(helper: &mut Helper) -> NonNull<fg_shared> {
    let number = helper.hear().parse().unwrap();
    let flags = PidfdGetfdFlags::empty();
    let page = pidfd_getfd(pidfd(helper.pid()), number, flags).unwrap();
    map_page(&page, ProtFlags::PROT_READ).unwrap()
}

fn wait_for(page: NonNull<fg_shared>, any_process: u32, slices_wanted: u32) {
    let deadline = Instant::now() + timeout();
    let now = || {
        let page = read_page(page);
        (page.any_process, page.slices_wanted)
    };
    while now() != (any_process, slices_wanted) {
        assert!(Instant::now() < deadline, "it stays {:?}", now());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn where_no_program_is_left_the_kernel_half_rests() {
    let Some(running) = start() else { return };
    let mut wanting = running.helper("wanting");
    let page = page_of(&mut wanting);
    wait_for(page, 1, 1);
    let mut plain = running.helper("member");
    assert_eq!(plain.hear(), "0");
    wanting.kill();
    wait_for(page, 1, 0);
    plain.kill();
    wait_for(page, 0, 0);
    let mut again = running.helper("member");
    assert_eq!(again.hear(), "0");
    wait_for(page, 1, 0);
    assert!(child_is_watched(&running, &mut again));
}
