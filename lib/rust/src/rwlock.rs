// SPDX-License-Identifier: MIT

use std::cell::UnsafeCell;
use std::time::{Duration, Instant};

use libc::{CLOCK_MONOTONIC, c_int, timespec};
use lock_api::{GuardNoSend, RawRwLockRecursive, RawRwLockRecursiveTimed, RawRwLockTimed};

use crate::ffi;

/// The read-write lock itself: 16 bytes, `fg_rwlock` of the C library.
pub struct RawRwLock(UnsafeCell<ffi::RwLock>);

// SAFETY: the C calls are thread-safe, and the object holds nothing of the thread that made it.
unsafe impl Sync for RawRwLock {}
// SAFETY: as above; nothing points to an object that is not locked or waited for.
unsafe impl Send for RawRwLock {}

/// A read-write lock; neither readers nor writers starve. A thread may read what it reads already, also while a writer
/// waits.
///
/// ```
/// let table = flexguard::RwLock::new(vec![1, 2, 3]);
/// {
///     let first = table.read();
///     let second = table.read();
///     assert_eq!(first.len() + second.len(), 6);
///     assert!(table.try_write().is_none());
/// }
/// table.write().push(4);
/// assert_eq!(table.into_inner(), [1, 2, 3, 4]);
/// ```
///
/// # Panics
///
/// `read` and `write` panic where the calling thread holds the lock for writing, and `read` if 2^30 readers hold it.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// Gives up the shared lock when it is dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// Unlocks when it is dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

fn check(error: c_int) {
    assert_eq!(
        error, 0,
        "this thread holds the lock for writing, or 2^30 readers hold it"
    );
}

impl RawRwLock {
    fn as_ptr(&self) -> *mut ffi::RwLock {
        self.0.get()
    }

    fn read_until(&self, time: &timespec) -> bool {
        // SAFETY: the object is initialised and outlives the call; the time is valid.
        unsafe { ffi::fg_rwlock_timedrdlock(self.as_ptr(), CLOCK_MONOTONIC, time) == 0 }
    }

    fn write_until(&self, time: &timespec) -> bool {
        // SAFETY: as above.
        unsafe { ffi::fg_rwlock_timedwrlock(self.as_ptr(), CLOCK_MONOTONIC, time) == 0 }
    }
}

// SAFETY: fg_rwlock lets in one writer or any number of readers.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const)] // what lock_api asks for
    const INIT: Self = Self(UnsafeCell::new(ffi::RwLock::INIT));
    type GuardMarker = GuardNoSend; // the monitor counts the thread that locked

    fn lock_shared(&self) {
        // SAFETY: the object is initialised and outlives the call.
        check(unsafe { ffi::fg_rwlock_rdlock(self.as_ptr()) });
    }

    fn try_lock_shared(&self) -> bool {
        // SAFETY: as above.
        unsafe { ffi::fg_rwlock_tryrdlock(self.as_ptr()) == 0 }
    }

    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { ffi::fg_rwlock_unlock(self.as_ptr()) }
    }

    fn lock_exclusive(&self) {
        // SAFETY: the object is initialised and outlives the call.
        check(unsafe { ffi::fg_rwlock_wrlock(self.as_ptr()) });
    }

    fn try_lock_exclusive(&self) -> bool {
        // SAFETY: as above.
        unsafe { ffi::fg_rwlock_trywrlock(self.as_ptr()) == 0 }
    }

    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { ffi::fg_rwlock_unlock(self.as_ptr()) }
    }
}

// SAFETY: as above, with a deadline.
unsafe impl RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.read_until(&ffi::from_now(timeout))
    }

    fn try_lock_shared_until(&self, timeout: Instant) -> bool {
        self.read_until(&ffi::until(timeout))
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.write_until(&ffi::from_now(timeout))
    }

    fn try_lock_exclusive_until(&self, timeout: Instant) -> bool {
        self.write_until(&ffi::until(timeout))
    }
}

// SAFETY: a thread that reads is not kept out by a writer that waits (lib/sync/rwlock.h, I4).
unsafe impl RawRwLockRecursive for RawRwLock {
    fn lock_shared_recursive(&self) {
        lock_api::RawRwLock::lock_shared(self);
    }

    fn try_lock_shared_recursive(&self) -> bool {
        lock_api::RawRwLock::try_lock_shared(self)
    }
}

// SAFETY: as above, with a deadline.
unsafe impl RawRwLockRecursiveTimed for RawRwLock {
    fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool {
        self.try_lock_shared_for(timeout)
    }

    fn try_lock_shared_recursive_until(&self, timeout: Instant) -> bool {
        self.try_lock_shared_until(timeout)
    }
}
