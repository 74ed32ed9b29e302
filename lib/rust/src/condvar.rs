// SPDX-License-Identifier: MIT

use std::cell::UnsafeCell;
use std::time::{Duration, Instant};

use libc::{CLOCK_MONOTONIC, timespec};

use crate::ffi;
use crate::mutex::MutexGuard;

/// A condition variable: 8 bytes, `fg_cond` of the C library. Releases waiters in the order in which they came, and none
/// without a reason. All that wait at one time wait with guards of one mutex.
///
/// ```
/// use flexguard::{Condvar, Mutex};
///
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         *ready.lock() = true;
///         changed.notify_one();
///     });
///     let mut guard = ready.lock();
///     while !*guard {
///         changed.wait(&mut guard);
///     }
/// });
/// ```
pub struct Condvar(UnsafeCell<ffi::Cond>);

// SAFETY: the C calls are thread-safe, and the object holds nothing of the thread that made it.
unsafe impl Sync for Condvar {}
// SAFETY: as above; nothing points to an object that is not waited for.
unsafe impl Send for Condvar {}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Condvar {
    /// A condition variable without waiters.
    #[must_use]
    pub const fn new() -> Self {
        Self(UnsafeCell::new(ffi::Cond::INIT))
    }

    /// Releases the thread that waits longest, if there is one.
    pub fn notify_one(&self) {
        // SAFETY: the object is initialised and outlives the call.
        unsafe { ffi::fg_cond_signal(self.0.get()) }
    }

    /// Releases all that wait.
    pub fn notify_all(&self) {
        // SAFETY: as above.
        unsafe { ffi::fg_cond_broadcast(self.0.get()) }
    }

    /// Unlocks the mutex, waits, and locks it again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        // SAFETY: the guard says that this thread holds the mutex, and holds it again afterwards.
        unsafe { ffi::fg_cond_wait(self.0.get(), raw(guard)) }
    }

    /// The same for at most `timeout`. Returns whether the thread was released; false when the time was over.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        self.wait_to(guard, &ffi::from_now(timeout))
    }

    /// The same until `time` at the latest.
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, time: Instant) -> bool {
        self.wait_to(guard, &ffi::until(time))
    }

    fn wait_to<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, time: &timespec) -> bool {
        // SAFETY: as in `wait`; the time is valid.
        unsafe { ffi::fg_cond_timedwait(self.0.get(), raw(guard), CLOCK_MONOTONIC, time) == 0 }
    }
}

fn raw<T: ?Sized>(guard: &MutexGuard<'_, T>) -> *mut ffi::Mutex {
    // SAFETY: the mutex is locked by this guard, and only fg_cond_wait unlocks it in between.
    unsafe { lock_api::MutexGuard::mutex(guard).raw().as_ptr() }
}
