// SPDX-License-Identifier: MIT
//! `flexguard bench exec`: any program, under several locks.

use std::time::Duration;

use regex::Regex;
use serde::Serialize;

use crate::args;
use crate::bench::runner::{Capture, Run};
use crate::bench::session::{self, Session, Setup, Step};
use crate::bench::spread::{self, Spread};
use crate::bench::table::Table;
use crate::child::{self, Status};
use crate::failure::{Failure, Result};
use crate::prefix::Prefix;
use crate::run::Preload;
use crate::summary::Counted;

const SCHEMA: &str = "flexguard-bench-exec/1";

#[derive(Debug, Clone, Serialize)]
struct Sample {
    round: u32,
    elapsed_seconds: f64,
    cpu_seconds: f64,
    score: Option<f64>,
    preempted_critical_sections: Option<u64>,
    mode_transitions: Option<u64>,
}

impl Sample {
    fn of(
        step: Step,
        run: &Run,
        counted: Option<Counted>,
        score: Option<&Regex>,
    ) -> Result<Self, String> {
        Ok(Self {
            round: step.round,
            elapsed_seconds: run.elapsed.as_secs_f64(),
            cpu_seconds: run.end.cpu_seconds(),
            score: score
                .map(|regex| find_score(regex, &run.stdout))
                .transpose()?,
            preempted_critical_sections: counted.map(|c| c.preempted_critical_sections()),
            mode_transitions: counted.map(|c| c.mode_transitions),
        })
    }

    /// How much better than `first`: its time over ours, or our score over its.
    fn ratio_to(&self, first: &Self) -> f64 {
        match (self.score, first.score) {
            (Some(ours), Some(its)) => ours / its,
            _ => first.elapsed_seconds / self.elapsed_seconds,
        }
    }
}

#[derive(Debug, Serialize)]
struct Entry {
    lock: String,
    elapsed_seconds: Option<Spread>,
    cpu_seconds: Option<Spread>,
    score: Option<Spread>,
    ratio: Option<Spread>,
    preempted_critical_sections: Option<Spread>,
    mode_transitions: Option<Spread>,
    rounds: Vec<Sample>,
}

impl Entry {
    fn new(lock: &str, rounds: &[Sample], first: &[Sample]) -> Self {
        let over =
            |value: &dyn Fn(&Sample) -> Option<f64>| Spread::of(rounds.iter().filter_map(value));
        Self {
            lock: lock.to_owned(),
            elapsed_seconds: over(&|s| Some(s.elapsed_seconds)),
            cpu_seconds: over(&|s| Some(s.cpu_seconds)),
            score: over(&|s| s.score),
            // Round by round: what slows a whole round down cancels out.
            ratio: over(&|s| Some(s.ratio_to(first.iter().find(|f| f.round == s.round)?))),
            preempted_critical_sections: over(&|s| s.preempted_critical_sections.map(|n| n as f64)),
            mode_transitions: over(&|s| s.mode_transitions.map(|n| n as f64)),
            rounds: rounds.to_vec(),
        }
    }
}

#[derive(Serialize)]
struct Settings<'a> {
    locks: &'a [String],
    rounds: u32,
    score: Option<&'a str>,
    program: Vec<String>,
}

