// SPDX-License-Identifier: MIT
//! What the processes of a user share: a domain, and how many of them may be registered.

use super::*;
use crate::records::{fg_counted_process, fg_full_users, fg_rest_args, fg_search_args};

impl Kernel {
    /// fg_adopt gives the process a domain. If it has to share one, those that no process is in are freed, and it tries again.
    pub(super) fn need_domain(&self, pidfd: BorrowedFd<'_>) -> Result<(), Errno> {
        let record = self.record(pidfd)?;
        let without =
            record.is_some_and(|record| record.n_images == 0 && self.is_without_domain(&record));
        if !without || !self.free_domains()? {
            return Ok(());
        }
        self.adopt_threads(pidfd)
    }

    /// Looks at every thread of the machine, so not too often; false: not now.
    fn free_domains(&self) -> Result<bool, Errno> {
        let mut searched = self.searched.lock().expect("nobody panics with it");
        if searched.is_some_and(|at| at.elapsed() < SEARCH_INTERVAL) {
            return Ok(false);
        }
        *searched = Some(Instant::now());
        self.search_domains(false)?;
        self.iterate("fg_mark_domains", Default::default())?;
        self.search_domains(true)?;
        Ok(true)
    }

    fn search_domains(&self, ends: bool) -> Result<(), Errno> {
        let mut args = fg_search_args {
            ends: ends.into(),
            pad: 0,
        };
        self.run("fg_search_domains", Some(args.as_mut_bytes()))
    }

    /// The registered processes: whose they are, and what they want.
    pub fn census(&self) -> Result<Vec<fg_counted_process>, Errno> {
        self.iterate("fg_census", Default::default())
            .and_then(|bytes| records_of(&bytes))
    }

    /// False: no process is registered.
    pub fn watches_any(&self) -> Result<bool, Errno> {
        let page = self.shared_page();
        Ok(page.any_process != 0 || page.slices_wanted != 0)
    }

    /// How many processes have ever inherited a registration.
    pub fn inherited(&self) -> Result<u64, Errno> {
        let counts = self.cpu_counts().map_err(|_| Errno::EIO)?;
        Ok(counts.inherited_processes)
    }

    /// Tells the kernel half what it need not do: watch any process, forecast slices.
    pub fn rest(&self, any: bool, slices: bool) -> Result<(), Errno> {
        let mut args = fg_rest_args {
            any: any.into(),
            slices: slices.into(),
        };
        self.run("fg_rest", Some(args.as_mut_bytes()))
    }

    /// Whose forks inherit no registration from now on.
    pub fn set_full_users(&self, full: &fg_full_users) -> Result<(), Errno> {
        self.full_users
            .update(&KEY_ZERO, full.as_bytes(), MapFlags::ANY)
            .map_err(errno)
    }

    /// How many forks inherited none, for that.
    pub fn barren_forks(&self) -> Result<u64, Error> {
        let value = self
            .barren_forks
            .lookup(&KEY_ZERO, MapFlags::ANY)
            .map_err(bpf("reading its counts"))?;
        let number = value.and_then(|bytes| Some(u64::from_ne_bytes(*bytes.first_chunk()?)));
        Ok(number.unwrap_or_default())
    }
}
