// SPDX-License-Identifier: MIT
//! How many processes of each user are registered, and whether any are.
//!
//! Processes end, and inherit registrations, without a word to the server. So it looks at all of the machine now and
//! then, and adds what it registers itself meanwhile. A user who has as many as one may have registers no more, and its
//! forks inherit nothing (bpf/census.h), until a later look finds fewer. Where no process is left that is registered, or
//! that wants slice forecasts, the kernel half goes back to doing nothing for them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use flexguard_abi::FG_WANT_SLICE_FORECAST;
use nix::errno::Errno;

use crate::kernel::Kernel;
use crate::records::{FG_FULL_USERS, fg_full_users};

/// Between looks, at least.
const INTERVAL: Duration = Duration::from_secs(1);
/// And at least so many times as long as the last look took.
const PAUSES: u32 = 1000;

#[derive(Debug)]
pub struct Census {
    /// How many each user has, at most: what the last look found, and the registrations since.
    of_user: HashMap<u32, u32>,
    most_of_one_user: u32,
    ended: Instant,
    took: Duration,
}

impl Census {
    pub fn new(kernel: &Kernel, most_of_one_user: u32) -> Result<Census, Errno> {
        let mut census = Census {
            of_user: HashMap::new(),
            most_of_one_user,
            ended: Instant::now(),
            took: Duration::ZERO,
        };
        census.look(kernel)?;
        Ok(census)
    }

    /// One more process of this user is registered.
    pub fn add(&mut self, uid: u32, kernel: &Kernel) -> Result<(), Errno> {
        self.count(uid);
        match self.is_full(uid) {
            true => kernel.set_full_users(&self.full_users()),
            false => Ok(()),
        }
    }

    fn count(&mut self, uid: u32) {
        *self.of_user.entry(uid).or_insert(0) += 1;
    }

    /// To be called often.
    pub fn look_now_and_then(&mut self, kernel: &Kernel) -> Result<(), Errno> {
        let pause = INTERVAL.max(self.took * PAUSES);
        if self.ended.elapsed() >= pause {
            self.look(kernel)?;
        }
        Ok(())
    }

    /// Has the user as many as one may have? Some may have ended since the last look.
    pub fn is_full(&self, uid: u32) -> bool {
        let number = self.of_user.get(&uid);
        number.is_some_and(|&number| number >= self.most_of_one_user)
    }

    /// Walks all threads of the machine.
    pub fn look(&mut self, kernel: &Kernel) -> Result<(), Errno> {
        let begin = Instant::now();
        let looked = self.count_all(kernel);
        // Also where it fails: the next try has its time, too.
        self.ended = Instant::now();
        self.took = self.ended - begin;
        looked
    }

    fn count_all(&mut self, kernel: &Kernel) -> Result<(), Errno> {
        if kernel.watches_any()? {
            let inherited = kernel.inherited()?;
            let processes = kernel.census()?;
            self.of_user.clear();
            processes.iter().for_each(|process| self.count(process.uid));
            let wants = |flag| processes.iter().any(|process| process.wants & flag != 0);
            // A process that was forked behind the iterator's back may be registered.
            if kernel.inherited()? == inherited {
                kernel.rest(!processes.is_empty(), wants(FG_WANT_SLICE_FORECAST))?;
            }
            kernel.set_full_users(&self.full_users())?;
        } else {
            self.of_user.clear();
        }
        Ok(())
    }

    fn full_users(&self) -> fg_full_users {
        let mut full = fg_full_users {
            number: 0,
            uid: [0; FG_FULL_USERS as usize],
        };
        let users = self.of_user.keys().filter(|uid| self.is_full(**uid));
        for (place, &uid) in full.uid.iter_mut().zip(users) {
            *place = uid;
            full.number += 1;
        }
        full
    }
}
