// SPDX-License-Identifier: MIT
//! `flexguard bench paper`

use std::path::PathBuf;

use clap::{Args, ValueHint};
use flexguard_bench::options::seconds;
use flexguard_bench::paper;
use flexguard_bench::suite::Wanted;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;

use super::common::{ENVIRONMENT, EXIT, FILES};
use crate::commands::Subcommand;
use crate::manual::{Section, examples};

/// Every figure of the paper, on this machine
///
/// A call continues where an earlier call in the same directory was interrupted.
#[derive(Debug, Args)]
pub struct Paper {
    /// Run a short version: at most 15 minutes on two hardware contexts
    #[arg(long)]
    quick: bool,

    /// Directory for records, figures and the report
    #[arg(short, long, value_name = "DIR", default_value = "flexguard-paper", value_hint = ValueHint::DirPath)]
    output: PathBuf,

    /// Start over instead of continuing the run in DIR
    #[arg(long)]
    fresh: bool,

    /// Measure these locks instead of the paper's
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    locks: Vec<String>,

    /// Run these experiments only; --plan lists them
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    only: Vec<String>,

    /// Show what would run, and how long it takes
    #[arg(long)]
    plan: bool,

    /// Seconds of each run of a microbenchmark, instead of the plan's
    #[arg(long, value_name = "SECONDS", value_parser = |s: &str| seconds(s, 0.001, 60.0))]
    seconds: Option<f64>,

    /// Rounds, instead of the plan's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
}

impl Subcommand for Paper {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "RESULTS",
            items: &[
                (
                    "DIR/report.html",
                    "All tables and figures, as one HTML page.",
                ),
                ("DIR/plots/", "The figures, as SVG and PNG."),
                (
                    "DIR/NAME.json",
                    "The record of one experiment, rewritten after every run. A later call with the same plan, locks, machine and \
                     kernel continues there.",
                ),
            ],
        },
        EXIT,
        ENVIRONMENT,
        FILES,
        examples(&[
                (
                    "flexguard bench paper --plan",
                    "Show what would run, and for how long.",
                ),
                (
                    "flexguard bench paper --quick -o results",
                    "At most 15 minutes on two hardware contexts.",
                ),
                (
                    "flexguard bench paper --quick -o results --only shm,overhead",
                    "Run two of the experiments.",
                ),
            ]),
    ];

    fn run(self) -> Result<Status> {
        paper::run(paper::Paper {
            quick: self.quick,
            wanted: Wanted {
                output: self.output,
                fresh: self.fresh,
                only: self.only,
                plan: self.plan,
            },
            locks: self.locks,
            seconds: self.seconds,
            rounds: self.rounds,
        })
    }
}
