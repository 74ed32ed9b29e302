// SPDX-License-Identifier: MIT
//! include/flexguard/*.h, what is used of it. Zeroed objects are free.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use libc::{c_int, clockid_t, timespec};

#[repr(C)]
pub struct Mutex {
    opaque: [u64; 2],
}

#[repr(C)]
pub struct RwLock {
    opaque: [u64; 2],
}

#[repr(C)]
pub struct Cond {
    opaque: [u32; 2],
}

#[repr(C)]
pub struct Wait {
    pub whom: u64,
    pub number: u32,
    pub looks: u32,
}

#[repr(C)]
pub struct Advice {
    pub action: u32,
    pub reason: u32,
    pub sleep_ns: u64,
}

impl Mutex {
    pub const INIT: Self = Self { opaque: [0; 2] };
}

impl RwLock {
    pub const INIT: Self = Self { opaque: [0; 2] };
}

impl Cond {
    pub const INIT: Self = Self { opaque: [0; 2] };
}

unsafe extern "C" {
    pub fn fg_mutex_lock(m: *mut Mutex);
    pub fn fg_mutex_trylock(m: *mut Mutex) -> c_int;
    pub fn fg_mutex_timedlock(m: *mut Mutex, clock: clockid_t, abs: *const timespec) -> c_int;
    pub fn fg_mutex_unlock(m: *mut Mutex);

    pub fn fg_rwlock_rdlock(l: *mut RwLock) -> c_int;
    pub fn fg_rwlock_wrlock(l: *mut RwLock) -> c_int;
    pub fn fg_rwlock_tryrdlock(l: *mut RwLock) -> c_int;
    pub fn fg_rwlock_trywrlock(l: *mut RwLock) -> c_int;
    pub fn fg_rwlock_timedrdlock(l: *mut RwLock, clock: clockid_t, abs: *const timespec) -> c_int;
    pub fn fg_rwlock_timedwrlock(l: *mut RwLock, clock: clockid_t, abs: *const timespec) -> c_int;
    pub fn fg_rwlock_unlock(l: *mut RwLock);

    pub fn fg_cond_wait(c: *mut Cond, m: *mut Mutex);
    pub fn fg_cond_timedwait(
        c: *mut Cond,
        m: *mut Mutex,
        clock: clockid_t,
        abs: *const timespec,
    ) -> c_int;
    pub fn fg_cond_signal(c: *mut Cond);
    pub fn fg_cond_broadcast(c: *mut Cond);

    pub fn fg_section_begin();
    pub fn fg_section_end();
    pub fn fg_thread_handle() -> u64;
    pub fn fg_wait_advice(w: *const Wait) -> Advice;
    pub fn fg_wait_once(w: *mut Wait) -> Advice;

    pub fn fg_critical_section_preempted() -> bool;
    pub fn fg_monitor_attached() -> bool;
}

/// The time of CLOCK_MONOTONIC in `duration`; the last time that there is, if that is beyond.
pub fn from_now(duration: Duration) -> timespec {
    let mut now = MaybeUninit::<timespec>::uninit();
    // SAFETY: writes a timespec to `now`, and does not fail for this clock.
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    };
    let ns = now.tv_nsec + libc::c_long::from(duration.subsec_nanos().cast_signed());
    let carry = ns / 1_000_000_000;
    let tv_sec = libc::time_t::try_from(duration.as_secs())
        .ok()
        .and_then(|s| s.checked_add(now.tv_sec))
        .and_then(|s| s.checked_add(carry))
        .unwrap_or(libc::time_t::MAX);
    timespec {
        tv_sec,
        tv_nsec: ns % 1_000_000_000,
    }
}

/// The same of an `Instant`, which does not tell its own number.
pub fn until(time: Instant) -> timespec {
    from_now(time.saturating_duration_since(Instant::now()))
}
