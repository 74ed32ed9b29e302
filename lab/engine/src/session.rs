// SPDX-License-Identifier: MIT
//! Runs a workload: interleaved rounds under one monitor, failures, Ctrl-C. What is measured is kept as it comes in.

use std::collections::HashSet;
use std::path::PathBuf;

use super::distance::{self, Distance};
use super::document::{Document, FailedRun, SCHEMA, Sample, Unavailable};
use super::machine::{self, Build, Load, Machine, MonitorState, Origin};
use super::options::Plan;
use super::point::Point;
use super::progress::Progress;
use super::runner::{self, Hogs, Outcome, Run};
use super::simulated::Simulated;
use super::stats::Estimate;
use super::workload::{Counts, Launch, MonitorUse, Reading, UNAVAILABLE, Workload};
use flexguard_launch::MonitorMode;
use flexguard_launch::attach::{Attachment, Served};
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
    for pass in 0..warmup + rounds {
        for point in 0..points {
            steps.extend((0..subjects).map(|i| Step {
                round: pass.checked_sub(warmup),
                point,
                subject: (i + pass as usize) % subjects,
            }));
        }
    }
    steps
}

/// The monitor that the runs share. Signals must be held: it may start threads.
pub fn monitor(workload: &dyn Workload) -> Result<Attachment> {
    if workload.simulated().is_some() {
        return Ok(Attachment::none("simulated"));
    }
    match workload.monitor() {
        Some(mode) => Attachment::find(mode),
        None => Ok(Attachment::none("each run has its own, or none")),
    }
}

/// Of rows that are measured now.
pub fn origin(workload: &dyn Workload, prefix: &Prefix) -> Origin {
    let commit = machine::commit(prefix.dir());
    Origin::of(commit.as_deref(), &Build::of(prefix), &machine_of(workload))
}

fn simulated_monitor(mode: Option<MonitorMode>) -> MonitorState {
    let active = mode != Some(MonitorMode::Off);
    MonitorState {
        active,
        shared: false,
        description: if active { "simulated" } else { "off" }.into(),
    }
}

/// Where a workload runs.
fn machine_of(workload: &dyn Workload) -> Machine {
    workload
        .simulated()
        .map_or_else(Machine::here, Machine::simulated)
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
        machine: machine_of(workload),
        load: Load::now(),
        monitor: match workload.simulated() {
            Some(_) => simulated_monitor(workload.monitor()),
            None => monitor.into(),
        },
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
        moved_rounds: 0,
        subjects,
    };
    if let Some(settings) = document.settings.as_object_mut() {
        settings.insert("warmup_rounds".into(), plan.warmup_rounds.into());
        settings.insert("noise".into(), plan.noise.into());
        if let Some(share) = plan.tell {
            settings.insert("tell".into(), share.into());
        }
    }
    if let Some(simulated) = workload.simulated() {
        document.mark(simulated);
    }
    document.add_entries(&points, plan.noise);
    document
}

pub struct Session<'a> {
    pub workload: &'a dyn Workload,
    pub plan: &'a Plan,
    pub monitor: &'a Attachment,
    pub progress: &'a Progress,
    /// fg-handover, which tells how far apart the CPUs are.
    pub handover: PathBuf,
    pub origin: Origin,
    /// Called after every run that added something.
    pub keep: &'a dyn Fn(&Document) -> Result<()>,
    /// Called before every round: none is needed any more.
    pub enough: &'a dyn Fn(&Document) -> bool,
}

/// Fewer rounds have no interval of 95 %.
const LEAST_TO_TELL: usize = 6;

/// The seeds of the first subject's second go: others than those of its first, of which a round has one.
const AGAIN: u32 = 1000;

