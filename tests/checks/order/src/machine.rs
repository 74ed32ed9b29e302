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

/// Longer than the clock of a parked waiter, shorter than FGI_LONGEST_SLEEP_NS.
const SHORT_SLEEP_NS: u64 = 500_000_000;

/// What the clock says at first: more than any wait lasts, as on a machine.
const START_NS: u64 = 10_000_000_000;

pub struct Place {
    at: usize,
    size: usize,
    atomic: UnsafeCell<AtomicU64>,
    /// loom knows of a variable's last access only: a thread that loads it and then changes it hides from loom that
    /// another has loaded it before. So every access begins with a change of this one.
    turn: Option<AtomicU32>,
}

impl Place {
    fn new(at: usize, size: usize, thorough: bool) -> Self {
        let place = Place {
            at,
            size,
            atomic: UnsafeCell::new(AtomicU64::new(0)),
            turn: thorough.then(|| AtomicU32::new(0)),
        };
        place.copy_in();
        place
    }

    /// An atomic access begins.
    pub fn take_turn(&self) {
        if let Some(turn) = &self.turn {
            turn.fetch_add(1, Relaxed);
        }
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
/// There must be a variable of so many bytes, 1, 2, 4 or 8.
pub unsafe fn read(at: usize, size: usize) -> u64 {
    match size {
        // SAFETY: the caller's promise.
        1 => u64::from(unsafe { (at as *const u8).read_volatile() }),
        // SAFETY: the caller's promise.
        2 => u64::from(unsafe { (at as *const u16).read_volatile() }),
        // SAFETY: the caller's promise.
        4 => u64::from(unsafe { (at as *const u32).read_volatile() }),
        // SAFETY: the caller's promise.
        _ => unsafe { (at as *const u64).read_volatile() },
    }
}

/// # Safety
/// There must be a variable of so many bytes, 1, 2, 4 or 8.
pub unsafe fn write(at: usize, size: usize, value: u64) {
    match size {
        // SAFETY: the caller's promise.
        1 => unsafe { (at as *mut u8).write_volatile(value as u8) },
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
    until_ns: u64,
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
    places: RefCell<HashMap<usize, Rc<Place>>>,
    futexes: RefCell<HashMap<usize, Rc<Futex>>>,
    /// What of it is on the stack of a thread, and of which.
    own: RefCell<Vec<(u32, usize)>>,
    /// Written by a plain access of C that has not been told to loom yet.
    written: Cell<usize>,
    now_ns: Cell<u64>,
    /// What the clock goes on by each time it is read.
    tick_ns: u64,
    thorough: bool,
    /// Short sleeps end by the clock when no thread runs.
    time_passes: bool,
    /// The futexes, in the order in which they came to be shared: each execution is repeated exactly.
    sleepable: RefCell<Vec<usize>>,
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

/// The number of the thread of the model that runs.
fn tid() -> u32 {
    // SAFETY: this thread's, to which nothing else refers.
    unsafe { (*fgo_thread()).tid }
}

thread_local! {
    static MACHINE: RefCell<Option<Rc<Machine>>> = const { RefCell::new(None) };
}

impl Machine {
    /// Starts an execution. `places`: address and size of what threads share.
    pub fn start(
        places: &[[usize; 2]],
        (tick_ns, thorough): (u64, bool),
        time_passes: bool,
        defects: &'static [Defect],
        counts: Arc<Counts>,
    ) {
        let machine = Machine {
            places: RefCell::default(),
            futexes: RefCell::default(),
            own: RefCell::default(),
            written: Cell::new(0),
            now_ns: Cell::new(START_NS),
            tick_ns,
            thorough,
            time_passes,
            sleepable: RefCell::default(),
            running: Cell::new(1),
            site: Cell::new(c""),
            defects,
            counts,
            trace: RefCell::default(),
        };
        for &[at, size] in places {
            machine.share(at, size);
        }
        MACHINE.set(Some(Rc::new(machine)));
    }

    /// Threads share this variable, too.
    pub fn share(&self, at: usize, size: usize) {
        let mut places = self.places.borrow_mut();
        if places.contains_key(&at) {
            return;
        }
        places.insert(at, Rc::new(Place::new(at, size, self.thorough)));
        if size >= 4 {
            let futex = Futex {
                waiters: AtomicU32::new(0),
                queue: Mutex::new(VecDeque::new()),
            };
            self.futexes.borrow_mut().insert(at, Rc::new(futex));
            self.sleepable.borrow_mut().push(at);
        }
    }

    /// The same for a variable on the stack of this thread, until its call is over.
    pub fn share_own(&self, at: usize, size: usize) {
        self.own.borrow_mut().push((tid(), at));
        self.share(at, size);
    }

    pub fn unshare_own(&self) {
        let mut own = self.own.borrow_mut();
        for (_, at) in own.extract_if(.., |(owner, _)| *owner == tid()) {
            self.places.borrow_mut().remove(&at);
            self.futexes.borrow_mut().remove(&at);
            self.sleepable.borrow_mut().retain(|&futex| futex != at);
        }
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
        let origin = machine.places.borrow().keys().min().copied().unwrap_or(0);
        let line = |s: &Step| {
            let (site, at) = (s.site.to_string_lossy(), s.at.wrapping_sub(origin));
            format!(
                "thread {} {site}: {} at {at}: {:#x} -> {:#x}",
                s.tid, s.what, s.found, s.left
            )
        };
        machine.trace.borrow().iter().map(line).collect()
    }

    pub fn note(&self, site: &'static CStr, what: &'static str, at: usize, found: u64, left: u64) {
        let step = Step {
            tid: tid(),
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

    pub fn place(&self, at: usize) -> Option<Rc<Place>> {
        self.places.borrow().get(&at).cloned()
    }

    pub fn has_within(&self, at: usize, size: usize) -> bool {
        self.places
            .borrow()
            .values()
            .any(|p| p.at < at + size && at < p.at + p.size)
    }

    /// C is about to write there.
    pub fn will_write(&self, at: usize) {
        if self.places.borrow().contains_key(&at) {
            self.written.set(at);
        }
    }

    /// Nobody else has run since the plain write, since threads change in calls to the model only.
    fn settle(&self) {
        if let Some(place) = self.place(self.written.replace(0)) {
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
        self.now_ns.set(self.now_ns.get() + self.tick_ns);
        self.now_ns.get()
    }

    pub fn futex_wait(&self, at: usize, expected: u32, until_ns: u64, bits: u32) -> i32 {
        let futex = Rc::clone(&self.futexes.borrow()[&at]);
        let place = self.place(at).expect("threads share it");
        futex.waiters.fetch_add(1, Relaxed);
        fence(SeqCst);
        let mut queue = futex.queue.lock().expect("not poisoned");
        self.note(c"futex_wait", "compares", at, expected.into(), 0);
        place.take_turn();
        let differs = place.atomic().load(Relaxed) as u32 != expected;
        if differs || until_ns <= self.now_ns.get() {
            drop(queue);
            futex.waiters.fetch_sub(1, Relaxed);
            return if differs { EAGAIN } else { ETIMEDOUT };
        }
        let sleeper = Rc::new(Sleeper {
            thread: thread::current(),
            bits,
            until_ns,
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
        if self.running.get() > 0 || !self.time_passes {
            return;
        }
        let futexes = self.sleepable.borrow().clone();
        for at in futexes {
            if self.take_sleeper(at, ETIMEDOUT, |s| s.short) {
                return;
            }
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
        // A thread that is gone sleeps nowhere.
        let Some(futex) = self.futexes.borrow().get(&at).cloned() else {
            return false;
        };
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
        if result == ETIMEDOUT {
            self.now_ns.set(self.now_ns.get().max(sleeper.until_ns));
        }
        self.note(c"futex", "wakes", at, 0, 0);
        self.started();
        sleeper.result.set(Some(result));
        sleeper.thread.unpark();
        true
    }
}
