// SPDX-License-Identifier: MIT
//! Barriers, read-write locks and the waiters of condition variables: every execution of two or three threads, within a
//! bound on preemptions. Semaphores are glibc's, and are not here.
//!
//! `holds`, `finds` and `spare` are as in order.rs beside this file. What is wrong: an access that is not atomic (to what
//! a lock protects, to a list, to a node) and races with another; a thread that sleeps for ever.

use flexguard_order::Ordering::{AcqRel, Acquire, Relaxed, Release};
use flexguard_order::{
    Barrier, Check, Cond, Defect, Object, Op, PLAIN, RwLock, Setup, Verdict, join, spawn,
};

/// What is run, on which object, and how fast time passes.
struct Scenario<O: Object> {
    setup: Setup,
    tick_ns: u64,
    body: fn(O),
}

const fn scenario<O: Object>(body: fn(O)) -> Scenario<O> {
    Scenario {
        setup: PLAIN,
        tick_ns: 1_000_000,
        body,
    }
}

impl<O: Object> Scenario<O> {
    /// Each parked thread has waited for long: releases hand the lock over.
    const fn slowly(self) -> Self {
        Scenario {
            tick_ns: 30_000_000,
            ..self
        }
    }

    const fn with(self, setup: Setup) -> Self {
        Scenario { setup, ..self }
    }

    fn check(&self, preemptions: usize, defects: &'static [Defect]) -> Verdict {
        let check = Check {
            setup: self.setup,
            time_passes: true,
            preemptions,
            tick_ns: self.tick_ns,
            thorough: true,
            defects,
        };
        check.run(self.body)
    }

    fn holds(&self, preemptions: usize, defects: &'static [Defect]) {
        self.check(preemptions, defects).holds();
    }

    /// The model must fail, by a race.
    fn finds(&self, preemptions: usize, defect: &'static [Defect]) {
        self.check(preemptions, defect).finds("Causality");
    }
}

// ---- barriers

/// What each wrote before a phase ended the other sees behind it, twice.
fn two_phases(b: Barrier) {
    let other = spawn(2, move || {
        b.store(1);
        b.wait();
        assert_eq!(b.load(0), 1);
        b.wait();
        b.store(0);
    });
    b.store(0);
    b.wait();
    assert_eq!(b.load(1), 1);
    b.wait();
    join([other]);
}

/// One of them gives the memory back as soon as destroy has returned.
fn destroyed(b: Barrier) {
    let other = spawn(2, move || {
        b.wait();
    });
    b.wait();
    assert_eq!(b.destroy(), 0);
    b.overwrite();
    join([other]);
}

/// One that arrives while a phase ends belongs to the next.
fn four_at_two(b: Barrier) {
    let others = [2, 3, 4].map(|tid| {
        spawn(tid, move || {
            b.wait();
        })
    });
    b.wait();
    join(others);
}

// ---- read-write locks

fn write(l: RwLock) {
    l.write();
    l.touch();
    l.unlock();
}

fn read(l: RwLock) {
    l.read();
    l.data();
    l.unlock();
}

fn two_writers(l: RwLock) {
    let other = spawn(2, move || write(l));
    write(l);
    join([other]);
    assert_eq!(l.data(), 2);
}

fn three_writers(l: RwLock) {
    let others = [2, 3].map(|tid| spawn(tid, move || write(l)));
    write(l);
    join(others);
    assert_eq!(l.data(), 3);
}

/// Writes, then reads; and the other reads, then writes.
fn both(l: RwLock) {
    let other = spawn(2, move || {
        read(l);
        write(l);
    });
    write(l);
    read(l);
    join([other]);
    assert_eq!(l.data(), 2);
}

fn two_readers(l: RwLock) {
    let others = [2, 3].map(|tid| spawn(tid, move || read(l)));
    write(l);
    join(others);
    assert_eq!(l.data(), 1);
}

fn reader_and_writer(l: RwLock) {
    let reader = spawn(2, move || read(l));
    write(l);
    join([reader]);
}

fn one_reader(l: RwLock) {
    let reader = spawn(2, move || read(l));
    let writer = spawn(3, move || write(l));
    write(l);
    join([reader, writer]);
    assert_eq!(l.data(), 2);
}

fn tries(l: RwLock) {
    let other = spawn(2, move || {
        if l.try_read() {
            l.data();
            l.unlock();
        }
        if l.try_write() {
            l.touch();
            l.unlock();
        }
    });
    write(l);
    join([other]);
}

