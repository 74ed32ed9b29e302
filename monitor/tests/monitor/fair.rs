// SPDX-License-Identifier: MIT
//! What one user asks of the monitor delays that user's programs, and no others.

use std::fs::File;
use std::io::{IoSlice, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use flexguard_abi::{FG_MAX_IMAGES, FG_STATUS_LIST, FG_STATUS_TOTALS};
use flexguard_monitor::{Monitor, Stats, Stop};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, getsockname, sendmsg};
use nix::unistd::{ForkResult, Uid, getppid, pause, setresuid};

use crate::domains::Group;
use crate::harness::{
    AN_OFFSET, Helper, connect, is_root, load, registration, reply, start, status_of as status,
    status_request,
};
use crate::hostile::{Allowance, start_threads};
use crate::logged::{listen, refused_before};
use crate::privileges::{NOBODY, become_nobody};
use crate::victim::{die_with, fork_to_die_together, say, wait_for_go};

const FLOOD: usize = 100;
/// So many of a flood may have their turn while another user's client waits for its own.
const BEFORE: usize = 1;
/// Below the monitor's limit of a process.
const THREADS: usize = 2000;
const TIMES: usize = 2000;
/// What a registration of so many threads costs at least, in connections.
const PRICE: usize = THREADS / 64;

/// The nth image of a process.
fn image(n: u32) -> Vec<u8> {
    registration(AN_OFFSET + 64 * i64::from(n), &[])
}

/// From here on this process is refused as one that has too many images, after all that a registration costs.
fn fill(socket: &str) -> Vec<u8> {
    for n in 1..=FG_MAX_IMAGES {
        assert_eq!(status(socket, &image(n)), 0);
    }
    image(FG_MAX_IMAGES + 1)
}

/// Nobody registers so often before it reads the first answer.
pub fn play_flood(socket: &str) {
    become_nobody();
    let message = fill(socket);
    say("full");
    wait_for_go();
    let asked: Vec<_> = (0..FLOOD)
        .map(|_| {
            let mut stream = connect(socket);
            stream.write_all(&message).unwrap();
            stream
        })
        .collect();
    say("there");
    for mut stream in asked {
        assert_eq!(reply(&mut stream).status as i32, libc::ENOSPC);
    }
    say("answered");
    wait_for_go();
}

struct StopAtEnd<'a>(&'a Stop);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Serves while `work` is done, also where that panics.
pub fn while_served<T>(monitor: &Monitor, work: impl FnOnce() -> T) -> T {
    let stop = Stop::new().unwrap();
    thread::scope(|scope| {
        let _ends = StopAtEnd(&stop);
        scope.spawn(|| monitor.serve(&stop).unwrap());
        work()
    })
}

#[test]
fn a_flood_of_one_user_delays_no_other() {
    listen();
    let Some((monitor, name)) = load() else {
        return;
    };
    if !is_root() {
        return; // nobody to become
    }
    let mut flood = Helper::start("flood", &name);
    let message = while_served(&monitor, || {
        assert_eq!(flood.hear(), "full");
        fill(&name)
    });
    // Nobody serves now: what comes waits in the backlog.
    flood.go();
    assert_eq!(flood.hear(), "there");
    let mut mine = connect(&name);
    mine.write_all(&message).unwrap();
    while_served(&monitor, || {
        assert_eq!(reply(&mut mine).status as i32, libc::ENOSPC);
        assert_eq!(flood.hear(), "answered");
    });
    let me = (std::process::id() as i32, Uid::effective().as_raw());
    let before = refused_before(Errno::ENOSPC, me, (flood.pid(), NOBODY));
    assert!(before <= BEFORE, "{before} of {FLOOD} came first");
}

/// Programs that one user starts at once: twice as many as a monitor with so many open files takes in at a time, and so few
/// that all of them may leave their answers unread.
const BURST: usize = 125;
const FILES: u64 = 1024;

/// A monitor with so many open files, which does not serve before it is told to.
pub fn play_serve_late(files: u64) {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, files, hard).unwrap();
    let Some((monitor, name)) = load() else {
        return say("skipped");
    };
    say(&name);
    wait_for_go();
    monitor.serve(&Stop::new().unwrap()).unwrap();
}

