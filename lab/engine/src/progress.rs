// SPDX-License-Identifier: MIT
//! The progress of a benchmark, on one line of the terminal.
//!
//! It says what runs, how far the benchmark is, how long it will take. If stderr is no terminal, there is a line for each
//! experiment that has ended.

use std::cell::Cell;
use std::time::Duration;

use flexguard_launch::output;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

/// Counts milliseconds of expected run time, so that a long run advances the bar by more than a short one.
pub struct Progress {
    bar: ProgressBar,
    runs: Cell<usize>,
    run: Cell<usize>,
    /// A run has ended: until then the remaining time is unknown.
    measured: Cell<bool>,
    /// The number of runs is not known, only the longest time that they take.
    open: bool,
}

const AT_FIRST: &str = "{prefix} {wide_msg}";
const WITHIN: &str = "{prefix} {wide_msg} {elapsed} of at most";
const THEN: &str = "{prefix} {wide_msg} {bar:16} {eta_precise} left";

impl Progress {
    pub fn new(runs: usize, seconds: f64) -> Self {
        let progress = Self {
            bar: ProgressBar::new(milliseconds(seconds)),
            runs: Cell::new(runs),
            run: Cell::new(0),
            measured: Cell::new(false),
            open: false,
        };
        progress.look(AT_FIRST);
        progress.bar.enable_steady_tick(Duration::from_secs(1));
        progress
    }

    /// So many runs as fit into so many seconds, or fewer.
    pub fn within(seconds: f64) -> Self {
        let mut progress = Self::new(0, seconds);
        progress.open = true;
        progress.measured.set(true);
        progress.look(&format!("{WITHIN} {seconds:.0}s"));
        progress
    }

    /// If a template is wrong, the plain bar still shows the progress.
    fn look(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("━━─"));
        }
    }

    pub fn start(&self, what: &str) {
        self.run.set(self.run.get() + 1);
        self.bar.set_prefix(match self.open {
            true => format!("[run {}]", self.run.get()),
            false => format!("[{}/{}]", self.run.get(), self.runs.get()),
        });
        self.bar.set_message(what.to_owned());
    }

    pub fn done(&self, seconds: f64) {
        if !self.measured.replace(true) {
            self.look(THEN);
        }
        self.bar.inc(milliseconds(seconds));
    }

    /// Runs that are added.
    pub fn more(&self, runs: usize, seconds: f64) {
        self.runs.set(self.runs.get() + runs);
        self.bar.inc_length(milliseconds(seconds));
    }

    /// One of several experiments has ended.
    pub fn ended(&self, experiment: &str) {
        if self.bar.is_hidden() {
            let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
            let share = all.saturating_sub(done) as f64 / done.max(1) as f64;
            let left = HumanDuration(self.bar.elapsed().mul_f64(share));
            let (run, runs) = (self.run.get(), self.runs.get());
            output::note(&format!(
                "flexguard: {experiment} is measured: run {run} of {runs}, about {left} left\n"
            ));
        }
    }

    /// A run that does not take place.
    pub fn skip(&self, seconds: f64) {
        self.run.set(self.run.get() + 1);
        let length = self.bar.length().unwrap_or(0);
        self.bar
            .set_length(length.saturating_sub(milliseconds(seconds)));
    }
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1e3).ceil() as u64
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