/// A reader that enters the table, or finds the bias ended.
fn tries_to_read(l: RwLock) {
    let other = spawn(2, move || {
        if l.try_read() {
            l.data();
            l.unlock();
        }
    });
    write(l);
    join([other]);
}

/// Each may be the one that ends the bias.
fn tries_to_write(l: RwLock) {
    let other = spawn(2, move || {
        if l.try_write() {
            l.touch();
            l.unlock();
        }
    });
    write(l);
    join([other]);
}

fn tries_to_write_beside_reader(l: RwLock) {
    let other = spawn(2, move || {
        if l.try_write() {
            l.touch();
            l.unlock();
        }
    });
    read(l);
    join([other]);
}

/// The writer that finds the table without readers need not be the one that takes the lock.
fn two_writers_after(l: RwLock) {
    let reader = spawn(2, move || read(l));
    let writers = [3, 4].map(|tid| spawn(tid, move || write(l)));
    join([reader]);
    join(writers);
}

/// The one has left before the other begins, without an interruption.
fn reader_then_writer(l: RwLock) {
    let reader = spawn(2, move || read(l));
    let writer = spawn(3, move || write(l));
    join([reader, writer]);
}

/// One reader leaves, then the other hands the lock over to the writer, which has what the first has done from it alone.
fn two_leave(l: RwLock) {
    let leaves = |tid| {
        spawn(tid, move || {
            l.data();
            l.unlock();
        })
    };
    l.read();
    l.read();
    let first = leaves(2);
    let writer = spawn(3, move || write(l));
    join([first, writer, leaves(4)]);
}

/// A reader that holds the lock while another and a writer come.
fn held_by_reader(l: RwLock) {
    l.read();
    let writer = spawn(2, move || write(l));
    let reader = spawn(3, move || read(l));
    l.data();
    l.unlock();
    join([writer, reader]);
}

/// The writer that keeps a reader out gives up, and lets it in. What the reader then sees was written by a third thread.
fn gives_up(l: RwLock) {
    let reader = spawn(3, move || read(l));
    let writer = spawn(2, move || {
        if l.write_for_a_while() {
            l.unlock();
        }
    });
    write(l);
    l.read();
    join([writer, reader]);
}

/// A thread ends while it still reads. Another makes a new lock in the same memory, which forgets that reader.
fn leftover(l: RwLock) {
    let other = spawn(3, move || l.read());
    let ends = spawn(2, move || {
        l.read();
        l.read();
    });
    join([ends]);
    assert!(l.forgets(2), "Causality");
    join([other]);
}

/// What was locked for writing another thread unlocks.
fn carried(l: RwLock) {
    let next = spawn(3, move || write(l));
    l.write();
    l.touch();
    let other = spawn(2, move || l.unlock());
    join([other, next]);
    assert_eq!(l.data(), 2);
}

/// Readers may enter the table.
const BIASED: Setup = Setup {
    biased: true,
    ..PLAIN
};

const WRITERS_FIRST: Setup = Setup {
    writers_first: true,
    ..PLAIN
};

// ---- condition variables

fn signalled(c: Cond) {
    c.join(0);
    let other = spawn(2, move || {
        c.touch();
        c.signal();
    });
    c.wait(0);
    assert_eq!(c.data(), 1);
    join([other]);
}

/// The waiter is moved, watches and is told.
fn signalled_late(c: Cond) {
    c.join(0);
    let other = spawn(2, move || {
        c.touch();
        c.moves();
        c.unlock(false);
        c.unlock(true);
    });
    c.wait(0);
    assert_eq!(c.data(), 1);
    join([other]);
}

fn broadcast(c: Cond) {
    c.join(0);
    c.join(1);
    let waiter = spawn(2, move || {
        c.wait(1);
        c.data();
    });
    let other = spawn(3, move || {
        c.touch();
        c.broadcast();
    });
    c.wait(0);
    c.data();
    join([waiter, other]);
}

/// A broadcast has moved it, and its deadline comes, perhaps as an unlock takes it out.
fn late(c: Cond) {
    c.join(0);
    let other = spawn(2, move || {
        c.touch();
        c.moves();
        c.unlock(false);
        c.unlock(true);
    });
    c.leave(0);
    join([other]);
}

