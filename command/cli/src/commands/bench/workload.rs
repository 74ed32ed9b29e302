// SPDX-License-Identifier: MIT
//! `flexguard bench WORKLOAD`: a subcommand for each workload of fg-bench, made of what it tells of its options.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
use flexguard_bench::catalogue::{Catalogue, Choice, Kind, Workload};
use flexguard_bench::contention::Contention;
use flexguard_bench::micro::Micro;
use flexguard_bench::options::{self, Count, seconds};
use flexguard_bench::simulated::{self, Simulated};
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Failure, Result};
use flexguard_launch::prefix::Prefix;

use super::common::{ENVIRONMENT, EXIT, FILES, JSON, Output, Plan};
use crate::manual::{self, Section, examples};
use crate::monitor_choice::MonitorChoice;

const COLUMNS: Section = Section {
    title: "COLUMNS",
    items: &[
        (
            "throughput_ops_per_ms",
            "Operations per millisecond, all threads together.",
        ),
        (
            "cs_mean_ns, cs_p50_ns, cs_p99_ns, cs_p999_ns, cs_max_ns",
            "Time to take the lock, run the critical section and release.",
        ),
        (
            "hold_p50_ns, hold_p99_ns, hold_p999_ns",
            "Time from having the lock to having released it, preemptions included.",
        ),
        (
            "wait_p99_ns, longest_wait_ns",
            "Time to get the lock. longest_wait_ns is the longest of all rounds.",
        ),
        (
            "fairness_factor, fairness_normalised",
            "Dice's factor, the share of the busier half of the threads: 0.5 is fair, 1 unfair. The normalised factor compares \
             odd thread counts with even ones. Over the whole run, whose length is --seconds.",
        ),
        (
            "fairness_1s, fairness_1s_worst, fairness_10s",
            "The same over each second (mean and worst) and over ten seconds, if the run is that long.",
        ),
        (
            "share_nice_N",
            "With --nice: the share of all operations that the threads of nice level N did.",
        ),
        (
            "cpu_us_per_op, cpu_seconds",
            "User and system time of the threads.",
        ),
        (
            "spins_per_op, spins_per_s, parks_per_s",
            "Iterations of the busy-waiting loops; sleeps. Only locks of this project count them.",
        ),
        (
            "preempted_per_s, transitions_per_s",
            "Preempted critical sections, and changes from spinning to blocking. Machine-wide; they need a monitor.",
        ),
        (
            "runnable_mean",
            "With --trace-us: threads that were not asleep.",
        ),
        (
            "lock_bytes, per_lock_bytes, per_thread_bytes, rss_growth_bytes",
            "Memory: the lock object, all that a used lock takes, what each thread adds, and the growth of the process.",
        ),
        (
            "ratio",
            "Throughput over that of the first lock in the same round.",
        ),
    ],
};

/// The page of every workload beyond its options.
pub const MANUAL: &[Section] = &[
    COLUMNS,
    JSON,
    EXIT,
    ENVIRONMENT,
    FILES,
    examples(&[
            (
                "flexguard bench shm",
                "The default: posix, futex and flexguard, from half a thread to four for each hardware context.",
            ),
            (
                "flexguard bench shm --locks all --threads 8 --rounds 3",
                "A quick look at every lock.",
            ),
            (
                "flexguard bench shm --threads 4x --cycles-between 100,1000,10000 --html report.html -o result.json",
                "More and less contention, as a page; the result is kept.",
            ),
            (
                "flexguard bench hashtable --locks flexguard,peers --threads 0.5x --hogs 0,1x,2x",
                "Against locks of others that were built in, beside busy processes (the paper's Fig. 3b).",
            ),
            (
                "flexguard bench server --machine xeon-gold-5320 --threads 0.5x,1x,2x --section-us 1 --think-us 50",
                "The same on 104 hardware contexts that are simulated (docs/guide/simulator.md of the source tree).",
            ),
            (
                "flexguard bench turns --threads 2 --locks posix,flexguard",
                "Two threads that pass a turn by condition variables, under each lock's interposer.",
            ),
        ]),
];

/// What every workload takes.
#[derive(Debug, Args)]
struct Compared {
    /// Locks to compare; `all`: every lock of this installation, `peers`: the locks of other libraries
    #[arg(
        short,
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "posix,futex,flexguard"
    )]
    locks: Vec<String>,

    /// Run the worker of posix with each lock's interposer preloaded, instead of each lock's own worker
    #[arg(long)]
    interposed: bool,

    /// Simulate this machine, an installed one or a file, instead of running here. A round is a seed
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,

    #[command(flatten)]
    monitor: MonitorChoice,
}

/// What those with threads take. Options that take several values make a point of each combination.
#[derive(Debug, Args)]
struct Load {
    /// Threads; 2x: two for each hardware context
    #[arg(
        short,
        long,
        value_name = "COUNTS",
        value_delimiter = ',',
        default_value = "0.5x,1x,2x,4x",
        value_parser = |text: &str| Count::parse(text, 1, 4096)
    )]
    threads: Vec<Count>,

    /// Measured seconds of each run [with --machine: 0.02]
    #[arg(
        short,
        long,
        value_name = "SECONDS",
        value_delimiter = ',',
        default_value = "1"
    )]
    seconds: Vec<f64>,

    /// Seconds that each run warms up before it measures [with --machine: 0.006]
    #[arg(long, value_name = "SECONDS", default_value = "0.1")]
    warmup: f64,

    /// Busy processes that compete for the CPUs; 2x: two for each hardware context
    #[arg(
        long,
        value_name = "COUNTS",
        value_delimiter = ',',
        default_value = "0",
        value_parser = |text: &str| Count::parse(text, 0, 4096)
    )]
    hogs: Vec<Count>,

    /// Nice levels, dealt to the threads in turn
    #[arg(
        long,
        value_name = "LEVELS",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    nice: Vec<i32>,

    /// Sample the number of runnable threads at this interval
    #[arg(long, value_name = "MICROSECONDS")]
    trace_us: Option<u64>,
}

