// SPDX-License-Identifier: MIT
//! `flexguard advise`: whether FlexGuard helps a program.
//!
//! The best of several equal locks passes a test more often than each of them. Therefore glibc's locks are measured twice in
//! each round, and a lock counts as better or worse only if it is so against both.

use std::ffi::OsString;

use serde::Serialize;

use super::document::{Document, Entry, FailedRun};
use super::exec::Exec;
use super::options::Plan;
use super::pipeline::{self, measure};
use super::point::Point;
use super::prose::{list, times};
use super::stats::{Better, Difference, Estimate, against};
use super::workload::{UNAVAILABLE, Workload};
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use flexguard_launch::locks::POSIX;
use flexguard_launch::prefix::Prefix;
use flexguard_launch::{musl, output};

pub const SCHEMA: &str = "flexguard-advice/1";

/// Measures what `exec` describes, and says what follows. Its first lock is glibc's. `why`: more reasons, and the signal
/// that kept it from finding them; it is called once the program has been measured.
pub fn run(
    mut exec: Exec,
    rounds: u32,
    json: bool,
    why: impl FnOnce(&[OsString]) -> (Vec<String>, Option<i32>),
) -> Result<Status> {
    let prefix = Prefix::find()?;
    musl::refuse(&exec.program[0])?;
    exec.locks.retain(|name| name != POSIX);
    exec.locks.insert(0, POSIX.into());
    exec.prepare(&prefix)?;
    let plan = Plan {
        rounds,
        warmup_rounds: 0,
        noise: true,
        tell: None,
    };
    let (mut document, mut interrupted) = measure(&exec, &plan, &prefix, &|_| Ok(()))?;
    fail_unavailable(&mut document);
    let mut advice = Advice::of(&document, &exec.program);
    if interrupted.is_none() && advice.outcome != Outcome::NotMeasured {
        let (reasons, signal) = why(&exec.program);
        advice.reasons.extend(reasons);
        interrupted = signal;
    }
    if json {
        output::print_json(&advice)?;
    } else {
        output::print(&advice.text())?;
    }
    pipeline::tell_failures(&document);
    Ok(pipeline::status(&document, interrupted))
}

/// The status by which a worker says that it cannot run here is a failure like others in any other program.
fn fail_unavailable(document: &mut Document) {
    let points: Vec<Point> = document.points().into_iter().cloned().collect();
    for missing in document.unavailable.drain(..) {
        document.failures.push(FailedRun {
            round: 0,
            point: points.first().cloned().unwrap_or_default(),
            subject: missing.subject,
            reason: format!("exit status {UNAVAILABLE}: {}", missing.reason),
        });
        document.complete = false;
    }
}

/// Whether FlexGuard helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Helps,
    /// No FlexGuard lock helps, and one makes it worse.
    Hurts,
    NoDifference,
    TooFewRounds,
    /// It did not run to its end under glibc's locks, or under no lock of FlexGuard's.
    NotMeasured,
}

#[derive(Debug, Serialize)]
pub struct Advice {
    schema: &'static str,
    program: Vec<String>,
    /// Every run that was planned is in.
    complete: bool,
    outcome: Outcome,
    /// The FlexGuard lock to use.
    recommended: Option<String>,
    /// By what the locks are compared.
    measure: String,
    monitor: String,
    glibc: Counters,
    locks: Vec<Candidate>,
    /// What the counters and the profile tell about the outcome, in sentences.
    reasons: Vec<String>,
    failures: Vec<Failed>,
}

/// A lock against glibc's.
#[derive(Debug, Serialize)]
struct Candidate {
    lock: String,
    difference: Difference,
    /// How many times as good as glibc's, round by round.
    ratio: Option<Ratio>,
    counters: Counters,
}

#[derive(Debug, Clone, Serialize)]
struct Ratio {
    estimate: f64,
    low: f64,
    high: f64,
    confidence: f64,
    rounds: usize,
}

