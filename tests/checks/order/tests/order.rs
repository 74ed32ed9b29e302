// SPDX-License-Identifier: MIT
//! The default lock, its waiting room and its ledger: every execution of a few threads, within a bound on preemptions.
//!
//!   holds   nothing goes wrong
//!   finds   with one memory order weakened something does, and the model must find it
//!   spare   orders without which nothing does, as docs/design/default-lock.md says
//!
//! What is wrong: an access that is not atomic (to `ops`, `data`, the account) and races with another; a section that
//! is lost; a thread that sleeps for ever.
//!
//! PREEMPTIONS=n tries more, by hand. `holds` with 4: 6.9 million executions, 15 minutes on one busy CPU.
//!
//!   PREEMPTIONS=4 cargo test --manifest-path rust/Cargo.toml --release -p flexguard-order holds -- --nocapture

use flexguard_order::Ordering::{self, Acquire, Relaxed, Release};
use flexguard_order::{Check, Defect, EINTR, ETIMEDOUT, Lock, Op, Setup, Verdict, join, spawn};

/// locks/default/room.h
const SEAT: u32 = 1;
const ONE: u32 = 1 << 13;

/// Seldom taken: an alpha that leaves calls the first at the gate, so nobody needs a clock there.
const COLD: Setup = Setup {
    leased: false,
    pace_ns: 100_000,
    rotate: false,
    seats: 0,
};

/// Busy: alphas leave without a call, and who comes calls instead, once.
const HOT: Setup = Setup {
    leased: true,
    pace_ns: 1001,
    rotate: true,
    ..COLD
};

/// What is run, on which lock, and whether the clock ends sleeps at the gate when nobody else can.
struct Scenario {
    setup: Setup,
    time_passes: bool,
    ledger: bool,
    body: fn(Lock),
}

const fn scenario(setup: Setup, body: fn(Lock)) -> Scenario {
    Scenario {
        setup,
        time_passes: false,
        ledger: false,
        body,
    }
}

impl Scenario {
    fn check(&self, preemptions: usize, defects: &'static [Defect]) -> Verdict {
        let asked = std::env::var("PREEMPTIONS").map(|n| n.parse().expect("a number"));
        let check = Check {
            setup: self.setup,
            ledger: self.ledger,
            time_passes: self.time_passes,
            preemptions: asked.unwrap_or(preemptions),
            defects,
        };
        check.run(self.body)
    }

    fn holds(&self, preemptions: usize, defects: &'static [Defect]) {
        match self.check(preemptions, defects) {
            Verdict::Holds { executions, sleeps } => {
                println!("{executions} executions, {sleeps} sleeps");
                assert!(sleeps > 0 || self.ledger, "nobody ever slept");
            }
            Verdict::Fails { why, trace } => panic!("{why}\n{}", trace.join("\n")),
        }
    }

    /// The model must fail, and what loom says contain `pattern`.
    fn finds(&self, defect: &'static [Defect], pattern: &str) {
        match self.check(3, defect) {
            Verdict::Holds { .. } => panic!("a seeded defect went unnoticed"),
            Verdict::Fails { why, .. } => {
                assert!(why.contains(pattern), "found something else: {why}")
            }
        }
    }
}

// ---- what threads do

fn section(lock: Lock) {
    lock.lock();
    lock.touch();
    lock.unlock();
}

/// Two threads, two sections each.
const TWO: Scenario = scenario(COLD, |lock| {
    let other = spawn(2, move || (0..2).for_each(|_| section(lock)));
    (0..2).for_each(|_| section(lock));
    join([other]);
    assert_eq!(lock.touched(), 4);
});

fn three(lock: Lock) {
    let others = [2, 3].map(|tid| spawn(tid, move || section(lock)));
    section(lock);
    join(others);
    assert_eq!(lock.touched(), 3);
}

const THREE: Scenario = scenario(COLD, three);

const THREE_HOT: Scenario = Scenario {
    time_passes: true,
    ..scenario(HOT, three)
};

/// One of three has a deadline, which has passed when it begins to wait.
const DEADLINE: Scenario = scenario(COLD, |lock| {
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
});

/// With the seat: what it protects, though the lock itself has nothing there, is as if under a lock.
fn seated(lock: Lock) {
    lock.touch();
    lock.leave(true);
}

/// Three threads come into the room.
const ROOM: Scenario = scenario(COLD, |lock| {
    let enter = move || {
        assert_eq!(lock.enter(false), 0);
        seated(lock);
    };
    let others = [2, 3].map(|tid| spawn(tid, enter));
    enter();
    join(others);
    assert_eq!(lock.touched(), 3);
});

/// The alpha leaves; a signal ends the sleep of the thread at the gate, whenever that is, or does not.
const SIGNAL: Scenario = scenario(
    Setup {
        seats: SEAT + ONE,
        ..COLD
    },
    |lock| {
        let parked = spawn(2, move || {
            assert_eq!(lock.park(0), 0);
            seated(lock);
        });
        let signal = spawn(3, move || lock.interrupt_at_gate(EINTR));
        seated(lock);
        join([parked, signal]);
        assert_eq!(lock.touched(), 2);
    },
);