/// One leaves at its deadline while another joins, and a signal comes.
fn left(c: Cond) {
    c.join(0);
    let signaller = spawn(2, move || {
        c.touch();
        c.signal();
    });
    let joiner = spawn(3, move || {
        c.join(1);
        c.leave(1);
    });
    if c.leave(0) {
        c.data();
    }
    join([signaller, joiner]);
}

const TWO_PHASES: Scenario<Barrier> = scenario(two_phases);
const DESTROYED: Scenario<Barrier> = scenario(destroyed);
const FOUR_AT_TWO: Scenario<Barrier> = scenario(four_at_two);
const TWO_WRITERS: Scenario<RwLock> = scenario(two_writers);
const THREE_WRITERS: Scenario<RwLock> = scenario(three_writers);
const BOTH: Scenario<RwLock> = scenario(both);
const TWO_READERS: Scenario<RwLock> = scenario(two_readers);
const ONE_READER: Scenario<RwLock> = scenario(one_reader);
const TRIES: Scenario<RwLock> = scenario(tries);
const HELD_BY_READER: Scenario<RwLock> = scenario(held_by_reader);
const HELD_BY_READER_HANDED: Scenario<RwLock> = scenario(held_by_reader).slowly();
const HELD_BY_READER_BIASED: Scenario<RwLock> = scenario(held_by_reader).with(BIASED);
const TWO_WRITERS_AFTER: Scenario<RwLock> = scenario(two_writers_after).with(BIASED);
const GIVES_UP: Scenario<RwLock> = scenario(gives_up).with(WRITERS_FIRST);
const LEFTOVER: Scenario<RwLock> = scenario(leftover);
const CARRIED: Scenario<RwLock> = scenario(carried);
const BOTH_BIASED: Scenario<RwLock> = scenario(both).with(BIASED);
const ONE_READER_BIASED: Scenario<RwLock> = scenario(reader_and_writer).with(BIASED);
const TRIES_TO_READ: Scenario<RwLock> = scenario(tries_to_read).with(BIASED);
const TRIES_TO_WRITE: Scenario<RwLock> = scenario(tries_to_write).with(BIASED);
const TRIES_TO_WRITE_BESIDE_READER: Scenario<RwLock> =
    scenario(tries_to_write_beside_reader).with(BIASED);
const READER_THEN_WRITER: Scenario<RwLock> = scenario(reader_then_writer).with(BIASED);
const TWO_LEAVE_HANDED: Scenario<RwLock> = scenario(two_leave).slowly();
const TWO_READERS_HANDED: Scenario<RwLock> = scenario(two_readers).slowly();
const THREE_WRITERS_HANDED: Scenario<RwLock> = scenario(three_writers).slowly();
const ONE_READER_HANDED: Scenario<RwLock> = scenario(one_reader).slowly();
const ONE_READER_FIRST: Scenario<RwLock> = scenario(one_reader).with(WRITERS_FIRST);
const SIGNALLED: Scenario<Cond> = scenario(signalled);
const SIGNALLED_LATE: Scenario<Cond> = scenario(signalled_late);
const BROADCAST: Scenario<Cond> = scenario(broadcast);
const LATE: Scenario<Cond> = scenario(late);
const LEFT: Scenario<Cond> = scenario(left);

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
    two_phases: TWO_PHASES, 3;
    destroyed: DESTROYED, 3;
    four_at_two: FOUR_AT_TWO, 1;
    two_writers: TWO_WRITERS, 3;
    three_writers: THREE_WRITERS, 1;
    both: BOTH, 2;
    two_readers: TWO_READERS, 1;
    one_reader: ONE_READER, 1;
    tries: TRIES, 2;
    carried: CARRIED, 2;
    held_by_reader: HELD_BY_READER, 2;
    held_by_reader_handed: HELD_BY_READER_HANDED, 1;
    held_by_reader_biased: HELD_BY_READER_BIASED, 1;
    two_writers_after: TWO_WRITERS_AFTER, 1;
    gives_up: GIVES_UP, 1;
    late: LATE, 2;
    leftover: LEFTOVER, 2;
    both_biased: BOTH_BIASED, 1;
    one_reader_biased: ONE_READER_BIASED, 2;
    tries_to_read: TRIES_TO_READ, 1;
    tries_to_write: TRIES_TO_WRITE, 2;
    tries_to_write_beside_reader: TRIES_TO_WRITE_BESIDE_READER, 2;
    two_leave_handed: TWO_LEAVE_HANDED, 1;
    reader_then_writer: READER_THEN_WRITER, 1;
    two_readers_handed: TWO_READERS_HANDED, 1;
    three_writers_handed: THREE_WRITERS_HANDED, 1;
    one_reader_handed: ONE_READER_HANDED, 1;
    one_reader_first: ONE_READER_FIRST, 1;
    signalled: SIGNALLED, 3;
    signalled_late: SIGNALLED_LATE, 3;
    broadcast: BROADCAST, 2;
    left: LEFT, 2;
}