/// Nobody starts so many programs. Says when all have asked, and then how those that were refused were answered.
pub fn play_burst(socket: &str) {
    become_nobody();
    let (mut hears, mut tells) = pipe().unwrap();
    for _ in 0..BURST {
        // SAFETY: this process has one thread.
        if let ForkResult::Child = unsafe { fork_to_die_together() } {
            let mut stream = connect(socket);
            stream.write_all(&image(1)).unwrap();
            tells.write_all(b"?").unwrap();
            tells.write_all(&[reply(&mut stream).status as u8]).unwrap();
            loop {
                pause();
            }
        }
    }
    drop(tells);
    let mut told = [0; BURST];
    hears.read_exact(&mut told).unwrap();
    say("there");
    hears.read_exact(&mut told).unwrap();
    let refused: Vec<_> = told.iter().filter(|&&status| status != 0).collect();
    say(&format!("{refused:?}"));
}

/// Of `clients`, which ask a monitor with so many open files before it serves anybody.
fn none_is_refused(files: u64, clients: &str) {
    if !is_root() {
        return; // nobody to become
    }
    let Some((mut monitor, name)) = Helper::monitor(&format!("serve-late {files}")) else {
        return;
    };
    let mut clients = Helper::start(clients, &name);
    assert_eq!(clients.hear(), "there");
    monitor.go();
    assert_eq!(clients.hear(), "[]");
}

#[test]
fn of_programs_that_start_at_once_none_is_refused() {
    none_is_refused(FILES, "burst");
}

/// Clients of one user, of which one in twenty registers: more than a monitor with so many open files can have, and so few
/// registrations that all of their answers may stay unread.
const CROWD: usize = 400;
const REGISTERS: usize = 20;
const FEW_FILES: u64 = 256;

/// Says when all have asked, and then how those that registered were answered.
pub fn play_mixed(socket: &str) {
    become_nobody();
    let asked: Vec<_> = (0..CROWD)
        .map(|i| {
            let mut stream = connect(socket);
            let registers = i % REGISTERS == 0;
            let message = if registers {
                image(1)
            } else {
                status_request(FG_STATUS_TOTALS)
            };
            stream.write_all(&message).unwrap();
            stream
        })
        .collect();
    say("there");
    let registered = asked.into_iter().step_by(REGISTERS);
    let told = registered.map(|mut stream| reply(&mut stream).status);
    let refused: Vec<_> = told.filter(|&status| status != 0).collect();
    say(&format!("{refused:?}"));
}

/// Or none is left for what a registration itself opens.
#[test]
fn the_clients_that_wait_take_a_part_of_the_open_files() {
    none_is_refused(FEW_FILES, "mixed");
}

/// Nobody, with many threads, registers again and again: the same image, or one more than a process may have. Says
/// whether it was refused for that, and as soon as it was allowed too much, that.
pub fn play_again(socket: &str, what: &str) {
    become_nobody();
    start_threads(THREADS);
    let message = if what == "same" {
        image(1)
    } else {
        fill(socket)
    };
    let price = if what == "same" { 1 } else { PRICE };
    let mut allowance = Allowance::from_now();
    let mut end = "served";
    for _ in 0..TIMES {
        if status(socket, &message) == libc::EAGAIN {
            end = "refused";
            break;
        }
        if allowance.is_exceeded_by(price) {
            end = "too much";
            break;
        }
    }
    say(end);
    thread::sleep(Duration::MAX);
}

fn again(what: &str) -> Option<String> {
    let running = start()?;
    if !is_root() {
        return None; // nobody to become
    }
    Some(running.helper(&format!("again {what}")).hear())
}

#[test]
fn an_image_that_is_registered_again_costs_no_walk_over_the_threads() {
    let Some(end) = again("same") else { return };
    assert_eq!(end, "served");
}

#[test]
fn who_has_many_threads_walked_again_and_again_is_refused() {
    let Some(end) = again("more") else { return };
    // "served": the machine is so slow that it was no more than it may have.
    assert_ne!(end, "too much");
}

/// Asks for lists until it may ask no more.
pub fn play_spend(socket: &str) {
    while status(socket, &status_request(FG_STATUS_LIST)) == 0 {}
    say("spent");
    loop {
        status(socket, &status_request(FG_STATUS_LIST));
    }
}

