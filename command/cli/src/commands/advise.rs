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
use crate::manual::{FORCE_ITEM, LOG_ITEM, OWN_EXIT, PREFIX_ITEM, SOCKET_ITEM, Section};
use crate::monitor_choice::MonitorChoice;
use crate::profile::reasons;

/// Say whether FlexGuard helps a program, and with which lock
///
/// Runs the program in turn under glibc's locks, twice, and under each candidate. A lock is recommended only if it is
/// better than glibc's locks in both of their runs. Then the program runs once more under the profiler, for the reasons.
/// Its output is shown only if it fails.
#[derive(Debug, Args)]
#[command(override_usage = "flexguard advise [OPTIONS] [--] PROGRAM [ARGUMENTS]...")]
pub struct Advise {
    /// The candidates; `flexguard list` shows the locks
    #[arg(
        short,
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "flexguard,flexguard-sosp25,futex,tatas"
    )]
    locks: Vec<String>,

    /// How often each lock is measured; to tell a difference takes six or more
    #[arg(short, long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

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
            title: "JSON",
            items: &[(
                "schema",
                "flexguard-advice/1; docs/design/schemas/advise.json of the source tree describes it.",
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
        Section {
            title: "EXAMPLES",
            items: &[
                (
                    "flexguard advise -- ./job",
                    "Five locks, 7 rounds, compared by wall time.",
                ),
                (
                    "flexguard advise --score 'number of events: *([0-9]+)' -- sysbench threads run",
                    "Compare a score that the program prints.",
                ),
            ],
        },
    ];

    fn run(self) -> Result<Status> {
        let mut exec = exec::Exec::new(self.locks, self.program, None);
        exec.score = self.score;
        exec.timeout = self.timeout;
        exec.monitor = self.monitor.mode();
        let limit = Duration::from_secs_f64(self.timeout);
        advise::run(
            exec,
            self.rounds,
            self.json,
            |program| match profile::quietly(program, limit) {
                Ok(Ok(profile)) => (reasons(&profile), None),
                Ok(Err(Some(signal))) => (vec![], Some(signal)),
                Ok(Err(None)) => (vec!["A run with the profiler took too long.".into()], None),
                Err(why) => (vec![format!("It could not be profiled: {why:#}.")], None),
            },
        )
    }
}
