// SPDX-License-Identifier: MIT
//! `flexguard bench scenes`

use std::path::PathBuf;

use clap::{Args, ValueHint};
use flexguard_bench::options::seconds;
use flexguard_bench::scene;
use flexguard_bench::suite::Wanted;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;

use super::common::{ENVIRONMENT, EXIT, JSON};
use crate::commands::Subcommand;
use crate::manual::{Section, examples};

/// Scenes of a file: what is measured, as data, and claims about it with verdicts
///
/// Continues where an earlier call in the same directory was interrupted.
#[derive(Debug, Args)]
pub struct Scenes {
    /// A file of scenes, or the name of an installed one
    #[arg(value_name = "SCENES", value_hint = ValueHint::FilePath)]
    scenes: String,

    /// Where everything goes
    #[arg(short, long, value_name = "DIR", default_value = "flexguard-scenes", value_hint = ValueHint::DirPath)]
    output: PathBuf,

    /// Start over instead of continuing what DIR has begun
    #[arg(long)]
    fresh: bool,

    /// These scenes only; --plan lists them
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,

    /// Show what would run, and how long it takes
    #[arg(long)]
    plan: bool,

    /// Seconds of each run of a workload, instead of the file's
    #[arg(long, value_name = "SECONDS", value_parser = |s: &str| seconds(s, 0.001, 3600.0))]
    seconds: Option<f64>,

    /// Rounds, instead of the file's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Simulate this machine: an installed one, or a file. A round is a seed; each run is short unless --seconds says more
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
}

impl Subcommand for Scenes {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "SCENES",
            items: &[
                (
                    "SCENES",
                    "PREFIX/share/flexguard/scenes has those that are installed; their names stand for their files.",
                ),
                (
                    "DIR/NAME.json",
                    "The record of each scene, as of any other benchmark.",
                ),
                (
                    "DIR/claims.md, DIR/claims.json",
                    "What is claimed of the locks, what was measured, and whether it holds.",
                ),
                (
                    "DIR/report.html, DIR/plots",
                    "Everything as a page, and the figures.",
                ),
            ],
        },
        JSON,
        EXIT,
        ENVIRONMENT,
        examples(&[
                (
                    "flexguard bench scenes published-locks -o results",
                    "Does each lock behave as its paper says?",
                ),
                (
                    "flexguard bench scenes default-lock --machine xeon-gold-5320 --only server",
                    "A scene on 104 hardware contexts that are simulated.",
                ),
                (
                    "flexguard bench scenes ./mine.toml --plan",
                    "What a file of one's own would measure.",
                ),
            ]),
    ];

    fn run(self) -> Result<Status> {
        scene::run(scene::Request {
            name: self.scenes,
            wanted: Wanted {
                output: self.output,
                fresh: self.fresh,
                only: self.only,
                plan: self.plan,
            },
            rounds: self.rounds,
            seconds: self.seconds,
            machine: self.machine,
        })
    }
}
