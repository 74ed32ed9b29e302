// SPDX-License-Identifier: MIT
//! Against whom what a client takes of the server is held: as the records of its program are (`account_of` of
//! bpf/domains.h), so that a user who can make ids, namespaces or control groups gets no more of either.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::kernel::Kernel;

/// Those of processes that have gone, or that the monitor cannot see.
const NOBODY: u64 = u64::MAX;
/// How long an account is remembered: to ask for it costs about as much as to refuse a client.
const TIME: Duration = Duration::from_millis(100);
/// So many are remembered.
const MOST: usize = 1024;

#[derive(Debug)]
pub struct Accounts<'a> {
    kernel: &'a Kernel,
    /// By process.
    known: HashMap<i32, u64>,
    since: Instant,
}

impl<'a> Accounts<'a> {
    pub fn new(kernel: &'a Kernel) -> Accounts<'a> {
        Accounts {
            kernel,
            known: HashMap::new(),
            since: Instant::now(),
        }
    }

    /// That of the process, as it was a moment ago.
    pub fn of(&mut self, pid: i32) -> u64 {
        if self.known.len() >= MOST || self.since.elapsed() >= TIME {
            self.known.clear();
            self.since = Instant::now();
        }
        let ask = || {
            let account = self.kernel.account_of(pid);
            account.unwrap_or_else(|errno| {
                tracing::debug!(%errno, pid, "cannot tell whose process a client is");
                None
            })
        };
        *self
            .known
            .entry(pid)
            .or_insert_with(|| ask().unwrap_or(NOBODY))
    }
}
