// SPDX-License-Identifier: MIT
//! Locks that spin while their holder runs and block while it is preempted: FlexGuard's C library for Rust, on
//! [`lock_api`].
//!
//! ```
//! static COUNTER: flexguard::Mutex<u64> = flexguard::Mutex::new(0);
//!
//! *COUNTER.lock() += 1;
//! assert_eq!(*COUNTER.lock(), 1);
//! ```
//!
//! The process registers with the machine's Preemption Monitor when it starts, if there is one; without a monitor the
//! locks spin for a moment, then park. Nothing is poisoned by a panic. A guard stays in its thread, and one that is
//! leaked (`mem::forget`) leaves that thread counted as in a critical section.
//!
//! The crate links `libflexguard.a`, from `$FLEXGUARD_LIB_DIR` or from `build/lib` of the tree that it is in (`make`).

pub mod advice;
mod condvar;
mod ffi;
mod mutex;
mod rwlock;

pub use condvar::Condvar;
pub use mutex::{Mutex, MutexGuard, RawMutex};
pub use rwlock::{RawRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Is a thread of this process's domain preempted inside a critical section? (A domain is the user's or the control
/// group's programs, or where the monitor counts for all together, the machine's.) For wait loops of a program's own.
/// Always false without a monitor: bound your busy-waiting nevertheless.
///
/// ```
/// # let mut tries = 0;
/// # let mut try_to_get_it = || { tries += 1; tries == 3 };
/// while !try_to_get_it() {
///     if flexguard::critical_section_preempted() {
///         std::thread::yield_now(); // or block
///     } else {
///         std::hint::spin_loop();
///     }
/// }
/// ```
#[must_use]
pub fn critical_section_preempted() -> bool {
    // SAFETY: thread-safe, without conditions.
    unsafe { ffi::fg_critical_section_preempted() }
}

/// Is this process registered with a living monitor?
#[must_use]
pub fn monitor_attached() -> bool {
    // SAFETY: thread-safe, without conditions.
    unsafe { ffi::fg_monitor_attached() }
}
