// SPDX-License-Identifier: MIT
//! `flexguard bench shm`: the shared-memory-access microbenchmark, section 5.2 of the paper.
//!
//! fg-bench runs and measures one round of one lock; here rounds are interleaved and put side by side.

use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args;
use crate::bench::runner::{Capture, Run, with_tail};
use crate::bench::session::{self, Session, Setup, Step};
use crate::bench::spread::{self, Spread};
use crate::bench::table::Table;
use crate::child::{self, Status};
use crate::failure::{Failure, Result};
use crate::prefix::Prefix;
use crate::summary::Counted;

const SCHEMA: &str = "flexguard-bench-shm/1";

/// A lock that collapses hands over once a time slice at worst; a run that takes this much longer hangs.
const GRACE: Duration = Duration::from_secs(60);

/// What we read of the object that fg-bench prints; it may hold more.
#[derive(Debug, Clone, Deserialize)]
struct Worker {
    throughput_ops_per_ms: f64,
    cs_ns: CriticalSection,
    fairness_factor: f64,
    longest_wait_ns: f64,
    cpu_seconds: f64,
}

#[derive(Debug, Clone, Deserialize)]
struct CriticalSection {
    mean: f64,
    p99: f64,
}

#[derive(Debug, Clone, Serialize)]
struct Sample {
    round: u32,
    worker: Value,
    preempted_critical_sections: Option<u64>,
    mode_transitions: Option<u64>,
    #[serde(skip)]
    read: Worker,
}

impl Sample {
    fn of(step: Step, run: &Run, counted: Option<Counted>) -> Result<Self, String> {
        let unreadable = |e: serde_json::Error| {
            with_tail(&format!("fg-bench printed no result: {e}"), &run.stdout)
        };
        let worker: Value = serde_json::from_str(&run.stdout).map_err(unreadable)?;
        Ok(Self {
            round: step.round,
            read: Worker::deserialize(&worker).map_err(unreadable)?,
            worker,
            preempted_critical_sections: counted.map(|c| c.preempted_critical_sections()),
            mode_transitions: counted.map(|c| c.mode_transitions),
        })
    }
}

#[derive(Debug, Serialize)]
struct Entry {
    threads: u32,
    lock: String,
    throughput_ops_per_ms: Option<Spread>,
    ratio: Option<Spread>,
    cs_mean_ns: Option<Spread>,
    cs_p99_ns: Option<Spread>,
    fairness_factor: Option<Spread>,
    longest_wait_ns: Option<Spread>,
    cpu_seconds: Option<Spread>,
    preempted_critical_sections: Option<Spread>,
    mode_transitions: Option<Spread>,
    rounds: Vec<Sample>,
}

impl Entry {
    fn new(threads: u32, lock: &str, rounds: &[Sample], first: &[Sample]) -> Self {
        let over =
            |value: &dyn Fn(&Sample) -> Option<f64>| Spread::of(rounds.iter().filter_map(value));
        let first_in = |round| {
            first
                .iter()
                .find(|f| f.round == round)
                .map(|f| f.read.throughput_ops_per_ms)
        };
        Self {
            threads,
            lock: lock.to_owned(),
            throughput_ops_per_ms: over(&|s| Some(s.read.throughput_ops_per_ms)),
            // Round by round: what slows a whole round down cancels out.
            ratio: over(&|s| Some(s.read.throughput_ops_per_ms / first_in(s.round)?)),
            cs_mean_ns: over(&|s| Some(s.read.cs_ns.mean)),
            cs_p99_ns: over(&|s| Some(s.read.cs_ns.p99)),
            fairness_factor: over(&|s| Some(s.read.fairness_factor)),
            longest_wait_ns: over(&|s| Some(s.read.longest_wait_ns)),
            cpu_seconds: over(&|s| Some(s.read.cpu_seconds)),
            preempted_critical_sections: over(&|s| s.preempted_critical_sections.map(|n| n as f64)),
            mode_transitions: over(&|s| s.mode_transitions.map(|n| n as f64)),
            rounds: rounds.to_vec(),
        }
    }
}

#[derive(Serialize)]
struct Settings<'a> {
    locks: &'a [String],
    threads: &'a [u32],
    rounds: u32,
    seconds: f64,
    warmup: f64,
    cycles_between: u64,
    lines: u32,
}

