// SPDX-License-Identifier: MIT
//! What the subcommands of `flexguard bench` share: options of the rounds and of the results, and parts of their pages.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use flexguard_bench::options;

use crate::manual::{
    FORCE_ITEM, LOG_ITEM, OWN_EXIT, PREFIX_ITEM, SOCKET_FILE, SOCKET_ITEM, Section,
};

/// How often everything runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rounds")]
pub struct Plan {
    /// How often each subject is measured; to name a winner takes six or more
    #[arg(short, long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// Rounds that run first and are not recorded
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub warmup_rounds: u32,

    /// Measure the first subject twice in each round: the difference between the two is the noise
    #[arg(long)]
    pub noise: bool,

    /// Stop before --rounds when every ratio to the first subject is known to PERCENT; six rounds at least
    #[arg(long, value_name = "PERCENT", value_parser = |p: &str| options::percent(p))]
    pub tell: Option<f64>,
}

impl From<Plan> for options::Plan {
    fn from(args: Plan) -> Self {
        Self {
            rounds: args.rounds,
            warmup_rounds: args.warmup_rounds,
            noise: args.noise,
            tell: args.tell.map(|percent| percent / 100.0),
        }
    }
}

/// Where the results go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub struct Output {
    /// Print JSON instead of the table
    #[arg(long)]
    pub json: bool,

    /// Write the JSON to FILE, again after every run, so that results survive if the command is killed
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// The measures that the table shows, or `all`
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,

    /// Write a report as one HTML file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,

    /// Write the results to FILE: every value as CSV (.csv), or the table as Markdown (.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub export: Option<PathBuf>,

    /// Write every figure as SVG and PNG into DIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub plots: Option<PathBuf>,
}

impl From<Output> for options::Output {
    fn from(args: Output) -> Self {
        Self {
            json: args.json,
            output: args.output,
            columns: args.columns,
            html: args.html,
            export: args.export,
            plots: args.plots,
        }
    }
}

pub const EXIT: Section = Section {
    title: "EXIT STATUS",
    items: &[
        ("0", "Every run succeeded."),
        ("1", "A run failed; the results so far were printed."),
        (
            "126, 127",
            "The program cannot be executed, or does not exist.",
        ),
        OWN_EXIT[0],
        OWN_EXIT[1],
        (
            "interrupted",
            "The command prints the results so far, marked incomplete, and ends by the signal.",
        ),
    ],
};

pub const JSON: Section = Section {
    title: "JSON",
    items: &[
        (
            "schema",
            "flexguard-bench/2; docs/guide/benchmarks.md of the source tree describes it. It holds every measure, the values of every \
             round, where each comes from (commit, build, machine, kernel, distance of the CPUs), and everything that the \
             worker reported.",
        ),
        (
            "-o FILE",
            "The file is rewritten after every run. If the command is killed, the results so far remain, with complete: false.",
        ),
    ],
};

pub const ENVIRONMENT: Section = Section {
    title: "ENVIRONMENT",
    items: &[PREFIX_ITEM, SOCKET_ITEM, FORCE_ITEM, LOG_ITEM],
};

pub const FILES: Section = Section {
    title: "FILES",
    items: &[
        (
            "PREFIX/libexec/flexguard/fg-bench",
            "Runs one round of one lock.",
        ),
        SOCKET_FILE,
    ],
};

/// Parses the name of one of the library's `all`; names and help texts are the library's.
pub fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
    help: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let values = all
        .iter()
        .map(|&one| PossibleValue::new(name(one)).help(help(one)));
    let of = move |chosen| all.iter().copied().find(|&one| name(one) == chosen);
    PossibleValuesParser::new(values).map(move |chosen| of(chosen).expect("it is one of them"))
}
