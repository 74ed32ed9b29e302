// SPDX-License-Identifier: MIT
//! `flexguard advise`: whether FlexGuard helps a program.

mod judge;
mod others;
mod text;

use std::cell::Cell;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::time::Instant;

use serde::Serialize;

use super::document::{Document, Entry, FailedRun};
use super::exec::Exec;
use super::options::Plan;
use super::pipeline::{self, Following, measure};
use super::point::Point;
use super::stats::Better;
use super::workload::{UNAVAILABLE, Workload};
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Failure, Result};
use flexguard_launch::locks::POSIX;
use flexguard_launch::prefix::Prefix;
use flexguard_launch::{output, unwatchable, waits};
use judge::{Ratio, Verdict, is_enough, is_look, outcome};
use others::{Others, Used};

pub use judge::Outcome;

pub const SCHEMA: &str = "flexguard-advice/3";

/// No interval gets narrower by so much that more were worth their time.
const MOST: u32 = 400;

/// How long the program is measured.
#[derive(Debug, Clone, Copy)]
pub enum Extent {
    /// So many rounds.
    Rounds(u32),
    /// Until the answer is known, and at most so many seconds.
    Seconds(f64),
}

/// Measures what `exec` describes, and says what follows. Its first lock is glibc's. `why`: more reasons, and the signal
/// that kept it from finding them; it is called once the program has been measured.
pub fn run(
    mut exec: Exec,
    extent: Extent,
    json: bool,
    why: impl FnOnce(&[OsString], Outcome) -> (Vec<String>, Option<i32>),
) -> Result<Status> {
    let prefix = Prefix::find()?;
    unwatchable::refuse(&exec.program)?;
    exec.locks.retain(|name| name != POSIX);
    exec.locks.insert(0, POSIX.into());
    exec.waits = waits::presets_of(&exec.program[0]);
    exec.prepare(&prefix)?;
    if !exec.locks.iter().any(|lock| is_flexguard(lock)) {
        return Err(Failure::new(
            "--locks: glibc's locks are compared with FlexGuard's, and it names none of these",
        )
        .advice("name flexguard or flexguard-sosp25 among them"));
    }
    let plan = Plan {
        rounds: match extent {
            Extent::Rounds(rounds) => rounds,
            Extent::Seconds(_) => MOST,
        },
        warmup_rounds: 0,
        noise: false,
        tell: None,
    };
    let advisor = Advisor::new(extent);
    let following = Following {
        keep: &|_| Ok(()),
        enough: &|document| advisor.is_enough(document),
        budget: advisor.budget(),
    };
    let (mut document, mut interrupted) = measure(&exec, &plan, &prefix, &following)?;
    fail_unavailable(&mut document);
    let mut advice = Advice::of(&document, &exec, &advisor);
    if interrupted.is_none() && advice.outcome != Outcome::NotMeasured {
        let (reasons, signal) = why(&exec.program, advice.outcome);
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

/// Decides after each round whether there is another one, and says how far the measurement is, if stderr is no terminal,
/// where a line of progress would.
struct Advisor {
    extent: Extent,
    begun: Instant,
    others: Others,
    told: Cell<usize>,
}

impl Advisor {
    fn new(extent: Extent) -> Self {
        Self {
            extent,
            begun: Instant::now(),
            others: Others::begin(),
            told: Cell::new(usize::MAX),
        }
    }

    fn budget(&self) -> Option<f64> {
        match self.extent {
            Extent::Rounds(_) => None,
            Extent::Seconds(seconds) => Some(seconds),
        }
    }

    fn elapsed(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// No round begins that would not end within the budget.
    fn is_enough(&self, document: &Document) -> bool {
        let rounds = document.results.iter().map(|e| e.rounds.len()).max();
        let rounds = rounds.unwrap_or(0);
        self.tell(document, rounds);
        let Some(budget) = self.budget().filter(|_| rounds > 0) else {
            return false;
        };
        let elapsed = self.elapsed();
        let candidates = candidates(document);
        let locks: Vec<&Ratio> = ours(&candidates).filter_map(|c| c.ratio.as_ref()).collect();
        let settings: Vec<&Ratio> = (candidates.iter())
            .filter(|c| is_setting(&c.lock))
            .filter_map(|c| c.ratio.as_ref())
            .collect();
        elapsed + elapsed / rounds as f64 > budget
            || is_enough(&locks) && (settings.is_empty() || is_enough(&settings))
    }

    fn tell(&self, document: &Document, rounds: usize) {
        if self.told.replace(rounds) == rounds {
            return;
        }
        let used = self.others.used().filter(|u| rounds == 1 && u.is_busy());
        if let Some(used) = used {
            output::note(&text::busy(used));
        }
        if std::io::stderr().is_terminal() || rounds == 0 {
            return;
        }
        if rounds == 1 {
            output::note(&text::first_round(self.elapsed(), self.extent));
        } else if is_look(rounds) || rounds.is_power_of_two() {
            let candidates = candidates(document);
            let first = ours(&candidates).next();
            output::note(&text::so_far(rounds, self.elapsed(), first));
        }
    }
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

#[derive(Debug, Serialize)]
pub struct Advice {
    schema: &'static str,
    program: Vec<String>,
    /// Every run that was begun is in.
    complete: bool,
    outcome: Outcome,
    /// The FlexGuard lock to use.
    recommended: Option<String>,
    /// By what the locks are compared.
    measure: String,
    monitor: String,
    /// How long it was measured.
    elapsed_seconds: f64,
    /// Other programs used a tenth of the CPUs, or more.
    busy: bool,
    /// How many they used; None: unknown.
    others_cpus: Option<f64>,
    #[serde(skip)]
    others: Option<Used>,
    glibc: Counters,
    locks: Vec<Candidate>,
    /// Variables of the program's runtimes, under glibc's locks.
    settings: Vec<Tried>,
    /// The one that it would set.
    suggested: Option<String>,
    /// What the counters and the profile tell about the outcome, in sentences.
    reasons: Vec<String>,
    /// What to do, where the outcome is not known.
    to_do: Option<String>,
    failures: Vec<Failed>,
}

/// A lock against glibc's. While it measures, also a setting against the program without it.
#[derive(Debug, Serialize)]
struct Candidate {
    lock: String,
    verdict: Verdict,
    ratio: Option<Ratio>,
    counters: Counters,
}

/// A variable against the program without it.
#[derive(Debug, Serialize)]
struct Tried {
    setting: String,
    runtime: &'static str,
    /// What the runtime does with it, and without it.
    why: &'static str,
    verdict: Verdict,
    ratio: Option<Ratio>,
    counters: Counters,
}

/// Medians of the runs; None: not measured.
#[derive(Debug, Default, Serialize)]
struct Counters {
    elapsed_seconds: Option<f64>,
    cpu_seconds: Option<f64>,
    score: Option<f64>,
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
            score: median("score"),
            sleeps_per_second: median("sleeps_per_s"),
            preempted_critical_sections: median("preempted"),
            mode_transitions: median("transitions"),
            registered_processes: median("registered"),
        }
    }
}

fn is_flexguard(lock: &str) -> bool {
    lock.starts_with("flexguard")
}

/// Of a subject: it is a variable with its value, and no lock.
fn is_setting(subject: &str) -> bool {
    subject.contains('=')
}

/// Those of FlexGuard's locks that were measured.
fn ours(candidates: &[Candidate]) -> impl Iterator<Item = &Candidate> {
    let measured = |c: &&Candidate| is_flexguard(&c.lock) && c.ratio.is_some();
    candidates.iter().filter(measured)
}

/// Each subject but glibc's locks.
fn candidates(document: &Document) -> Vec<Candidate> {
    let (glibc, others): (Vec<&Entry>, Vec<&Entry>) =
        document.results.iter().partition(|e| e.subject == POSIX);
    let better = document.better().unwrap_or(Better::Lower);
    let values = |e: &Entry| e.values_of(&document.primary);
    let of_glibc = glibc.first().map(|e| values(e)).unwrap_or_default();
    // A lock under which the program failed once is not judged by the rounds before.
    let failed = |lock: &str| document.failures.iter().any(|f| f.subject == lock);
    let ratio = |e: &Entry| match failed(&e.subject) || failed(POSIX) {
        true => None,
        false => Ratio::of(better, &values(e), &of_glibc),
    };
    let candidate = |e: &&Entry| {
        let ratio = ratio(e);
        Candidate {
            lock: e.subject.clone(),
            verdict: ratio.as_ref().map_or(Verdict::TooFewRounds, Ratio::verdict),
            ratio,
            counters: Counters::of(e),
        }
    };
    others.iter().map(candidate).collect()
}

impl Tried {
    fn of(preset: &waits::Preset, candidates: &mut Vec<Candidate>) -> Option<Self> {
        let setting = preset.setting();
        let at = candidates.iter().position(|c| c.lock == setting)?;
        let found = candidates.remove(at);
        Some(Self {
            setting,
            runtime: preset.runtime,
            why: preset.why,
            verdict: found.verdict,
            ratio: found.ratio,
            counters: found.counters,
        })
    }
}

/// The setting that helps most.
fn suggested(settings: &[Tried]) -> Option<(&Tried, &Ratio)> {
    (settings.iter())
        .filter(|t| t.verdict == Verdict::Better)
        .filter_map(|t| Some((t, t.ratio.as_ref()?)))
        .max_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate))
}

