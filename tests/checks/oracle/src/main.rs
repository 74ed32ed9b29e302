// SPDX-License-Identifier: MIT
//! Measures the Preemption Monitor's detection against an oracle that shares neither code nor idea with it.
//!
//! Runs victims (tests/monitor/victim.c) under a monitor of its own, hears every context switch of their workers from
//! a second BPF program (`witness`), derives from the locks' memory which threads are critical (`truth`), and compares that with
//! the monitor's verdict and counter at each switch (`judge`).

mod judge;
mod mutants {
    include!(concat!(env!("OUT_DIR"), "/mutants.rs"));
}
mod records;
mod truth;
mod victim;
mod witness;

use std::cell::RefCell;
use std::env;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use flexguard_monitor::{Error, Monitor, Options, SocketName, Stop};

use judge::{Judge, Tally};
use truth::Layout;
use victim::Victim;
use witness::{MonitorMaps, Witness};

/// What ctest takes for "this machine cannot run it".
const SKIPPED: u8 = 77;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Expect {
    /// No disagreement at all.
    Exact,
    /// The victim's build is broken on purpose, so that critical sections are overlooked.
    FalseNegatives,
    /// The same, so that others are taken for critical.
    FalsePositives,
    /// The monitor is broken on purpose, so that it says something wrong.
    Disagreement,
}

/// Compares the monitor's verdicts with an oracle's, at each preemption of the victims.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The lock that the victims were built with
    #[arg(long)]
    lock: String,
    /// Preemptions by interrupt to see of each victim
    #[arg(long, default_value_t = 10_000)]
    preemptions: u64,
    /// How many of them, of each victim, must be seen by a window or an intent alone
    #[arg(long, default_value_t = 0)]
    hidden: u64,
    /// How many must find the queue cut
    #[arg(long, default_value_t = 0)]
    cuts: u64,
    /// How many must find a worker critical for both locks
    #[arg(long, default_value_t = 0)]
    nested: u64,
    /// How many must find an intent that leads to a lock of others
    #[arg(long, default_value_t = 0)]
    edges: u64,
    /// Longest time for one victim, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    #[arg(long, value_enum, default_value = "exact")]
    expect: Expect,
    /// Run a monitor that is broken on purpose (rust/monitor/tests/monitor/mutants/table.rs)
    #[arg(long)]
    mutant: Option<String>,
    #[arg(required = true)]
    victims: Vec<PathBuf>,
}

