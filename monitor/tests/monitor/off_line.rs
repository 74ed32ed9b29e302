// SPDX-License-Identifier: MIT
//! A CPU that is taken off line no longer is said to idle.

use std::ptr::NonNull;
use std::time::Duration;
use std::{fs, thread};

use flexguard_abi::{FG_CPUS, fg_published};

use crate::harness::{register, start};
use crate::lifecycle::{map_published, read_cpu};
use crate::victim::{allowed_cpus, block_offset, stay_on};

/// Far more than a CPU takes to idle after one of them, even if other programs run there now and then.
const VISITS: u32 = 1000;

/// The switch of a CPU. It is on again at the end, whatever happens.
struct Switch(String);

impl Switch {
    fn turn(&self, on: &str) {
        fs::write(&self.0, on).unwrap_or_else(|error| panic!("{}: {error}", self.0));
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, "1");
    }
}

#[test]
#[ignore = "takes a CPU from all programs: for the virtual machines of tests/kernels"]
fn a_cpu_that_is_off_line_does_not_idle() {
    let Some(running) = start() else { return };
    let page = map_published(&register(&running.name, block_offset(), &[]));
    let cpu = *allowed_cpus().last().unwrap();
    assert!((1..FG_CPUS as usize).contains(&cpu));
    let switch = Switch(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
    for _ in 0..3 {
        visit(page, cpu);
        switch.turn("0"); // when this returns, the CPU makes no more switches
        await_beat(page); // it may have looked before
        await_beat(page);
        assert_eq!(
            read_cpu(page, cpu).idle,
            0,
            "CPU {cpu} is off line and idles"
        );
        switch.turn("1");
    }
    visit(page, cpu);
}

/// Threads run on the CPU until the last one has left it idle. Of its own accord an idle CPU may make no switch for minutes.
fn visit(page: NonNull<fg_published>, cpu: usize) {
    for _ in 0..VISITS {
        thread::spawn(move || stay_on(cpu)).join().unwrap();
        thread::sleep(Duration::from_millis(20));
        if read_cpu(page, cpu).idle == 1 {
            return;
        }
    }
    panic!("CPU {cpu} never idles");
}

/// The monitor's next beat has begun. There is no limit of time: an emulated machine may stand still for any.
fn await_beat(page: NonNull<fg_published>) {
    // SAFETY: mapped, of this size, and aligned.
    let read = || unsafe { (&raw const (*page.as_ptr()).page.heartbeat_ns).read_volatile() };
    let last = read();
    while read() == last {
        thread::sleep(Duration::from_millis(20));
    }
}