// ---- what must be found
//
// Not seeded, for they need more threads or more preemptions than can be tried: the acquire of fgi_rw_let_in (a writer
// that was woken and has not come, one that comes in between, one that gives up, the reader that it lets in), the
// release of the compare-and-swap in fgi_rw_end_bias (a reader, the writer that finds it gone, and one that takes the
// lock before it), and the release of fgi_due_take (a signaller that is stopped before its wake-up, until the
// waiter is late).

macro_rules! finds {
    ($($name:ident: $scenario:expr, $preemptions:literal, $($site:literal $op:ident $order:ident),+;)*) => {
        mod finds {
            use super::*;
            $(#[test]
            fn $name() {
                const DEFECT: &[Defect] = &[$(Defect { site: $site, op: Op::$op, order: $order }),+];
                $scenario.finds($preemptions, DEFECT);
            })*
        }
    };
}

finds! {
    arrival_acquires: TWO_PHASES, 2, c"fgi_barrier_wait" Add Release;
    arrival_releases: TWO_PHASES, 2, c"fgi_barrier_wait" Add Acquire;
    end_releases: TWO_PHASES, 2, c"end_phase" Cas Relaxed;
    awake_acquires: TWO_PHASES, 2, c"ended" Load Relaxed;
    sleeper_acquires: TWO_PHASES, 2, c"sleep_until" Load Relaxed;
    destroy_acquires: DESTROYED, 2, c"fgi_barrier_destroy" Load Relaxed;

    bucket_lock: THREE_WRITERS, 1, c"fgi_bucket_lock" Cas Relaxed;
    bucket_lock_slow: LEFT, 2, c"fgi_bucket_lock" Swap Relaxed;
    bucket_unlock: LEFT, 2, c"fgi_bucket_unlock" Swap Relaxed;
    read_acquires: BOTH, 2, c"fgi_rwlock_join" Add Relaxed;
    write_acquires: TWO_WRITERS, 2, c"fgi_rwlock_write" Cas Relaxed;
    read_unlock_releases: BOTH, 2, c"fgi_rwlock_read_unlock" Cas Relaxed;
    read_unlock_slow_releases: HELD_BY_READER, 2, c"fgi_rwlock_read_unlock_slow" Cas Relaxed;
    read_leave_releases: HELD_BY_READER, 2, c"fgi_rwlock_read_leave" Sub Relaxed;
    unlock_releases: TWO_WRITERS, 2, c"fgi_rwlock_unlock" Cas Relaxed;
    unlock_slow_releases: CARRIED, 2, c"fgi_rwlock_write_unlock_slow" Cas Relaxed;
    crowded_releases: LEFTOVER, 2, c"fgi_rwlock_crowded" Cas Relaxed;
    write_wait_acquires: THREE_WRITERS, 3, c"write_wait" Cas Relaxed;
    try_write_acquires: TRIES, 2, c"fgi_rwlock_try_write" Cas Relaxed;
    release_releases: THREE_WRITERS, 2, c"release" Cas Acquire;
    release_acquires: TWO_LEAVE_HANDED, 1, c"release" Cas Release;
    tell_releases: THREE_WRITERS_HANDED, 3, c"fgi_parked_tell" Swap Relaxed;
    told_acquires: THREE_WRITERS_HANDED, 3, c"fgi_parked_state" Load Relaxed;
    table_reader: ONE_READER_BIASED, 2, c"fgi_readers_enter" Cas AcqRel, c"fgi_rwlock_read_biased" Load Acquire;
    table_leave: READER_THEN_WRITER, 1, c"fgi_readers_leave" Cas Relaxed;
    table_writer: ONE_READER_BIASED, 2, c"fgi_rw_end_bias" And AcqRel, c"fgi_readers_find" Load Acquire;
    table_find_relaxed: READER_THEN_WRITER, 1, c"fgi_readers_find" Load Relaxed;

    signal_releases: SIGNALLED, 2, c"fgi_parked_tell" Swap Relaxed;
    signalled_acquires: SIGNALLED, 2, c"fgi_parked_state" Load Relaxed;
}
