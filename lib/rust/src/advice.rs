// SPDX-License-Identifier: MIT
//! For locks, barriers and wait loops of a program's own: what its threads tell the monitor, and what a waiter is
//! advised to do.
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use flexguard::advice::{Handle, Section, Wait};
//!
//! static OWNER: AtomicU64 = AtomicU64::new(0);
//!
//! fn lock() -> Section {
//!     let me = Handle::of_this_thread().number();
//!     let mut wait = Wait::new();
//!     loop {
//!         let section = Section::begin();
//!         match OWNER.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
//!             Ok(_) => return section,
//!             Err(owner) => {
//!                 drop(section);
//!                 wait.for_thread(Handle::from_number(owner)).once();
//!             }
//!         }
//!     }
//! }
//!
//! let section = lock();
//! OWNER.store(0, Ordering::Release);
//! drop(section);
//! ```

use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::ffi;

/// While it lives its thread is in a section: others wait, or may soon wait, for what the thread does. Sections nest. One
/// that is leaked leaves its thread counted as in a section.
#[derive(Debug)]
#[must_use = "the section ends when this is dropped"]
pub struct Section {
    /// It ends in the thread that it began in.
    stays: PhantomData<*const ()>,
}

impl Section {
    /// Begun before the attempt to take a lock, it covers the instruction that takes it.
    pub fn begin() -> Self {
        // SAFETY: thread-safe, without conditions.
        unsafe { ffi::fg_section_begin() };
        Self { stays: PhantomData }
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        // SAFETY: this thread began it.
        unsafe { ffi::fg_section_end() }
    }
}

/// Names a thread to its waiters, in every process that shares memory with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Handle(NonZeroU64);

impl Handle {
    /// The calling thread's, the same until it ends.
    #[must_use]
    pub fn of_this_thread() -> Self {
        // SAFETY: thread-safe, without conditions.
        let number = unsafe { ffi::fg_thread_handle() };
        Self(NonZeroU64::new(number).expect("fg_thread_handle is never 0"))
    }

    /// To keep it in a lock's word. Bit 31 and the bits from 56 on are 0.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0.get()
    }

    /// Of what a lock's word says; None: 0.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }
}

/// What a waiter is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Spin,
    Yield,
    /// At most for so long; better until woken.
    Sleep(Duration),
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The thread, or each thread in a section, is on its CPU as far as is known.
    Runs,
    /// It, or one of them, is runnable and off its CPU.
    Preempted,
    /// It sleeps in its section.
    Asleep,
    /// More threads are waited for than there are CPUs beside this one's.
    TooMany,
    /// The wait has been long, for no reason that is known.
    Long,
    /// No monitor says anything.
    Unmonitored,
    /// One that a newer library gives.
    Other,
}

/// An answer about a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    pub action: Action,
    pub reason: Reason,
}

impl From<ffi::Advice> for Advice {
    fn from(said: ffi::Advice) -> Self {
        Self {
            action: match said.action {
                0 => Action::Spin,
                1 => Action::Yield,
                _ => Action::Sleep(Duration::from_nanos(said.sleep_ns)),
            },
            reason: match said.reason {
                0 => Reason::Runs,
                1 => Reason::Preempted,
                2 => Reason::Asleep,
                3 => Reason::TooMany,
                4 => Reason::Long,
                5 => Reason::Unmonitored,
                _ => Reason::Other,
            },
        }
    }
}

/// One wait, from its first look to its last.
pub struct Wait(ffi::Wait);

impl Default for Wait {
    fn default() -> Self {
        Self::new()
    }
}

impl Wait {
    /// For something of which nothing is known.
    #[must_use]
    pub const fn new() -> Self {
        Self(ffi::Wait {
            whom: 0,
            number: 0,
            looks: 0,
        })
    }

    /// For that thread, which is in a section.
    pub fn for_thread(&mut self, whom: Option<Handle>) -> &mut Self {
        self.0.whom = whom.map_or(0, Handle::number);
        self
    }

    /// For so many threads, which are in sections.
    pub fn for_number(&mut self, number: u32) -> &mut Self {
        (self.0.whom, self.0.number) = (0, number);
        self
    }

    /// What to do. Does not count as a look.
    #[must_use]
    pub fn advice(&self) -> Advice {
        // SAFETY: the record outlives the call.
        unsafe { ffi::fg_wait_advice(&raw const self.0) }.into()
    }

    /// Asks, does it, and counts one look.
    pub fn once(&mut self) -> Advice {
        // SAFETY: as above.
        unsafe { ffi::fg_wait_once(&raw mut self.0) }.into()
    }
}