/// Containers run as root, as the machine's own services do.
#[test]
fn what_root_of_one_control_group_has_used_up_another_still_has() {
    let Some(running) = start() else { return };
    let Some(group) = Group::new() else { return };
    let mut container = group.helper(&running, "spend");
    assert_eq!(container.hear(), "spent");
    assert_eq!(running.status_of(&image(1)), 0);
    assert_eq!(running.status_of(&status_request(FG_STATUS_LIST)), 0);
    container.kill();
}

/// Connects and says nonsense, as fast as it can. "ids": by turns as one of so many users, which only root can. "descriptor":
/// with an open file.
pub fn play_hammer(socket: &str, how: &str) {
    const IDS: u32 = 64;
    let (root, mut uid, parent) = (Uid::from_raw(0), 0, getppid());
    let file = File::open("/dev/null").unwrap();
    let files = [file.as_raw_fd()];
    let control = [ControlMessage::ScmRights(&files)];
    let control = if how.contains("descriptor") {
        &control[..]
    } else {
        &[]
    };
    say("ready");
    loop {
        if how.contains("ids") {
            uid = uid % IDS + 1;
            setresuid(root, root, root).unwrap();
            let id = Uid::from_raw(uid);
            setresuid(id, id, root).unwrap();
            die_with(parent);
        }
        let parts = [IoSlice::new(b"nonsense")];
        let stream = connect(socket);
        let fd = stream.as_raw_fd();
        // Newer kernels refuse the file, and the server hangs up on some.
        let _ = sendmsg::<()>(fd, &parts, control, MsgFlags::MSG_NOSIGNAL, None);
    }
}

/// As on kernels before 6.16.
fn let_clients_send_descriptors(socket: &str) {
    const SO_PASSRIGHTS: libc::c_int = 83;
    let on: libc::c_int = 1;
    let listens = |&fd: &i32| {
        let address = getsockname::<UnixAddr>(fd);
        address.is_ok_and(|address| address.as_abstract() == Some(&socket.as_bytes()[1..]))
    };
    let listener = (0..4096).find(listens).unwrap();
    // SAFETY: the call reads one int. Those kernels do not know the option.
    unsafe {
        libc::setsockopt(
            listener,
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const on).cast(),
            size_of_val(&on) as u32,
        )
    };
}

/// Beside processes in this role, which flood the monitor, root registers again and again.
fn costs_root_no_registration(role: &str) {
    const HAMMERS: usize = 4;
    const REGISTRATIONS: usize = 300;
    let Some(running) = start() else { return };
    if !is_root() {
        return; // nobody to become
    }
    if role.contains("descriptor") {
        let_clients_send_descriptors(&running.name);
    }
    let Some(group) = Group::new() else { return };
    let hammers = [(); HAMMERS].map(|()| {
        let mut hammer = group.helper(&running, role);
        assert_eq!(hammer.hear(), "ready");
        hammer
    });
    // Of one account all but a burst are too many; those of many accounts, or of a slow machine, are malformed.
    let flooded = |stats: &Stats| stats.refused.too_many + stats.refused.malformed > 10_000;
    running.wait_until("the flood to be refused", flooded);
    let mut took: Vec<Duration> = (0..REGISTRATIONS)
        .map(|_| {
            let begin = Instant::now();
            assert_eq!(running.status_of(&image(1)), 0);
            begin.elapsed()
        })
        .collect();
    took.sort();
    let (middle, late) = (took[REGISTRATIONS / 2], took[REGISTRATIONS * 99 / 100]);
    eprintln!("{role}: half within {middle:?}, 99 of 100 within {late:?}");
    drop(hammers); // before their group
}

#[test]
fn a_flood_of_connections_costs_another_user_no_registration() {
    costs_root_no_registration(&format!("user {NOBODY} hammer"));
}

#[test]
fn a_flood_with_descriptors_costs_another_user_no_registration() {
    costs_root_no_registration(&format!("user {NOBODY} hammer descriptor"));
}

#[test]
fn a_flood_by_subordinate_ids_costs_another_user_no_registration() {
    costs_root_no_registration(&format!("within {NOBODY} hammer ids"));
}

#[test]
fn a_flood_by_the_root_of_a_container_costs_another_user_no_registration() {
    costs_root_no_registration("within 0 hammer ids");
    costs_root_no_registration("within 0 hammer ids descriptor");
}

/// Each of the ids has connections of its own.
#[test]
fn a_flood_by_many_users_costs_another_user_no_registration() {
    costs_root_no_registration("hammer ids");
}