/// `is_given`: an option that the command line has, and not only its default.
fn contention(
    compared: Compared,
    load: Option<Load>,
    is_given: impl Fn(&str) -> bool,
) -> Result<Contention> {
    let mut contention = Contention::of(&compared.locks, vec![1], 1.0, 0.0);
    contention.interposed = compared.interposed;
    contention.monitor = compared.monitor.mode();
    if let Some(name) = &compared.machine {
        contention.simulated = Some(Simulated::find(&Prefix::find()?, name)?);
    }
    let simulated = contention.simulated.as_ref();
    let contexts = simulated.map_or_else(options::contexts, |s| s.hardware_contexts);
    if let Some(load) = load {
        contention.threads = on(&load.threads, contexts, "threads")?;
        contention.hogs = on(&load.hogs, contexts, "hogs")?;
        let short = |name: &str| simulated.is_some() && !is_given(name);
        contention.seconds = match short("seconds") {
            true => vec![simulated::SECONDS],
            false => load.seconds,
        };
        contention.warmup = match short("warmup") {
            true => simulated::WARMUP,
            false => load.warmup,
        };
        contention.nice = load.nice;
        contention.trace_us = load.trace_us.unwrap_or(0);
    }
    Ok(contention)
}

fn on(counts: &[Count], contexts: usize, option: &str) -> Result<Vec<u32>> {
    let number = |count: &Count| {
        let number = count.on(contexts);
        number.map_err(|wrong| Failure::new(format_args!("--{option}: {wrong}")))
    };
    counts.iter().map(number).collect()
}

/// The subcommand of a workload.
pub fn command(catalogue: &Catalogue, workload: &Workload) -> clap::Command {
    let name = workload.name.clone();
    let mut command = clap::Command::new(name).after_long_help(manual::help(MANUAL));
    command = Compared::augment_args(command);
    if !workload.pairs {
        command = Load::augment_args(command);
        for choice in &catalogue.round {
            command = command.mut_arg(choice.variable(), |arg| ranged(arg, choice));
        }
    }
    command = command.next_help_heading("Workload");
    for choice in &workload.options {
        command = command.arg(own(choice));
    }
    // Last: the structs bring the comment above them, as if it were about the command.
    Output::augment_args(Plan::augment_args(command))
        .about(workload.brief.clone())
        .long_about(format!(
            "{}\n\nOptions that take several values measure every combination.",
            workload.brief
        ))
}

/// An option of the workload's own.
fn own(choice: &Choice) -> Arg {
    let arg = Arg::new(choice.variable())
        .long(choice.name.clone())
        .help(choice.brief.clone());
    if choice.kind == Kind::Flag {
        return arg.action(ArgAction::SetTrue);
    }
    let parser = choice.clone();
    let arg = arg
        .value_name("VALUES")
        .value_delimiter(',')
        .action(ArgAction::Append)
        .value_parser(move |text: &str| parser.parse(text));
    match choice.default {
        Some(value) => arg.default_value(value.to_string()),
        None => arg,
    }
}

/// An option of every round, within the worker's range.
fn ranged(arg: Arg, choice: &Choice) -> Arg {
    let Choice { min, max, .. } = *choice;
    let choice = choice.clone();
    match (choice.name.as_str(), choice.kind) {
        ("threads" | "hogs", _) => {
            arg.value_parser(move |text: &str| Count::parse(text, min as u32, max as u32))
        }
        (_, Kind::Seconds | Kind::Real) => {
            arg.value_parser(move |text: &str| seconds(text, min, max))
        }
        (_, Kind::Levels) => {
            arg.value_parser(move |text: &str| choice.parse(text).map(|level| level as i32))
        }
        _ => arg.value_parser(move |text: &str| choice.parse(text).map(|number| number as u64)),
    }
}

/// A workload with all that the command line says of it.
#[derive(Debug)]
pub struct Measured {
    workload: Micro,
    plan: Plan,
    output: Output,
}

impl Measured {
    /// `matches` are those of the command that `command` made.
    pub fn of(workload: &Workload, matches: &ArgMatches) -> Result<Self> {
        let parsed = |e: clap::Error| -> ! { e.exit() };
        let compared = Compared::from_arg_matches(matches).unwrap_or_else(|e| parsed(e));
        let load = || Load::from_arg_matches(matches).unwrap_or_else(|e| parsed(e));
        let load = (!workload.pairs).then(load);
        let is_given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let mut micro = Micro::new(workload, contention(compared, load, is_given)?);
        for choice in &workload.options {
            let name = choice.variable();
            let values: Vec<f64> = if choice.kind == Kind::Flag {
                vec![f64::from(u8::from(matches.get_flag(&name)))]
            } else {
                let given = matches.get_many::<f64>(&name);
                given.into_iter().flatten().copied().collect()
            };
            micro = micro.set(&name, values)?;
        }
        Ok(Self {
            workload: micro,
            plan: Plan::from_arg_matches(matches).unwrap_or_else(|e| parsed(e)),
            output: Output::from_arg_matches(matches).unwrap_or_else(|e| parsed(e)),
        })
    }

    pub fn run(self) -> Result<Status> {
        flexguard_bench::run(self.workload, &self.plan.into(), &self.output.into())
    }
}