/// Medians of the runs; None: not measured.
#[derive(Debug, Default, Serialize)]
struct Counters {
    elapsed_seconds: Option<f64>,
    cpu_seconds: Option<f64>,
    sleeps_per_second: Option<f64>,
    preempted_critical_sections: Option<f64>,
    mode_transitions: Option<f64>,
    registered_processes: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Failed {
    lock: String,
    round: u32,
    reason: String,
}

impl Counters {
    fn of(entry: &Entry) -> Self {
        let median = |name: &str| entry.measures.get(name).map(|m| m.median);
        Self {
            elapsed_seconds: median("elapsed_seconds"),
            cpu_seconds: median("cpu_seconds"),
            sleeps_per_second: median("sleeps_per_s"),
            preempted_critical_sections: median("preempted"),
            mode_transitions: median("transitions"),
            registered_processes: median("registered"),
        }
    }
}

impl Candidate {
    fn is_flexguard(&self) -> bool {
        self.lock.starts_with("flexguard")
    }

    fn gain(&self) -> f64 {
        self.ratio.as_ref().map_or(f64::NAN, |r| r.estimate)
    }

    fn of(entry: &Entry, primary: &str, better: Better, twice: &[&Entry]) -> Self {
        let ours = entry.values_of(primary);
        let ratios: Vec<Estimate> = twice
            .iter()
            .filter_map(|glibc| against(better, &ours, &glibc.values_of(primary)))
            .collect();
        Self {
            lock: entry.subject.clone(),
            difference: difference(&ratios),
            ratio: ratios.first().map(|r| Ratio {
                estimate: r.median,
                low: r.low,
                high: r.high,
                confidence: r.confidence,
                rounds: r.n,
            }),
            counters: Counters::of(entry),
        }
    }
}

/// What holds against both runs of glibc's locks.
fn difference(ratios: &[Estimate]) -> Difference {
    match ratios {
        [once, again] => match (Difference::of(once), Difference::of(again)) {
            (a, b) if a == b => a,
            (Difference::TooFewRounds, _) | (_, Difference::TooFewRounds) => {
                Difference::TooFewRounds
            }
            (Difference::Better | Difference::Worse, _) => Difference::WithinNoise,
            _ => Difference::Unclear,
        },
        _ => Difference::TooFewRounds,
    }
}

impl Advice {
    fn of(document: &Document, program: &[OsString]) -> Self {
        let primary = &document.primary;
        let failed = |entry: &Entry| {
            let mut failures = document.failures.iter();
            failures.any(|f| f.subject == entry.subject)
        };
        let (glibc, others): (Vec<&Entry>, Vec<&Entry>) =
            document.results.iter().partition(|e| e.subject == POSIX);
        let better = document.better().unwrap_or(Better::Lower);
        // A lock under which the program failed once is not judged by the rounds before.
        let twice = |e: &Entry| match failed(e) || glibc.iter().any(|g| failed(g)) {
            true => &[][..],
            false => &glibc[..],
        };
        let locks: Vec<Candidate> = others
            .iter()
            .map(|e| Candidate::of(e, primary, better, twice(e)))
            .collect();
        let failures = document.failures.iter().map(|f| Failed {
            lock: f.subject.clone(),
            round: f.round + 1,
            reason: f.reason.clone(),
        });
        let mut advice = Self {
            schema: SCHEMA,
            program: program
                .iter()
                .map(|a| a.to_string_lossy().into_owned())
                .collect(),
            complete: document.complete,
            outcome: outcome(&locks),
            recommended: best(&locks).map(|c| c.lock.clone()),
            measure: primary.clone(),
            monitor: document.monitor.description.clone(),
            glibc: glibc
                .first()
                .map_or_else(Counters::default, |e| Counters::of(e)),
            reasons: Vec::new(),
            failures: failures.collect(),
            locks,
        };
        advice.reasons = advice.reasons();
        advice
    }

