// SPDX-License-Identifier: MIT
//! What the monitor has counted.

use serde::Serialize;

use crate::{Error, SocketName};

/// A snapshot. Everything but `num_preempted_cs` only grows, from the moment the monitor was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Critical threads that are runnable but off CPU now, system-wide.
    pub num_preempted_cs: u64,
    /// Preemptions of a thread that held a lock.
    pub preempted_holders: u64,
    /// Preemptions of the head of a queue.
    pub preempted_next_waiters: u64,
    /// `num_preempted_cs` went from 0 to 1: every lock on the machine turned to blocking.
    pub mode_transitions: u64,
    /// Critical preemptions that could not be counted, for want of a record.
    pub missed: u64,
    /// Context switches seen.
    pub switches: u64,
    /// Of these, those that took the CPU from a runnable thread of a registered process.
    pub registered_preemptions: u64,
    /// Processes that registered over the socket.
    pub registered_processes: u64,
    /// Processes that inherited a registration by fork.
    pub inherited_processes: u64,
    /// Registrations refused.
    pub rejected_registrations: u64,
    /// 1: the kernel keeps BPF run times, so the next two mean something.
    pub run_time_known: u64,
    /// Nanoseconds spent in the sched_switch program.
    pub run_time_ns: u64,
    /// Runs of it while the time was kept.
    pub run_count: u64,
}

impl Stats {
    /// Preempted critical sections, of either kind.
    pub fn preempted_critical_sections(&self) -> u64 {
        self.preempted_holders + self.preempted_next_waiters
    }

    /// Asks the monitor that listens on `socket`. Waits a second at most.
    pub fn query(socket: &SocketName) -> Result<Stats, Error> {
        let _ = socket;
        todo!()
    }
}
