// SPDX-License-Identifier: MIT
//! Measures the Preemption Monitor's detection against an oracle that shares no code with it.
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
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
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
    /// Where the lock of the victims keeps its words: model= in the list of locks
    #[arg(long)]
    model: Layout,
    /// Preemptions by interrupt to see of each victim
    #[arg(long, default_value_t = 10_000)]
    preemptions: u64,
    /// How many of them, of each victim, to see that only a window or an intent tells
    #[arg(long, default_value_t = 0)]
    hidden: u64,
    /// How many, of all victims, to see that find the queue cut
    #[arg(long, default_value_t = 0)]
    cuts: u64,
    /// How many, of all victims, to see that find a worker critical for both locks
    #[arg(long, default_value_t = 0)]
    nested: u64,
    /// How many, of all victims, to see that find an intent that leads to a lock of others
    #[arg(long, default_value_t = 0)]
    edges: u64,
    /// Which CPU the victims run on: so many before the last one
    #[arg(long, default_value_t = 0)]
    cpu: usize,
    /// How many changes of the CPU to see, of all victims
    #[arg(long, default_value_t = 0)]
    moves: u64,
    /// Run two processes of each victim at once, on this CPU and the one before, which change places now and then
    #[arg(long)]
    pair: bool,
    /// Watch the lock of this interposer: the victims are programs with pthread's mutexes
    #[arg(long)]
    interposer: Option<PathBuf>,
    /// Longest time for one victim, in seconds
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    #[arg(long, value_enum, default_value = "exact")]
    expect: Expect,
    /// Run a monitor that is broken on purpose (monitor/tests/monitor/mutants/table.rs)
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
    let layout = arguments.model;
    let mut before = Tally::default();
    for (index, program) in arguments.victims.iter().enumerate() {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let begin = Instant::now();
        let last = index + 1 == arguments.victims.len();
        let others = last.then_some(&before);
        let (tally, report) = run(arguments, service, layout, program, others)?;
        println!("{name}: {tally}; {:.1} s", begin.elapsed().as_secs_f64());
        let verdict = assess(arguments, &tally);
        if verdict.is_err() {
            report.iter().for_each(|told| println!("  {told}"));
        }
        verdict.with_context(|| name.into_owned())?;
        before += tally;
    }
    Ok(())
}

