// SPDX-License-Identifier: MIT
//! Barriers, read-write locks, the waiters of condition variables, and the MCS lock: barrier.c, rwlock.c, cond.c and
//! mcs.c beside this file.

use crate::machine::Machine;
use crate::{Object, PLACES, Setup};

type Places = *mut [usize; 2];

/// C's; what is in it only C knows.
#[repr(C)]
pub struct Opaque([u8; 0]);

unsafe extern "C-unwind" {
    fn fgo_barrier_new(n: u32, setup: *const Setup) -> *mut Opaque;
    fn fgo_barrier_places(o: *mut Opaque, places: Places) -> usize;
    fn fgo_barrier_wait(o: *mut Opaque) -> bool;
    fn fgo_barrier_destroy(o: *mut Opaque) -> i32;
    fn fgo_barrier_overwrite(o: *mut Opaque);
    fn fgo_barrier_store(o: *mut Opaque, i: u32);
    fn fgo_barrier_load(o: *mut Opaque, i: u32) -> u32;

    fn fgo_rw_new(n: u32, setup: *const Setup) -> *mut Opaque;
    fn fgo_rw_places(o: *mut Opaque, places: Places) -> usize;
    fn fgo_rw_write(o: *mut Opaque);
    fn fgo_rw_read(o: *mut Opaque);
    fn fgo_rw_write_for_a_while(o: *mut Opaque) -> bool;
    fn fgo_rw_forgets(o: *mut Opaque, tid: u32) -> bool;
    fn fgo_rw_try_write(o: *mut Opaque) -> bool;
    fn fgo_rw_try_read(o: *mut Opaque) -> bool;
    fn fgo_rw_unlock(o: *mut Opaque);
    fn fgo_rw_touch(o: *mut Opaque);
    fn fgo_rw_data(o: *mut Opaque) -> u32;

    fn fgo_mcs_new(n: u32, setup: *const Setup) -> *mut Opaque;
    fn fgo_mcs_places(o: *mut Opaque, places: Places) -> usize;
    fn fgo_mcs_lock(o: *mut Opaque);
    fn fgo_mcs_trylock(o: *mut Opaque) -> bool;
    fn fgo_mcs_unlock(o: *mut Opaque);
    fn fgo_mcs_touch(o: *mut Opaque);
    fn fgo_mcs_data(o: *mut Opaque) -> u32;

    fn fgo_cond_new(n: u32, setup: *const Setup) -> *mut Opaque;
    fn fgo_cond_places(o: *mut Opaque, places: Places) -> usize;
    fn fgo_cond_join(o: *mut Opaque, i: u32);
    fn fgo_cond_wait(o: *mut Opaque, i: u32);
    fn fgo_cond_leave(o: *mut Opaque, i: u32) -> bool;
    fn fgo_cond_signal(o: *mut Opaque);
    fn fgo_cond_move(o: *mut Opaque);
    fn fgo_cond_unlock(o: *mut Opaque, sleepers: bool);
    fn fgo_cond_broadcast(o: *mut Opaque);
    fn fgo_cond_touch(o: *mut Opaque);
    fn fgo_cond_data(o: *mut Opaque) -> u32;
}

/// A type for one kind of C's objects, and its calls.
macro_rules! object {
    ($(#[$about:meta])* $name:ident: $new:ident, $places:ident;
     $($(#[$what:meta])* $call:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? = $function:ident;)*) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        pub struct $name(*mut Opaque);

        // SAFETY: the threads of a model are coroutines on one thread of the system.
        unsafe impl Send for $name {}

        impl Object for $name {
            fn new(n: u32, setup: &Setup) -> $name {
                // SAFETY: a number below OBJECTS, and what C expects.
                $name(unsafe { $new(n, setup) })
            }

            fn places(self, places: &mut [[usize; 2]; PLACES]) -> usize {
                // SAFETY: C writes no more than fit.
                unsafe { $places(self.0, places.as_mut_ptr()) }
            }
        }

        impl $name {
            $($(#[$what])*
            pub fn $call(self, $($arg: $type),*) $(-> $result)? {
                Machine::get();
                // SAFETY: an object lives as long as the program.
                unsafe { $function(self.0, $($arg),*) }
            })*
        }
    };
}

object! {
    /// Of two threads.
    Barrier: fgo_barrier_new, fgo_barrier_places;
    wait() -> bool = fgo_barrier_wait;
    destroy() -> i32 = fgo_barrier_destroy;
    /// By plain accesses.
    overwrite() = fgo_barrier_overwrite;
    /// Adds 1 to a word of the program's, by plain accesses.
    store(i: u32) = fgo_barrier_store;
    load(i: u32) -> u32 = fgo_barrier_load;
}

object! {
    RwLock: fgo_rw_new, fgo_rw_places;
    write() = fgo_rw_write;
    read() = fgo_rw_read;
    /// With a deadline that comes soon, where time passes.
    write_for_a_while() -> bool = fgo_rw_write_for_a_while;
    /// A new lock begins at the address: is no entry of that thread left?
    forgets(tid: u32) -> bool = fgo_rw_forgets;
    try_write() -> bool = fgo_rw_try_write;
    try_read() -> bool = fgo_rw_try_read;
    unlock() = fgo_rw_unlock;
    /// Adds 1 to what the lock protects, by plain accesses.
    touch() = fgo_rw_touch;
    data() -> u32 = fgo_rw_data;
}

object! {
    Cond: fgo_cond_new, fgo_cond_places;
    join(i: u32) = fgo_cond_join;
    /// Until told; then the node is overwritten.
    wait(i: u32) = fgo_cond_wait;
    /// Returns whether it had a signal.
    leave(i: u32) -> bool = fgo_cond_leave;
    signal() = fgo_cond_signal;
    broadcast() = fgo_cond_broadcast;
    /// A broadcast of the holder of the mutex: unlocks tell the waiters.
    moves() = fgo_cond_move;
    /// Tells the waiters that are awake, and the sleepers or none: then one watches.
    unlock(sleepers: bool) = fgo_cond_unlock;
    touch() = fgo_cond_touch;
    data() -> u32 = fgo_cond_data;
}

object! {
    /// Of three threads.
    Mcs: fgo_mcs_new, fgo_mcs_places;
    lock() = fgo_mcs_lock;
    try_lock() -> bool = fgo_mcs_trylock;
    unlock() = fgo_mcs_unlock;
    /// Adds 1 to what the lock protects, by plain accesses.
    touch() = fgo_mcs_touch;
    data() -> u32 = fgo_mcs_data;
}
