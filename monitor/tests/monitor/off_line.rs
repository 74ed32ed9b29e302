// SPDX-License-Identifier: MIT
//! A CPU that is taken off line no longer is said to idle.

use std::ptr::NonNull;
use std::time::{Duration, Instant};
use std::{fs, thread};

use flexguard_abi::{FG_CPUS, fg_published};

use crate::harness::{register, start, timeout};
use crate::lifecycle::{map_published, read_cpu};
use crate::victim::{allowed_cpus, block_offset};

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
        await_idle(page, cpu, 1);
        switch.turn("0"); // when this returns, the CPU makes no more switches
        await_idle(page, cpu, 0);
        switch.turn("1");
    }
    await_idle(page, cpu, 1);
}

fn await_idle(page: NonNull<fg_published>, cpu: usize, idle: u32) {
    let deadline = Instant::now() + timeout();
    while read_cpu(page, cpu).idle != idle {
        assert!(Instant::now() < deadline, "CPU {cpu}: never idle = {idle}");
        thread::sleep(Duration::from_millis(20));
    }
}