/// How often a round is measured again in which the CPUs were moved.
const MAKE_UP: u32 = 3;

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
        let steps = Self::steps(self.workload, self.plan);
        for group in steps.chunk_by(|a, b| (a.0.round, a.0.point) == (b.0.round, b.0.point)) {
            let (round, point) = (group[0].0.round, &points[group[0].0.point]);
            if self.plan.tell.is_some_and(|share| document.is_told(share))
                || (self.enough)(document)
            {
                group.iter().for_each(|step| self.progress.skip(step.1));
                continue;
            }
            for again in 0..=MAKE_UP {
                match self.group(group, point, &mut given_up, document)? {
                    Done::Interrupted(signal) => return Ok(Some(signal)),
                    Done::Nothing => break,
                    Done::Measured => {}
                }
                let after = self.distance();
                let last = again == MAKE_UP;
                if !document.end_round(point, round, after, last) || last {
                    break;
                }
                document.moved_rounds += 1;
                self.progress
                    .more(group.len(), group.iter().map(|g| g.1).sum());
            }
            document.analyse();
            (self.keep)(document)?;
        }
        document.complete = document.failures.is_empty();
        Ok(None)
    }

    /// One round at one point: every subject once.
    fn group(
        &self,
        group: &[(Step, f64)],
        point: &Point,
        given_up: &mut HashSet<(usize, usize)>,
        document: &mut Document,
    ) -> Result<Done> {
        let (mut done, mut before) = (Done::Nothing, None);
        for &(step, seconds) in group {
            let key = (step.point, step.subject);
            let name = document.subjects[step.subject % document.subjects.len()].clone();
            let again = step.subject == document.subjects.len();
            let known = document.has(point, &name, again, step.round);
            let hopeless = document.unavailable.iter().any(|u| u.subject == name);
            if known || hopeless || given_up.contains(&key) {
                self.progress.skip(seconds);
                continue;
            }
            if matches!(done, Done::Nothing) {
                before = self.distance();
                done = Done::Measured;
            }
            self.progress.start(&label(step, point, &name));
            let seed = step.round.unwrap_or(0) + 1 + if again { AGAIN } else { 0 };
            match self.measure(point, &name, seed)? {
                RunOutcome::Interrupted(signal) => return Ok(Done::Interrupted(signal)),
                RunOutcome::Unavailable(reason) => document.unavailable.push(Unavailable {
                    subject: name,
                    reason,
                }),
                RunOutcome::Failed(reason) => {
                    given_up.insert(key);
                    document.failures.push(FailedRun {
                        round: step.round.unwrap_or(0),
                        point: point.clone(),
                        subject: name,
                        reason,
                    });
                }
                RunOutcome::Good(reading) => {
                    if let Some(round) = step.round {
                        let sample = Sample {
                            round,
                            values: reading.values,
                            distance: before.map(|before_ns| Distance {
                                before_ns,
                                after_ns: None,
                            }),
                            origin: self.origin.clone(),
                            detail: reading.detail,
                        };
                        document.add(point, &name, again, sample);
                    }
                }
            }
            self.progress.done(seconds);
            document.analyse();
            (self.keep)(document)?;
        }
        Ok(done)
    }

    /// How far apart the CPUs are, where the workload runs on them.
    fn distance(&self) -> Option<f64> {
        match self.workload.simulated() {
            Some(_) => None,
            None => distance::measure(&self.handover),
        }
    }

    fn measure(&self, point: &Point, subject: &str, seed: u32) -> Result<RunOutcome> {
        let Launch {
            mut command,
            capture,
            limit,
            monitor,
            hogs,
            seeded,
            environment,
        } = self.workload.launch(point, subject);
        if seeded {
            command.args(["--seed", &seed.to_string()]);
        }
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
        monitor.tell(&mut command);
        command.envs(environment);
        let _hogs = Hogs::start(hogs)?;
        let before = monitor.stats();
        let outcome = runner::run(command, capture, limit)?;
        let counts = before
            .zip(monitor.stats())
            .map(|(before, after)| Counts { before, after });
        Ok(match outcome {
            Outcome::Interrupted(signal) => RunOutcome::Interrupted(signal),
            Outcome::TimedOut(text) => {
                let killed = format!("killed after {} s", limit.as_secs_f64());
                self.workload.at_limit(limit).map_or_else(
                    || RunOutcome::Failed(runner::with_tail(&killed, &text)),
                    RunOutcome::Good,
                )
            }
            Outcome::Ended(run) => self.judge(&run, subject, counts.as_ref()),
        })
    }

    fn judge(&self, run: &Run, subject: &str, counts: Option<&Counts>) -> RunOutcome {
        if run.end.status == Status::Exited(UNAVAILABLE) {
            let reason = format!("{}{}", run.stdout, run.stderr);
            let reason = reason
                .trim()
                .lines()
                .last()
                .unwrap_or("it does not say why");
            return RunOutcome::Unavailable(reason.to_owned());
        }
        match run.defect() {
            Some(defect) => RunOutcome::Failed(defect),
            None => self
                .workload
                .read(run, subject, counts)
                .map_or_else(RunOutcome::Failed, RunOutcome::Good),
        }
    }
}

