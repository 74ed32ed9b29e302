// SPDX-License-Identifier: MIT
//! What a run needs to start, and what it measured.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use flexguard_monitor::Stats;
use serde_json::Value;

use crate::runner::Capture;

/// The exit status by which a program says that it cannot run on this machine; the reason is on its stderr.
pub const UNAVAILABLE: u8 = 77;

pub struct Launch {
    pub command: Command,
    pub capture: Capture,
    /// A run that takes longer hangs.
    pub limit: Duration,
    pub monitor: MonitorUse,
    /// Busy processes beside it. The workers of fg-bench start their own.
    pub hogs: u32,
    /// It takes `--seed`: the round decides.
    pub seeded: bool,
    /// Set last: it has precedence over what the monitor needs.
    pub environment: BTreeMap<String, String>,
}

/// Under which monitor a run takes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MonitorUse {
    /// The one of the whole benchmark.
    Shared,
    /// None is loaded.
    None,
    /// One that is loaded for this run alone; `timed`: the kernel times its program.
    Own { timed: bool },
}

/// The monitor's counters before and after a run.
pub struct Counts {
    pub before: Stats,
    pub after: Stats,
}

#[derive(Debug, Default)]
pub struct Reading {
    /// By the measures' names.
    pub values: BTreeMap<String, f64>,
    /// Whatever else should be in the record.
    pub detail: Value,
}
