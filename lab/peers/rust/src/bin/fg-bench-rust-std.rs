// SPDX-License-Identifier: MIT
//! std::sync::Mutex. It is unlocked by dropping its guard, which a Rust program keeps on the stack: here a place of the
//! thread's own stands in for that, as fg-bench never holds two locks at once.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

const _: () = assert!(size_of::<Mutex<()>>() == 8 && align_of::<Mutex<()>>() == 4);

thread_local! {
    static GUARD: Cell<MaybeUninit<MutexGuard<'static, ()>>> = const { Cell::new(MaybeUninit::uninit()) };
}

#[unsafe(no_mangle)]
extern "C" fn fgb_peer_lock(lock: &'static Mutex<()>) {
    let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    GUARD.set(MaybeUninit::new(guard));
}

/// # Safety
///
/// The calling thread holds the lock, and took it with fgb_peer_lock.
#[unsafe(no_mangle)]
unsafe extern "C" fn fgb_peer_unlock(_: &'static Mutex<()>) {
    // SAFETY: fgb_peer_lock has put the guard there.
    drop(unsafe { GUARD.replace(MaybeUninit::uninit()).assume_init() });
}

fn main() -> ExitCode {
    flexguard_peers::main()
}

#[test]
fn zeroed_memory_is_unlocked() {
    // SAFETY: on Linux it is a futex word and a flag, of both of which 0 is a value; the assertion above knows the size.
    let lock: &'static Mutex<()> = Box::leak(Box::new(unsafe { std::mem::zeroed() }));
    assert!(lock.try_lock().is_ok());
    fgb_peer_lock(lock);
    assert!(lock.try_lock().is_err());
    // SAFETY: this thread has just taken it.
    unsafe { fgb_peer_unlock(lock) };
    assert!(lock.try_lock().is_ok());
}