    /// The FlexGuard lock that the reasons are about: the recommended one, else the first that was measured.
    fn subject(&self) -> Option<&Candidate> {
        let mut ours = self
            .locks
            .iter()
            .filter(|c| c.is_flexguard() && c.ratio.is_some());
        best(&self.locks).or_else(|| ours.next())
    }

    fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let Some(subject) = self.subject() else {
            return reasons;
        };
        let (lock, ours, glibc) = (&subject.lock, &subject.counters, &self.glibc);
        match (ours.registered_processes, ours.preempted_critical_sections) {
            (Some(0.0), _) => reasons.push(format!(
                "No process registered under {lock}: the program is statically linked, is setuid, or clears \
                 its environment."
            )),
            (_, Some(count)) => reasons.push(format!(
                "A run under {lock} saw {count:.0} critical sections preempted."
            )),
            _ => reasons.push(format!(
                "Preempted critical sections were not counted: the monitor is {}.",
                self.monitor
            )),
        }
        if let (Some(a), Some(b)) = (ours.cpu_seconds, glibc.cpu_seconds) {
            reasons.push(format!(
                "CPU time of a run: {a:.3} s under {lock}, {b:.3} s under glibc's locks."
            ));
        }
        if let (Some(a), Some(b)) = (ours.sleeps_per_second, glibc.sleeps_per_second) {
            reasons.push(format!(
                "Threads slept, on locks or otherwise, {a:.0} times a second under {lock}, {b:.0} under glibc's locks."
            ));
        }
        reasons
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.headline());
        for candidate in &self.locks {
            text.push_str(&format!("  {:<24} {}\n", candidate.lock, told(candidate)));
        }
        text.push('\n');
        for reason in &self.reasons {
            text.push_str(&format!("{reason}\n"));
        }
        if let Some(lock) = &self.recommended {
            text.push_str(&format!(
                "Use it: flexguard run --lock {lock} -- {}\n",
                self.program.join(" ")
            ));
        }
        if !self.complete {
            text.push_str("INCOMPLETE: some rounds are missing.\n");
        }
        text
    }

    fn headline(&self) -> String {
        match self.outcome {
            Outcome::Helps => {
                let (lock, ratio) = best(&self.locks)
                    .and_then(|c| Some((&c.lock, c.ratio.as_ref()?)))
                    .expect("a lock that helps was measured");
                let what = match self.measure.as_str() {
                    "score" => "the score of",
                    _ => "as fast as",
                };
                format!(
                    "FlexGuard helps this program: with {lock} it is {} {what} glibc's locks ({}).",
                    times(ratio.estimate),
                    interval(ratio)
                )
            }
            Outcome::Hurts => {
                let worse = self
                    .locks
                    .iter()
                    .filter(|c| c.is_flexguard() && c.difference == Difference::Worse);
                let worse: Vec<String> = worse.map(|c| c.lock.clone()).collect();
                format!(
                    "FlexGuard does not help this program: it is worse under {}.",
                    list(&worse)
                )
            }
            Outcome::NoDifference => {
                "FlexGuard makes no difference that these runs can tell.".into()
            }
            Outcome::TooFewRounds => {
                "Too few rounds to say whether FlexGuard helps: six or more are needed.".into()
            }
            Outcome::NotMeasured => {
                "Nothing can be said: the program did not run under both glibc's locks and FlexGuard."
                    .into()
            }
        }
    }
}

/// The FlexGuard lock that helps most.
fn best(locks: &[Candidate]) -> Option<&Candidate> {
    locks
        .iter()
        .filter(|c| c.is_flexguard() && c.difference == Difference::Better)
        .max_by(|a, b| a.gain().total_cmp(&b.gain()))
}

fn outcome(locks: &[Candidate]) -> Outcome {
    let ours = || {
        locks
            .iter()
            .filter(|c| c.is_flexguard() && c.ratio.is_some())
    };
    let any = |difference| ours().any(|c| c.difference == difference);
    if ours().next().is_none() {
        Outcome::NotMeasured
    } else if any(Difference::Better) {
        Outcome::Helps
    } else if any(Difference::Worse) {
        Outcome::Hurts
    } else if any(Difference::TooFewRounds) {
        Outcome::TooFewRounds
    } else {
        Outcome::NoDifference
    }
}

