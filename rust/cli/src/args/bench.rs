// SPDX-License-Identifier: MIT
//! The arguments of `flexguard bench`, and what they become for the library that measures.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use flexguard_bench::options::{self, factor, seconds, threads};
use flexguard_bench::suite::Wanted;
use flexguard_bench::{compare, exec, first, memcached, overhead, paper, presets, report, scene};
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use regex::Regex;

use super::MonitorChoice;
use crate::sections;

/// Measure locks, one against another
///
/// Rounds are interleaved. Values are medians with intervals. A winner is named only if it differs by more than the noise.
#[derive(Debug, Subcommand)]
#[command(after_long_help = sections::help(sections::BENCH))]
pub enum Bench {
    /// What the Preemption Monitor costs (section 5.4)
    ///
    /// hackbench, whose processes do little but wake one another, runs without the monitor, beside it, and registered with it.
    /// Separate runs tell how many nanoseconds the monitor's program takes of every context switch.
    #[command(after_long_help = sections::help(sections::BENCH_OVERHEAD))]
    Overhead(Measured<Overhead>),

    /// Any program under several locks, compared by wall time or by a score that it prints
    ///
    /// The program's output is shown only if it fails.
    #[command(
        override_usage = "flexguard bench exec [OPTIONS] [--] PROGRAM [ARGUMENTS]...\n       flexguard bench exec [OPTIONS] --preset NAME"
    )]
    #[command(after_long_help = sections::help(sections::BENCH_EXEC))]
    Exec(Measured<Exec>),

    /// What FlexGuard is for: a few real programs under glibc's mutexes and FlexGuard's
    ///
    /// Takes half a minute. Runs sysbench, RocksDB's db_bench, and Kyoto Cabinet's kcutiltest and kccachetest (Debian: sysbench,
    /// rocksdb-tools, kyotocabinet-utils) a few times under each of three locks, and prints a table.
    #[command(after_long_help = sections::help(sections::BENCH_FIRST))]
    First(First),

    /// Every figure of the paper, on this machine
    ///
    /// A call continues where an earlier call in the same directory was interrupted.
    #[command(after_long_help = sections::help(sections::BENCH_PAPER))]
    Paper(Paper),

    /// Scenes of a file: what is measured, as data, and claims about it with verdicts
    ///
    /// Continues where an earlier call in the same directory was interrupted.
    #[command(after_long_help = sections::help(sections::BENCH_SCENES))]
    Scenes(Scenes),

    /// Compare two results, before and after a change
    #[command(after_long_help = sections::help(sections::BENCH_COMPARE))]
    Compare(Compare),

    /// Make a report and figures from saved results
    #[command(after_long_help = sections::help(sections::BENCH_REPORT))]
    Report(Report),
}

impl Bench {
    pub fn run(self) -> Result<Status> {
        match self {
            Self::Overhead(args) => args.run::<overhead::Overhead>(),
            Self::Exec(args) => args.run::<exec::Exec>(),
            Self::First(args) => first::run(args.into()),
            Self::Paper(args) => paper::run(args.into()),
            Self::Scenes(args) => scene::run(args.into()),
            Self::Compare(args) => compare::run(args.into()),
            Self::Report(args) => report::run(args.into()),
        }
    }
}

/// A workload's own options and the common ones.
#[derive(Debug, Args)]
pub struct Measured<W: Args> {
    #[command(flatten)]
    pub workload: W,

    #[command(flatten)]
    pub plan: Plan,

    #[command(flatten)]
    pub output: Output,
}

impl<W: Args> Measured<W> {
    fn run<T: flexguard_bench::Workload + From<W>>(self) -> Result<Status> {
        flexguard_bench::run(
            T::from(self.workload),
            &self.plan.into(),
            &self.output.into(),
        )
    }
}

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
}

impl From<Plan> for options::Plan {
    fn from(args: Plan) -> Self {
        let Plan {
            rounds,
            warmup_rounds,
            noise,
        } = args;
        Self {
            rounds,
            warmup_rounds,
            noise,
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

    /// Write every figure as SVG and PNG into DIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub plots: Option<PathBuf>,
}

impl From<Output> for options::Output {
    fn from(args: Output) -> Self {
        let Output {
            json,
            output,
            columns,
            html,
            plots,
        } = args;
        Self {
            json,
            output,
            columns,
            html,
            plots,
        }
    }
}

#[derive(Debug, Args)]
pub struct Overhead {
    /// Groups of senders and receivers; by default one for every four hardware contexts
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub groups: Option<u32>,

    /// Senders, and as many receivers, in a group
    #[arg(long, value_name = "COUNT", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub fds: u32,

    /// Messages from every sender to every receiver
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub loops: u32,

    /// Bytes of a message
    #[arg(long, value_name = "BYTES", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub size: u32,
}

impl From<Overhead> for overhead::Overhead {
    fn from(args: Overhead) -> Self {
        Self::new(args.groups, args.fds, args.loops, args.size)
    }
}

/// A preset on the command line; its name and its help are the library's.
#[derive(Debug, Clone, Copy)]
pub struct Preset(presets::Preset);

impl ValueEnum for Preset {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Preset>> =
            LazyLock::new(|| presets::Preset::ALL.iter().copied().map(Preset).collect());
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.brief()))
    }
}