pub fn run(args: args::BenchExec) -> Result<Status> {
    let prefix = Prefix::find()?;
    let locks = session::resolve(&prefix, &args.locks)?;
    let preloads = locks
        .iter()
        .map(|lock| Preload::of(&prefix, lock))
        .collect::<Result<Vec<_>>>()?;
    check_score(args.score.as_ref())?;
    let mut session = Session::open(SCHEMA, &prefix, args.monitor.monitor, &args.report)?;
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); locks.len()];
    let setup = Setup {
        capture: Capture::Together,
        limit: Duration::from_secs_f64(args.timeout),
        label: &|step| locks[step.lock].clone(),
        command: &|step| {
            let mut command = child::command(&args.program);
            preloads[step.lock].apply(&mut command);
            command
        },
    };
    let steps = session::interleave(args.rounds.rounds, 1, locks.len());
    session.run(&steps, &setup, |step, run, counted| {
        samples[step.lock].push(Sample::of(step, &run, counted, args.score.as_ref())?);
        Ok(())
    })?;
    let entries: Vec<Entry> = locks
        .iter()
        .zip(&samples)
        .map(|(lock, rounds)| Entry::new(lock, rounds, &samples[0]))
        .collect();
    let settings = Settings {
        locks: &locks,
        rounds: args.rounds.rounds,
        score: args.score.as_ref().map(Regex::as_str),
        program: args
            .program
            .iter()
            .map(|a| a.to_string_lossy().into_owned())
            .collect(),
    };
    let table = table(&entries, args.score.is_some());
    session.finish(settings, &entries, &table)
}

fn table(entries: &[Entry], scored: bool) -> String {
    let mut titles = vec!["lock", "time s", "ratio"];
    if scored {
        titles.push("score");
    }
    titles.extend([
        "cpu s",
        "preempted critical sections",
        "spin->block transitions",
    ]);
    let mut table = Table::new(&titles, 1);
    for e in entries {
        let mut row = vec![
            e.lock.clone(),
            spread::show(e.elapsed_seconds),
            spread::show(e.ratio),
        ];
        if scored {
            row.push(spread::show(e.score));
        }
        row.push(spread::show_median(e.cpu_seconds));
        row.push(spread::show_count(e.preempted_critical_sections));
        row.push(spread::show_count(e.mode_transitions));
        table.row(row);
    }
    table.render()
}

fn check_score(score: Option<&Regex>) -> Result<()> {
    match score {
        Some(regex) if regex.captures_len() < 2 => Err(Failure::new("--score has no group")
            .advice("put the number in parentheses: --score 'ops/s: ([0-9.]+)'")),
        _ => Ok(()),
    }
}

/// The last match counts: programs print intermediate values first.
fn find_score(regex: &Regex, output: &str) -> Result<f64, String> {
    let found = regex
        .captures_iter(output)
        .last()
        .and_then(|c| c.get(1))
        .map(|m| m.as_str());
    let found = found.ok_or_else(|| {
        super::runner::with_tail(
            &format!("--score '{regex}' matches nothing in its output"),
            output,
        )
    })?;
    found
        .parse()
        .map_err(|_| format!("--score found '{found}', which is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_score_counts() {
        let regex = Regex::new("ops: ([0-9.]+)").unwrap();
        assert_eq!(find_score(&regex, "ops: 1\nops: 2.5\n"), Ok(2.5));
        assert!(
            find_score(&regex, "nothing")
                .unwrap_err()
                .contains("matches nothing")
        );
        assert!(
            find_score(&regex, "ops: ..")
                .unwrap_err()
                .contains("no number")
        );
    }

    fn sample(round: u32, elapsed_seconds: f64, score: Option<f64>) -> Sample {
        Sample {
            round,
            elapsed_seconds,
            cpu_seconds: 1.0,
            score,
            preempted_critical_sections: None,
            mode_transitions: None,
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let first = [
            sample(0, 2.0, None),
            sample(1, 20.0, None),
            sample(2, 6.0, None),
        ];
        let other = [sample(1, 10.0, None), sample(0, 1.0, None)];
        let entry = Entry::new("x", &other, &first);
        assert_eq!(
            entry.ratio,
            Some(Spread {
                median: 2.0,
                min: 2.0,
                max: 2.0
            })
        );
        assert_eq!(entry.preempted_critical_sections, None);
    }

    #[test]
    fn a_higher_score_is_a_higher_ratio() {
        assert_eq!(
            sample(0, 5.0, Some(30.0)).ratio_to(&sample(0, 1.0, Some(10.0))),
            3.0
        );
    }
}