/// What became of a round.
enum Done {
    Measured,
    /// All of it was known.
    Nothing,
    Interrupted(i32),
}

/// What became of a run.
enum RunOutcome {
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
    /// Titles say that it is simulated, also where they are seen alone.
    pub fn mark(&mut self, simulated: &Simulated) {
        let titles = self.figures.iter_mut().map(|f| &mut f.title);
        for title in titles.chain([&mut self.title]) {
            if !title.ends_with(&simulated.mark()) {
                *title += &simulated.mark();
            }
        }
    }

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

    fn add(&mut self, point: &Point, subject: &str, again: bool, sample: Sample) {
        if let Some(entry) = self.entry_mut(point, subject, again) {
            entry.rounds.push(sample);
        }
    }

    /// Whether every ratio to the first subject is known to this share of itself, wherever it is measured.
    fn is_told(&self, share: f64) -> bool {
        let told =
            |r: &Estimate| r.n >= LEAST_TO_TELL && (r.high - r.low) / 2.0 <= share * r.median;
        let mut ratios = self
            .results
            .iter()
            .filter_map(|e| e.ratio.as_ref())
            .peekable();
        ratios.peek().is_some() && ratios.all(told)
    }

    /// The round is over, and the CPUs are `after` apart. True: they were moved in it. Then it is thrown away, unless
    /// it is the last try: what is known is kept, and each value says how far apart the CPUs were.
    fn end_round(
        &mut self,
        point: &Point,
        round: Option<u32>,
        after: Option<f64>,
        last: bool,
    ) -> bool {
        let (Some(round), Some(after)) = (round, after) else {
            return false;
        };
        let of_round = |s: &&mut Sample| s.round == round;
        let mut places = Vec::new();
        for entry in self.results.iter_mut().filter(|e| e.point == *point) {
            for sample in entry.rounds.iter_mut().filter(of_round) {
                if let Some(distance) = &mut sample.distance {
                    distance.after_ns.get_or_insert(after);
                    places.push(distance.place());
                }
            }
        }
        let moved = places.iter().any(|p| p.is_none() || *p != places[0]);
        if moved && !last {
            for entry in self.results.iter_mut().filter(|e| e.point == *point) {
                entry.rounds.retain(|s| s.round != round);
            }
        }
        moved
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

    #[test]
    fn the_last_try_of_a_round_is_kept_even_if_the_cpus_were_moved() {
        for (last, kept) in [(false, 6), (true, 7)] {
            let mut document = crate::document::testing::document();
            let point = document.results[0].point.clone();
            document.results[0].rounds[3].distance = Some(Distance {
                before_ns: 50.0,
                after_ns: None,
            });
            assert!(document.end_round(&point, Some(3), Some(250.0), last));
            assert_eq!(document.results[0].rounds.len(), kept);
        }
    }

    /// mcs is all over the place at 8 threads; at 1 thread all locks are within 2 % of themselves.
    #[test]
    fn rounds_end_when_the_ratios_are_known() {
        let mut document = crate::document::testing::document();
        assert!(!document.is_told(0.05));
        document
            .results
            .retain(|e| e.point.get("threads") == Some(1.0));
        document.analyse();
        assert!(document.is_told(0.05) && !document.is_told(0.001));
        document
            .results
            .iter_mut()
            .for_each(|e| e.rounds.truncate(5));
        document.analyse();
        assert!(!document.is_told(0.5));
        document.results.clear();
        assert!(!document.is_told(0.5));
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
