// SPDX-License-Identifier: MIT
//! The default lock: every execution of a few threads, within a bound on preemptions.
//!
//!   holds   nothing goes wrong
//!   finds   with one memory order weakened something does, and the model must find it. (Lost wake-ups are found by
//!           tests/model and by stress.defect.flexguard.*.)
//!   spare   orders without which nothing does
//!
//! What is wrong: an access that is not atomic (to `ops`, `data`) and races with another; a section that is lost; a
//! thread that sleeps for ever.
//!
//! PREEMPTIONS=n tries more, by hand:
//!
//!   PREEMPTIONS=4 cargo test --release -p flexguard-order holds -- --nocapture

use flexguard_order::Ordering::{self, Relaxed};
use flexguard_order::{Check, Defect, Lock, Op, PLAIN, Setup, Verdict, join, spawn};

/// Each parked waiter is needy: releases wake it.
const UNMONITORED: Setup = PLAIN;

/// The same with a monitor.
const REAL_TIME: Setup = Setup {
    monitored: true,
    real_time: true,
    ..UNMONITORED
};

/// Waiters park at once, with clocks.
const ASLEEP: Setup = Setup {
    monitored: true,
    asleep: true,
    ..UNMONITORED
};

/// And releases wake them.
const IDLE: Setup = Setup {
    idle: true,
    ..ASLEEP
};

/// Waiters watch, demand the lock, and get leases.
const HOT: Setup = Setup {
    monitored: true,
    hot: true,
    ..UNMONITORED
};

/// Waiters watch a lock that is not hot; the others park.
const WATCHED: Setup = Setup {
    monitored: true,
    watched: true,
    idle: true,
    ..UNMONITORED
};

/// What is run, on which lock, and whether the clocks of parked waiters end sleeps when no thread runs.
struct Scenario {
    setup: Setup,
    time_passes: bool,
    body: fn(Lock),
}

const fn scenario(setup: Setup, body: fn(Lock)) -> Scenario {
    Scenario {
        setup,
        time_passes: false,
        body,
    }
}

const fn with_clocks(setup: Setup, body: fn(Lock)) -> Scenario {
    Scenario {
        setup,
        time_passes: true,
        body,
    }
}

impl Scenario {
    fn check(&self, preemptions: usize, defects: &'static [Defect]) -> Verdict {
        let check = Check {
            setup: self.setup,
            time_passes: self.time_passes,
            preemptions,
            tick_ns: 1_000_000,
            thorough: false,
            defects,
        };
        check.run(self.body)
    }

    fn holds(&self, preemptions: usize, defects: &'static [Defect]) {
        let sleeps = self.check(preemptions, defects).holds();
        assert!(sleeps > 0, "no thread ever slept");
    }

    /// The model must fail, and what loom says contain `pattern`.
    fn finds(&self, defect: &'static [Defect], pattern: &str) {
        self.check(3, defect).finds(pattern);
    }
}

// ---- what threads do

fn section(lock: Lock) {
    lock.lock();
    lock.touch();
    lock.unlock();
}

/// Two threads, two sections each.
fn two(lock: Lock) {
    let other = spawn(2, move || (0..2).for_each(|_| section(lock)));
    (0..2).for_each(|_| section(lock));
    join([other]);
    assert_eq!(lock.touched(), 4);
}

fn three(lock: Lock) {
    let others = [2, 3].map(|tid| spawn(tid, move || section(lock)));
    section(lock);
    join(others);
    assert_eq!(lock.touched(), 3);
}

fn four(lock: Lock) {
    let others = [2, 3, 4].map(|tid| spawn(tid, move || section(lock)));
    section(lock);
    join(others);
    assert_eq!(lock.touched(), 4);
}

/// One of three has a deadline, which has passed when it begins to wait.
fn deadline(lock: Lock) {
    let other = spawn(2, move || section(lock));
    let hasty = spawn(3, move || {
        if lock.lock_at_once() {
            lock.touch();
            lock.unlock();
        }
    });
    section(lock);
    join([other, hasty]);
    assert!(lock.touched() >= 2);
}

