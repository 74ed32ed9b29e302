// SPDX-License-Identifier: MIT
//! The hand-over of the MCS lock: every execution of two or three threads, within a bound on preemptions. A hand-over
//! that is lost leaves a waiter that spins for ever: an execution with more steps than one may take, which fails.
//!
//! `holds` and `finds` are as in order.rs beside this file. Not seeded are the two orders of which loom cannot tell,
//! since it takes the stores to one place in the order in which they are executed: the release of the link, before
//! which the node says that its thread waits, and the release of the exchange, before which the node's link is empty.

use flexguard_order::Ordering::{Acquire, Relaxed, Release};
use flexguard_order::{Check, Defect, Mcs, Op, PLAIN, Verdict, join, spawn};

fn check(body: fn(Mcs), preemptions: usize, defects: &'static [Defect]) -> Verdict {
    let check = Check {
        setup: PLAIN,
        time_passes: false,
        preemptions,
        tick_ns: 1_000_000,
        thorough: true,
        defects,
    };
    check.run(body)
}

fn section(l: Mcs) {
    l.lock();
    l.touch();
    l.unlock();
}

/// Each uses its node again at once, while the other may still look at it.
fn twice(l: Mcs) {
    let other = spawn(2, move || {
        section(l);
        section(l);
    });
    section(l);
    section(l);
    join([other]);
    assert_eq!(l.data(), 4);
}

/// A queue with a waiter behind a waiter.
fn three(l: Mcs) {
    let others = [2, 3].map(|tid| spawn(tid, move || section(l)));
    section(l);
    join(others);
    assert_eq!(l.data(), 3);
}

/// One that does not queue.
fn tries(l: Mcs) {
    let other = spawn(2, move || {
        if l.try_lock() {
            l.touch();
            l.unlock();
        }
        section(l);
    });
    section(l);
    join([other]);
}

#[test]
fn holds_twice() {
    check(twice, 3, &[]).holds();
}

#[test]
fn holds_three() {
    check(three, 2, &[]).holds();
}

#[test]
fn holds_tries() {
    check(tries, 3, &[]).holds();
}

macro_rules! finds {
    ($($name:ident: $body:ident, $site:literal $op:ident $order:ident;)*) => {
        $(#[test]
        fn $name() {
            const DEFECT: &[Defect] = &[Defect { site: $site, op: Op::$op, order: $order }];
            check($body, 2, DEFECT).finds("Causality");
        })*
    };
}

finds! {
    grant_releases: twice, c"fgi_drop_store32" Store Relaxed;
    granted_acquires: twice, c"fgi_queue_state" Load Relaxed;
    last_releases: twice, c"fgi_drop_cas64" Cas Acquire;
    first_acquires: twice, c"fgi_enqueue" Swap Release;
    try_acquires: tries, c"fgi_take_cas64" Cas Release;
}
