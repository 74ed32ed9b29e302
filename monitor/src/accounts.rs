// SPDX-License-Identifier: MIT
//! Against whom what a client takes of the server is held: as the records of its program are (`account_of` of
//! bpf/domains.h), so that a user who can make ids, namespaces or control groups gets no more of either.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use flexguard_abi::FG_DOMAIN_USER;
use nix::errno::Errno;
use nix::sys::socket::UnixCredentials;

/// Those of processes that have gone, or that the monitor cannot see.
const NOBODY: u64 = u64::MAX;
/// How long an account is remembered: to ask for it costs about as much as to refuse a client.
const TIME: Duration = Duration::from_millis(100);
/// So many are remembered.
const MOST: usize = 1024;

#[derive(Debug)]
pub struct Accounts<Ask> {
    /// `Kernel::account_of`.
    ask: Ask,
    /// By process.
    known: HashMap<i32, u64>,
    since: Instant,
}

impl<Ask: Fn(i32) -> Result<Option<u64>, Errno>> Accounts<Ask> {
    pub fn new(ask: Ask) -> Accounts<Ask> {
        Accounts {
            ask,
            known: HashMap::new(),
            since: Instant::now(),
        }
    }

    /// That of the process, as it was a moment ago. Where the kernel half cannot tell (it may lack memory), that of the
    /// user who connected, until the next connection asks again.
    pub fn of(&mut self, peer: UnixCredentials) -> u64 {
        if self.known.len() >= MOST || self.since.elapsed() >= TIME {
            self.known.clear();
            self.since = Instant::now();
        }
        let pid = peer.pid();
        if let Some(&account) = self.known.get(&pid) {
            return account;
        }
        match (self.ask)(pid) {
            Ok(account) => *self.known.entry(pid).or_insert(account.unwrap_or(NOBODY)),
            Err(errno) => {
                tracing::debug!(%errno, pid, "cannot tell whose process a client is");
                of_user(peer.uid())
            }
        }
    }
}

/// As the kernel half has it for those whom it holds to account by their user id. Root, who has an account by control
/// group there, has one more here.
fn of_user(uid: u32) -> u64 {
    u64::from(FG_DOMAIN_USER) << 56 | u64::from(uid)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    fn peer(pid: i32, uid: u32) -> UnixCredentials {
        UnixCredentials::from(libc::ucred { pid, uid, gid: 0 })
    }

    #[test]
    fn where_the_kernel_cannot_tell_the_user_is_charged_and_it_is_asked_again() {
        let answer = Cell::new(Err(Errno::ENOMEM));
        let mut accounts = Accounts::new(|_| answer.get());
        let (one, other) = (accounts.of(peer(7, 1000)), accounts.of(peer(8, 1001)));
        let user = u64::from(FG_DOMAIN_USER) << 56;
        assert_eq!((one, other), (user | 1000, user | 1001));
        assert_ne!(accounts.of(peer(9, 0)), NOBODY);
        answer.set(Ok(Some(5)));
        assert_eq!(accounts.of(peer(7, 1000)), 5);
    }

    #[test]
    fn an_answer_is_remembered_and_those_that_have_gone_share_one() {
        let asked = RefCell::new(Vec::new());
        let mut accounts = Accounts::new(|pid| {
            asked.borrow_mut().push(pid);
            Ok(Some(5).filter(|_| pid == 7))
        });
        // What is remembered is forgotten all at once: not between these.
        accounts.since = Instant::now() + Duration::from_secs(3600);
        let found =
            [(7, 1), (8, 2), (7, 1), (8, 2), (9, 3)].map(|(pid, uid)| accounts.of(peer(pid, uid)));
        assert_eq!(found, [5, NOBODY, 5, NOBODY, NOBODY]);
        assert_eq!(*asked.borrow(), [7, 8, 9]);
    }
}
