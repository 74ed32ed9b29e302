// SPDX-License-Identifier: MIT
//! Runs a workload: interleaved rounds under one monitor, failures, Ctrl-C. What is measured is kept as it comes in.

use std::collections::HashSet;

use super::document::{Document, FailedRun, SCHEMA, Sample, Unavailable};
use super::machine::{self, Build, Load, Machine};
use super::options::Plan;
use super::point::Point;
use super::progress::Progress;
use super::runner::{self, Outcome, Run};
use super::workload::{Counts, Launch, MonitorUse, Reading, UNAVAILABLE, Workload};
use flexguard_launch::attach::{Attachment, SOCKET_ENV, Served};
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use flexguard_launch::prefix::Prefix;

/// One run among all: subject number `subject` at point number `point`. The subject after the last is the first one again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// None: to warm up.
    pub round: Option<u32>,
    pub point: usize,
    pub subject: usize,
}

/// Every round runs every point under every subject. The order of the subjects rotates: none always follows the same one, and
/// what disturbs the machine for a while hits all of them.
pub fn interleave(warmup: u32, rounds: u32, points: usize, subjects: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    for turn in 0..warmup + rounds {
        for point in 0..points {
            steps.extend((0..subjects).map(|i| Step {
                round: turn.checked_sub(warmup),
                point,
                subject: (i + turn as usize) % subjects,
            }));
        }
    }
    steps
}

/// The monitor that the runs share. Signals must be held: it may start threads.
pub fn monitor(workload: &dyn Workload) -> Result<Attachment> {
    match workload.monitor() {
        Some(mode) => Attachment::find(mode),
        None => Ok(Attachment::none("each run has its own, or none")),
    }
}

/// The record before the first run.
pub fn begin(
    workload: &dyn Workload,
    plan: &Plan,
    prefix: &Prefix,
    monitor: &Attachment,
) -> Document {
    let (subjects, points) = (workload.subjects(), workload.points());
    let mut document = Document {
        schema: SCHEMA.into(),
        workload: workload.name().into(),
        title: workload.title(),
        complete: false,
        command: std::env::args_os()
            .map(|a| a.to_string_lossy().into_owned())
            .collect(),
        date: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
        commit: machine::commit(prefix.dir()),
        build: Build::of(prefix),
        machine: Machine::here(),
        load: Load::now(),
        monitor: monitor.into(),
        environment: machine::environment(),
        settings: workload.settings(),
        subject: workload.subject().into(),
        rounds: plan.rounds,
        measures: workload.measures(),
        primary: workload.primary().into(),
        columns: workload.columns(),
        figures: workload.figures(),
        results: Vec::new(),
        noise: None,
        verdicts: Vec::new(),
        failures: Vec::new(),
        unavailable: Vec::new(),
        subjects,
    };
    if let Some(settings) = document.settings.as_object_mut() {
        settings.insert("warmup_rounds".into(), plan.warmup_rounds.into());
        settings.insert("noise".into(), plan.noise.into());
    }
    document.add_entries(&points, plan.noise);
    document
}

pub struct Session<'a> {
    pub workload: &'a dyn Workload,
    pub plan: &'a Plan,
    pub monitor: &'a Attachment,
    pub progress: &'a Progress,
    /// Called after every run that added something.
    pub keep: &'a dyn Fn(&Document) -> Result<()>,
}

