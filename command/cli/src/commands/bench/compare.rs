// SPDX-License-Identifier: MIT
//! `flexguard bench compare`

use std::path::PathBuf;

use clap::{Args, ValueHint};
use flexguard_bench::compare;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;

use crate::commands::Subcommand;
use crate::manual::{OWN_EXIT, Section, examples};

/// Compare two results, before and after a change
#[derive(Debug, Args)]
pub struct Compare {
    /// The result to compare with
    #[arg(value_name = "BEFORE", value_hint = ValueHint::FilePath)]
    before: PathBuf,

    /// The result to judge
    #[arg(value_name = "AFTER", value_hint = ValueHint::FilePath)]
    after: PathBuf,

    /// Compare this measure instead of the benchmark's own
    #[arg(long, value_name = "NAME")]
    measure: Option<String>,

    /// Give verdicts although the machines differ
    #[arg(long)]
    across_machines: bool,

    /// End with exit status 1 if a result got worse
    #[arg(long)]
    check: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Subcommand for Compare {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "COLUMNS",
            items: &[
                (
                    "ratio",
                    "How many times as good the result is after the change: above 1 is better.",
                ),
                (
                    "noise",
                    "The larger of the two results' noise at that point; -: neither was measured with --noise.",
                ),
                (
                    "verdict",
                    "The verdict of `flexguard bench`. There is none between different machines, unless --across-machines is given.",
                ),
            ],
        },
        Section {
            title: "EXIT STATUS",
            items: &[
                ("0", "The results were compared."),
                ("1", "With --check: something got worse."),
                OWN_EXIT[0],
                OWN_EXIT[1],
            ],
        },
        examples(&[(
                "flexguard bench compare before.json after.json --check",
                "Fail if anything got worse.",
            )]),
    ];

    fn run(self) -> Result<Status> {
        compare::run(compare::Compare {
            before: self.before,
            after: self.after,
            measure: self.measure,
            across_machines: self.across_machines,
            check: self.check,
            json: self.json,
        })
    }
}
