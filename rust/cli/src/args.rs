// SPDX-License-Identifier: MIT
//! The command line. Its texts, with `sections`, are the only source of `--help` and of the man pages.

mod bench;
mod workload;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};
use flexguard_bench::catalogue::Catalogue;
use flexguard_launch::failure::Result;
use flexguard_launch::prefix::Prefix;
use flexguard_launch::{MonitorMode, locks};

use crate::sections;

pub use bench::{Bench, Load};
pub use workload::Measured;

/// Run programs under locks that know when the scheduler has taken the lock holder away
///
/// The mutexes of an unmodified pthread program are replaced as it starts. Waiters spin while the holder of the lock runs. They
/// block while a holder has lost its CPU, which the Preemption Monitor, an eBPF program on the context switch, sees.
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
    Bench(Box<Bench>),
    Completions(Completions),
    #[command(hide = true)]
    Man(Man),
    /// A memcached under load, for `bench exec --preset memcached`
    #[command(hide = true)]
    MemcachedLoad(Load),
}

/// What the command line asks for.
pub enum Request {
    Command(Command),
    /// `bench WORKLOAD`
    Workload(Box<Measured>),
}

/// The whole definition: with a subcommand of `bench` for each workload that the worker knows.
pub fn definition(catalogue: Option<&Catalogue>) -> clap::Command {
    let command = Cli::command();
    let Some(catalogue) = catalogue else {
        return command;
    };
    command.mut_subcommand("bench", |bench| {
        let workloads = catalogue.workloads.iter();
        bench.subcommands(workloads.map(|w| workload::command(catalogue, w)))
    })
}

/// Parses the command line; ends the process, as `--help` and usage errors do, where there is nothing to run.
pub fn parse() -> Result<Request> {
    // The worker is asked only by those who need to know: `flexguard run` starts at once.
    let first = std::env::args_os().nth(1);
    let asked = first.filter(|word| ["bench", "completions"].iter().any(|name| word == name));
    let catalogue = asked.map(|_| Prefix::find().and_then(|prefix| Catalogue::read(&prefix)));
    let (known, failure) = match catalogue {
        Some(Ok(catalogue)) => (Some(catalogue), None),
        Some(Err(failure)) => (None, Some(failure)),
        None => (None, None),
    };
    let matches = match (definition(known.as_ref()).try_get_matches(), failure) {
        (Ok(matches), _) => matches,
        (Err(e), Some(failure)) if e.kind() == ErrorKind::InvalidSubcommand => return Err(failure),
        (Err(e), _) => e.exit(),
    };
    if let (Some(catalogue), Some(("bench", bench))) = (&known, matches.subcommand())
        && let Some((name, matches)) = bench.subcommand()
        && let Ok(workload) = catalogue.workload(name)
    {
        return Measured::of(workload, matches).map(|m| Request::Workload(Box::new(m)));
    }
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => Ok(Request::Command(cli.command)),
        Err(e) => e.exit(),
    }
}

/// Run a program with its mutexes replaced
///
/// The program keeps its input, output, exit status and signals. The command writes nothing unless --stats is given.
#[derive(Debug, Args)]
#[command(override_usage = "flexguard run [OPTIONS] [--] PROGRAM [ARGUMENTS]...")]
#[command(after_long_help = sections::help(sections::RUN))]
pub struct Run {
    /// The lock that replaces the program's mutexes; `flexguard list` shows the locks
    #[arg(short, long, value_name = "NAME", default_value = locks::DEFAULT)]
    pub lock: String,

    #[command(flatten)]
    pub monitor: MonitorChoice,

    /// Print a summary on stderr at the end: one `name: value` a line, or one JSON object
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
    /// Which monitor tells the locks of preemptions
    #[arg(short, long, value_name = "WHEN", value_enum, default_value_t = MonitorArg::Auto)]
    pub monitor: MonitorArg,
}

impl MonitorChoice {
    pub fn mode(&self) -> MonitorMode {
        match self.monitor {
            MonitorArg::Auto => MonitorMode::Auto,
            MonitorArg::Require => MonitorMode::Require,
            MonitorArg::Off => MonitorMode::Off,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MonitorArg {
    /// Use the machine's monitor if one answers; otherwise load one for this run, if permitted; otherwise use none
    Auto,
    /// As auto, but fail where auto would use none
    Require,
    /// Use none: the locks spin for a while, then block
    Off,
}

/// List the locks: name, class, and what each one is
#[derive(Debug, Args)]
#[command(after_long_help = sections::help(sections::LIST))]
pub struct List {
    /// Print a JSON array of objects: name, class, brief, and `needs` for a lock that not every machine can run
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
/// Programs that `flexguard run` starts find it by themselves and need no privilege. SIGTERM and SIGINT end it cleanly.
#[derive(Debug, Args)]
#[command(after_long_help = sections::help(sections::MONITOR))]
pub struct Monitor {
    /// The socket to serve, or with --status to ask: a path, or @NAME in the abstract namespace
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub socket: Option<String>,

    /// Print the counters of the monitor that is running, and end
    #[arg(long)]
    pub status: bool,

    /// Let the kernel time the monitor's program, for --status; costs two clock reads a context switch
    #[arg(long, conflicts_with = "status")]
    pub run_time: bool,

    /// Print JSON, one object a line: when ready, when ended (with the counters), or the status
    #[arg(long)]
    pub json: bool,
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
