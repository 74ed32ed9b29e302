// SPDX-License-Identifier: MIT
//! Ends of slices: published for the processes that ask, and for no other.

use std::time::{Duration, Instant};

use flexguard_abi::*;
use nix::sched::sched_getcpu;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

use crate::harness::{Running, register_asking, start, timeout};
use crate::lifecycle::{map_published, read_cpu};
use crate::victim::{block_offset, pin, say};

/// Switches back to the victim that are waited for.
const SLICES: u32 = 20;
/// Longer than any slice: a forecast further away is none.
const SECOND: i64 = 1_000_000_000;

/// What the victim sees on the page while it shares its CPU with the hog.
fn watch(flags: u64) -> Option<String> {
    start().map(|running| watch_under(&running, flags))
}

fn watch_under(running: &Running, flags: u64) -> String {
    let _hog = running.ready("hog");
    let mut victim = running.helper(&format!("slices {flags}"));
    let seen = victim.hear();
    victim.wait();
    seen
}

#[test]
fn who_asks_is_told_when_each_slice_ends() {
    let Some(seen) = watch(FG_WANT_SLICE_FORECAST.into()) else {
        return;
    };
    assert_eq!(seen, format!("{SLICES} ends, 0 absurd"));
}

#[test]
fn who_does_not_ask_is_told_nothing() {
    let Some(running) = start() else { return };
    // Once one process has asked, the monitor computes the ends of slices.
    assert_ne!(
        watch_under(&running, FG_WANT_SLICE_FORECAST.into()),
        "0 ends, 0 absurd"
    );
    // The first victim may still be on its way out of the kernel, and be told once more.
    let seen = watch_under(&running, 0);
    assert!(
        ["0 ends, 0 absurd", "1 ends, 0 absurd"].contains(&&*seen),
        "{seen}"
    );
}

/// The helper's side: until it has seen SLICES ends, or has lost its CPU so often without seeing one.
pub fn play(socket: &str, flags: u64) {
    pin();
    let cpu = sched_getcpu().unwrap();
    let page = register_asking(socket, block_offset(), flags);
    let published = map_published(&page);
    let end = || read_cpu(published, cpu).slice_end_ns;
    let (started, mut looked) = (Instant::now(), now());
    let (mut ends, mut absurd, mut lost, mut last) = (0, 0, 0, end());
    while ends < SLICES && (flags != 0 || lost < SLICES) && started.elapsed() < timeout() {
        let before = now();
        let end = end();
        lost += u32::from(before - looked > Duration::from_millis(1).as_nanos() as i64);
        if end != last {
            last = end;
            ends += 1;
            // It was written since the look before this one, whenever that was.
            let possible = looked - SECOND..now() + SECOND;
            absurd += u32::from(!possible.contains(&(end as i64)));
        }
        looked = before;
    }
    say(&format!("{ends} ends, {absurd} absurd"));
}

fn now() -> i64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    time.num_nanoseconds()
}
