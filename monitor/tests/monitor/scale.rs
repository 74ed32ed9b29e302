// SPDX-License-Identifier: MIT
//! A thousand programs at once, and many one after the other: all are watched, and the monitor does not grow.

use std::env;
use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::mman::ProtFlags;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};

use crate::domains::become_user;
use crate::harness::{Helper, is_root, load, register, start};
use crate::lifecycle::map_page;
use crate::victim::{block_offset, fork_to_die_together, say, wait_for_go};

const PROCESSES: u64 = 1000;
const THREADS: usize = 8;
/// So many processes live and die, where the environment does not say otherwise.
const LIVES: u64 = 6000;
const LIVES_ENV: &str = "FLEXGUARD_LIVES";
/// A user is allowed a burst of that many registrations; then the processes are another user's.
const OF_ONE_USER: u64 = 4000;
/// By then all that the monitor allocates once is there.
const WARM: u64 = 1000;
const PAGES_KIB: u64 = 256;

/// Registers as a program that has its threads; tells how long that took.
fn play_one_of_many(socket: &str, mut told: PipeWriter) -> ! {
    for _ in 0..THREADS {
        let rest = || -> () {
            loop {
                thread::park();
            }
        };
        thread::Builder::new()
            .stack_size(16384)
            .spawn(rest)
            .unwrap();
    }
    let begin = Instant::now();
    let _page = map_page(&register(socket, block_offset(), &[]), ProtFlags::PROT_READ).unwrap();
    let ns = begin.elapsed().as_nanos() as u64;
    told.write_all(&ns.to_ne_bytes()).unwrap();
    drop(told);
    loop {
        thread::park();
    }
}

pub fn play_thousand(socket: &str) {
    let mut times = vec![];
    for _ in 0..PROCESSES {
        let (mut hears, tells): (PipeReader, PipeWriter) = io::pipe().unwrap();
        // SAFETY: this process has one thread.
        if let ForkResult::Child = unsafe { fork_to_die_together() } {
            play_one_of_many(socket, tells);
        }
        drop(tells);
        let mut ns = [0; 8];
        hears.read_exact(&mut ns).unwrap();
        times.push(u64::from_ne_bytes(ns) / 1000);
    }
    times.sort_unstable();
    let of = |percent: usize| times[times.len() * percent / 100];
    say(&format!(
        "registration: median {} us, p99 {} us, most {} us",
        of(50),
        of(99),
        times[times.len() - 1]
    ));
    thread::sleep(Duration::MAX);
}

#[test]
fn a_thousand_programs_with_eight_threads_each_are_watched() {
    let Some(running) = start() else { return };
    let mut crowd = running.helper("thousand");
    eprintln!("{}", crowd.hear());
    let stats = running.stats();
    assert_eq!(stats.registered_processes, PROCESSES);
    assert_eq!((stats.rejected_registrations, stats.lost_records), (0, 0));
    crowd.kill();
}

/// A monitor without a test around it: what it takes is its own.
pub fn play_serve() {
    let Some((monitor, name)) = load() else {
        return say("skipped");
    };
    say(&name);
    let stop = flexguard_monitor::Stop::new().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| monitor.serve(&stop).unwrap());
        loop {
            wait_for_go();
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let memory = status
                .lines()
                .find_map(|line| line.strip_prefix("VmRSS:"))
                .unwrap();
            let descriptors = fs::read_dir("/proc/self/fd").unwrap().count();
            say(&format!(
                "{} {descriptors}",
                memory.trim_end_matches("kB").trim()
            ));
        }
    });
}

/// Half of them register, and each has a child, which inherits that.
pub fn play_lives(socket: &str) {
    let lives: u64 = env::var(LIVES_ENV).map_or(LIVES, |n| n.parse().unwrap());
    for n in 0..lives / 2 {
        if n == WARM / 2 {
            say("warm");
            wait_for_go();
        }
        // SAFETY: this process has one thread.
        match unsafe { fork_to_die_together() } {
            ForkResult::Child => {
                become_user(100_000 + (n / OF_ONE_USER) as u32);
                drop(register(socket, block_offset(), &[]));
                // SAFETY: as above; the child does nothing but end.
                if let ForkResult::Parent { child } = unsafe { fork() }.unwrap() {
                    waitpid(child, None).unwrap();
                }
                // SAFETY: ends this process, which has nothing to leave behind.
                unsafe { libc::_exit(0) }
            }
            ForkResult::Parent { child } => drop(waitpid(child, None)),
        }
    }
    say("done");
}

/// KiB and descriptors of a monitor that plays "serve".
pub fn size(monitor: &mut Helper) -> (u64, u64) {
    monitor.go();
    let said = monitor.hear();
    let (memory, descriptors) = said.split_once(' ').unwrap();
    (memory.parse().unwrap(), descriptors.parse().unwrap())
}

#[test]
fn the_monitor_does_not_grow_with_the_programs_that_come_and_go() {
    if !is_root() {
        return; // no other users to be
    }
    let Some((mut monitor, name)) = Helper::monitor("serve") else {
        return;
    };
    let mut lives = Helper::start("lives", &name);
    assert_eq!(lives.hear(), "warm");
    let before = size(&mut monitor);
    lives.go();
    assert_eq!(lives.hear(), "done");
    let after = size(&mut monitor);
    eprintln!("KiB and descriptors of the monitor: {before:?}, then {after:?}");
    assert!(
        after.0 <= before.0 + PAGES_KIB,
        "{before:?}, then {after:?}"
    );
    assert!(after.1 <= before.1 + 1, "{before:?}, then {after:?}"); // of the last client
}