#[derive(Debug, Args)]
pub struct Exec {
    /// Locks to compare, or `all`; ratios are to the first
    #[arg(
        short,
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "posix,flexguard"
    )]
    pub locks: Vec<String>,

    /// Compare what this regular expression finds in the output (its first group, a number, more is better)
    #[arg(long, value_name = "REGEX")]
    pub score: Option<Regex>,

    /// Run a well-known program instead of PROGRAM
    #[arg(long, value_name = "NAME", value_enum, conflicts_with_all = ["program", "score"])]
    pub preset: Option<Preset>,

    /// The preset's threads; 2x: two for each hardware context
    #[arg(long, value_name = "COUNT", default_value = "2x", value_parser = threads, requires = "preset")]
    pub threads: u32,

    /// How much work the preset does
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor, requires = "preset")]
    pub scale: f64,

    /// Give up on a run that takes longer
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = |s: &str| seconds(s, 0.001, 1e7))]
    pub timeout: f64,

    #[command(flatten)]
    pub monitor: MonitorChoice,

    /// The program and its arguments
    #[arg(required_unless_present = "preset", trailing_var_arg = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

impl From<Exec> for exec::Exec {
    fn from(args: Exec) -> Self {
        let mut exec = Self::new(args.locks, args.program, args.preset.map(|p| p.0));
        exec.score = args.score;
        exec.threads = args.threads;
        exec.scale = args.scale;
        exec.timeout = args.timeout;
        exec.monitor = args.monitor.mode();
        exec
    }
}

#[derive(Debug, Args)]
pub struct First {
    /// How often each program runs under each lock
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
}

impl From<First> for first::First {
    fn from(args: First) -> Self {
        Self {
            rounds: args.rounds,
        }
    }
}

#[derive(Debug, Args)]
pub struct Paper {
    /// Run a short version: at most ten minutes on two hardware contexts
    #[arg(long)]
    pub quick: bool,

    /// Directory for records, figures and the report
    #[arg(short, long, value_name = "DIR", default_value = "flexguard-paper", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,

    /// Start over instead of continuing the run in DIR
    #[arg(long)]
    pub fresh: bool,

    /// Measure these locks instead of the paper's
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    pub locks: Vec<String>,

    /// Run these experiments only; --plan lists them
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Show what would run, and how long it takes
    #[arg(long)]
    pub plan: bool,

    /// Seconds of each run of a microbenchmark, instead of the plan's
    #[arg(long, value_name = "SECONDS", value_parser = |s: &str| seconds(s, 0.001, 60.0))]
    pub seconds: Option<f64>,

    /// Rounds, instead of the plan's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
}

impl From<Paper> for paper::Paper {
    fn from(args: Paper) -> Self {
        Self {
            quick: args.quick,
            wanted: Wanted {
                output: args.output,
                fresh: args.fresh,
                only: args.only,
                plan: args.plan,
            },
            locks: args.locks,
            seconds: args.seconds,
            rounds: args.rounds,
        }
    }
}

#[derive(Debug, Args)]
pub struct Scenes {
    /// A file of scenes, or the name of an installed one
    #[arg(value_name = "SCENES", value_hint = ValueHint::FilePath)]
    pub scenes: String,

    /// Where everything goes
    #[arg(short, long, value_name = "DIR", default_value = "flexguard-scenes", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,

    /// Start over instead of continuing what DIR has begun
    #[arg(long)]
    pub fresh: bool,

    /// These scenes only; --plan lists them
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Show what would run, and how long it takes
    #[arg(long)]
    pub plan: bool,

    /// Seconds of each run of a workload, instead of the file's
    #[arg(long, value_name = "SECONDS", value_parser = |s: &str| seconds(s, 0.001, 3600.0))]
    pub seconds: Option<f64>,

    /// Rounds, instead of the file's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
}

impl From<Scenes> for scene::Request {
    fn from(args: Scenes) -> Self {
        Self {
            name: args.scenes,
            wanted: Wanted {
                output: args.output,
                fresh: args.fresh,
                only: args.only,
                plan: args.plan,
            },
            rounds: args.rounds,
            seconds: args.seconds,
        }
    }
}

#[derive(Debug, Args)]
pub struct Compare {
    /// The result to compare with
    #[arg(value_name = "BEFORE", value_hint = ValueHint::FilePath)]
    pub before: PathBuf,

    /// The result to judge
    #[arg(value_name = "AFTER", value_hint = ValueHint::FilePath)]
    pub after: PathBuf,

    /// Compare this measure instead of the benchmark's own
    #[arg(long, value_name = "NAME")]
    pub measure: Option<String>,

    /// Give verdicts although the machines differ
    #[arg(long)]
    pub across_machines: bool,

    /// End with exit status 1 if a result got worse
    #[arg(long)]
    pub check: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl From<Compare> for compare::Compare {
    fn from(args: Compare) -> Self {
        Self {
            before: args.before,
            after: args.after,
            measure: args.measure,
            across_machines: args.across_machines,
            check: args.check,
            json: args.json,
        }
    }
}

#[derive(Debug, Args)]
pub struct Report {
    /// Results that `-o` wrote
    #[arg(required = true, value_name = "RESULT", value_hint = ValueHint::FilePath)]
    pub results: Vec<PathBuf>,

    /// The HTML page to write
    #[arg(short = 'o', long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "plots")]
    pub html: Option<PathBuf>,

    /// Write every figure as SVG and PNG into DIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub plots: Option<PathBuf>,
}

impl From<Report> for report::Report {
    fn from(args: Report) -> Self {
        Self {
            results: args.results,
            html: args.html,
            plots: args.plots,
        }
    }
}

#[derive(Debug, Args)]
pub struct Load {
    /// The server's threads
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: u32,

    /// How long to put load on it
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
}

impl From<Load> for memcached::Load {
    fn from(args: Load) -> Self {
        Self {
            threads: args.threads,
            seconds: args.seconds,
        }
    }
}
