// SPDX-License-Identifier: MIT
//! What the compiled C calls: the functions of the race detector that the compiler puts at every access to memory, with
//! the names and types of gcc and clang, and what of the runtime the lock's sources need.

use std::ffi::{CStr, c_char, c_int};

use loom::sync::atomic::{Ordering, fence};

use crate::machine::{self, Machine, Place};
use crate::{Op, ThreadBlock, fgo_reading, fgo_thread};

/// Runs what may change to another thread of the model. The thread block is a variable of the system's thread, which
/// all threads of the model are on: so each takes its own with it.
fn switching<R>(f: impl FnOnce() -> R) -> R {
    let (block, reading): (*mut ThreadBlock, *mut i32) = (fgo_thread(), fgo_reading());
    // SAFETY: both are valid as long as this thread; nothing refers to them meanwhile.
    let mine = unsafe { (block.read(), reading.read()) };
    let result = f();
    // SAFETY: as above.
    unsafe { (block.write(mine.0), reading.write(mine.1)) };
    result
}

/// The compilers' numbers.
fn order(number: c_int) -> Ordering {
    match number {
        0 => Ordering::Relaxed,
        1 | 2 => Ordering::Acquire,
        3 => Ordering::Release,
        4 => Ordering::AcqRel,
        5 => Ordering::SeqCst,
        _ => panic!("loom does not check this memory order: {number}"),
    }
}

/// The part of an order that a load, or a compare-and-swap that fails, can have.
fn of_load(order: Ordering) -> Ordering {
    match order {
        Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst => Ordering::Acquire,
        _ => Ordering::Relaxed,
    }
}

/// An atomic operation of C, and what it finds.
#[derive(Clone, Copy)]
enum Access {
    Load,
    Store(u64),
    Add(u64),
    Sub(u64),
    And(u64),
    Or(u64),
    Swap(u64),
    Cas { expected: u64, desired: u64 },
}

impl Access {
    fn name(self) -> &'static str {
        match self {
            Access::Load => "load",
            Access::Store(_) => "store",
            Access::Add(_) => "add",
            Access::Sub(_) => "sub",
            Access::And(_) => "and",
            Access::Or(_) => "or",
            Access::Swap(_) => "swap",
            Access::Cas { .. } => "cas",
        }
    }

    fn op(self) -> Op {
        match self {
            Access::Load => Op::Load,
            Access::Store(_) => Op::Store,
            Access::Add(_) => Op::Add,
            Access::Sub(_) => Op::Sub,
            Access::And(_) => Op::And,
            Access::Or(_) => Op::Or,
            Access::Swap(_) => Op::Swap,
            Access::Cas { .. } => Op::Cas,
        }
    }

    /// What is in memory afterwards.
    fn leaves(self, found: u64) -> u64 {
        match self {
            Access::Load => found,
            Access::Store(value) | Access::Swap(value) => value,
            Access::Add(value) => found.wrapping_add(value),
            Access::Sub(value) => found.wrapping_sub(value),
            Access::And(value) => found & value,
            Access::Or(value) => found | value,
            Access::Cas { expected, desired } if found == expected => desired,
            Access::Cas { .. } => found,
        }
    }

    /// loom knows sequential consistency of fences alone. So a load has one before it, and what writes one behind it:
    /// stronger than C11 asks for towards other accesses of the thread.
    fn in_order(self, place: &Place, order: Ordering) -> u64 {
        place.take_turn();
        if order != Ordering::SeqCst {
            return self.on_place(place, order);
        }
        if let Access::Load = self {
            fence(Ordering::SeqCst);
            return self.on_place(place, Ordering::Acquire);
        }
        let found = self.on_place(place, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        found
    }

    fn on_place(self, place: &Place, order: Ordering) -> u64 {
        let atomic = place.atomic();
        let found = match self {
            Access::Load => return atomic.load(order),
            Access::Store(value) => {
                atomic.store(value, order);
                value
            }
            Access::Add(value) => atomic.fetch_add(value, order),
            Access::Sub(value) => atomic.fetch_sub(value, order),
            Access::And(value) => atomic.fetch_and(value, order),
            Access::Or(value) => atomic.fetch_or(value, order),
            Access::Swap(value) => atomic.swap(value, order),
            Access::Cas { expected, desired } => {
                match atomic.compare_exchange(expected, desired, order, of_load(order)) {
                    Ok(found) | Err(found) => found,
                }
            }
        };
        place.set_mirror(self.leaves(found));
        found
    }

    /// # Safety
    /// `at` is a variable of `size` bytes, 1, 2, 4 or 8, on which C does this.
    unsafe fn run(self, at: usize, size: usize, number: c_int) -> u64 {
        let machine = Machine::get();
        if let Some(machine) = &machine
            && let Some(place) = machine.place(at)
        {
            let order = machine.order(self.op(), order(number));
            let site = machine.site.get();
            let found = switching(|| self.in_order(&place, order));
            machine.note(site, self.name(), at, found, self.leaves(found));
            return found;
        }
        // SAFETY: the caller's promise; no other thread of the system works on this lock.
        let found = unsafe { machine::read(at, size) };
        let left = self.leaves(found);
        // What only loads may be in memory that nobody may write.
        if left != found {
            // SAFETY: as above.
            unsafe { machine::write(at, size, left) };
        }
        found
    }
}