/// A monitor that serves in a thread of this process.
struct Service {
    monitor: Arc<Monitor>,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Service {
    fn start(mutant: Option<&[u8]>) -> Result<Service, Error> {
        let name = format!("@flexguard-oracle-{}", std::process::id());
        let options = Options {
            socket: SocketName::parse(name.as_ref())?,
            run_time_stats: false,
            ..Options::default()
        };
        let monitor = Arc::new(match mutant {
            Some(object) => Monitor::start_with(object, options)?,
            None => Monitor::start(options)?,
        });
        let stop = Stop::new()?;
        let serve = {
            let (monitor, stop) = (monitor.clone(), stop.clone());
            move || monitor.serve(&stop)
        };
        Ok(Service {
            monitor,
            stop,
            thread: Some(thread::spawn(serve)),
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mutant = match arguments.mutant.as_deref().map(object_of).transpose() {
        Ok(object) => object,
        Err(error) => return failed(&error),
    };
    let service = match Service::start(mutant) {
        Ok(service) => service,
        Err(error) => return cannot_run(&error),
    };
    match run_all(&arguments, &service) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("oracle: {error:#}");
    ExitCode::FAILURE
}

fn object_of(mutant: &str) -> Result<&'static [u8]> {
    let found = mutants::MUTANTS.iter().find(|(name, _)| *name == mutant);
    let (_, object) = found.with_context(|| format!("there is no mutant {mutant:?}"))?;
    Ok(object)
}

fn cannot_run(error: &Error) -> ExitCode {
    eprintln!("oracle: {error}");
    if env::var_os("FLEXGUARD_REQUIRE_BPF").is_some_and(|value| value == "1") {
        return ExitCode::FAILURE;
    }
    ExitCode::from(SKIPPED)
}

fn run_all(arguments: &Arguments, service: &Service) -> Result<()> {
    let layout = Layout::of(&arguments.lock)
        .with_context(|| format!("the oracle has no model of {:?}", arguments.lock))?;
    let mut seen = Tally::default();
    for program in &arguments.victims {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let begin = Instant::now();
        let (tally, report) = run(arguments, service, layout, program)?;
        println!("{name}: {tally}; {:.1} s", begin.elapsed().as_secs_f64());
        let verdict = assess(arguments, &tally);
        if verdict.is_err() {
            report.iter().for_each(|told| println!("  {told}"));
        }
        verdict.with_context(|| name.into_owned())?;
        ensure!(
            tally.hidden >= arguments.hidden,
            "{}: {} preemptions inside windows: too few to say anything about them",
            program.display(),
            tally.hidden
        );
        seen.cuts += tally.cuts;
        seen.nested += tally.nested;
        seen.edges += tally.edges;
    }
    for (what, seen, wanted) in [
        ("beside cut queues", seen.cuts, arguments.cuts),
        ("with both locks", seen.nested, arguments.nested),
        ("with an intent only", seen.edges, arguments.edges),
    ] {
        ensure!(
            seen >= wanted,
            "{seen} preemptions {what}: too few to say anything about them"
        );
    }
    Ok(())
}

fn assess(arguments: &Arguments, tally: &Tally) -> Result<()> {
    match arguments.expect {
        Expect::Exact => ensure!(tally.is_exact(), "the monitor and the oracle disagree"),
        Expect::FalseNegatives => ensure!(tally.false_negatives > 0, "none was overlooked"),
        Expect::Disagreement => ensure!(!tally.is_exact(), "the mutant was not noticed"),
        Expect::FalsePositives => ensure!(tally.false_positives > 0, "none was counted wrongly"),
    }
    Ok(())
}

/// Watches one victim from its first lock to its last.
fn run(
    arguments: &Arguments,
    service: &Service,
    layout: Layout,
    program: &Path,
) -> Result<(Tally, Vec<String>)> {
    let socket = service.monitor.socket().to_string();
    let mut victim = Victim::start(program, last_cpu()?, &socket)?;
    let judge = Rc::new(RefCell::new(Judge::new(layout, &victim)));
    let mut storage = MaybeUninit::uninit();
    let witness = Witness::attach(&mut storage, &MonitorMaps::find()?, &victim, layout, &judge)?;
    let begin = Instant::now();
    loop {
        victim.burst()?;
        witness.listen()?;
        witness.check_complete()?;
        let seen = judge.borrow().tally.forced;
        if seen >= arguments.preemptions {
            break;
        }
        if begin.elapsed().as_secs() >= arguments.seconds {
            bail!("only {seen} preemptions in {} s", arguments.seconds);
        }
    }
    drop(witness);
    let status = victim.finish()?;
    ensure!(status.success(), "the victim ended with {status}");
    let mut judge = Rc::into_inner(judge)
        .context("the witness has gone")?
        .into_inner();
    judge.finish(service.monitor.stats()?.num_preempted_cs);
    Ok((judge.tally, judge.report))
}

/// The last CPU that this process may use: the reader then mostly runs on another one.
fn last_cpu() -> Result<usize> {
    // SAFETY: a cpu_set_t is plain bits; all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is as large as we say.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    ensure!(result == 0, "sched_getaffinity failed");
    // SAFETY: every index is below CPU_SETSIZE.
    (0..libc::CPU_SETSIZE as usize)
        .rfind(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) })
        .context("no CPU to run on")
}
