// SPDX-License-Identifier: MIT
//! What the processes of a user share: a domain, and how many of them may be registered.

use super::*;
use crate::records::{
    FG_BUDGET_BARREN, FG_BUDGET_FOUND, FG_BUDGET_FREED, FG_BUDGET_LEFT, fg_counted_process,
    fg_full_accounts, fg_rest_args, fg_search_args,
};

impl Kernel {
    /// fg_tie gives the process a domain. If it has to share one, those that no process is in are freed, and it tries again.
    pub(super) fn need_domain(&self, pidfd: BorrowedFd<'_>) -> Result<(), Errno> {
        let record = self.record(pidfd)?;
        let without =
            record.is_some_and(|record| record.n_images == 0 && self.is_without_domain(&record));
        if !without || !self.free_domains()? {
            return Ok(());
        }
        self.tie_record(pidfd)
    }

    /// Of the domains and tables, those that no process has. Looks at every thread of the machine, so not too often;
    /// false: not now.
    pub(super) fn free_domains(&self) -> Result<bool, Errno> {
        let mut searched = self.searched.lock().expect("nobody panics with it");
        if searched.is_some_and(|at| at.elapsed() < SEARCH_INTERVAL) {
            return Ok(false);
        }
        *searched = Some(Instant::now());
        self.search_domains(false)?;
        self.iterate("fg_mark_domains", Default::default())?;
        self.search_domains(true)?;
        self.free_tables()?;
        Ok(true)
    }

    /// Against whom what the process takes of the monitor is held; None: it has gone.
    pub fn account_of(&self, pid: i32) -> Result<Option<u64>, Errno> {
        if pid <= 0 {
            return Ok(None); // in a PID namespace that is not below ours; and 0 would be all tasks to the iterator
        }
        let mut process = libbpf_sys::bpf_iter_link_info::default();
        process.task.tid = pid as u32;
        let written = self.iterate("fg_account", process)?;
        let account = written.first_chunk();
        Ok(account.map(|bytes| u64::from_ne_bytes(*bytes)))
    }

    fn search_domains(&self, ends: bool) -> Result<(), Errno> {
        let mut args = fg_search_args {
            ends: ends.into(),
            pad: 0,
        };
        self.run("fg_search_domains", Some(args.as_mut_bytes()))
    }

    /// The registered processes: whose they are, and what they want. From now on the budget is what the records that were
    /// found leave of `most` bytes, and what was taken from it meanwhile.
    pub fn census(&self, most: i64) -> Result<Vec<fg_counted_process>, Errno> {
        let (before, freed) = (self.budget(FG_BUDGET_LEFT)?, self.budget(FG_BUDGET_FREED)?);
        self.write_budget(FG_BUDGET_FOUND, 0)?;
        let counted = self.iterate("fg_census", Default::default())?;
        let freed = self.budget(FG_BUDGET_FREED)? - freed;
        let meanwhile = (before + freed - self.budget(FG_BUDGET_LEFT)?).max(0);
        self.set_budget(most - self.budget(FG_BUDGET_FOUND)? - meanwhile)?;
        records_of(&counted)
    }

    fn budget(&self, entry: u32) -> Result<i64, Errno> {
        let value = self.budget.lookup(&entry.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(errno)?.ok_or(Errno::EIO)?;
        let bytes = value.first_chunk().ok_or(Errno::EIO)?;
        Ok(i64::from_ne_bytes(*bytes))
    }

    fn write_budget(&self, entry: u32, number: i64) -> Result<(), Errno> {
        let (key, value) = (entry.to_ne_bytes(), number.to_ne_bytes());
        self.budget
            .update(&key, &value, MapFlags::ANY)
            .map_err(errno)
    }

    /// How many bytes records may take from now on.
    pub fn set_budget(&self, left: i64) -> Result<(), Errno> {
        self.write_budget(FG_BUDGET_LEFT, left)
    }

    /// How many bytes they may still take.
    pub fn budget_left(&self) -> Result<i64, Errno> {
        self.budget(FG_BUDGET_LEFT)
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
    pub fn set_full_accounts(&self, full: &fg_full_accounts) -> Result<(), Errno> {
        self.full_accounts
            .update(&KEY_ZERO, full.as_bytes(), MapFlags::ANY)
            .map_err(errno)
    }

    /// How many forks inherited none, for that or for lack of budget.
    pub fn barren_forks(&self) -> Result<u64, Error> {
        let number = self.budget(FG_BUDGET_BARREN);
        Ok(number.map_err(os("reading its counts"))? as u64)
    }
}