/// The atomic operations of one size.
macro_rules! atomics {
    ($type:ty, $size:literal, $load:ident, $store:ident, $add:ident, $sub:ident, $and:ident, $or:ident, $swap:ident, $strong:ident, $val:ident) => {
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $load(at: *mut $type, order: c_int) -> $type {
            // SAFETY: what C does.
            unsafe { Access::Load.run(at as usize, $size, order) as $type }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $store(at: *mut $type, value: $type, order: c_int) {
            // SAFETY: what C does.
            unsafe { Access::Store(value.into()).run(at as usize, $size, order) };
        }

        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $add(at: *mut $type, value: $type, order: c_int) -> $type {
            // SAFETY: what C does.
            unsafe { Access::Add(value.into()).run(at as usize, $size, order) as $type }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $sub(at: *mut $type, value: $type, order: c_int) -> $type {
            // SAFETY: what C does.
            unsafe { Access::Sub(value.into()).run(at as usize, $size, order) as $type }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $and(at: *mut $type, value: $type, order: c_int) -> $type {
            // SAFETY: what C does.
            unsafe { Access::And(value.into()).run(at as usize, $size, order) as $type }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $or(at: *mut $type, value: $type, order: c_int) -> $type {
            // SAFETY: what C does.
            unsafe { Access::Or(value.into()).run(at as usize, $size, order) as $type }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $swap(at: *mut $type, value: $type, order: c_int) -> $type {
            // SAFETY: what C does.
            unsafe { Access::Swap(value.into()).run(at as usize, $size, order) as $type }
        }

        /// clang's
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $val(
            at: *mut $type,
            expected: $type,
            desired: $type,
            order: c_int,
            _failure: c_int,
        ) -> $type {
            let cas = Access::Cas {
                expected: expected.into(),
                desired: desired.into(),
            };
            // SAFETY: what C does.
            unsafe { cas.run(at as usize, $size, order) as $type }
        }

        /// gcc's
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $strong(
            at: *mut $type,
            expected: *mut $type,
            desired: $type,
            order: c_int,
            failure: c_int,
        ) -> bool {
            // SAFETY: a variable on C's stack.
            let meant = unsafe { *expected };
            // SAFETY: what C does.
            let found = unsafe { $val(at, meant, desired, order, failure) };
            // SAFETY: as above.
            unsafe { *expected = found };
            found == meant
        }
    };
}

atomics!(
    u8,
    1,
    __tsan_atomic8_load,
    __tsan_atomic8_store,
    __tsan_atomic8_fetch_add,
    __tsan_atomic8_fetch_sub,
    __tsan_atomic8_fetch_and,
    __tsan_atomic8_fetch_or,
    __tsan_atomic8_exchange,
    __tsan_atomic8_compare_exchange_strong,
    __tsan_atomic8_compare_exchange_val
);
atomics!(
    u16,
    2,
    __tsan_atomic16_load,
    __tsan_atomic16_store,
    __tsan_atomic16_fetch_add,
    __tsan_atomic16_fetch_sub,
    __tsan_atomic16_fetch_and,
    __tsan_atomic16_fetch_or,
    __tsan_atomic16_exchange,
    __tsan_atomic16_compare_exchange_strong,
    __tsan_atomic16_compare_exchange_val
);
atomics!(
    u32,
    4,
    __tsan_atomic32_load,
    __tsan_atomic32_store,
    __tsan_atomic32_fetch_add,
    __tsan_atomic32_fetch_sub,
    __tsan_atomic32_fetch_and,
    __tsan_atomic32_fetch_or,
    __tsan_atomic32_exchange,
    __tsan_atomic32_compare_exchange_strong,
    __tsan_atomic32_compare_exchange_val
);
atomics!(
    u64,
    8,
    __tsan_atomic64_load,
    __tsan_atomic64_store,
    __tsan_atomic64_fetch_add,
    __tsan_atomic64_fetch_sub,
    __tsan_atomic64_fetch_and,
    __tsan_atomic64_fetch_or,
    __tsan_atomic64_exchange,
    __tsan_atomic64_compare_exchange_strong,
    __tsan_atomic64_compare_exchange_val
);

/// C reads there, and does not call it atomic. The value it then reads itself: the newest, which is the only one that
/// it may see unless this fails.
fn plain_read(at: usize) {
    if let Some(machine) = Machine::get()
        && let Some(place) = machine.place(at)
    {
        // SAFETY: not unsafe in fact: loom checks what it asks for.
        unsafe { place.atomic().unsync_load() };
    }
}

fn plain_write(at: usize) {
    if let Some(machine) = Machine::get() {
        machine.will_write(at);
    }
}

/// C reads or writes there, in another size than what threads share has.
fn elsewhere(at: usize, size: usize) {
    if let Some(machine) = Machine::get() {
        assert!(
            !machine.has_within(at, size),
            "a plain access of {size} bytes to what threads share"
        );
    }
}

macro_rules! plain {
    ($($name:ident: $access:expr,)*) => {
        $(#[unsafe(no_mangle)]
        extern "C-unwind" fn $name(at: usize) {
            $access(at);
        })*
    };
}

plain! {
    __tsan_read4: plain_read,
    __tsan_read8: plain_read,
    __tsan_write4: plain_write,
    __tsan_write8: plain_write,
    __tsan_read1: |at| elsewhere(at, 1),
    __tsan_read2: |at| elsewhere(at, 2),
    __tsan_read16: |at| elsewhere(at, 16),
    __tsan_write1: |at| elsewhere(at, 1),
    __tsan_write2: |at| elsewhere(at, 2),
    __tsan_write16: |at| elsewhere(at, 16),
    __tsan_unaligned_read4: |at| elsewhere(at, 4),
    __tsan_unaligned_read8: |at| elsewhere(at, 8),
    __tsan_unaligned_read16: |at| elsewhere(at, 16),
    __tsan_unaligned_write4: |at| elsewhere(at, 4),
    __tsan_unaligned_write8: |at| elsewhere(at, 8),
    __tsan_unaligned_write16: |at| elsewhere(at, 16),
    __tsan_func_entry: |_| (),
}

#[unsafe(no_mangle)]
extern "C-unwind" fn __tsan_read_range(at: usize, size: usize) {
    elsewhere(at, size);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn __tsan_write_range(at: usize, size: usize) {
    elsewhere(at, size);
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_func_exit() {}

#[unsafe(no_mangle)]
extern "C" fn __tsan_init() {}

/// # Safety
/// `function` is the name of a C function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fgo_site(function: *const c_char) {
    if let Some(machine) = Machine::get() {
        // SAFETY: `__func__` is a static array.
        machine.site.set(unsafe { CStr::from_ptr(function) });
    }
}

/// # Safety
/// `now` points to a variable.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fgo_clock(_clock: c_int, now: *mut [i64; 2]) -> c_int {
    let ns = running().tick() as i64;
    // SAFETY: the caller's promise: a timespec.
    unsafe { *now = [ns / 1_000_000_000, ns % 1_000_000_000] };
    0
}

fn running() -> std::rc::Rc<Machine> {
    Machine::get().expect("locks are used while a model runs")
}

/// # Safety
/// `until` is NULL or a timespec.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fgi_futex_wait_as(
    word: usize,
    expected: u32,
    _clock: c_int,
    until: *const [i64; 2],
    bits: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let until_ns = match unsafe { until.as_ref() } {
        Some([s, ns]) => (s * 1_000_000_000 + ns) as u64,
        None => u64::MAX,
    };
    let machine = running();
    switching(|| machine.futex_wait(word, expected, until_ns, bits))
}

/// # Safety
/// `until` is NULL or a timespec.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fgi_futex_wait(
    word: usize,
    expected: u32,
    clock: c_int,
    until: *const [i64; 2],
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { fgi_futex_wait_as(word, expected, clock, until, u32::MAX) }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn fgi_futex_wake_as(word: usize, n: c_int, bits: u32) -> c_int {
    let machine = running();
    let mut woken = 0;
    while woken < n && switching(|| machine.futex_wake(word, bits)) == 1 {
        woken += 1;
    }
    woken
}

#[unsafe(no_mangle)]
extern "C-unwind" fn fgi_futex_wake(word: usize, n: c_int) -> c_int {
    fgi_futex_wake_as(word, n, u32::MAX)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn fgi_nap(_ns: u32) {
    // So that loom lets another thread go on.
    switching(loom::thread::yield_now);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn fgo_share(at: usize, size: usize) {
    running().share_own(at, size);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn fgo_unshare() {
    running().unshare_own();
}
