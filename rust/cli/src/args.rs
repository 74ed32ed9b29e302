// SPDX-License-Identifier: MIT
//! The command line. Its texts, with `sections`, are the only source of `--help` and of the man pages.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use crate::locks;
use crate::sections;

/// Run programs under locks that know when the scheduler has taken the lock holder away
///
/// The mutexes of an unmodified pthread program are replaced as it starts. Waiters spin while the holder of the lock runs, and
/// block while the Preemption Monitor, an eBPF program on the scheduler's context switch, has seen a holder lose its CPU.
#[derive(Debug, Parser)]
#[command(name = "flexguard", version, after_long_help = sections::help(sections::MAIN))]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(Run),
    List(List),
    Doctor(Doctor),
    Monitor(Monitor),
    #[command(subcommand)]
    Bench(Bench),
    Completions(Completions),
    #[command(hide = true)]
    Man(Man),
}

/// Run a program with its mutexes replaced
///
/// The program's input, output, exit status and signals are its own; nothing is written unless --stats asks for it.
#[derive(Debug, Args)]
#[command(override_usage = "flexguard run [OPTIONS] [--] PROGRAM [ARGUMENTS]...")]
#[command(after_long_help = sections::help(sections::RUN))]
pub struct Run {
    /// The lock that stands in for the program's mutexes; `flexguard list` shows them
    #[arg(short, long, value_name = "NAME", default_value = locks::DEFAULT)]
    pub lock: String,

    #[command(flatten)]
    pub monitor: MonitorChoice,

    /// End with a summary on stderr: one `name: value` a line, or one JSON object
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub stats: Option<StatsFormat>,

    /// Write the summary to FILE instead of stderr
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub stats_file: Option<PathBuf>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatsFormat {
    /// One `name: value` a line
    Text,
    /// One object with the same names
    Json,
}

#[derive(Debug, Args)]
pub struct MonitorChoice {
    /// Where the locks learn of preemptions
    #[arg(short, long, value_name = "WHEN", value_enum, default_value_t = MonitorMode::Auto)]
    pub monitor: MonitorMode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MonitorMode {
    /// Use the daemon that answers; else load a monitor for as long as the program runs, if permitted; else do without
    Auto,
    /// As auto, but fail where auto would do without
    Require,
    /// Do without: the locks spin for a while, then block
    Off,
}

/// List the locks: name first, then what each one is
#[derive(Debug, Args)]
#[command(after_long_help = sections::help(sections::LIST))]
pub struct List {
    /// Print a JSON array of objects with name, class and brief
    #[arg(long)]
    pub json: bool,
}

/// Check what works on this machine, and say what to do about what does not
#[derive(Debug, Args)]
#[command(after_long_help = sections::help(sections::DOCTOR))]
pub struct Doctor {
    /// Print a JSON object with every check
    #[arg(long)]
    pub json: bool,
}

/// Serve the Preemption Monitor to every process of the machine, in the foreground
///
/// Programs started by `flexguard run` find it by themselves; they need no privilege. Ends orderly on SIGTERM and SIGINT.
#[derive(Debug, Args)]
#[command(after_long_help = sections::help(sections::MONITOR))]
pub struct Monitor {
    /// Where to listen, or whom to ask: a path, or @NAME in the abstract namespace
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub socket: Option<String>,

    /// Ask the running monitor for its counters instead
    #[arg(long)]
    pub status: bool,

    /// Let the kernel time the monitor's program: two clock reads a context switch, shown by --status
    #[arg(long, conflicts_with = "status")]
    pub run_time: bool,

    /// Print JSON, one object a line: ready, ended with its counters, or the status
    #[arg(long)]
    pub json: bool,
}

/// Measure locks, one against another
#[derive(Debug, Subcommand)]
#[command(after_long_help = sections::help(sections::BENCH))]
pub enum Bench {
    Shm(BenchShm),
    Exec(BenchExec),
}

/// The paper's shared-memory-access microbenchmark (section 5.2)
///
/// Threads contend for one lock; each critical section reads and writes a few shared cache lines. Every round runs every lock once,
/// in an order that rotates; the table shows medians, with minimum and maximum.
#[derive(Debug, Args)]
#[command(after_long_help = sections::help(sections::BENCH_SHM))]
pub struct BenchShm {
    /// Locks to compare, or `all`
    #[arg(
        short,
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "posix,futex,flexguard"
    )]
    pub locks: Vec<String>,

