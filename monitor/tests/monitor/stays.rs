// SPDX-License-Identifier: MIT
//! The page says for how long the process before had the CPU, and whether it went to sleep.

use std::io::{Read, Write, pipe};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flexguard_abi::{FG_STAY_US, FG_STAY_WAITS, fg_published};
use nix::sched::sched_getcpu;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::ForkResult;

use crate::harness::{is_root, register, start, take_turns_alone};
use crate::lifecycle::{map_published, read_cpu};
use crate::victim::{be_real_time, block_offset, fork_to_die_together, pin, say};

/// How much CPU time each of the two processes uses before it gives the CPU to the other.
const YIELDERS: Duration = Duration::from_millis(2);
const SLEEPERS: Duration = Duration::from_millis(5);
/// Of each of them.
const SAMPLES: usize = 101;
const STAY_MAX: u64 = FG_STAY_US as u64;

/// Two processes take turns on one CPU, and each is told the other's stays. One yields; the other sleeps until the first
/// wakes it: no timer takes part, since a short one may expire before the thread sleeps, or late.
#[test]
fn the_page_tells_how_long_the_process_before_had_the_cpu() {
    let Some(running) = start() else { return };
    if !is_root() {
        return; // real-time priorities need CAP_SYS_NICE
    }
    let _alone = take_turns_alone();
    let mut helper = running.helper("stays");
    let (mut after_yielder, mut after_sleeper) = (vec![], vec![]);
    while after_yielder.len().min(after_sleeper.len()) < SAMPLES {
        let said = helper.hear();
        let mut words = said.split(' ');
        let former = words.next().unwrap();
        let [stay, used, away] = [(); 3].map(|()| words.next().unwrap().parse::<u64>().unwrap());
        let told = stay & STAY_MAX;
        let most = away + away / 100 + 1; // the two clocks may differ by 1 %
        assert!(
            (used.min(STAY_MAX)..=most).contains(&told),
            "{said}: {told} us instead of {used} to {most}"
        );
        // An absence that is longer than the page can say does not limit what it says.
        if most < STAY_MAX {
            let waits = stay & u64::from(FG_STAY_WAITS) != 0;
            match former {
                "yielder" => after_yielder.push(waits),
                _ => after_sleeper.push(waits),
            }
        }
    }
    assert!(!after_sleeper.contains(&true), "it slept");
    // Not each time: where the scheduler limits real-time threads, the CPU may idle, and then nobody is said to wait.
    let waited = after_yielder.iter().filter(|&&waits| waits).count();
    assert!(2 * waited > after_yielder.len(), "it waited");
}

pub fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .unwrap()
        .into()
}

/// What a process says of its latest turn, for the process after it: `process_switches` throughout the turn, or no
/// such number if it changed, and the CPU time that it used. Only one of the two runs at a time.
struct Turn {
    number: AtomicU64,
    used_us: AtomicU64,
}

struct Player {
    published: NonNull<fg_published>,
    mine: &'static Turn,
    others: &'static Turn,
    /// What the other one is called.
    other: &'static str,
}

impl Player {
    /// Uses so much CPU time, gives the CPU to the other process, and so on. Says of each stay of the other: what the page
    /// says, the CPU time that the other used meanwhile, and how long this process was away. The scheduler measures stays
    /// and CPU time by one clock, which may leave out interrupts and what the host takes.
    fn play(&self, length: Duration, mut hand_over: impl FnMut()) -> ! {
        let cpu = sched_getcpu().unwrap();
        let latest = || read_cpu(self.published, cpu);
        loop {
            let (begin, number) = (cpu_time(), latest().process_switches);
            while cpu_time() - begin < length {}
            let used_us = (cpu_time() - begin).as_micros() as u64;
            let before = latest().process_switches;
            let alone = if before == number {
                before.into()
            } else {
                u64::MAX
            };
            self.mine.used_us.store(used_us, Ordering::Relaxed);
            self.mine.number.store(alone, Ordering::Relaxed);
            let left = Instant::now();
            hand_over();
            let away = left.elapsed();
            let after = latest();
            // To the other and back. More: a third process was there, too.
            if after.process_switches == before.wrapping_add(2)
                && self.others.number.load(Ordering::Relaxed) == before.wrapping_add(1).into()
            {
                let (stay, used_us) = (after.stay, self.others.used_us.load(Ordering::Relaxed));
                let away_us = away.as_micros();
                say(&format!("{} {stay} {used_us} {away_us}", self.other));
            }
        }
    }
}

/// The helper's side: the yielder, and its child, the sleeper.
pub fn play(socket: &str) {
    be_real_time();
    pin();
    let published = map_published(&register(socket, block_offset(), &[]));
    let (protection, length) = (
        ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
        size_of::<[Turn; 2]>(),
    );
    // SAFETY: a new mapping at an address of the kernel's choice, which is never unmapped; zeroes are turns.
    let [yielders, sleepers]: &'static [Turn; 2] = unsafe {
        mmap_anonymous(
            None,
            length.try_into().unwrap(),
            protection,
            MapFlags::MAP_SHARED,
        )
        .unwrap()
        .cast()
        .as_ref()
    };
    let (mut wakes, mut wake) = pipe().unwrap();
    // SAFETY: this process has no other thread.
    match unsafe { fork_to_die_together() } {
        ForkResult::Child => Player {
            published,
            mine: sleepers,
            others: yielders,
            other: "yielder",
        }
        .play(SLEEPERS, || wakes.read_exact(&mut [0]).unwrap()),
        ForkResult::Parent { .. } => Player {
            published,
            mine: yielders,
            others: sleepers,
            other: "sleeper",
        }
        .play(YIELDERS, || {
            wake.write_all(&[0]).unwrap(); // it comes after us: this one keeps the CPU until it yields
            thread::yield_now();
        }),
    }
}
