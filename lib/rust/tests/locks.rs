// SPDX-License-Identifier: MIT
//! The locks at work: exclusion, time, readers beside one another, waiting. What the C library itself promises is tested
//! in C.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flexguard::{Condvar, Mutex, RwLock};

const THREADS: usize = 6;
const ROUNDS: usize = 20_000;
const MOMENT: Duration = Duration::from_millis(3);

#[test]
fn a_mutex_excludes_and_is_small() {
    static COUNTER: Mutex<usize> = Mutex::new(0);
    assert_eq!(size_of::<Mutex<()>>(), 16);
    assert_eq!(size_of::<RwLock<()>>(), 16);
    assert_eq!(size_of::<Condvar>(), 8);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    match (thread + round) % 8 {
                        0 => {
                            while COUNTER
                                .try_lock_for(Duration::from_micros(10))
                                .map(|mut c| *c += 1)
                                .is_none()
                            {}
                        }
                        _ => *COUNTER.lock() += 1,
                    }
                }
            });
        }
    });
    assert_eq!(*COUNTER.lock(), THREADS * ROUNDS);
}

#[test]
fn a_writer_is_alone_and_readers_are_not() {
    let lock = RwLock::new((0_usize, 0_usize));
    let (together, all_read) = (AtomicUsize::new(0), Barrier::new(THREADS));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let guard = lock.read();
                together.fetch_add(1, Ordering::Relaxed);
                all_read.wait(); // returns only if all hold the lock
                assert_eq!(together.load(Ordering::Relaxed), THREADS);
                drop(guard);
                for round in 0..ROUNDS {
                    if round % 8 == 0 {
                        let mut both = lock.write();
                        both.0 += 1;
                        both.1 += 1;
                    } else {
                        let both = lock.read();
                        assert_eq!(both.0, both.1);
                    }
                }
            });
        }
    });
    assert_eq!(lock.into_inner().0, THREADS * ROUNDS / 8);
}

#[test]
fn waits_end_at_their_time_and_not_before() {
    let (mutex, lock, changed) = (Mutex::new(()), RwLock::new(()), Condvar::new());
    let (mut held, reading) = (mutex.lock(), lock.read());
    thread::scope(|scope| {
        scope.spawn(|| {
            let begin = Instant::now();
            assert!(mutex.try_lock_for(MOMENT).is_none());
            assert!(begin.elapsed() >= MOMENT);
            assert!(mutex.try_lock_until(begin).is_none());
            assert!(lock.try_write_for(MOMENT).is_none());
            assert!(lock.try_read_for(MOMENT).is_some());
        });
    });
    let again = lock.read_recursive();
    drop((reading, again));
    assert!(lock.try_write_for(Duration::MAX).is_some());
    let begin = Instant::now();
    assert!(!changed.wait_for(&mut held, MOMENT));
    assert!(begin.elapsed() >= MOMENT);
    assert!(!changed.wait_until(&mut held, begin));
    assert!(mutex.is_locked());
    drop(held);
    assert!(mutex.try_lock_for(Duration::MAX).is_some());
}

#[test]
#[should_panic(expected = "holds the lock for writing")]
fn a_writer_that_reads_panics() {
    let lock = RwLock::new(());
    let _writing = lock.write();
    drop(lock.read());
}

#[test]
fn a_queue_of_conditions_loses_nothing() {
    let (queue, filled, emptied) = (Mutex::new(0_usize), Condvar::new(), Condvar::new());
    thread::scope(|scope| {
        for _ in 0..THREADS / 2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut items = queue.lock();
                    while *items == 3 {
                        emptied.wait(&mut items);
                    }
                    *items += 1;
                    filled.notify_one();
                }
            });
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut items = queue.lock();
                    while *items == 0 {
                        filled.wait(&mut items);
                    }
                    *items -= 1;
                    drop(items);
                    emptied.notify_one();
                }
            });
        }
    });
    assert_eq!(queue.into_inner(), 0);
}
