// SPDX-License-Identifier: MIT
//! How many processes of each user are registered, and whether any are.
//!
//! Processes end, and inherit registrations, without a word to the server. So it looks at all of the machine now and
//! then, and adds what it registers itself meanwhile. A user who has as many as one may have registers no more, and its
//! forks inherit nothing (bpf/census.h; FG_FULL_USERS users at a time), until a later look finds fewer. Where no process
//! is left that is registered, or that wants slice forecasts, the kernel half goes back to doing nothing for them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use flexguard_abi::FG_WANT_SLICE_FORECAST;
use nix::errno::Errno;

use crate::kernel::Kernel;
use crate::records::{FG_FULL_USERS, fg_full_users};

/// Between looks, at least.
const INTERVAL: Duration = Duration::from_secs(1);
/// And at least so many times as long as the last look took,
const PAUSES: u32 = 1000;
/// but for a look that so many forks make necessary, which have inherited a registration since the last one.
const MANY_FORKS: u64 = 1024;

#[derive(Debug)]
pub struct Census {
    /// How many each user has, at most: what the last look found, and the registrations since.
    of_user: HashMap<u32, u32>,
    most_of_one_user: u32,
    ended: Instant,
    took: Duration,
    /// How many processes had ever inherited a registration, before the last look.
    inherited: u64,
}

impl Census {
    pub fn new(kernel: &Kernel, most_of_one_user: u32) -> Result<Census, Errno> {
        let mut census = Census {
            of_user: HashMap::new(),
            most_of_one_user,
            ended: Instant::now(),
            took: Duration::ZERO,
            inherited: 0,
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
        let since = self.ended.elapsed();
        if since < INTERVAL || (since < self.took * PAUSES && !self.are_many_forks(kernel)) {
            return Ok(());
        }
        self.look(kernel)
    }

    fn are_many_forks(&self, kernel: &Kernel) -> bool {
        let few = |inherited| inherited < self.inherited + MANY_FORKS;
        !kernel.inherited().is_ok_and(few)
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
        self.inherited = kernel.inherited()?;
        if kernel.watches_any()? {
            let processes = kernel.census()?;
            self.of_user.clear();
            processes.iter().for_each(|process| self.count(process.uid));
            let wants = |flag| processes.iter().any(|process| process.wants & flag != 0);
            // A process that was forked behind the iterator's back may be registered.
            if kernel.inherited()? == self.inherited {
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::sys::wait::waitpid;
    use nix::unistd::{ForkResult, fork};
    use rustix::process::{PidfdFlags, getpid, pidfd_open};

    use super::*;
    use crate::message::Registration;
    use crate::{DomainKind, Keeper};

    /// Where there is no BPF, the monitor's other tests say so.
    fn load() -> Option<Kernel> {
        let (object, machine) = (crate::kernel::OBJECT, DomainKind::Machine);
        Kernel::load(object, false, Keeper::Nobody, machine).ok()
    }

    fn has_looked(census: &mut Census, kernel: &Kernel) -> bool {
        let before = census.ended;
        census.look_now_and_then(kernel).unwrap();
        census.ended != before
    }

    #[test]
    fn many_forks_are_counted_within_a_second_whatever_it_costs() {
        let Some(kernel) = load() else { return };
        let image = Registration {
            block_offset: -4096,
            flags: 0,
            windows: vec![],
        };
        let this = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        kernel.register(this.as_fd(), &image, || Ok(())).unwrap();
        let mut census = Census::new(&kernel, u32::MAX).unwrap();
        census.took = Duration::from_secs(1);
        census.ended = Instant::now() - INTERVAL;
        assert!(!has_looked(&mut census, &kernel), "the next is in 1,000 s");
        for _ in 0..MANY_FORKS {
            // SAFETY: the child does nothing but end.
            match unsafe { fork() }.unwrap() {
                // SAFETY: as above.
                ForkResult::Child => unsafe { libc::_exit(0) },
                ForkResult::Parent { child } => drop(waitpid(child, None)),
            }
        }
        assert!(has_looked(&mut census, &kernel));
        assert!(
            !has_looked(&mut census, &kernel),
            "that was less than a second ago"
        );
    }
}
