// SPDX-License-Identifier: MIT
//! The machine on which one execution of the model runs: shared memory, futexes, the clock.
//!
//! Memory. The places that threads share are atomics of loom, made anew in each execution; the C variable behind such a
//! place mirrors its newest value. All else (stacks, globals) is what it is.
//! An access that C does not call atomic is one to loom, too: `unsync_load` or `with_mut`, which fail if an access of
//! another thread is neither before nor after it. Its value then is the mirror's.
//!
//! Futexes. As the kernel's: a waiter is counted, executes a full barrier, takes the bucket's lock, compares, queues.
//! A waker executes a full barrier, looks at the count, and only if it is not 0 takes the lock. What else the kernel
//! orders (a bucket that two futexes share, the scheduler's locks) the model leaves out, so nothing may rely on it.
//!
//! Time. The clock goes on when it is read, so a deadline may have passed when a sleep would begin. Once it has begun,
//! it ends by the clock when no thread runs, with `time_passes`: if it is short. A waiter that sleeps for longer counts
//! on a release.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::{HashMap, VecDeque};
use std::ffi::CStr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as Plain};

use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{self, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
use loom::thread::{self, Thread};

use crate::{Defect, Op, fgo_thread};

const EAGAIN: i32 = 11;
const ETIMEDOUT: i32 = 110;

/// What the clock goes on by each time it is read.
const TICK_NS: u64 = 1_000_000;

/// Longer than the clock of a parked waiter, shorter than LONGEST_SLEEP_NS.
const SHORT_SLEEP_NS: u64 = 500_000_000;

pub struct Place {
    at: usize,
    size: usize,
    atomic: UnsafeCell<AtomicU64>,
}

impl Place {
    fn new(at: usize, size: usize) -> Self {
        let place = Place {
            at,
            size,
            atomic: UnsafeCell::new(AtomicU64::new(0)),
        };
        place.copy_in();
        place
    }

    pub fn atomic(&self) -> &AtomicU64 {
        // SAFETY: all threads of a model are coroutines on one thread of the system, and `copy_in`, the only one to
        // make an exclusive reference, does not run another.
        unsafe { &*self.atomic.get() }
    }

    /// What the C variable says.
    fn mirror(&self) -> u64 {
        // SAFETY: `at` is a C variable of `size` bytes, which lives as long as the program.
        unsafe { read(self.at, self.size) }
    }

    pub fn set_mirror(&self, value: u64) {
        // SAFETY: as in `mirror`.
        unsafe { write(self.at, self.size, value) }
    }

    /// A plain write has happened: loom checks that nobody else was at it, and has its value.
    fn copy_in(&self) {
        let value = self.mirror();
        // SAFETY: as in `atomic`.
        unsafe { &mut *self.atomic.get() }.with_mut(|v| *v = value);
    }
}

/// # Safety
/// There must be a variable of so many bytes, 2, 4 or 8.
pub unsafe fn read(at: usize, size: usize) -> u64 {
    match size {
        // SAFETY: the caller's promise.
        2 => u64::from(unsafe { (at as *const u16).read_volatile() }),
        // SAFETY: the caller's promise.
        4 => u64::from(unsafe { (at as *const u32).read_volatile() }),
        // SAFETY: the caller's promise.
        _ => unsafe { (at as *const u64).read_volatile() },
    }
}

/// # Safety
/// There must be a variable of so many bytes, 2, 4 or 8.
pub unsafe fn write(at: usize, size: usize, value: u64) {
    match size {
        // SAFETY: the caller's promise.
        2 => unsafe { (at as *mut u16).write_volatile(value as u16) },
        // SAFETY: the caller's promise.
        4 => unsafe { (at as *mut u32).write_volatile(value as u32) },
        // SAFETY: the caller's promise.
        _ => unsafe { (at as *mut u64).write_volatile(value) },
    }
}

struct Sleeper {
    thread: Thread,
    bits: u32,
    short: bool,
    result: Cell<Option<i32>>,
}

struct Futex {
    waiters: AtomicU32,
    queue: Mutex<VecDeque<Rc<Sleeper>>>,
}

/// Over all executions of a check.
#[derive(Default)]
pub struct Counts {
    pub executions: AtomicUsize,
    /// How often a thread slept at a futex.
    pub sleeps: AtomicUsize,
    /// How often a defect has changed an operation.
    pub defects: AtomicUsize,
}

pub struct Machine {
    places: HashMap<usize, Place>,
    futexes: HashMap<usize, Futex>,
    /// Written by a plain access of C that has not been told to loom yet.
    written: Cell<usize>,
    now_ns: Cell<u64>,
    /// The futex where short sleeps end by the clock, when no thread runs.
    timed: Option<usize>,
    /// Threads that neither sleep, nor wait for others, nor have ended.
    running: Cell<usize>,
    /// The function that the next atomic operation stands in.
    pub site: Cell<&'static CStr>,
    defects: &'static [Defect],
    counts: Arc<Counts>,
    /// What has happened in this execution: for a developer who looks into a failure.
    trace: RefCell<Vec<Step>>,
}

/// A thread did something to a place, found a value there and left one.
struct Step {
    tid: u32,
    site: &'static CStr,
    what: &'static str,
    at: usize,
    found: u64,
    left: u64,
}

thread_local! {
    static MACHINE: RefCell<Option<Rc<Machine>>> = const { RefCell::new(None) };
}

impl Machine {
    /// Starts an execution. `places`: address and size of what threads share.
    pub fn start(
        places: &[[usize; 2]],
        timed: Option<usize>,
        defects: &'static [Defect],
        counts: Arc<Counts>,
    ) {
        let futex = |at: usize| {
            let futex = Futex {
                waiters: AtomicU32::new(0),
                queue: Mutex::new(VecDeque::new()),
            };
            (at, futex)
        };
        let machine = Machine {
            places: places
                .iter()
                .map(|&[at, size]| (at, Place::new(at, size)))
                .collect(),
            futexes: places
                .iter()
                .filter(|p| p[1] == 4)
                .map(|p| futex(p[0]))
                .collect(),
            written: Cell::new(0),
            now_ns: Cell::new(0),
            timed,
            running: Cell::new(1),
            site: Cell::new(c""),
            defects,
            counts,
            trace: RefCell::default(),
        };
        MACHINE.set(Some(Rc::new(machine)));
    }

    /// The execution is over.
    pub fn stop() {
        Machine::get();
        Machine::forget();
    }

    /// So it is where a panic ended it.
    pub fn forget() {
        MACHINE.set(None);
    }

    /// What has happened in the execution that a panic ended.
    pub fn trace() -> Vec<String> {
        let Some(machine) = MACHINE.take() else {
            return Vec::new();
        };
        let origin = machine.places.keys().min().copied().unwrap_or(0);
        let line = |s: &Step| {
            let (site, at) = (s.site.to_string_lossy(), s.at - origin);
            format!(
                "thread {} {site}: {} at {at}: {:#x} -> {:#x}",
                s.tid, s.what, s.found, s.left
            )
        };
        machine.trace.borrow().iter().map(line).collect()
    }

    pub fn note(&self, site: &'static CStr, what: &'static str, at: usize, found: u64, left: u64) {
        // SAFETY: this thread's, to which nothing else refers.
        let tid = unsafe { (*fgo_thread()).tid };
        let step = Step {
            tid,
            site,
            what,
            at,
            found,
            left,
        };
        self.trace.borrow_mut().push(step);
    }

    /// The running execution's, if there is one.
    pub fn get() -> Option<Rc<Machine>> {
        let machine = MACHINE.with_borrow(Option::clone)?;
        machine.settle();
        Some(machine)
    }

    pub fn place(&self, at: usize) -> Option<&Place> {
        self.places.get(&at)
    }

    pub fn has_within(&self, at: usize, size: usize) -> bool {
        self.places
            .values()
            .any(|p| p.at < at + size && at < p.at + p.size)
    }

    /// C is about to write there.
    pub fn will_write(&self, at: usize) {
        if self.places.contains_key(&at) {
            self.written.set(at);
        }
    }

    /// Nobody else has run since the plain write, since threads change in calls to the model only.
    fn settle(&self) {
        if let Some(place) = self.places.get(&self.written.replace(0)) {
            place.copy_in();
        }
    }

    /// The order that this operation is to have: the one that C says, unless a defect is here.
    pub fn order(&self, op: Op, meant: Ordering) -> Ordering {
        let here = |d: &&Defect| d.op == op && d.site == self.site.get();
        let Some(defect) = self.defects.iter().find(here) else {
            return meant;
        };
        self.counts.defects.fetch_add(1, Plain::Relaxed);
        defect.order
    }

    pub fn tick(&self) -> u64 {
        self.now_ns.set(self.now_ns.get() + TICK_NS);
        self.now_ns.get()
    }

    pub fn futex_wait(&self, at: usize, expected: u32, until_ns: u64, bits: u32) -> i32 {
        let (futex, word) = (&self.futexes[&at], self.places[&at].atomic());
        futex.waiters.fetch_add(1, Relaxed);
        fence(SeqCst);
        let mut queue = futex.queue.lock().expect("not poisoned");
        self.note(c"futex_wait", "compares", at, expected.into(), 0);
        let differs = word.load(Relaxed) != u64::from(expected);
        if differs || until_ns <= self.now_ns.get() {
            drop(queue);
            futex.waiters.fetch_sub(1, Relaxed);
            return if differs { EAGAIN } else { ETIMEDOUT };
        }
        let sleeper = Rc::new(Sleeper {
            thread: thread::current(),
            bits,
            short: until_ns < self.now_ns.get() + SHORT_SLEEP_NS,
            result: Cell::new(None),
        });
        queue.push_back(Rc::clone(&sleeper));
        self.counts.sleeps.fetch_add(1, Plain::Relaxed);
        drop(queue);
        self.stopped();
        loop {
            match sleeper.result.get() {
                Some(result) => return result,
                None => thread::park(),
            }
        }
    }

    /// This thread is about to wait or to end. If no thread runs then, time passes until the first short sleep is over.
    pub fn stopped(&self) {
        self.running.set(self.running.get() - 1);
        if self.running.get() == 0
            && let Some(at) = self.timed
        {
            self.take_sleeper(at, ETIMEDOUT, |s| s.short);
        }
    }

    pub fn started(&self) {
        self.running.set(self.running.get() + 1);
    }

    /// Wakes the first that sleeps as one of `bits`.
    pub fn futex_wake(&self, at: usize, bits: u32) -> i32 {
        let lost = self.order(Op::Wake, SeqCst) != SeqCst;
        i32::from(!lost && self.take_sleeper(at, 0, |s| s.bits & bits != 0))
    }

    fn take_sleeper(&self, at: usize, result: i32, which: impl Fn(&Sleeper) -> bool) -> bool {
        let futex = &self.futexes[&at];
        fence(SeqCst);
        if futex.waiters.load(Relaxed) == 0 {
            return false;
        }
        let mut queue = futex.queue.lock().expect("not poisoned");
        let Some(first) = queue.iter().position(|s| which(s)) else {
            return false;
        };
        let sleeper = queue.remove(first).expect("it is there");
        futex.waiters.fetch_sub(1, Relaxed);
        drop(queue);
        self.note(c"futex", "wakes", at, 0, 0);
        self.started();
        sleeper.result.set(Some(result));
        sleeper.thread.unpark();
        true
    }
}
