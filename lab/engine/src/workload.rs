// SPDX-License-Identifier: MIT
//! What a benchmark must say of itself; the rest (rounds, statistics, tables, plots, reports, resuming) is the same for all.
//!
//! "Add a workload" in CONTRIBUTING.md says what else a new one needs.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use flexguard_monitor::Stats;
use serde_json::Value;

use super::figure::FigureSpec;
use super::measure::Measure;
use super::point::Point;
use super::runner::{Capture, Run};
use super::simulated::Simulated;
use flexguard_launch::MonitorMode;
use flexguard_launch::failure::Result;
use flexguard_launch::prefix::Prefix;

/// The exit status by which a program says that it cannot run on this machine; the reason is on its stderr.
pub const UNAVAILABLE: u8 = 77;

pub trait Workload {
    /// As in `flexguard bench NAME`.
    fn name(&self) -> &str;

    /// One line for people.
    fn title(&self) -> String;

    /// Finds out whatever can be wrong before anything runs.
    fn prepare(&mut self, prefix: &Prefix) -> Result<()>;

    /// What the subjects are: locks, unless conditions are compared.
    fn subject(&self) -> &'static str {
        "lock"
    }

    /// What is compared, after `prepare`. The first is what the others are held against.
    fn subjects(&self) -> Vec<String>;

    /// Where: the combinations of the variables' values.
    fn points(&self) -> Vec<Point>;

    /// For the record: every option's value.
    fn settings(&self) -> Value;

    /// Whatever a run may tell; what it does not tell is left out.
    fn measures(&self) -> Vec<Measure>;

    /// The measure by which subjects are compared.
    fn primary(&self) -> &'static str;

    /// The measures that the table shows without `--columns`.
    fn columns(&self) -> Vec<String>;

    fn figures(&self) -> Vec<FigureSpec>;

    /// The machine that is simulated; None: it runs here.
    fn simulated(&self) -> Option<&Simulated> {
        None
    }

    /// The monitor of all runs; None: each asks for its own, or for none.
    fn monitor(&self) -> Option<MonitorMode>;

    /// One run, ready to start.
    fn launch(&self, point: &Point, subject: &str) -> Launch;

    /// What a run that ended well measured, or why it is none.
    fn read(&self, run: &Run, subject: &str, counted: Option<&Counts>) -> Result<Reading, String>;

    /// What a run measured that was ended at its limit; None: that is a failure.
    fn at_limit(&self, _limit: Duration) -> Option<Reading> {
        None
    }

    /// About how long a run takes; None: no telling.
    fn run_seconds(&self, point: &Point) -> Option<f64>;
}

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
