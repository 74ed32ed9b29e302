// SPDX-License-Identifier: MIT
//! parking_lot's mutex.

use std::process::ExitCode;

use parking_lot::RawMutex;
use parking_lot::lock_api::RawMutex as _;

const _: () = assert!(size_of::<RawMutex>() == 1 && align_of::<RawMutex>() == 1);

#[unsafe(no_mangle)]
extern "C" fn fgb_peer_lock(lock: &RawMutex) {
    lock.lock();
}

/// # Safety
///
/// The calling thread holds the lock.
#[unsafe(no_mangle)]
unsafe extern "C" fn fgb_peer_unlock(lock: &RawMutex) {
    // SAFETY: the caller holds it.
    unsafe { lock.unlock() };
}

fn main() -> ExitCode {
    flexguard_peers::main()
}

#[test]
fn zeroed_memory_is_unlocked() {
    // SAFETY: it is an atomic byte, of which 0 is a value.
    let lock: RawMutex = unsafe { std::mem::zeroed() };
    assert!(!lock.is_locked());
    fgb_peer_lock(&lock);
    assert!(!lock.try_lock());
    // SAFETY: this thread has just taken it.
    unsafe { fgb_peer_unlock(&lock) };
    assert!(lock.try_lock());
}
