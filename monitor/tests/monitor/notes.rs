// SPDX-License-Identifier: MIT
//! The note beside the name of a thread that has a handle: its life, and the CPU that it lost.

use std::mem::offset_of;
use std::thread;
use std::time::{Duration, Instant};

use flexguard_abi::*;
use nix::unistd::{Pid, gettid};

use crate::domains::View;
use crate::harness::{start, timeout};
use crate::victim::{allowed_cpus, block_offset, say, wait_for_go, with_block};

const LIFE: u32 = 0x12_3456;
/// Above the bits that a note has for it.
const TOO_MUCH: u32 = 0xabc0_0000;
const TABLE: usize = size_of::<[u32; FG_OFF_CPU as usize]>();

fn place_of(name: u32) -> usize {
    let name = name as usize;
    (name % 16 * 16 + name / 16 % 16) % FG_OFF_CPU as usize
}

fn named(view: &View, name: u32) -> u32 {
    view.read(offset_of!(fg_published, off_cpu) + view.domain * TABLE + place_of(name) * 4)
}

fn noted_in(view: &View, domain: usize, name: u32) -> u32 {
    view.read(offset_of!(fg_published, off_cpu_notes) + domain * TABLE + place_of(name) * 4)
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + timeout();
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn who_has_a_handle_is_noted_beside_its_name() {
    let Some(running) = start() else { return };
    let view = View::of(&running);
    let _hog = running.ready("hog");
    let mut victim = running.ready(&format!("lived {} held", LIFE | TOO_MUCH));
    let name = victim.pid() as u32;
    let cpu = cpu_of(victim.pid());
    for _ in 0..10 {
        wait_until("it is noted", || {
            let note = noted_in(&view, view.domain, name);
            named(&view, name) == name | FG_RUNNABLE
                && note & FG_NOTE_LIFE == LIFE
                && note >> FG_NOTE_CPU_SHIFT == cpu
        });
        wait_until("it runs", || noted_in(&view, view.domain, name) == 0);
    }
    for domain in (0..FG_DOMAINS as usize).filter(|&domain| domain != view.domain) {
        assert_eq!(noted_in(&view, domain, name), 0, "domain {domain}");
    }
    victim.kill();
    wait_until("it is forgotten", || {
        noted_in(&view, view.domain, name) == 0
    });
}

#[test]
fn who_sleeps_with_a_handle_is_noted() {
    let Some(running) = start() else { return };
    let view = View::of(&running);
    let mut sleeper = running.helper("sleep-noted");
    let name = sleeper.pid() as u32;
    assert_eq!(sleeper.hear(), "ready");
    wait_until("it is noted", || {
        named(&view, name) == name && noted_in(&view, view.domain, name) & FG_NOTE_LIFE == LIFE
    });
    sleeper.kill();
    assert_eq!(noted_in(&view, view.domain, name), 0, "it is dead");
}

#[test]
fn who_has_no_handle_is_not_noted() {
    let Some(running) = start() else { return };
    let view = View::of(&running);
    let _hog = running.ready("hog");
    let mut victim = running.ready("named held");
    let name = victim.pid() as u32;
    for _ in 0..10 {
        wait_until("it is preempted", || {
            named(&view, name) == name | FG_RUNNABLE
        });
        assert_eq!(noted_in(&view, view.domain, name), 0);
        wait_until("it runs", || named(&view, name) == 0);
    }
    victim.kill();
}

/// The only CPU that the process may use.
fn cpu_of(pid: i32) -> u32 {
    let set = nix::sched::sched_getaffinity(Pid::from_raw(pid)).unwrap();
    let cpus = allowed_cpus();
    *cpus.iter().find(|&&cpu| set.is_set(cpu).unwrap()).unwrap() as u32
}

/// The helper's side: sleeps in a section, with a handle.
pub fn play_sleep(socket: &str) {
    with_block(|block| {
        block.held = 1;
        block.self_ = gettid().as_raw() as u32;
        block.life = LIFE;
    });
    drop(crate::harness::register(socket, block_offset(), &[]));
    say("ready");
    wait_for_go();
}
