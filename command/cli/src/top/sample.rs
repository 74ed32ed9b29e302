// SPDX-License-Identifier: MIT
//! What the monitor has counted between two looks at it.

use std::collections::HashMap;
use std::time::Instant;

use flexguard_monitor::{Error, Listing, SocketName, Stats};

use crate::programs::{Preempted, Program, UnwatchedNumber};

/// A program, and what happened to it by the second.
#[derive(Debug, Clone)]
pub struct Row {
    pub program: Program,
    /// Preempted critical sections a second; NaN: nothing was counted yet. So are all rates.
    pub preempted: f64,
    /// Their time off CPU, in milliseconds a second.
    pub off_cpu: f64,
}

/// The machine between two looks.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    pub stats: Stats,
    pub holders: f64,
    pub next_waiters: f64,
    pub transitions: f64,
    /// The part of the time in which the locks blocked, of 1.
    pub blocking: f64,
    /// What the monitor's process uses, in CPUs.
    pub cpus: f64,
    pub rows: Vec<Row>,
    /// Programs that run without the monitor, as far as this user may see them.
    pub unwatched: usize,
    pub preempted_now: Vec<Preempted>,
}

/// By the process, its preempted critical sections and their time.
type Counts = HashMap<u32, (u64, u64)>;

/// Looks at the monitor again and again.
#[derive(Debug, Default)]
pub struct Sampler {
    before: Option<(Instant, Stats, Counts)>,
    unwatched: UnwatchedNumber,
}

impl Sampler {
    pub fn look(&mut self, socket: &SocketName) -> Result<Sample, Error> {
        let answer = Listing::query(socket);
        let now = Instant::now();
        if answer.is_err() {
            self.before = None; // what comes next may be another monitor's
        }
        let (stats, listing) = answer?;
        let programs: Vec<Program> = listing.processes.iter().map(Program::of).collect();
        let preempted_now = listing.counted.iter().map(Preempted::of).collect();
        Ok(Sample {
            unwatched: self.unwatched.of(&programs),
            ..self.compare(now, stats, programs, preempted_now)
        })
    }

    /// The first look has no rates yet.
    fn compare(
        &mut self,
        now: Instant,
        stats: Stats,
        programs: Vec<Program>,
        preempted_now: Vec<Preempted>,
    ) -> Sample {
        let counts = programs
            .iter()
            .map(|p| (p.pid, (p.preempted(), p.preempted_ns)))
            .collect();
        let before = self.before.replace((now, stats, counts));
        let counted = before.as_ref().and_then(|(_, known, _)| stats.since(known));
        let (then, _, programs_before) = before.unwrap_or((now, stats, HashMap::new()));
        let seconds = now.duration_since(then).as_secs_f64().max(1e-3);
        let is_known = counted.is_some();
        let counted = counted.unwrap_or_default();
        let rate = |count: u64| match is_known {
            true => count as f64 / seconds,
            false => f64::NAN,
        };
        let row = |program: Program| {
            let (preempted, ns) = programs_before
                .get(&program.pid)
                .copied()
                .unwrap_or_default();
            Row {
                // A number may have been given to another process, which has counted less.
                preempted: rate(program.preempted().saturating_sub(preempted)),
                off_cpu: rate(program.preempted_ns.saturating_sub(ns)) / 1e6,
                program,
            }
        };
        Sample {
            stats,
            holders: rate(counted.preempted_holders),
            next_waiters: rate(counted.preempted_next_waiters),
            transitions: rate(counted.mode_transitions),
            blocking: share(rate(counted.blocking_ns) / 1e9),
            cpus: counted.process_cpus(seconds).unwrap_or(f64::NAN),
            rows: programs.into_iter().map(row).collect(),
            unwatched: 0,
            preempted_now,
        }
    }
}

/// At most all of the time; what is not known stays so, which `min` alone would make 1.
fn share(of: f64) -> f64 {
    if of > 1.0 { 1.0 } else { of }
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;

    pub fn program(pid: u32, command: &str, preempted: u64) -> Program {
        Program {
            pid,
            uid: Some(0),
            user: Some("root".into()),
            threads: Some(8),
            lock: Some("flexguard".into()),
            cgroup: Some("/system.slice".into()),
            command: Some(command.into()),
            preempted_holders: preempted,
            preempted_next_waiters: 0,
            preempted_ns: preempted * 1_000_000,
            domain: "machine".into(),
            domain_counter: 0,
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let mut sampler = Sampler::default();
        let begin = Instant::now();
        let stats = |holders, blocking_ns| Stats {
            preempted_holders: holders,
            blocking_ns,
            ..Stats::default()
        };
        let first = sampler.compare(begin, stats(1000, 7), vec![program(1, "a", 1000)], vec![]);
        assert!(
            first.holders.is_nan() && first.blocking.is_nan(),
            "{first:?}"
        );
        assert!(first.rows[0].preempted.is_nan() && first.rows[0].off_cpu.is_nan());
        let later = begin + Duration::from_secs(2);
        let programs = vec![program(1, "a", 1040), program(2, "b", 10)];
        let second = sampler.compare(later, stats(1050, 500_000_007), programs, vec![]);
        assert_eq!((second.holders, second.blocking), (25.0, 0.25));
        assert_eq!(
            (second.rows[0].preempted, second.rows[0].off_cpu),
            (20.0, 20.0)
        );
        assert_eq!(second.rows[1].preempted, 5.0); // it has registered in between
        // Another monitor has counted less: there are no rates.
        let third = sampler.compare(
            later + Duration::from_secs(1),
            stats(3, 0),
            vec![program(1, "a", 3)],
            vec![],
        );
        assert!(third.holders.is_nan() && third.rows[0].preempted.is_nan());
    }
}