    /// Thread counts
    #[arg(short, long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,2,4,8",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: Vec<u32>,

    #[command(flatten)]
    pub rounds: Rounds,

    /// Measured seconds of each run
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = |s: &str| seconds(s, 0.001, 3600.0))]
    pub seconds: f64,

    /// Seconds that each run warms up before it measures
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = |s: &str| seconds(s, 0.0, 600.0))]
    pub warmup: f64,

    /// Cycles that each thread spends between its critical sections
    #[arg(long, value_name = "CYCLES", default_value_t = 100)]
    pub cycles_between: u64,

    /// Cache lines that each critical section reads and writes
    #[arg(long, value_name = "LINES", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub lines: u32,

    #[command(flatten)]
    pub monitor: MonitorChoice,

    #[command(flatten)]
    pub report: Report,
}

/// Any program under several locks, compared by wall time or by a score that it prints
///
/// Every round runs the program once under every lock, in an order that rotates. Its output is kept back, and shown only if it fails.
#[derive(Debug, Args)]
#[command(override_usage = "flexguard bench exec [OPTIONS] [--] PROGRAM [ARGUMENTS]...")]
#[command(after_long_help = sections::help(sections::BENCH_EXEC))]
pub struct BenchExec {
    /// Locks to compare; ratios are to the first
    #[arg(
        short,
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "posix,flexguard"
    )]
    pub locks: Vec<String>,

    #[command(flatten)]
    pub rounds: Rounds,

    /// Compare what this regular expression finds in the output (its first group, a number, more is better)
    #[arg(long, value_name = "REGEX")]
    pub score: Option<regex::Regex>,

    /// Give up on a run that takes longer
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = |s: &str| seconds(s, 0.001, 1e7))]
    pub timeout: f64,

    #[command(flatten)]
    pub monitor: MonitorChoice,

    #[command(flatten)]
    pub report: Report,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Rounds {
    /// How often each lock runs
    #[arg(short, long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
}

#[derive(Debug, Args)]
pub struct Report {
    /// Print JSON instead of the table
    #[arg(long)]
    pub json: bool,

    /// Write the JSON to FILE, whole or not at all
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Print a shell's completion script
#[derive(Debug, Args)]
#[command(after_long_help = sections::help(sections::COMPLETIONS))]
pub struct Completions {
    pub shell: clap_complete::Shell,
}

/// Write the man pages into a directory
#[derive(Debug, Args)]
pub struct Man {
    #[arg(value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
}

fn seconds(text: &str, least: f64, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (least..=most).contains(&s) => Ok(s),
        _ => Err(format!("not a number of seconds from {least} to {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_after_the_program_are_the_programs() {
        let cli = Cli::try_parse_from([
            "flexguard",
            "run",
            "--lock",
            "mcs",
            "prog",
            "--lock",
            "x",
            "--",
            "-y",
        ])
        .unwrap();
        let Command::Run(run) = cli.command else {
            panic!("not run")
        };
        assert_eq!((run.lock.as_str(), run.program.len()), ("mcs", 5));
    }

    #[test]
    fn stats_does_not_swallow_the_program() {
        let cli = Cli::try_parse_from(["flexguard", "run", "--stats", "true"]).unwrap();
        let Command::Run(run) = cli.command else {
            panic!("not run")
        };
        assert_eq!(run.stats, Some(StatsFormat::Text));
        assert_eq!(run.program, ["true"]);
    }

    #[test]
    fn an_unknown_option_before_the_program_is_refused() {
        assert!(Cli::try_parse_from(["flexguard", "run", "--bogus", "true"]).is_err());
    }
}