/// What has not been seen often enough to say anything about it. What is asked of all victims together (`others`: what
/// those before saw), the last one has to make good. How often an interrupt hits a window is the machine's to say, so a
/// victim runs until it has been seen, not for a time.
fn missing(
    arguments: &Arguments,
    forced: u64,
    tally: &Tally,
    others: Option<&Tally>,
) -> Option<String> {
    let mut counts = vec![
        ("preemptions", forced, arguments.preemptions),
        ("preemptions inside windows", tally.hidden, arguments.hidden),
    ];
    if let Some(others) = others {
        counts.extend([
            (
                "beside cut queues",
                others.cuts + tally.cuts,
                arguments.cuts,
            ),
            (
                "with both locks",
                others.nested + tally.nested,
                arguments.nested,
            ),
            (
                "with an intent only",
                others.edges + tally.edges,
                arguments.edges,
            ),
            ("moves", others.moves + tally.moves, arguments.moves),
        ]);
    }
    let (what, seen, wanted) = counts.into_iter().find(|(_, seen, wanted)| seen < wanted)?;
    Some(format!("{seen} {what}, not {wanted}"))
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

/// One process of a victim, and what is seen and thought of it.
struct Watched {
    victim: Victim,
    witness: Witness,
    judge: Rc<RefCell<Judge>>,
}

/// Watches one victim from its first lock to its last.
fn run(
    arguments: &Arguments,
    service: &Service,
    layout: Layout,
    program: &Path,
    others: Option<&Tally>,
) -> Result<(Tally, Vec<String>)> {
    let here = nth_last_cpu(arguments.cpu)?;
    let mut places = vec![vec![here]];
    if arguments.pair {
        let there = nth_last_cpu(arguments.cpu + 1)?;
        places = vec![vec![here, there], vec![there, here]];
    }
    let mut watched = Vec::new();
    for cpus in &places {
        let victim = registered_victim(arguments, service, program, cpus)?;
        let others = victim.workers.len() * (places.len() - 1);
        let judge = Rc::new(RefCell::new(Judge::new(layout, &victim, others)));
        let witness = Witness::attach(&MonitorMaps::find()?, &victim, layout, &judge)?;
        watched.push(Watched {
            victim,
            witness,
            judge,
        });
    }
    let begin = Instant::now();
    loop {
        let (forced, tally) = burst(&mut watched)?;
        let Some(missing) = missing(arguments, forced, &tally, others) else {
            break;
        };
        ensure!(
            begin.elapsed().as_secs() < arguments.seconds,
            "{}: {missing} in {} s",
            program.display(),
            arguments.seconds
        );
    }
    let mut tally = Tally::default();
    let mut report = Vec::new();
    let mut judges = Vec::new();
    for process in watched {
        drop(process.witness);
        let status = process.victim.finish()?;
        ensure!(status.success(), "the victim ended with {status}");
        judges.push(Rc::into_inner(process.judge).context("the witness has gone")?);
    }
    let left = service.monitor.stats()?.num_preempted_cs;
    for mut judge in judges.into_iter().map(RefCell::into_inner) {
        judge.finish(left);
        tally += judge.tally;
        report.append(&mut judge.report);
    }
    Ok((tally, report))
}

fn registered_victim(
    arguments: &Arguments,
    service: &Service,
    program: &Path,
    cpus: &[usize],
) -> Result<Victim> {
    let socket = service.monitor.socket().to_string();
    let interposer = arguments.interposer.as_deref();
    let mut victim = Victim::start(program, cpus, &socket, interposer)?;
    if interposer.is_some() {
        victim.find_blocks(block_offset(service, &victim)?);
    }
    ensure!(
        interposer.is_some() || victim.registered,
        "the victim has not registered"
    );
    Ok(victim)
}

/// What the victim's interposer has registered.
fn block_offset(service: &Service, victim: &Victim) -> Result<i64> {
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, victim.pid, 0) };
    ensure!(fd >= 0, "pidfd_open: {}", io::Error::last_os_error());
    // SAFETY: the kernel has just opened it for us; nobody else knows it.
    let process = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let registered = service.monitor.registration(process.as_fd())?;
    match registered.map_or(vec![], |registered| registered.block_offsets)[..] {
        [offset] => Ok(offset),
        ref others => bail!("{} images are registered", others.len()),
    }
}

/// Returns what has been seen so far, before it the preemptions by interrupt of the process that had the fewest. Those
/// without a reported arrival are judged, and say less: as many more are asked for.
fn burst(watched: &mut [Watched]) -> Result<(u64, Tally)> {
    for process in watched.iter_mut() {
        process.victim.begin_burst()?;
    }
    for process in watched.iter_mut() {
        process.victim.end_burst()?;
    }
    let (mut fewest, mut all) = (u64::MAX, Tally::default());
    for process in watched.iter() {
        process.witness.listen()?;
        process.witness.check_complete()?;
        let tally = process.judge.borrow().tally;
        fewest = fewest.min(tally.forced.saturating_sub(tally.unreported));
        all += tally;
    }
    Ok((fewest, all))
}

/// Of the CPUs that this process may use, the n-th from the end. Tests on different CPUs run side by side.
fn nth_last_cpu(n: usize) -> Result<usize> {
    // SAFETY: a cpu_set_t is plain bits; all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is as large as we say.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    ensure!(result == 0, "sched_getaffinity failed");
    // SAFETY: every index is below CPU_SETSIZE.
    let allowed = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    let all: Vec<usize> = (0..libc::CPU_SETSIZE as usize).filter(allowed).collect();
    Ok(all[all.len() - 1 - n % all.len()])
}
