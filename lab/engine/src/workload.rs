// SPDX-License-Identifier: MIT
//! The trait of a benchmark: what it must say of itself.
//!
//! The rest (rounds, statistics, tables, plots, reports, resuming) is the same for all.
//!
//! "Add a workload" in CONTRIBUTING.md says what else a new one needs.

use std::time::Duration;

use serde_json::Value;

use super::figure::FigureSpec;
pub use super::launch::{Counts, Launch, MonitorUse, Reading, UNAVAILABLE};
use super::measure::Measure;
use super::point::Point;
use super::runner::Run;
use super::simulated::Simulated;
use flexguard_launch::MonitorMode;
use flexguard_launch::failure::Result;
use flexguard_launch::prefix::Prefix;

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
