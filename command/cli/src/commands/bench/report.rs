// SPDX-License-Identifier: MIT
//! `flexguard bench report`

use std::path::PathBuf;

use clap::{Args, ValueHint};
use flexguard_bench::report;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;

use crate::commands::Subcommand;
use crate::manual::{OWN_EXIT, Section, examples};

/// Make a report and figures from saved results
#[derive(Debug, Args)]
pub struct Report {
    /// Results that `-o` wrote
    #[arg(required = true, value_name = "RESULT", value_hint = ValueHint::FilePath)]
    results: Vec<PathBuf>,

    /// The HTML page to write
    #[arg(short = 'o', long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present_any = ["plots", "export"])]
    html: Option<PathBuf>,

    /// Write the results to FILE: every value as CSV (.csv), or the tables as Markdown (.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    export: Option<PathBuf>,

    /// Write every figure as SVG and PNG into DIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    plots: Option<PathBuf>,
}

impl Subcommand for Report {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "EXIT STATUS",
            items: &[("0", "The report was written."), OWN_EXIT[0], OWN_EXIT[1]],
        },
        examples(&[(
                "flexguard bench report shm.json hashtable.json -o report.html --plots figures",
                "One page of two results, and their figures as files.",
            )]),
    ];

    fn run(self) -> Result<Status> {
        report::run(report::Report {
            results: self.results,
            html: self.html,
            export: self.export,
            plots: self.plots,
        })
    }
}
