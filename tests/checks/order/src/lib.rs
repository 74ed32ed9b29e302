// SPDX-License-Identifier: MIT
//! Checks the memory order of the default lock, of what `lib/sync/` and condition variables are made of, and of the MCS
//! lock's hand-over: their own C, with arm64's release, every execution that C11's memory model allows a few threads,
//! by loom. What that covers and what not: docs/design/default-lock.md, "Why it is correct"; of `lib/sync/` and of the
//! MCS lock: tests/sync.rs and tests/mcs.rs.
//!
//! The C code is compiled with the instrumentation of a race detector (build.rs), so no access escapes: `hooks` answers
//! the calls, `machine` is the memory, the futexes and the clock. A `Check` explores one scenario (tests/), perhaps
//! with a `Defect`: one operation in one function that has a weaker order than it says.

mod hooks;
mod machine;
mod sync;

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering as Plain};
use std::sync::{Arc, Mutex};

use loom::thread::{Builder, JoinHandle};

pub use loom::sync::atomic::Ordering;
use machine::{Counts, Machine};
pub use sync::{Barrier, Cond, Mcs, RwLock};

/// The stack of a thread of the model: enough for a panic.
const STACK_BYTES: usize = 256 << 10;

/// How many steps an execution may take: far more than it does.
const MAX_BRANCHES: usize = 10_000;

/// model.h: FGO_OBJECTS.
const OBJECTS: usize = 32;

/// How many places an object has at most.
const PLACES: usize = 40;

/// What kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Load,
    Store,
    Add,
    Sub,
    And,
    Or,
    Swap,
    Cas,
    /// A wake-up after the last atomic operation stood in that function. A defect loses it.
    Wake,
}

/// In the function `site`, the operations of kind `op` have the order `order`, whatever they say.
#[derive(Clone, Copy, Debug)]
pub struct Defect {
    pub site: &'static CStr,
    pub op: Op,
    pub order: Ordering,
}

/// The object as a test begins (model.h).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// By a monitor that knows nothing,
    pub monitored: bool,
    /// or says that every owner sleeps,
    pub asleep: bool,
    /// and that a CPU idles.
    pub idle: bool,
    /// All threads have a real-time policy.
    pub real_time: bool,
    pub hot: bool,
    /// CPUs are many: few waiters stay awake.
    pub watched: bool,
    /// Of a read-write lock: its kind,
    pub writers_first: bool,
    /// and readers may enter the table.
    pub biased: bool,
}

/// Nothing of what it says.
pub const PLAIN: Setup = Setup {
    monitored: false,
    asleep: false,
    idle: false,
    real_time: false,
    hot: false,
    watched: false,
    writers_first: false,
    biased: false,
};

/// What a model is about: an object of C.
pub trait Object: Copy + Send + 'static {
    /// The nth, new.
    fn new(n: u32, setup: &Setup) -> Self;

    /// Stores address and size of what threads share of it; their number.
    fn places(self, places: &mut [[usize; 2]; PLACES]) -> usize;
}

/// struct fg_thread_block
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ThreadBlock {
    held: i32,
    tid: u32,
    rest: [u64; 7],
}

/// struct fgo
#[repr(C)]
struct LockAndData {
    word: u32,
    ops: u32,
    waiters: u32,
    times: [u16; 2],
    data: u32,
}

unsafe extern "C-unwind" {
    fn fgo_new(n: u32, setup: *const Setup) -> *mut LockAndData;
    fn fgo_places(o: *mut LockAndData, places: *mut [usize; 2]) -> usize;
    pub(crate) safe fn fgo_thread() -> *mut ThreadBlock;
    pub(crate) safe fn fgo_reading() -> *mut i32;
    fn fgo_touch(o: *mut LockAndData);
    fn fgo_lock(o: *mut LockAndData);
    fn fgo_unlock(o: *mut LockAndData);
    fn fgo_timedlock(o: *mut LockAndData) -> i32;
    fn fgo_trylock(o: *mut LockAndData) -> bool;
}

/// A lock of C, in a model.
#[derive(Clone, Copy)]
pub struct Lock(*mut LockAndData);

// SAFETY: the threads of a model are coroutines on one thread of the system.
unsafe impl Send for Lock {}

impl Object for Lock {
    fn new(n: u32, setup: &Setup) -> Lock {
        // SAFETY: `setup` is what C expects.
        Lock(unsafe { fgo_new(n, setup) })
    }

    fn places(self, places: &mut [[usize; 2]; PLACES]) -> usize {
        // SAFETY: C writes no more than fit.
        unsafe { fgo_places(self.0, places.as_mut_ptr()) }
    }
}

impl Lock {
    pub fn lock(self) {
        // SAFETY: a lock lives as long as the program; so in all of these.
        unsafe { fgo_lock(self.0) }
    }

    pub fn unlock(self) {
        // SAFETY: as above.
        unsafe { fgo_unlock(self.0) }
    }

    /// With a deadline that has passed.
    pub fn lock_at_once(self) -> bool {
        // SAFETY: as above.
        unsafe { fgo_timedlock(self.0) == 0 }
    }

    /// Adds 1 to what the lock protects, by plain accesses.
    pub fn touch(self) {
        // SAFETY: as above.
        unsafe { fgo_touch(self.0) }
    }

