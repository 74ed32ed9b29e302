// SPDX-License-Identifier: MIT
//! `flexguard bench` and its subcommands. Each has a file, and a line here. Besides, there is one for each workload of the
//! worker (`workload`).

mod common;
pub mod workload;

use clap::Args;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;

use super::{Page, Subcommand};
use crate::manual::{Section, examples};

subcommands! {
    overhead::Overhead,
    guests::Guests,
    exec::Exec,
    first::First,
    paper::Paper,
    scenes::Scenes,
    machine::Machine,
    compare::Compare,
    report::Report,
}

/// Measure locks and compare them with one another
///
/// Rounds are interleaved. Values are medians with intervals. A winner is named only if it differs by more than the noise.
#[derive(Debug, Args)]
pub struct Bench {
    #[command(subcommand)]
    what: Command,
}

impl Subcommand for Bench {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "STATISTICS",
            items: &[
                (
                    "rounds",
                    "Every round runs each subject once, in an order that rotates, so that a disturbance of the machine affects all alike.",
                ),
                (
                    "median (low-high)",
                    "The interval holds the true median with at least 95 % confidence. It is made of order statistics (of 7 rounds the \
                     least and the most, 98 %; fewer than 6 never reach 95 %), and assumes nothing about the distribution.",
                ),
                (
                    "ratio",
                    "How many times as good as the first one in the same rounds, with its interval: above 1 is better, whatever is \
                     measured.",
                ),
                (
                    "noise",
                    "With --noise the first one runs twice in every round, as if it were two: what it differs from itself.",
                ),
                (
                    "better, worse",
                    "The interval of the ratio excludes 1: Wilcoxon's signed-rank test of the rounds, which calls equal ones different \
                     in at most 5 % of comparisons. Else: unclear, or too few rounds (fewer than 6). A winner is better than each \
                     other.",
                ),
                (
                    "round N stands apart",
                    "That round is an outlier: over 3.5 robust standard deviations from the median. It counts like the others.",
                ),
            ],
        },
        examples(&[
                (
                    "flexguard bench shm --locks all --threads 1x,4x --noise",
                    "Every lock, contended by all threads.",
                ),
                (
                    "flexguard bench exec --locks posix,flexguard -- ./job",
                    "Your program.",
                ),
                (
                    "flexguard bench paper --quick",
                    "Every figure of the paper, in 15 minutes.",
                ),
            ]),
    ];
    const PAGES: &'static [Page] = PAGES;

    fn run(self) -> Result<Status> {
        self.what.run()
    }
}