fn interval(ratio: &Ratio) -> String {
    format!(
        "{:.0} % interval {} to {}, {} rounds",
        ratio.confidence * 100.0,
        times(ratio.low),
        times(ratio.high),
        ratio.rounds
    )
}

fn told(candidate: &Candidate) -> String {
    let Some(ratio) = &candidate.ratio else {
        return "not measured".into();
    };
    let verdict = match candidate.difference {
        Difference::Better => "better than glibc's",
        Difference::Worse => "worse than glibc's",
        Difference::TooFewRounds => "too few rounds",
        Difference::Unclear | Difference::WithinNoise => "no difference that these runs can tell",
    };
    format!("{} ({}): {verdict}", times(ratio.estimate), interval(ratio))
}

#[cfg(test)]
mod tests {
    use super::super::stats::Rounds;
    use super::*;

    struct Random(u64);

    impl Random {
        /// The time of a run: the round's own factor, and up to a tenth of chance.
        fn rounds(&mut self, of_round: &[f64; 7], factor: f64) -> Rounds {
            (0..)
                .zip(of_round.map(|f| f * factor * (1.0 + 0.1 * self.uniform())))
                .collect()
        }

        fn uniform(&mut self) -> f64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// The share of 2,000 runs in which one of four candidates, each so many times as fast as glibc's, is found better.
    fn recommended(speed: f64) -> f64 {
        let mut random = Random(1);
        let runs = 2000;
        let found = (0..runs).filter(|_| {
            let of_round = std::array::from_fn(|_| 1.0 + random.uniform());
            let twice = [1.0, 1.0].map(|f| random.rounds(&of_round, f));
            let candidates: [Rounds; 4] =
                std::array::from_fn(|_| random.rounds(&of_round, 1.0 / speed));
            candidates.iter().any(|ours| {
                let ratios: Vec<Estimate> = twice
                    .iter()
                    .filter_map(|glibc| against(Better::Lower, ours, glibc))
                    .collect();
                difference(&ratios) == Difference::Better
            })
        });
        found.count() as f64 / f64::from(runs)
    }

    #[test]
    fn the_best_of_equal_locks_is_rarely_recommended_and_a_better_one_is() {
        assert!(recommended(1.0) < 0.05, "{}", recommended(1.0));
        assert!(recommended(1.2) > 0.95, "{}", recommended(1.2));
    }

    fn candidate(lock: &str, difference: Difference, estimate: f64) -> Candidate {
        Candidate {
            lock: lock.into(),
            difference,
            ratio: Some(Ratio {
                estimate,
                low: estimate,
                high: estimate,
                confidence: 0.95,
                rounds: 7,
            }),
            counters: Counters::default(),
        }
    }

    #[test]
    fn only_a_lock_of_flexguard_makes_the_outcome() {
        use Difference::{Better, TooFewRounds, Unclear, WithinNoise, Worse};
        for (default, published, expected) in [
            (Better, Worse, Outcome::Helps),
            (Worse, Unclear, Outcome::Hurts),
            (Unclear, WithinNoise, Outcome::NoDifference),
            (TooFewRounds, TooFewRounds, Outcome::TooFewRounds),
        ] {
            let locks = [
                candidate("futex", Better, 3.0),
                candidate("flexguard", default, 1.5),
                candidate("flexguard-sosp25", published, 2.0),
            ];
            assert_eq!(outcome(&locks), expected);
            let helps = expected == Outcome::Helps;
            let best = best(&locks).map(|c| c.lock.as_str());
            assert_eq!(best, helps.then_some("flexguard"));
        }
        let others = [candidate("futex", Better, 3.0)];
        assert_eq!(outcome(&others), Outcome::NotMeasured);
    }
}
