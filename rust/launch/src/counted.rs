// SPDX-License-Identifier: MIT
//! What the monitor counted between two moments.

use flexguard_monitor::Stats;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub preempted_holders: u64,
    pub preempted_next_waiters: u64,
    pub mode_transitions: u64,
    pub missed: u64,
    pub switches: u64,
    pub registered_processes: u64,
}

impl Counted {
    /// Preempted critical sections, of either kind.
    pub fn preempted_critical_sections(&self) -> u64 {
        self.preempted_holders + self.preempted_next_waiters
    }

    /// None if the counters went back: that is another monitor than before.
    pub fn between(before: &Stats, after: &Stats) -> Option<Self> {
        Some(Self {
            preempted_holders: after
                .preempted_holders
                .checked_sub(before.preempted_holders)?,
            preempted_next_waiters: after
                .preempted_next_waiters
                .checked_sub(before.preempted_next_waiters)?,
            mode_transitions: after
                .mode_transitions
                .checked_sub(before.mode_transitions)?,
            missed: after.missed.checked_sub(before.missed)?,
            switches: after.switches.checked_sub(before.switches)?,
            registered_processes: after
                .registered_processes
                .checked_sub(before.registered_processes)?,
        })
    }
}
