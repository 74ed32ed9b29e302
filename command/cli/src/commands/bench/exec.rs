// SPDX-License-Identifier: MIT
//! `flexguard bench exec`

use std::ffi::OsString;

use clap::{Args, ValueHint};
use flexguard_bench::exec;
use flexguard_bench::options::{count, distinct, factor, seconds, threads};
use flexguard_bench::presets::Preset;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use regex_lite::Regex;

use super::common::{ENVIRONMENT, EXIT, JSON, Output, Plan, one_of};
use crate::commands::Subcommand;
use crate::manual::{Section, examples};
use crate::monitor_choice::MonitorChoice;

/// Any program under several locks, compared by wall time or by a score that it prints
///
/// The program's output is shown only if it fails.
#[derive(Debug, Args)]
#[command(
    override_usage = "flexguard bench exec [OPTIONS] [--] PROGRAM [ARGUMENTS]...\n       flexguard bench exec [OPTIONS] --preset NAME"
)]
pub struct Exec {
    /// Locks to compare, or `all`; ratios are to the first
    #[arg(
        short,
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "posix,flexguard"
    )]
    locks: Vec<String>,

    /// Compare what this regular expression finds in the output (its first group, a number, more is better)
    #[arg(long, value_name = "REGEX")]
    score: Option<Regex>,

    /// Run a well-known program instead of PROGRAM
    #[arg(long, value_name = "NAME", value_parser = one_of(Preset::ALL, Preset::name, Preset::brief), conflicts_with_all = ["program", "score"])]
    preset: Option<Preset>,

    /// Threads, of a preset (default: 2x) or where the program's arguments contain `{threads}`; 2x: two for each hardware context
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = threads)]
    threads: Vec<u32>,

    /// Busy processes that compete for the CPUs; 2x: two for each hardware context
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "0", value_parser = |s: &str| count(s, 0, 4096))]
    hogs: Vec<u32>,

    /// How much work the preset does
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor, requires = "preset")]
    scale: f64,

    /// Give up on a run that takes longer
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = |s: &str| seconds(s, 0.001, 1e7))]
    timeout: f64,

    #[command(flatten)]
    monitor: MonitorChoice,

    /// The program and its arguments
    #[arg(required_unless_present = "preset", trailing_var_arg = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,

    #[command(flatten)]
    plan: Plan,

    #[command(flatten)]
    output: Output,
}

impl Subcommand for Exec {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "COLUMNS",
            items: &[
                (
                    "elapsed_seconds, cpu_seconds",
                    "Wall time; user and system CPU time.",
                ),
                (
                    "score",
                    "With --score or a preset: what the program printed.",
                ),
                (
                    "ratio",
                    "The first lock's time over this lock's, or this lock's score over the first lock's: above 1 is better.",
                ),
                (
                    "preempted, transitions",
                    "Preempted critical sections, and changes from spinning to blocking, for each run. Machine-wide; they need a \
                     monitor.",
                ),
                (
                    "max_rss_kib, switches_per_s",
                    "Largest resident set; context switches of the program.",
                ),
            ],
        },
        JSON,
        EXIT,
        ENVIRONMENT,
        examples(&[
                (
                    "flexguard bench exec -- ./job",
                    "glibc's mutexes against FlexGuard, 7 rounds.",
                ),
                (
                    "flexguard bench exec --preset rocksdb --threads 4x",
                    "A well-known program (Debian: rocksdb-tools).",
                ),
                (
                    "flexguard bench exec --threads 2,8,32 --hogs 0,2 -- sysbench mutex --threads={threads} run",
                    "Every combination: the program's arguments say where the number of threads stands.",
                ),
                (
                    "flexguard bench exec --score 'number of events: *([0-9]+)' -- sysbench threads run",
                    "Compare a score that the program prints.",
                ),
            ]),
    ];

    fn run(self) -> Result<Status> {
        let mut exec = exec::Exec::new(self.locks, self.program, self.preset);
        exec.score = self.score;
        exec.threads = distinct(&self.threads);
        if exec.threads.is_empty() && exec.preset.is_some() {
            exec.threads = vec![threads("2x").expect("two is a number of threads")];
        }
        exec.hogs = distinct(&self.hogs);
        exec.scale = self.scale;
        exec.timeout = self.timeout;
        exec.monitor = self.monitor.mode();
        flexguard_bench::run(exec, &self.plan.into(), &self.output.into())
    }
}