/// The FlexGuard lock that helps most.
fn best(locks: &[Candidate]) -> Option<(&Candidate, &Ratio)> {
    ours(locks)
        .filter(|c| c.verdict == Verdict::Better)
        .filter_map(|c| Some((c, c.ratio.as_ref()?)))
        .max_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate))
}

impl Advice {
    fn of(document: &Document, exec: &Exec, advisor: &Advisor) -> Self {
        let mut locks = candidates(document);
        let tried = |preset: &&waits::Preset| Tried::of(preset, &mut locks);
        let settings: Vec<Tried> = exec.waits.iter().filter_map(tried).collect();
        let glibc = document.results.iter().find(|e| e.subject == POSIX);
        let failures = document.failures.iter().map(|f| Failed {
            lock: f.subject.clone(),
            round: f.round + 1,
            reason: f.reason.clone(),
        });
        let measured: Vec<&Ratio> = ours(&locks).filter_map(|c| c.ratio.as_ref()).collect();
        let others = advisor.others.used();
        let mut advice = Self {
            schema: SCHEMA,
            program: (exec.program)
                .iter()
                .map(|a| a.to_string_lossy().into_owned())
                .collect(),
            complete: document.complete,
            outcome: outcome(&measured),
            recommended: best(&locks).map(|(c, _)| c.lock.clone()),
            measure: document.primary.clone(),
            monitor: document.monitor.description.clone(),
            elapsed_seconds: advisor.elapsed(),
            busy: others.is_some_and(Used::is_busy),
            others_cpus: others.map(|u| u.cpus),
            others,
            glibc: glibc.map_or_else(Counters::default, Counters::of),
            reasons: Vec::new(),
            to_do: None,
            failures: failures.collect(),
            suggested: suggested(&settings).map(|(tried, _)| tried.setting.clone()),
            locks,
            settings,
        };
        advice.reasons = advice.reasons();
        advice.to_do = advice.to_do();
        advice
    }

    /// The FlexGuard lock that the reasons are about: the recommended one, else the first that was measured.
    fn subject(&self) -> Option<&Candidate> {
        let best = best(&self.locks).map(|(candidate, _)| candidate);
        best.or_else(|| ours(&self.locks).next())
    }
}
