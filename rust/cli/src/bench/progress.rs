// SPDX-License-Identifier: MIT
//! One line on the terminal: what runs, how far we are, how long it will take. Nothing if stderr is not a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

pub struct Progress(ProgressBar);

/// Until something has finished nobody knows how long it takes.
const AT_FIRST: &str = "[{pos}/{len}] {wide_msg}";
const THEN: &str = "[{pos}/{len}] {wide_msg} {eta_precise} left";

impl Progress {
    pub fn new(steps: usize) -> Self {
        let progress = Self(ProgressBar::new(steps as u64));
        progress.look(AT_FIRST);
        progress.0.enable_steady_tick(Duration::from_secs(1));
        progress
    }

    /// Should a template be wrong, the plain bar still shows the progress.
    fn look(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.0.set_style(style);
        }
    }

    pub fn start(&self, what: String) {
        self.0.set_message(what);
    }

    pub fn done(&self) {
        if self.0.position() == 0 {
            self.look(THEN);
        }
        self.0.inc(1);
    }

    pub fn skip(&self, steps: usize) {
        self.0
            .set_length(self.0.length().unwrap_or(0).saturating_sub(steps as u64));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
