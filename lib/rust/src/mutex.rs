// SPDX-License-Identifier: MIT

use std::cell::UnsafeCell;
use std::time::{Duration, Instant};

use libc::{CLOCK_MONOTONIC, timespec};
use lock_api::{GuardNoSend, RawMutexTimed};

use crate::ffi;

/// The mutex itself: 16 bytes, `fg_mutex` of the C library. Not recursive: a thread that locks what it holds waits for
/// ever.
pub struct RawMutex(UnsafeCell<ffi::Mutex>);

// SAFETY: the C calls are thread-safe, and the object holds nothing of the thread that made it.
unsafe impl Sync for RawMutex {}
// SAFETY: as above; nothing points to an object that is not locked or waited for.
unsafe impl Send for RawMutex {}

/// A mutex that spins while its holder runs and blocks while it is preempted.
///
/// ```
/// use flexguard::Mutex;
/// use std::{thread, time::Duration};
///
/// let total = Mutex::new(0);
/// thread::scope(|scope| {
///     for i in 0..4 {
///         let total = &total;
///         scope.spawn(move || *total.lock() += i);
///     }
/// });
/// assert_eq!(total.into_inner(), 6);
///
/// let mutex = Mutex::new(());
/// let guard = mutex.lock();
/// assert!(mutex.try_lock().is_none());
/// assert!(mutex.try_lock_for(Duration::from_millis(1)).is_none());
/// drop(guard);
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// Unlocks the mutex when it is dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

impl RawMutex {
    pub(crate) fn as_ptr(&self) -> *mut ffi::Mutex {
        self.0.get()
    }

    fn lock_until(&self, time: &timespec) -> bool {
        // SAFETY: the object is initialised and outlives the call; the time is valid.
        unsafe { ffi::fg_mutex_timedlock(self.as_ptr(), CLOCK_MONOTONIC, time) == 0 }
    }
}

// SAFETY: fg_mutex excludes; the default lock of `flexguard list`.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)] // what lock_api asks for
    const INIT: Self = Self(UnsafeCell::new(ffi::Mutex::INIT));
    type GuardMarker = GuardNoSend; // the monitor counts the thread that locked

    fn lock(&self) {
        // SAFETY: the object is initialised and outlives the call.
        unsafe { ffi::fg_mutex_lock(self.as_ptr()) }
    }

    fn try_lock(&self) -> bool {
        // SAFETY: as above.
        unsafe { ffi::fg_mutex_trylock(self.as_ptr()) == 0 }
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the mutex.
        unsafe { ffi::fg_mutex_unlock(self.as_ptr()) }
    }
}

// SAFETY: as above, with a deadline.
unsafe impl RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.lock_until(&ffi::from_now(timeout))
    }

    fn try_lock_until(&self, timeout: Instant) -> bool {
        self.lock_until(&ffi::until(timeout))
    }
}
