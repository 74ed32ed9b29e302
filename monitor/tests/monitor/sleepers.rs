// SPDX-License-Identifier: MIT
//! Who is named on the page until it runs again: a thread that sleeps with a lock, and one that is preempted while it
//! holds one or is the next waiter.

use std::fs;
use std::ptr::NonNull;
use std::thread;
use std::time::{Duration, Instant};

use flexguard_abi::*;
use flexguard_monitor::DomainKind;
use nix::sys::mman::ProtFlags;
use nix::unistd::gettid;

use crate::harness::{Helper, Running, is_root, register, start_with_domains, timeout};
use crate::lifecycle::{map_page, read_page};
use crate::victim::{block_offset, say, wait_for_go, with_block};

/// The page has the table of those who are in no domain but the machine's.
fn start() -> Option<Running> {
    start_with_domains(DomainKind::Machine)
}

fn is_noted(page: NonNull<fg_shared>, name: u32) -> bool {
    read_page(page).off_cpu.contains(&name)
}

fn page_of(running: &Running) -> NonNull<fg_shared> {
    let fd = register(&running.name, block_offset(), &[]);
    map_page(&fd, ProtFlags::PROT_READ).unwrap()
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + timeout();
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_micros(100));
    }
}

fn sleeps(helper: &Helper) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", helper.pid())).unwrap();
    stat.rsplit_once(')').unwrap().1.starts_with(" S")
}

/// Hears what a thread that runs sees of itself. A switch-in can go unseen (monitor.bpf.c says where): the thread then
/// stays noted until its next switch, so one that is noted sleeps and runs again.
fn hear_unnoted(holder: &mut Helper) {
    let deadline = Instant::now() + timeout();
    while holder.hear() != "noted: false" {
        assert!(Instant::now() < deadline, "it is noted whenever it runs");
        wait_until("it sleeps", || sleeps(holder));
        holder.go();
    }
}

#[test]
fn who_sleeps_with_a_lock_is_noted_until_it_runs() {
    let Some(running) = start() else { return };
    let page = page_of(&running);
    let mut holder = running.helper("sleep 1");
    let name = holder.pid() as u32;
    for _ in 0..20 {
        hear_unnoted(&mut holder);
        wait_until("it is noted", || is_noted(page, name));
        assert_eq!(read_page(page).num_preempted_cs, 0, "it is not preempted");
        holder.go();
    }
    hear_unnoted(&mut holder);
    wait_until("it is noted", || is_noted(page, name));
    holder.kill();
    assert!(!is_noted(page, name), "it is dead");
}

#[test]
fn who_sleeps_without_a_lock_is_not() {
    let Some(running) = start() else { return };
    let page = page_of(&running);
    let mut idle = running.helper("sleep 0");
    for _ in 0..20 {
        assert_eq!(idle.hear(), "noted: false");
        wait_until("it sleeps", || sleeps(&idle));
        assert!(!is_noted(page, idle.pid() as u32));
        idle.go();
    }
    idle.kill();
}

#[test]
fn who_is_preempted_is_named_until_it_runs() {
    let Some(running) = start() else { return };
    let page = page_of(&running);
    let _hog = running.ready("hog");
    for kind in ["held", "granted"] {
        let mut victim = running.ready(&format!("named {kind}"));
        let name = victim.pid() as u32 | FG_RUNNABLE;
        for _ in 0..10 {
            wait_until("it is preempted", || is_noted(page, name));
            wait_until("it runs", || !is_noted(page, name));
        }
        victim.kill();
        assert!(!is_noted(page, name), "it is dead");
    }
}

#[test]
fn who_is_preempted_without_a_lock_is_not_named() {
    let Some(running) = start() else { return };
    let page = page_of(&running);
    let _hog = running.ready("hog");
    let mut victim = running.ready("named waiting");
    let name = victim.pid() as u32;
    let first = running.stats().registered_preemptions;
    let mut preemptions = first;
    while preemptions < first + 30 {
        assert!(!is_noted(page, name | FG_RUNNABLE) && !is_noted(page, name));
        preemptions = running.stats().registered_preemptions;
    }
    victim.kill();
}

#[test]
fn a_thread_is_named_as_its_own_pid_namespace_numbers_it() {
    let Some(running) = start() else { return };
    if !is_root() {
        return; // no namespace to be in
    }
    let page = page_of(&running);
    let _hog = running.ready("hog");
    let mut outside = running.helper("pid-namespace");
    let _number_out_here = outside.hear();
    outside.go();
    assert_eq!(outside.hear(), "ready");
    wait_until("it is named", || is_noted(page, 1 | FG_RUNNABLE));
}

/// Or the waiters of another program, whose holder has that number, would believe that it sleeps.
#[test]
fn who_calls_itself_by_another_threads_number_is_not_named() {
    let Some(running) = start() else { return };
    let page = page_of(&running);
    let _hog = running.ready("hog");
    let name = std::process::id();
    let mut liar = running.ready(&format!("called {name}"));
    let first = running.stats().preempted_holders;
    while running.stats().preempted_holders < first + 30 {
        assert!(!is_noted(page, name | FG_RUNNABLE) && !is_noted(page, name));
    }
    liar.kill();
}

/// The helper's side: with so many locks, says what the page says of it, and sleeps, again and again.
pub fn play(socket: &str, held: i32) {
    let name = gettid().as_raw() as u32;
    with_block(|block| {
        block.held = held;
        block.self_ = name;
    });
    let page = map_page(&register(socket, block_offset(), &[]), ProtFlags::PROT_READ).unwrap();
    loop {
        say(&format!("noted: {}", is_noted(page, name)));
        wait_for_go();
    }
}
