// SPDX-License-Identifier: MIT
//! How many programs of a user are watched, and what the kernel half does when none is.

use std::env;
use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::thread;
use std::time::{Duration, Instant};

use flexguard_abi::{FG_WANT_SLICE_FORECAST, fg_shared};
use flexguard_monitor::{DomainKind, Options};
use nix::errno::Errno;
use nix::sys::mman::ProtFlags;
use nix::sys::wait::wait;
use nix::unistd::{ForkResult, pause};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use crate::domains::{Group, become_user};
use crate::harness::{
    AN_OFFSET, Helper, Running, connect, is_root, pidfd, register, register_asking, registration,
    reply, say_skipped, start, start_with, timeout,
};
use crate::lifecycle::{map_page, read_page};
use crate::logged::{assert_refusal_logged, listen};
use crate::victim::{block_offset, fork_to_die_together, helper_command, say, wait_for_go};

const FULL: u32 = 54_401;
const OTHER: u32 = 54_402;
const MOST: u32 = 2;

/// Registers and says what came of it.
fn register_and_say(socket: &str) {
    let mut stream = connect(socket);
    stream
        .write_all(&registration(block_offset(), &[]))
        .unwrap();
    say(&reply(&mut stream).status.to_string());
}

/// The same. Then forks now and then, and says how many children have inherited that.
pub fn play_member(socket: &str) {
    register_and_say(socket);
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

/// So many register, each of another user, and say what came of it. If one of them ends, all do.
pub fn play_members(socket: &str, which: &str) {
    let number: u32 = which.parse().unwrap();
    for uid in 1..=number {
        // SAFETY: this process has one thread.
        if let ForkResult::Child = unsafe { fork_to_die_together() } {
            become_user(uid);
            register_and_say(socket);
            loop {
                pause();
            }
        }
    }
    wait().unwrap(); // what it had to say does not come
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
        stream.write_all(&registration(AN_OFFSET, &[])).unwrap();
        say(&reply(&mut stream).status.to_string());
    }
}

