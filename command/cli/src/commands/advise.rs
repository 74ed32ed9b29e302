// SPDX-License-Identifier: MIT
//! `flexguard advise`: whether FlexGuard helps a program.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueHint};
use flexguard_bench::options::seconds;
use flexguard_bench::{advise, exec};
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use regex_lite::Regex;

use super::{Subcommand, profile};
use crate::manual::{FORCE_ITEM, LOG_ITEM, OWN_EXIT, PREFIX_ITEM, SOCKET_ITEM, Section, examples};
use crate::monitor_choice::MonitorChoice;
use crate::profile::reasons;

/// Say whether FlexGuard helps a program, and with which lock
///
/// Runs the program in turn under glibc's locks and under each candidate, until the answer is known or the budget is
/// spent. Where the program is linked to a runtime whose threads spin before they sleep (OpenMP, OpenBLAS), the
/// variables that shorten this are candidates, too, under glibc's locks; one that the environment has set is kept, and
/// not tried. Each candidate takes its share of the time. Then the program runs once more under the profiler, for the
/// reasons. Its output is shown only if it fails.
#[derive(Debug, Args)]
#[command(override_usage = "flexguard advise [OPTIONS] [--] PROGRAM [ARGUMENTS]...")]
pub struct Advise {
    /// The candidates; `flexguard list` shows the locks
    #[arg(
        short,
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "flexguard,flexguard-sosp25"
    )]
    locks: Vec<String>,

    /// Measure until the answer is known, and at most so long; no round begins that would end later
    #[arg(short, long, value_name = "SECONDS", default_value = "600", value_parser = |s: &str| seconds(s, 0.001, 1e7))]
    budget: f64,

    /// Measure each lock so often instead; to tell a difference takes eight or more
    #[arg(short, long, value_name = "N", conflicts_with = "budget", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Compare what this regular expression finds in the output (its first group, a number, more is better), not the time
    #[arg(long, value_name = "REGEX")]
    score: Option<Regex>,

    /// Give up on a lock under which a run takes longer
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = |s: &str| seconds(s, 0.001, 1e7))]
    timeout: f64,

    #[command(flatten)]
    monitor: MonitorChoice,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,
}

impl Subcommand for Advise {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "THE ANSWER",
            items: &[
                (
                    "helps",
                    "One of FlexGuard's locks is better by more than 3 %, in the whole 99 % interval of the ratio, round by round.",
                ),
                (
                    "does not help",
                    "None is better, and the first of FlexGuard's locks that was named is worse in the same way.",
                ),
                (
                    "makes no difference",
                    "The whole interval is within 10 %. This answer precedes the others.",
                ),
                (
                    "cannot tell",
                    "The budget is spent before. The command says how long an answer would probably take.",
                ),
            ],
        },
        Section {
            title: "SETTINGS",
            items: &[
                (
                    "GOMP_SPINCOUNT=1000, OMP_WAIT_POLICY=passive",
                    "Tried where the program is linked to GNU OpenMP.",
                ),
                (
                    "KMP_BLOCKTIME=0",
                    "Tried where it is linked to LLVM's or Intel's OpenMP.",
                ),
                (
                    "OPENBLAS_THREAD_TIMEOUT=16",
                    "Tried where it is linked to OpenBLAS.",
                ),
                (
                    "the best of them",
                    "It is suggested if it is better by the rule above. Nothing is set unasked.",
                ),
            ],
        },
        Section {
            title: "JSON",
            items: &[(
                "schema",
                "flexguard-advice/3; docs/design/schemas/advise.json of the source tree describes it.",
            )],
        },
        Section {
            title: "EXIT STATUS",
            items: &[
                ("0", "Every run succeeded, whatever the advice."),
                (
                    "1",
                    "A run failed; stderr says under which lock, and how it ended.",
                ),
                (
                    "126, 127",
                    "The program cannot be executed, or does not exist.",
                ),
                OWN_EXIT[0],
                OWN_EXIT[1],
                (
                    "interrupted",
                    "The command says what the finished rounds tell, and ends by the signal.",
                ),
            ],
        },
        Section {
            title: "ENVIRONMENT",
            items: &[PREFIX_ITEM, SOCKET_ITEM, FORCE_ITEM, LOG_ITEM],
        },
        examples(&[
            (
                "flexguard advise -- ./job",
                "glibc's locks and two of FlexGuard's, compared by wall time, for 10 minutes at most.",
            ),
            (
                "flexguard advise --budget 60 --locks flexguard -- ./job",
                "An answer in a minute, if that is possible: fewer locks, more rounds.",
            ),
            (
                "flexguard advise --score 'number of events: *([0-9]+)' -- sysbench threads run",
                "Compare a score that the program prints.",
            ),
        ]),
    ];

    fn run(self) -> Result<Status> {
        let mut exec = exec::Exec::new(self.locks, self.program, None);
        exec.score = self.score;
        exec.timeout = self.timeout;
        exec.monitor = self.monitor.mode();
        let limit = Duration::from_secs_f64(self.timeout);
        let extent = match self.rounds {
            Some(rounds) => advise::Extent::Rounds(rounds),
            None => advise::Extent::Seconds(self.budget),
        };
        advise::run(
            exec,
            extent,
            self.json,
            |program, outcome| match profile::quietly(program, limit) {
                Ok(Ok(profile)) => (reasons(&profile, outcome), None),
                Ok(Err(Some(signal))) => (vec![], Some(signal)),
                Ok(Err(None)) => (vec!["A run with the profiler took too long.".into()], None),
                Err(why) => (vec![format!("It could not be profiled: {why:#}.")], None),
            },
        )
    }
}