    pub fn try_lock(self) -> bool {
        // SAFETY: as above.
        unsafe { fgo_trylock(self.0) }
    }

    /// How often `touch` was called. For when all others have ended.
    pub fn touched(self) -> u32 {
        Machine::get();
        // SAFETY: as above.
        unsafe { (&raw const (*self.0).data).read_volatile() }
    }
}

/// Takes this thread's number in lock words: not that of another.
fn become_thread(tid: u32) {
    let block = ThreadBlock {
        held: 0,
        tid,
        rest: [0; 7],
    };
    // SAFETY: the variable of this thread of the system.
    unsafe { fgo_thread().write(block) };
    // SAFETY: as above.
    unsafe { fgo_reading().write(0) };
}

/// Starts a thread of the model.
pub fn spawn(tid: u32, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    Machine::get().expect("in a model").started();
    Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || {
            become_thread(tid);
            body();
            Machine::get().expect("in a model").stopped();
        })
        .expect("loom starts every thread")
}

/// Waits until they have ended.
pub fn join<const N: usize>(threads: [JoinHandle<()>; N]) {
    let machine = Machine::get().expect("in a model");
    machine.stopped();
    for thread in threads {
        thread.join().expect("a thread that panics ends the model");
    }
    machine.started();
}

#[derive(Debug)]
pub enum Verdict {
    /// In each of so many executions.
    Holds { executions: usize, sleeps: usize },
    /// What loom said, and what happened in that execution up to then.
    Fails { why: String, trace: Vec<String> },
}

impl Verdict {
    /// Fails if the model does. Returns how often a thread slept.
    pub fn holds(self) -> usize {
        match self {
            Verdict::Holds { executions, sleeps } => {
                println!("{executions} executions, {sleeps} sleeps");
                sleeps
            }
            Verdict::Fails { why, trace } => panic!("{why}\n{}", trace.join("\n")),
        }
    }

    /// The model must fail, and what loom says contain `pattern`.
    pub fn finds(self, pattern: &str) {
        match self {
            Verdict::Holds { .. } => panic!("a seeded defect went unnoticed"),
            Verdict::Fails { why, .. } => {
                assert!(why.contains(pattern), "found something else: {why}")
            }
        }
    }
}

#[derive(Clone)]
pub struct Check {
    pub setup: Setup,
    /// When no thread runs any more, the first sleep with a clock ends by it.
    pub time_passes: bool,
    /// How often a thread may be interrupted in favour of another, though it could go on; or as PREEMPTIONS says.
    pub preemptions: usize,
    /// What the clock goes on by each time it is read.
    pub tick_ns: u64,
    /// Tries what loom by itself overlooks, in many more executions.
    pub thorough: bool,
    /// One of them at least must be where the body comes by.
    pub defects: &'static [Defect],
}

/// Which of C's objects a running check has.
static TAKEN: Mutex<[bool; OBJECTS]> = Mutex::new([false; OBJECTS]);

struct Number(usize);

impl Number {
    fn take() -> Number {
        let mut taken = TAKEN.lock().expect("nobody panics with it");
        let free = taken.iter().position(|taken| !taken);
        let number = free.expect("more checks at a time than OBJECTS");
        taken[number] = true;
        Number(number)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        TAKEN.lock().expect("nobody panics with it")[self.0] = false;
    }
}

impl Check {
    /// Runs `body` in each execution, as the thread with number 1.
    pub fn run<O: Object>(&self, body: impl Fn(O) + Send + Sync + 'static) -> Verdict {
        let asked = std::env::var("PREEMPTIONS").map(|n| n.parse().expect("a number"));
        let number = Number::take();
        let (check, n) = (self.clone(), number.0 as u32);
        let counts = Arc::new(Counts::default());
        let executions = Arc::clone(&counts);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(asked.unwrap_or(self.preemptions));
        builder.max_branches = MAX_BRANCHES;
        let result = catch_unwind(AssertUnwindSafe(|| {
            builder.check(move || {
                executions.executions.fetch_add(1, Plain::Relaxed);
                let object = check.start(n, &executions);
                become_thread(1);
                body(object);
                Machine::stop();
            });
        }));
        let trace = Machine::trace();
        let count = |c: &AtomicUsize| c.load(Plain::Relaxed);
        assert!(
            self.defects.is_empty() || count(&counts.defects) > 0,
            "no such operation: {:?}",
            self.defects
        );
        match result {
            Ok(()) => Verdict::Holds {
                executions: count(&counts.executions),
                sleeps: count(&counts.sleeps),
            },
            Err(panic) => Verdict::Fails {
                why: match panic.downcast::<String>() {
                    Ok(text) => *text,
                    Err(panic) => (*panic.downcast::<&str>().expect("a text")).to_owned(),
                },
                trace,
            },
        }
    }

    fn start<O: Object>(&self, number: u32, counts: &Arc<Counts>) -> O {
        Machine::forget();
        let object = O::new(number, &self.setup);
        let mut places = [[0; 2]; PLACES];
        let n = object.places(&mut places);
        Machine::start(
            &places[..n],
            (self.tick_ns, self.thorough),
            self.time_passes,
            self.defects,
            Arc::clone(counts),
        );
        object
    }
}
