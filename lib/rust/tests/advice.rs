// SPDX-License-Identifier: MIT
//! A lock that a Rust program has of its own, with the advice; what is advised is tested in C.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use flexguard::advice::{Action, Handle, Reason, Section, Wait};

const THREADS: usize = 4;
const ROUNDS: u64 = 20_000;

struct Lock {
    owner: AtomicU64,
    count: UnsafeCell<u64>,
}

// SAFETY: `count` is only touched by the thread that `owner` names.
unsafe impl Sync for Lock {}

impl Lock {
    fn add(&self) {
        let me = Handle::of_this_thread().number();
        let mut wait = Wait::new();
        loop {
            let section = Section::begin();
            let taken =
                self.owner
                    .compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                // SAFETY: this thread owns the lock.
                unsafe { *self.count.get() += 1 };
                self.owner.store(0, Ordering::Release);
                return;
            }
            drop(section);
            while self.owner.load(Ordering::Relaxed) != 0 {
                wait.for_thread(Handle::from_number(self.owner.load(Ordering::Relaxed)))
                    .once();
            }
        }
    }
}

#[test]
fn a_lock_of_its_own_excludes() {
    static LOCK: Lock = Lock {
        owner: AtomicU64::new(0),
        count: UnsafeCell::new(0),
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..ROUNDS).for_each(|_| LOCK.add()));
        }
    });
    // SAFETY: the threads have ended.
    assert_eq!(unsafe { *LOCK.count.get() }, THREADS as u64 * ROUNDS);
}

#[test]
fn a_handle_is_the_threads_own() {
    let mine = Handle::of_this_thread();
    assert_eq!(Handle::of_this_thread(), mine);
    assert_eq!(Handle::from_number(mine.number()), Some(mine));
    assert_eq!(Handle::from_number(0), None);
    let other = thread::spawn(Handle::of_this_thread).join().unwrap();
    assert_ne!(other, mine);
}

/// `FG_LOOKS_YIELDING`: one look of so many sleeps, also where each yield finds an idle CPU.
const LOOKS_YIELDING: usize = 1024;

#[test]
fn a_wait_ends_in_sleep() {
    let mut wait = Wait::new();
    wait.for_number(u32::MAX);
    let slept = (0..LOOKS_YIELDING).find_map(|_| match wait.once() {
        advice if advice.reason != Reason::TooMany && advice.reason != Reason::Runs => {
            panic!("{advice:?}")
        }
        advice => match advice.action {
            Action::Sleep(time) => Some(time),
            _ => None,
        },
    });
    assert!(slept.is_some_and(|time| time <= Duration::from_millis(1)));
    assert_ne!(wait.advice().action, Action::Spin);
}