/// One of three only tries.
fn try_lock(lock: Lock) {
    let other = spawn(2, move || section(lock));
    let hasty = spawn(3, move || {
        if lock.try_lock() {
            lock.touch();
            lock.unlock();
        }
    });
    section(lock);
    join([other, hasty]);
    assert!(lock.touched() >= 2);
}

const TWO: Scenario = scenario(UNMONITORED, two);
const THREE: Scenario = scenario(UNMONITORED, three);
const FOUR: Scenario = scenario(UNMONITORED, four);
const THREE_REAL_TIME: Scenario = scenario(REAL_TIME, three);
const DEADLINE: Scenario = scenario(UNMONITORED, deadline);
const TRY_LOCK: Scenario = scenario(UNMONITORED, try_lock);
const THREE_ASLEEP: Scenario = with_clocks(ASLEEP, three);
const THREE_IDLE: Scenario = with_clocks(IDLE, three);
const TWO_HOT: Scenario = with_clocks(HOT, two);
const THREE_HOT: Scenario = with_clocks(HOT, three);
const TWO_WATCHED: Scenario = with_clocks(WATCHED, two);
const THREE_WATCHED: Scenario = with_clocks(WATCHED, three);

// ---- what must hold

macro_rules! holds {
    ($($name:ident: $scenario:expr, $preemptions:literal;)*) => {
        mod holds {
            use super::*;
            $(#[test]
            fn $name() {
                $scenario.holds($preemptions, &[]);
            })*
        }
    };
}

holds! {
    two: TWO, 1;
    three: THREE, 1;
    four: FOUR, 1;
    three_real_time: THREE_REAL_TIME, 1;
    deadline: DEADLINE, 1;
    try_lock: TRY_LOCK, 1;
    three_asleep: THREE_ASLEEP, 1;
    three_idle: THREE_IDLE, 1;
    two_hot: TWO_HOT, 1;
    three_hot: THREE_HOT, 1;
    two_watched: TWO_WATCHED, 1;
    three_watched: THREE_WATCHED, 1;
}

// ---- what must be found

const fn weak(site: &'static std::ffi::CStr, op: Op, order: Ordering) -> Defect {
    Defect { site, op, order }
}

const RACE: &str = "Causality violation";

macro_rules! finds {
    ($($name:ident: $scenario:expr, $site:literal $op:ident $order:ident, $pattern:expr;)*) => {
        mod finds {
            use super::*;
            $(#[test]
            fn $name() {
                const DEFECT: &[Defect] = &[weak($site, Op::$op, $order)];
                $scenario.finds(DEFECT, $pattern);
            })*
        }
    };
}

finds! {
    take: TWO, c"take" Cas Relaxed, RACE;
    take_by_trylock: TRY_LOCK, c"take" Cas Relaxed, RACE;
    release: TWO, c"fgi_asymmetric_release" And Relaxed, RACE;
}

// ---- what could be spared

/// A thread that takes the lock may miss a count that is new, and so leave NEEDY out of the word. No wake-up is lost by
/// that: the release that left the word free found NEEDY there, and woke a waiter. That waiter has changed the counts
/// itself, so it reads the newest of them: it takes the lock with the right flags, or sets NEEDY again, or passes the
/// wake-up on when it gives up. The orders keep it from sleeping in vain first.
const COUNTS: &[Defect] = &[
    weak(c"fgi_join", Op::Cas, Relaxed),
    weak(c"fgi_leave", Op::Sub, Relaxed),
    weak(c"park", Op::Cas, Relaxed),
    weak(c"slow", Op::Load, Relaxed),
];

mod spare {
    use super::*;

    macro_rules! spare {
        ($($name:ident: $scenario:expr, $preemptions:literal;)*) => {
            $(#[test]
            fn $name() {
                $scenario.holds($preemptions, COUNTS);
            })*
        };
    }

    spare! {
        two: TWO, 1;
        three: THREE, 1;
        four: FOUR, 1;
        deadline: DEADLINE, 1;
        three_real_time: THREE_REAL_TIME, 1;
        three_asleep: THREE_ASLEEP, 1;
        three_idle: THREE_IDLE, 1;
        three_hot: THREE_HOT, 1;
        three_watched: THREE_WATCHED, 1;
    }
}