/// Registers, and has so many children when it may go on.
pub fn play_brood(socket: &str, number: u32) {
    drop(register(socket, block_offset(), &[]));
    say("registered");
    wait_for_go();
    for _ in 0..number {
        // SAFETY: this process has one thread.
        if let ForkResult::Child = unsafe { fork_to_die_together() } {
            loop {
                pause();
            }
        }
    }
    say("ready");
    loop {
        pause();
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

/// How many of these are watched.
fn watched(members: &mut Helper, number: u32) -> u32 {
    let heard = (0..number).map(|_| members.hear().parse::<i32>().unwrap());
    heard
        .map(|status| match status {
            0 => 1,
            status => {
                assert_eq!(status, libc::EDQUOT);
                0
            }
        })
        .sum()
}

/// A user has MOST watched programs. None also if this process can become no other user.
fn start_for_few(options: Options) -> Option<Running> {
    let running = start_with(Options {
        programs_of_user: Some(MOST),
        ..options
    });
    running.filter(|_| is_root())
}

/// Its root can become any of them.
#[test]
fn all_ids_of_a_user_namespace_have_one_share_of_the_watched_programs() {
    const IDS: u32 = 2 * MOST;
    let Some(running) = start_for_few(Options::default()) else {
        return;
    };
    let [Some(first), Some(second)] = [Group::new(), Group::new()] else {
        return;
    };
    let mut namespaces = vec![];
    for (who, group, share) in [
        (format!("within {FULL} "), &first, MOST),
        (format!("within {FULL} "), &second, 0),
        ("within 0 ".to_string(), &first, MOST),
        ("within 0 ".to_string(), &first, 0),
        ("within 0 ".to_string(), &second, MOST), // another container
        (String::new(), &first, IDS),
    ] {
        let mut namespace = group.helper(&running, &format!("{who}members {IDS}"));
        assert_eq!(watched(&mut namespace, IDS), share, "{who}");
        namespaces.push(namespace);
    }
    drop(namespaces); // so that the groups are empty when they go
}

/// Of control groups, a user who has one can make any number below it.
#[test]
fn control_groups_that_a_user_has_made_have_one_share() {
    let Some(running) = start_for_few(Options {
        domains: DomainKind::Cgroup,
        ..Options::default()
    }) else {
        return;
    };
    let mut members = vec![];
    for (made_by, expected) in [(FULL, 0), (FULL, 0), (FULL, libc::EDQUOT), (0, 0), (0, 0)] {
        let Some(group) = Group::new() else { return };
        group.give_to(made_by);
        let mut member = group.helper(&running, &format!("user {FULL} member"));
        assert_eq!(member.hear(), expected.to_string(), "made by {made_by}");
        members.push((member, group)); // in this order, so that the group is empty when it goes
    }
}

#[test]
fn a_user_has_so_many_watched_programs_and_other_users_have_theirs() {
    listen();
    let Some(running) = start_for_few(Options::default()) else {
        return;
    };
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

/// Five users with as many children each as the records of all may take.
#[test]
fn the_records_of_all_users_take_so_much_memory_and_no_more() {
    const BYTES: u32 = 1 << 20;
    const CHILDREN: u64 = 1400;
    let most = u64::from(BYTES / OF_A_PROCESS);
    assert!(CHILDREN > most);
    let Some(running) = start_with(Options {
        record_bytes: Some(BYTES),
        ..Options::default()
    }) else {
        return;
    };
    if !is_root() {
        return; // nobody to become
    }
    let mut broods = (FULL..FULL + 5)
        .map(|uid| running.helper(&format!("user {uid} brood {CHILDREN}")))
        .collect::<Vec<_>>();
    for brood in &mut broods {
        assert_eq!(brood.hear(), "registered");
    }
    broods.iter_mut().for_each(Helper::go);
    for brood in &mut broods {
        assert_eq!(brood.hear(), "ready");
    }
    let stats = running.stats();
    // An eighth more: those that are forked while it counts are not seen twice.
    let watched = stats.inherited_processes;
    assert!(watched <= most + most / 8, "{watched} of {most}");
    assert!(
        stats.too_many_programs >= 5 * (CHILDREN - watched / 5),
        "{stats:?}"
    );
    drop(broods);
    let deadline = Instant::now() + timeout();
    while member(&running, OTHER).1 != 0 {
        assert!(
            Instant::now() < deadline,
            "they have ended, and none may come"
        );
    }
}

/// What the kernel charges to the monitor for a process with one thread, by bpf/monitor.h.
const OF_A_PROCESS: u32 = 256 + 512;

/// A group of the memory controller that goes with this; none: there is no such controller here, or no privilege.
struct MemoryGroup(PathBuf, &'static str);

impl MemoryGroup {
    /// None where there is no memory controller, or no privilege. Then the test is skipped.
    fn new() -> Option<MemoryGroup> {
        let group = MemoryGroup::make();
        if group.is_none() {
            say_skipped("needs to make a control group with the memory controller");
        }
        group
    }

    fn make() -> Option<MemoryGroup> {
        let name = format!("flexguard-test-{}", std::process::id());
        let (one, two) = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup");
        let files = [(one, "memory.usage_in_bytes"), (two, "memory.current")];
        files.into_iter().find_map(|(mount, usage)| {
            let path = Path::new(mount).join(&name);
            fs::create_dir(&path).ok()?;
            let group = MemoryGroup(path, usage);
            group.0.join(usage).exists().then_some(group)
        })
    }

    fn usage(&self) -> u64 {
        let usage = fs::read_to_string(self.0.join(self.1)).unwrap();
        usage.trim().parse().unwrap()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_process_takes_no_more_of_the_monitors_memory_than_is_reckoned() {
    const CHILDREN: u32 = 4000;
    let Some(group) = MemoryGroup::new() else {
        return;
    };
    let mut monitor = Helper::start("wait serve", "");
    assert_eq!(monitor.hear(), "waiting");
    fs::write(group.0.join("cgroup.procs"), monitor.pid().to_string()).unwrap();
    monitor.go();
    let name = monitor.hear();
    if name == "skipped" {
        return;
    }
    let bred = |number| {
        let mut brood = Helper::start(&format!("brood {number}"), &name);
        assert_eq!(brood.hear(), "registered");
        brood.go();
        assert_eq!(brood.hear(), "ready");
        brood
    };
    let first = bred(100); // what is made once
    let before = group.usage();
    let brood = bred(CHILDREN);
    let taken = group.usage().saturating_sub(before);
    let of_each = taken / u64::from(CHILDREN);
    eprintln!("{of_each} bytes a process");
    assert!(of_each <= OF_A_PROCESS.into(), "{of_each} bytes");
    assert!(of_each >= 128, "{of_each} bytes: nothing is measured");
    drop((first, brood));
    monitor.kill();
}