impl Session<'_> {
    /// Every run of the plan, and the seconds that it takes by the workload's own account.
    pub fn steps(workload: &dyn Workload, plan: &Plan) -> Vec<(Step, f64)> {
        let points = workload.points();
        let subjects = workload.subjects().len() + usize::from(plan.noise);
        interleave(plan.warmup_rounds, plan.rounds, points.len(), subjects)
            .into_iter()
            .map(|s| (s, workload.run_seconds(&points[s.point]).unwrap_or(1.0)))
            .collect()
    }

    /// Runs what is not in the document yet. Some: the signal that interrupted it. What failed once is not run again.
    pub fn run(&self, document: &mut Document) -> Result<Option<i32>> {
        let points = self.workload.points();
        let mut given_up = HashSet::new();
        for (step, seconds) in Self::steps(self.workload, self.plan) {
            let (point, key) = (&points[step.point], (step.point, step.subject));
            let name = document.subjects[step.subject % document.subjects.len()].clone();
            let again = step.subject == document.subjects.len();
            let known = document.has(point, &name, again, step.round);
            let hopeless = document.unavailable.iter().any(|u| u.subject == name);
            if known || hopeless || given_up.contains(&key) {
                self.progress.skip(seconds);
                continue;
            }
            self.progress.start(&label(step, point, &name));
            match self.measure(point, &name)? {
                Measured::Interrupted(signal) => return Ok(Some(signal)),
                Measured::Unavailable(reason) => document.unavailable.push(Unavailable {
                    subject: name,
                    reason,
                }),
                Measured::Failed(reason) => {
                    given_up.insert(key);
                    document.failures.push(FailedRun {
                        round: step.round.unwrap_or(0),
                        point: point.clone(),
                        subject: name,
                        reason,
                    });
                }
                Measured::Good(reading) => {
                    if let Some(round) = step.round {
                        document.add(point, &name, again, round, reading);
                    }
                }
            }
            self.progress.done(seconds);
            document.analyse();
            (self.keep)(document)?;
        }
        document.complete = document.failures.is_empty();
        Ok(None)
    }

    fn measure(&self, point: &Point, subject: &str) -> Result<Measured> {
        let Launch {
            mut command,
            capture,
            limit,
            monitor,
        } = self.workload.launch(point, subject);
        let (own, none);
        let monitor = match monitor {
            MonitorUse::Shared => self.monitor,
            MonitorUse::None => {
                none = Attachment::none("none is wanted in this run");
                &none
            }
            MonitorUse::Own { timed } => {
                own = Attachment::Own(Served::for_a_run(timed)?);
                &own
            }
        };
        command.env(SOCKET_ENV, monitor.socket());
        let before = monitor.stats();
        let outcome = runner::run(command, capture, limit)?;
        let counts = before
            .zip(monitor.stats())
            .map(|(before, after)| Counts { before, after });
        Ok(match outcome {
            Outcome::Interrupted(signal) => Measured::Interrupted(signal),
            Outcome::TimedOut(text) => Measured::Failed(runner::with_tail(
                &format!("killed after {} s", limit.as_secs_f64()),
                &text,
            )),
            Outcome::Ended(run) => self.judge(&run, counts.as_ref()),
        })
    }

    fn judge(&self, run: &Run, counts: Option<&Counts>) -> Measured {
        if run.end.status == Status::Exited(UNAVAILABLE) {
            let reason = format!("{}{}", run.stdout, run.stderr);
            let reason = reason
                .trim()
                .lines()
                .last()
                .unwrap_or("it does not say why");
            return Measured::Unavailable(reason.to_owned());
        }
        match run.defect() {
            Some(defect) => Measured::Failed(defect),
            None => self
                .workload
                .read(run, counts)
                .map_or_else(Measured::Failed, Measured::Good),
        }
    }
}

/// What became of a run.
enum Measured {
    Good(Reading),
    Failed(String),
    Unavailable(String),
    Interrupted(i32),
}

fn label(step: Step, point: &Point, subject: &str) -> String {
    let round = match step.round {
        Some(round) => format!("round {}", round + 1),
        None => "warm-up".into(),
    };
    if point.0.is_empty() {
        format!("{round}: {subject}")
    } else {
        format!("{round}: {subject}, {point}")
    }
}

impl Document {
    /// An entry for everything that will be measured, in the order in which it is shown.
    fn add_entries(&mut self, points: &[Point], noise: bool) {
        use super::document::Entry;
        for point in points {
            for (i, subject) in self.subjects.iter().enumerate() {
                let entry = |again| Entry::new(point.clone(), subject.clone(), again);
                self.results.push(entry(false));
                if i == 0 && noise {
                    self.results.push(entry(true));
                }
            }
        }
    }

    /// Whether that run is in already. Warm-ups never are.
    fn has(&self, point: &Point, subject: &str, again: bool, round: Option<u32>) -> bool {
        let mut entries = self
            .at(point)
            .filter(|e| e.subject == subject && e.again == again);
        round.is_some_and(|round| entries.any(|e| e.rounds.iter().any(|s| s.round == round)))
    }

    fn add(&mut self, point: &Point, subject: &str, again: bool, round: u32, reading: Reading) {
        if let Some(entry) = self.entry_mut(point, subject, again) {
            entry.rounds.push(Sample {
                round,
                values: reading.values,
                detail: reading.detail,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_order_of_the_subjects_rotates() {
        let order: Vec<usize> = interleave(0, 3, 1, 3).iter().map(|s| s.subject).collect();
        assert_eq!(order, [0, 1, 2, 1, 2, 0, 2, 0, 1]);
    }

    #[test]
    fn warm_ups_come_first() {
        let rounds: Vec<Option<u32>> = interleave(2, 2, 1, 1).iter().map(|s| s.round).collect();
        assert_eq!(rounds, [None, None, Some(0), Some(1)]);
    }

    proptest! {
        #[test]
        fn every_round_runs_everything_once(rounds in 1u32..8, points in 1usize..4, subjects in 1usize..6) {
            let steps = interleave(0, rounds, points, subjects);
            prop_assert_eq!(steps.len(), rounds as usize * points * subjects);
            let distinct: HashSet<_> = steps.iter().map(|s| (s.round, s.point, s.subject)).collect();
            prop_assert_eq!(distinct.len(), steps.len());
            prop_assert!(steps.is_sorted_by_key(|s| (s.round, s.point)));
        }

        /// In as many rounds as there are subjects, each runs in every place once.
        #[test]
        fn nobody_is_always_first(subjects in 1usize..8) {
            let steps = interleave(0, subjects as u32, 1, subjects);
            for place in 0..subjects {
                let there: HashSet<usize> = steps.iter().skip(place).step_by(subjects).map(|s| s.subject).collect();
                prop_assert_eq!(there.len(), subjects);
            }
        }
    }
}