/// The alpha leaves without a call, and calls later. A signal ends the sleep of the thread at the gate, or does not.
const CALL: Scenario = scenario(SIGNAL.setup, |lock| {
    let parked = spawn(2, move || {
        assert_eq!(lock.park(0), 0);
        seated(lock);
    });
    let signal = spawn(3, move || lock.interrupt_at_gate(EINTR));
    lock.touch();
    lock.leave(false);
    lock.call();
    join([parked, signal]);
    assert_eq!(lock.touched(), 2);
});

/// The alpha leaves without a call. Who comes then calls the thread at the gate, whose sleep may end otherwise, too.
fn turns(lock: Lock, otherwise: i32) {
    let parked = spawn(2, move || {
        assert_eq!(lock.park(0), 0);
        seated(lock);
    });
    let comes = spawn(3, move || {
        assert_eq!(lock.enter(true), 0);
        seated(lock);
    });
    lock.touch();
    lock.leave(false);
    lock.interrupt_at_gate(otherwise);
    join([parked, comes]);
    assert_eq!(lock.touched(), 3);
}

const TURNS: Scenario = Scenario {
    time_passes: true,
    ..scenario(SIGNAL.setup, |lock| turns(lock, EINTR))
};

/// By its clock: it knocks.
const KNOCK: Scenario = Scenario {
    time_passes: true,
    ..scenario(SIGNAL.setup, |lock| turns(lock, ETIMEDOUT))
};

/// Three threads close the same sample.
const LEDGER: Scenario = Scenario {
    ledger: true,
    ..scenario(COLD, |lock| {
        let others =
            [(2, 3), (3, 4)].map(|(tid, s)| spawn(tid, move || lock.close(tid, s * 1_000_000_000)));
        lock.close(5, 5_000_000_000);
        join(others);
    })
};

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
    two: TWO, 3;
    three: THREE, 3;
    three_hot: THREE_HOT, 3;
    deadline: DEADLINE, 3;
    room: ROOM, 3;
    signal: SIGNAL, 4;
    call: CALL, 4;
    turns: TURNS, 3;
    knock: KNOCK, 3;
    ledger: LEDGER, 4;
}

// ---- what must be found

const fn weak(site: &'static std::ffi::CStr, op: Op, order: Ordering) -> Defect {
    Defect { site, op, order }
}

const RACE: &str = "Causality violation";
const ASLEEP: &str = "deadlock";

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
    word_acquire: TWO, c"take" Cas Relaxed, RACE;
    word_release: TWO, c"fgi_asymmetric_release" And Relaxed, RACE;
    gate_release: SIGNAL, c"fgi_room_leave" Add Relaxed, ASLEEP;
    gate_release_calling: CALL, c"fgi_room_call" Add Relaxed, ASLEEP;
    gate_acquire: SIGNAL, c"fgi_room_park" Load Relaxed, ASLEEP;
    seats_release_leaving: SIGNAL, c"fgi_room_leave" Cas Acquire, RACE;
    seats_acquire_coming: ROOM, c"fgi_room_enter" Cas Release, RACE;
    seats_acquire_called: SIGNAL, c"fgi_room_park" Cas Release, RACE;
    seats_acquire_taking_back: TURNS, c"fgi_room_take_back" Cas Release, RACE;
    ledger_acquire: LEDGER, c"fgi_ledger_close" Cas Relaxed, RACE;
    ledger_release: LEDGER, c"fgi_ledger_close" Store Relaxed, RACE;
}

// ---- what could be spared

/// Who comes gives nothing on, and who leaves needs nothing.
const OTHER_HALVES: &[Defect] = &[
    weak(c"fgi_room_leave", Op::Cas, Release),
    weak(c"fgi_room_enter", Op::Cas, Acquire),
    weak(c"fgi_room_call", Op::Cas, Acquire),
    weak(c"fgi_room_park", Op::Cas, Acquire),
    weak(c"fgi_room_take_back", Op::Cas, Acquire),
];

/// The gate, for who comes: its CAS on the seats finds the newest of them anyway, and if it calls and nobody comes, it
/// is the alpha itself.
const COMING: &[Defect] = &[
    weak(c"fgi_room_enter", Op::Load, Relaxed),
    weak(c"fgi_room_enter", Op::Add, Relaxed),
];

/// The lock has nothing but the word's to give from alpha to alpha.
const SEATS: &[Defect] = &[
    weak(c"fgi_room_leave", Op::Cas, Relaxed),
    weak(c"fgi_room_enter", Op::Cas, Relaxed),
    weak(c"fgi_room_call", Op::Cas, Relaxed),
    weak(c"fgi_room_park", Op::Cas, Relaxed),
    weak(c"fgi_room_take_back", Op::Cas, Relaxed),
];

mod spare {
    use super::*;

    const LOCK: [Scenario; 4] = [TWO, THREE, THREE_HOT, DEADLINE];
    const ROOMS: [Scenario; 3] = [ROOM, TURNS, KNOCK];

    fn all(scenarios: &[Scenario], defects: &'static [Defect]) {
        for scenario in scenarios {
            scenario.holds(2, defects);
        }
    }

    #[test]
    fn other_halves() {
        all(&LOCK, OTHER_HALVES);
        all(&ROOMS, OTHER_HALVES);
        all(&[CALL], OTHER_HALVES);
    }

    #[test]
    fn gate_of_who_comes() {
        all(&LOCK, COMING);
        all(&ROOMS, COMING);
    }

    #[test]
    fn seats_of_the_lock() {
        all(&LOCK, SEATS);
    }
}
