// SPDX-License-Identifier: MIT
//! A monitor is killed beside two hundred programs that lock all the time, and another one is started.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::common::daemon::{Process, wait_for};
use crate::common::*;
use crate::service::{
    BpfFileSystem, await_more_than, await_zero, counters, preempted_holders, root, start,
    start_pinned,
};

static ONE_CROWD: Mutex<()> = Mutex::new(());
const PROGRAMS: usize = 200;

/// Two threads that take a lock in turn, so that one waits for it all the time. The holder works, and sleeps: together
/// the programs leave the CPUs some time. They check mutual exclusion, and end when they are asked to.
struct Crowd(Vec<Process>);

impl Crowd {
    fn start(socket: &Path, reconnect: &str) -> Crowd {
        let args = "shm --lock flexguard --threads 2 --seconds 3600 --warmup 0 --section-cycles 60000 \
                    --hold-sleep-us 20000 --hold-sleep-every 1";
        let one = |_| {
            let mut command = Command::new(prefix().join("libexec/flexguard/fg-bench"));
            command
                .args(words(args))
                .env("FLEXGUARD_SOCKET", socket)
                .env("FLEXGUARD_RECONNECT", reconnect)
                .stdout(Stdio::null());
            Process::start(&mut command)
        };
        let crowd = Crowd((0..PROGRAMS).map(one).collect());
        wait_for("the programs' threads", || {
            (running(socket) == PROGRAMS).then_some(())
        });
        crowd
    }

    fn end(self) {
        self.0
            .iter()
            .for_each(|program| program.signal(libc::SIGUSR1));
        for mut program in self.0 {
            // 3: two threads were in one critical section.
            assert_eq!(program.0.wait().unwrap().code(), Some(0));
        }
    }
}

/// How many programs the monitor watches whose threads run.
fn running(socket: &Path) -> usize {
    let output = run(["status", "--json", "--socket", socket.to_str().unwrap()]);
    let status = json(&stdout(&output));
    let programs = status["programs"].as_array().unwrap().iter();
    programs
        .filter(|program| program["threads"].as_u64() > Some(2))
        .count()
}

/// Kills the monitor, starts another one, and lets the programs end when all of them are watched by it, of which so many
/// have registered with it.
fn restart(
    socket: &Path,
    crowd: Crowd,
    start_one: impl Fn() -> Process,
    monitor: Process,
    registered: usize,
) {
    await_more_than(0, socket);
    monitor.end(libc::SIGKILL);
    let monitor = start_one();
    wait_for("all programs", || {
        (running(socket) == PROGRAMS).then_some(())
    });
    assert_eq!(counters(socket)["registered_processes"], registered);
    await_more_than(preempted_holders(socket), socket);
    crowd.end();
    await_zero(socket);
    assert_eq!(monitor.end(libc::SIGTERM), Some(0));
}

/// None of the programs has to do anything to be watched by the successor.
#[test]
fn two_hundred_locking_programs_are_watched_again_after_a_restart() {
    const TEST: &str = "two_hundred_locking_programs_are_watched_again_after_a_restart";
    if !bpf(TEST) || !root(TEST) {
        return; // mounting is root's
    }
    let _alone = ONE_CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    let (dir, pins) = (tempfile::tempdir().unwrap(), BpfFileSystem::mount());
    let socket = dir.path().join("m.sock");
    let start_one = || start_pinned(&socket, &pins);
    let monitor = start_one();
    let crowd = Crowd::start(&socket, "0");
    restart(&socket, crowd, start_one, monitor, 0);
}

/// Nothing outlives the monitor. The programs find out that it is gone, and register with its successor.
#[test]
fn two_hundred_locking_programs_register_again_with_a_monitor_that_begins_anew() {
    const TEST: &str =
        "two_hundred_locking_programs_register_again_with_a_monitor_that_begins_anew";
    if !bpf(TEST) {
        return;
    }
    let _alone = ONE_CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m.sock");
    let start_one = || {
        let mut command = flexguard();
        start(command.arg("monitor").arg("--socket").arg(&socket))
    };
    let monitor = start_one();
    let crowd = Crowd::start(&socket, "1");
    restart(&socket, crowd, start_one, monitor, PROGRAMS);
}
