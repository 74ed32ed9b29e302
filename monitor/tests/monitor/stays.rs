// SPDX-License-Identifier: MIT
//! The page says for how long the process before had the CPU, and whether it went to sleep.

use std::thread;
use std::time::Duration;

use flexguard_abi::{FG_STAY_US, FG_STAY_WAITS, FG_SWITCH_LINES};
use nix::sched::sched_getcpu;
use nix::sys::mman::ProtFlags;
use nix::time::{ClockId, clock_gettime};

use crate::harness::{is_root, register, start, take_turns_alone};
use crate::lifecycle::{map_page, read_page};
use crate::victim::{be_real_time, block_offset, pin, say, wait_for_go};

const SHORT_US: u64 = 2000;
const LONG_US: u64 = 5000;
/// Their median: the scheduler leaves a twentieth of the time to others than real-time threads.
const SAMPLES: usize = 101;
const LINES: usize = FG_SWITCH_LINES as usize;

/// Two processes take turns on one CPU, and each is told the other's stays. One yields, the other goes to sleep.
#[test]
fn the_page_tells_how_long_the_process_before_had_the_cpu() {
    let Some(running) = start() else { return };
    if !is_root() {
        return; // real-time priorities need CAP_SYS_NICE
    }
    let _alone = take_turns_alone();
    let mut both = [(SHORT_US, "yields"), (LONG_US, "sleeps")]
        .map(|(us, then)| running.helper(&format!("stay {us} {then}")));
    for helper in &mut both {
        assert_eq!(helper.hear(), "ready");
    }
    for helper in &mut both {
        helper.go();
    }
    for (helper, (others, waits)) in both.iter_mut().zip([(LONG_US, false), (SHORT_US, true)]) {
        let heard = helper.hear();
        let (told, waited) = heard.split_once(' ').unwrap();
        let told: u64 = told.parse().unwrap();
        assert!(
            told + 20 >= others && told < 2 * others,
            "{told} us instead of {others}"
        );
        assert_eq!(
            waited,
            waits.to_string(),
            "of the one that had it for {others} us"
        );
    }
}

pub fn cpu_time_us() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    (time.tv_sec() * 1_000_000 + time.tv_nsec() / 1000) as u64
}

/// The helper's side: keeps the CPU for so long, gives it away, and says what the page says of the other's stays: their
/// median, and whether the other waits after most of them.
pub fn play(socket: &str, us: u64, sleeps: bool) {
    be_real_time();
    pin();
    let page = map_page(&register(socket, block_offset(), &[]), ProtFlags::PROT_READ).unwrap();
    let cpu = sched_getcpu().unwrap();
    let latest = || read_page(page).process_switch[cpu % LINES][cpu / LINES];
    say("ready");
    wait_for_go();
    loop {
        let mut stays = vec![];
        while stays.len() < SAMPLES {
            let begin = cpu_time_us();
            while cpu_time_us() - begin < us {}
            let before = latest().number;
            if sleeps {
                thread::sleep(Duration::from_micros(10));
            } else {
                thread::yield_now();
            }
            let after = latest();
            // To the other and back. More: somebody else was there, too.
            if after.number.wrapping_sub(before) == 2 {
                stays.push(u32::from(after.stay));
            }
        }
        let waits = stays.iter().filter(|&s| s & FG_STAY_WAITS != 0).count() > SAMPLES / 2;
        let mut us: Vec<u32> = stays.iter().map(|s| s & FG_STAY_US).collect();
        us.sort_unstable();
        say(&format!("{} {waits}", us[SAMPLES / 2]));
    }
}
