// SPDX-License-Identifier: MIT
//! Why clients were refused, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use serde::Serialize;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The refused clients, by reason. One reason more is in `Stats`: there are monitors that do not tell it.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Serialize,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
)]
#[repr(C)]
pub struct Refused {
    /// What it said is no message of ours, or carried descriptors, or is of a program that an emulator runs for another
    /// architecture.
    pub malformed: u64,
    /// It speaks another version of the ABI.
    pub other_version: u64,
    /// It did not finish its message within a second.
    pub too_slow: u64,
    /// Its user has too many connections at once, made too many, or left too many answers unread.
    pub too_many: u64,
    /// The user who connected may not trace it: it is setuid, say.
    pub not_permitted: u64,
    /// It has more threads than a process that registers may have.
    pub too_many_threads: u64,
    /// It has more images or windows than fit a record.
    pub too_large: u64,
    /// It had ended, run another program or hung up, or is in a PID namespace that the monitor cannot see.
    pub gone: u64,
    /// The monitor's own failure, such as a lack of memory.
    pub other: u64,
}

impl Refused {
    /// Each reason, as the field is called, with its number.
    pub fn reasons(&self) -> [(&'static str, u64); REASONS] {
        [
            ("malformed", self.malformed),
            ("other_version", self.other_version),
            ("too_slow", self.too_slow),
            ("too_many", self.too_many),
            ("not_permitted", self.not_permitted),
            ("too_many_threads", self.too_many_threads),
            ("too_large", self.too_large),
            ("gone", self.gone),
            ("other", self.other),
        ]
    }

    pub fn total(&self) -> u64 {
        self.reasons().iter().map(|(_, number)| number).sum()
    }
}

const REASONS: usize = size_of::<Refused>() / size_of::<u64>();

/// Counts; read by other threads.
#[derive(Debug, Default)]
pub struct Refusals {
    by_field: [AtomicU64; REASONS],
    too_many_programs: AtomicU64,
}

impl Refusals {
    pub fn count(&self, errno: Errno) {
        let counter = match errno {
            Errno::EDQUOT => &self.too_many_programs,
            _ => &self.by_field[place(errno)],
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// By reason, and those whose user has too many registered programs.
    pub fn read(&self) -> (Refused, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let numbers: [u64; REASONS] = std::array::from_fn(|i| read(&self.by_field[i]));
        (zerocopy::transmute!(numbers), read(&self.too_many_programs))
    }
}

/// The field of `Refused` that counts what is answered with this number.
fn place(errno: Errno) -> usize {
    match errno {
        Errno::EPROTO | Errno::EINVAL | Errno::EBADMSG | Errno::ENOEXEC => 0,
        Errno::EPROTONOSUPPORT => 1,
        Errno::ETIMEDOUT => 2,
        Errno::EAGAIN | Errno::EBUSY => 3,
        Errno::EPERM => 4,
        Errno::E2BIG => 5,
        Errno::ENOSPC => 6,
        Errno::ESRCH | Errno::ECONNRESET => 7,
        _ => REASONS - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_under_its_own_name() {
        let reasons = [
            ("malformed", Errno::EINVAL),
            ("other_version", Errno::EPROTONOSUPPORT),
            ("too_slow", Errno::ETIMEDOUT),
            ("too_many", Errno::EBUSY),
            ("not_permitted", Errno::EPERM),
            ("too_many_threads", Errno::E2BIG),
            ("too_large", Errno::ENOSPC),
            ("gone", Errno::ECONNRESET),
            ("other", Errno::ENOMEM),
        ];
        for (i, (name, errno)) in reasons.into_iter().enumerate() {
            let refusals = Refusals::default();
            refusals.count(errno);
            let (refused, full) = refusals.read();
            assert_eq!(full, 0);
            assert_eq!((refused.reasons()[i], refused.total()), ((name, 1), 1));
            // The same name in JSON.
            assert_eq!(serde_json::to_value(refused).unwrap()[name], 1);
        }
        assert_eq!(place(Errno::ENOEXEC), place(Errno::EINVAL)); // both speak of the message
        let refusals = Refusals::default();
        refusals.count(Errno::EDQUOT);
        assert_eq!(refusals.read(), (Refused::default(), 1));
    }
}