pub fn run(args: args::BenchShm) -> Result<Status> {
    let prefix = Prefix::find()?;
    let locks = session::resolve(&prefix, &args.locks)?;
    let worker = prefix.worker();
    if !worker.is_file() {
        return Err(
            Failure::new(format_args!("there is no {}", worker.display()))
                .advice("the installation is incomplete: run `make`"),
        );
    }
    let mut session = Session::open(SCHEMA, &prefix, args.monitor.monitor, &args.report)?;
    let mut samples: Vec<Vec<Vec<Sample>>> =
        vec![vec![Vec::new(); locks.len()]; args.threads.len()];
    let setup = Setup {
        capture: Capture::Apart,
        limit: Duration::from_secs_f64(args.warmup + args.seconds) + GRACE,
        label: &|step| format!("{}, {} threads", locks[step.lock], args.threads[step.group]),
        command: &|step| {
            child::command(&worker_argv(
                &worker,
                &args,
                &locks[step.lock],
                args.threads[step.group],
            ))
        },
    };
    let steps = session::interleave(args.rounds.rounds, args.threads.len(), locks.len());
    session.run(&steps, &setup, |step, run, counted| {
        samples[step.group][step.lock].push(Sample::of(step, &run, counted)?);
        Ok(())
    })?;
    let mut entries = Vec::new();
    for (&threads, of_locks) in args.threads.iter().zip(&samples) {
        entries.extend(
            locks
                .iter()
                .zip(of_locks)
                .map(|(lock, rounds)| Entry::new(threads, lock, rounds, &of_locks[0])),
        );
    }
    let settings = Settings {
        locks: &locks,
        threads: &args.threads,
        rounds: args.rounds.rounds,
        seconds: args.seconds,
        warmup: args.warmup,
        cycles_between: args.cycles_between,
        lines: args.lines,
    };
    session.finish(settings, &entries, &table(&entries))
}

fn worker_argv(
    worker: &std::path::Path,
    args: &args::BenchShm,
    lock: &str,
    threads: u32,
) -> Vec<OsString> {
    let options = [
        ("--lock", lock.to_owned()),
        ("--threads", threads.to_string()),
        ("--seconds", args.seconds.to_string()),
        ("--warmup", args.warmup.to_string()),
        ("--cycles-between", args.cycles_between.to_string()),
        ("--lines", args.lines.to_string()),
    ];
    let mut argv: Vec<OsString> = vec![worker.into(), "shm".into()];
    for (option, value) in options {
        argv.extend([option.into(), value.into()]);
    }
    argv
}

fn table(entries: &[Entry]) -> String {
    let titles = [
        "threads",
        "lock",
        "ops/ms",
        "ratio",
        "cs ns",
        "p99",
        "fairness",
        "longest wait",
        "preempted",
    ];
    let mut table = Table::new(&titles, 2);
    for e in entries {
        table.row(vec![
            e.threads.to_string(),
            e.lock.clone(),
            spread::show(e.throughput_ops_per_ms),
            spread::show_median(e.ratio),
            spread::show_median(e.cs_mean_ns),
            spread::show_median(e.cs_p99_ns),
            spread::show_median(e.fairness_factor),
            e.longest_wait_ns.map_or("-".into(), |s| duration(s.max)),
            spread::show_count(e.preempted_critical_sections),
        ]);
    }
    table.render()
}

/// Nanoseconds in the unit that fits.
fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_fits() {
        assert_eq!(
            [1.0, 1.5e3, 2.0e6, 3.25e9].map(duration),
            ["1 ns", "1.5 us", "2.0 ms", "3.25 s"]
        );
    }

    #[test]
    fn what_fg_bench_adds_is_kept() {
        let text = r#"{"throughput_ops_per_ms":1,"cs_ns":{"mean":2,"p99":3,"max":9},"fairness_factor":0.5,
                       "longest_wait_ns":4,"cpu_seconds":5,"news":6}"#;
        let worker: Value = serde_json::from_str(text).unwrap();
        let read = Worker::deserialize(&worker).unwrap();
        assert_eq!((read.cs_ns.p99, read.fairness_factor), (3.0, 0.5));
        assert_eq!(worker["news"], 6);
    }
}
