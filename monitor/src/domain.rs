// SPDX-License-Identifier: MIT
//! Domains: the processes that poll one counter of preempted critical sections (`struct fg_domain` of the ABI).

use std::fmt;

use flexguard_abi::{FG_DOMAIN_CGROUP, FG_DOMAIN_CPUSET, FG_DOMAIN_MACHINE, FG_DOMAIN_USER};
use serde::{Serialize, Serializer};

use crate::records::{FG_CLASS_DOMAINS, FG_COMMON_DOMAINS, FG_SHARED_KEY};

/// What the processes of a domain have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DomainKind {
    /// All processes of the machine poll one counter.
    Machine,
    /// Those of a user, by its real user id, do.
    #[default]
    User,
    /// Those of a control group do.
    Cgroup,
    /// Those that may use the same CPUs do.
    Cpuset,
}

impl DomainKind {
    pub(crate) fn number(self) -> u32 {
        match self {
            DomainKind::Machine => FG_DOMAIN_MACHINE,
            DomainKind::User => FG_DOMAIN_USER,
            DomainKind::Cgroup => FG_DOMAIN_CGROUP,
            DomainKind::Cpuset => FG_DOMAIN_CPUSET,
        }
    }

    /// Numbers that this build does not know are those of a kind that it does not know: it calls them `Machine`.
    pub fn of_number(number: u64) -> DomainKind {
        let kinds = [DomainKind::User, DomainKind::Cgroup, DomainKind::Cpuset];
        let known = kinds
            .into_iter()
            .find(|kind| u64::from(kind.number()) == number);
        known.unwrap_or(DomainKind::Machine)
    }

    pub(crate) fn write<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        DomainKind::of_number(*number).serialize(serializer)
    }
}

/// One domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    Machine,
    User(u32),
    /// The kernel's number of the control group: the inode of its directory.
    Cgroup(u64),
    /// The CPUs: bit c is CPU c, or a hash where there are more than 56 (bpf/domains.h).
    Cpuset(u64),
    /// Of several that came when all others were taken; its number.
    Shared(u64),
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Domain::Machine => f.write_str("machine"),
            Domain::User(uid) => write!(f, "user {uid}"),
            Domain::Cgroup(id) => write!(f, "cgroup {id}"),
            Domain::Cpuset(cpus) => write!(f, "cpuset {cpus:x}"),
            Domain::Shared(number) => write!(f, "shared {number}"),
        }
    }
}

impl Domain {
    /// As fg_is_shared_domain of bpf/monitor.h.
    pub(crate) fn is_shared(number: u64) -> bool {
        number >= FG_COMMON_DOMAINS.into() && number & u64::from(FG_CLASS_DOMAINS) != 0
    }

    /// As the kernel half writes them.
    pub(crate) fn of_key(key: u64) -> Domain {
        let id = key & ((1 << 56) - 1);
        if key >> 56 == FG_SHARED_KEY >> 56 {
            return Domain::Shared(id);
        }
        match DomainKind::of_number(key >> 56) {
            DomainKind::Machine => Domain::Machine,
            DomainKind::User => Domain::User(id as u32),
            DomainKind::Cgroup => Domain::Cgroup(id),
            DomainKind::Cpuset => Domain::Cpuset(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_what_a_domain_has_in_common() {
        assert_eq!(Domain::of_key(0), Domain::Machine);
        assert_eq!(Domain::of_key((1 << 56) | 1000), Domain::User(1000));
        assert_eq!(Domain::of_key((2 << 56) | 77), Domain::Cgroup(77));
        assert_eq!(Domain::of_key(1 << 56), Domain::User(0));
        assert_eq!(Domain::of_key((4 << 56) | 75), Domain::Shared(75));
        let cpus = Domain::of_key((3 << 56) | 0b1011);
        assert_eq!(cpus.to_string(), "cpuset b");
    }

    #[test]
    fn kinds_and_numbers_name_each_other() {
        for kind in [
            DomainKind::Machine,
            DomainKind::User,
            DomainKind::Cgroup,
            DomainKind::Cpuset,
        ] {
            assert_eq!(DomainKind::of_number(kind.number().into()), kind);
        }
        assert_eq!(DomainKind::of_number(99), DomainKind::Machine);
    }
}
