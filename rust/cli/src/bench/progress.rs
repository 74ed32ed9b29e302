// SPDX-License-Identifier: MIT
//! One line on the terminal: what runs, how far we are, how long it will take. Nothing if stderr is not a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

pub struct Progress(ProgressBar);

impl Progress {
    pub fn new(steps: usize) -> Self {
        let bar = ProgressBar::new(steps as u64);
        // The template is constant; should it be wrong, the plain bar still shows the progress.
        if let Ok(style) =
            ProgressStyle::with_template("[{pos}/{len}] {wide_msg} {eta_precise} left")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_secs(1));
        Self(bar)
    }

    pub fn start(&self, what: String) {
        self.0.set_message(what);
    }

    pub fn done(&self) {
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
