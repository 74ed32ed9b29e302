// SPDX-License-Identifier: MIT
//! Claims: what a paper, or we, say of a lock, as data beside the scenes that measure it; and whether it holds.
//!
//! ```toml
//! [[claim]]
//! locks = ["ticket", "mcs"]           # of each of which it is said
//! statement = "collapse"              # the sentence of a paper (claim/statements.toml); without it the claim is ours
//! says = "collapses when threads outnumber contexts: a tenth of its throughput or less"
//! scene = "load"
//! measure = "throughput_ops_per_ms"
//! at = { threads = "4x" }
//! most = 0.1                          # or least
//! of = { at = { threads = "1x" } }    # times that; what is not said is as above. Without it: the number itself
//! # With neither least nor most it is only shown, beside what was published.
//! reasons = [{ reason = "NAME" }]     # why it does not hold (claim/reason.rs); shown only where it does not
//! ends = true                         # that each run ends is part of the claim
//! ```
//!
//! `at = { threads = ["1x", "2x"] }` is judged at each value: a lock may keep it at one and not at the other. A claim is
//! only shown where the paper does not say it: on the CPUs of another maker, or with more or fewer threads for each
//! context.
//!
//! With another lock it is compared round by round: what is judged is the ratio, with its interval (stats/paired.rs).
//! Otherwise medians are compared. Where it holds of the medians but not of the ends of their intervals that are worse
//! for it, it holds within the noise. Where it does not hold of the medians but of the ends that are better for it, it
//! fails within the noise. Of fewer than six rounds, or where a run has no result, nothing is concluded; with `ends`, a
//! claim does not hold where a run has no result. A paper's claim that the numbers contradict is "not seen" as long as
//! no experiment says why: the reason may be the machine.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::document::Document;
use crate::experiment::Experiment;
use crate::machine;
use crate::measure::Unit;
use crate::stats::Estimate;
use number::Number;
use place::{is_at, told};
use reason::Because;
pub use reason::Reason;
use statement::{Bound, Statement};
pub use verdict::Verdict;

mod number;
mod place;
mod reason;
mod statement;
mod verdict;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    locks: Vec<String>,
    /// The name of what a paper says (claim/statements.toml); empty: the claim is ours.
    #[serde(default)]
    statement: String,
    says: String,
    scene: String,
    /// Of what is refused nothing is measured.
    #[serde(default)]
    measure: String,
    #[serde(default)]
    at: BTreeMap<String, Value>,
    least: Option<f64>,
    most: Option<f64>,
    of: Option<Other>,
    /// The lock is refused on a machine that lacks what it needs.
    #[serde(default)]
    refused: bool,
    /// A run without a result contradicts it.
    #[serde(default)]
    ends: bool,
    #[serde(default)]
    reasons: Vec<Because>,
    /// Which of the values that `at` has several of, as a reader has it.
    #[serde(skip)]
    point: String,
}

/// What a claim compares with.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Other {
    lock: Option<String>,
    measure: Option<String>,
    at: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    pub lock: String,
    pub place: String,
    /// The paper's words, and of which machine and how many threads it says them; empty: the claim is ours.
    pub quote: String,
    pub said_of: String,
    pub subscription: String,
    pub claim: String,
    /// One of the points at which the claim is judged; empty: there is only one.
    pub at: String,
    pub published: String,
    pub measured: String,
    pub verdict: Verdict,
    /// Why it does not hold, where that is known, or why it is not judged; otherwise empty.
    pub reason: String,
    /// What showed the reason.
    pub experiment: String,
    /// The title of the result that it was judged by; empty: there is none.
    #[serde(skip)]
    pub result: String,
}

impl std::fmt::Display for Judged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verdict = self.verdict.text().replace('*', "");
        let source = [&self.place, &self.published];
        let source: Vec<&str> = source
            .into_iter()
            .map(String::as_str)
            .filter(|s| !s.is_empty())
            .collect();
        let source = match source[..] {
            [] => String::new(),
            _ => format!(" ({})", source.join(": ")),
        };
        let at = match self.at.as_str() {
            "" => String::new(),
            at => format!(", {at}"),
        };
        write!(
            f,
            "{}: {}{source}{at}: {verdict}: {}",
            self.lock, self.claim, self.measured
        )?;
        match self.reason.as_str() {
            "" => Ok(()),
            reason => write!(f, ": {reason}"),
        }
    }
}

impl Claim {
    /// Looks up the reasons that it names. Before it is taken apart into its points.
    pub fn explain<'a>(&mut self, known: impl Iterator<Item = &'a Reason>) -> Result<(), String> {
        let known: Vec<&Reason> = known.collect();
        let (locks, at) = (&self.locks, &self.at);
        self.reasons
            .iter_mut()
            .try_for_each(|because| because.explain(&known, locks, at))
    }

    #[cfg(test)]
    pub fn names_of_reasons(&self) -> impl Iterator<Item = &str> {
        self.reasons.iter().map(Because::name)
    }

    pub fn is_of(&self, scene: &str) -> bool {
        self.scene == scene
    }

    /// What about it cannot be judged by what the scenes measure.
    pub fn check(&self, experiments: &[Experiment]) -> Result<(), String> {
        let scene = experiments.iter().find(|e| e.id == self.scene);
        let scene =
            scene.ok_or_else(|| format!("the claim is about no scene here: '{}'", self.scene))?;
        if self.refused {
            return Ok(());
        }
        if self.least.is_some() && self.most.is_some() {
            return Err("a claim has either least or most".into());
        }
        self.agrees()?;
        let measures = scene.workload.measures();
        let of = self.of.clone().unwrap_or_default();
        for name in std::iter::once(&self.measure).chain(&of.measure) {
            if !measures.iter().any(|m| m.name == *name) {
                return Err(format!("nothing measures '{name}' in {}", self.scene));
            }
        }
        let points = scene.workload.points();
        for at in std::iter::once(&self.at).chain(&of.at) {
            if points.iter().filter(|p| is_at(p, at)).count() != 1 {
                return Err(format!("not one point of {} is at {at:?}", self.scene));
            }
        }
        let subjects = scene.workload.subjects();
        let known = |lock: &&String| subjects.contains(lock) || subjects.iter().any(|s| s == "all");
        match self.locks.iter().chain(&of.lock).find(|l| !known(l)) {
            Some(lock) => Err(format!("{} does not measure {lock}", self.scene)),
            None => Ok(()),
        }
    }

    /// One claim for each of the values that a variable has several of.
    pub fn each(self) -> Vec<Self> {
        let mut claims = vec![self.clone()];
        for (name, value) in &self.at {
            let Value::Array(values) = value else {
                continue;
            };
            let at = |claim: &Self, value: &Value| {
                let mut one = claim.clone();
                one.at.insert(name.clone(), value.clone());
                one.reasons.retain(|because| because.is_at(name, value));
                let told = told(name, value);
                one.point = match claim.point.as_str() {
                    "" => told,
                    point => format!("{point}, {told}"),
                };
                one
            };
            claims = claims
                .iter()
                .flat_map(|c| values.iter().map(|v| at(c, v)))
                .collect();
        }
        claims
    }

    /// Of the locks that are measured; None: what it is about is not measured.
    pub fn narrowed(mut self, experiments: &[Experiment]) -> Option<Self> {
        let scene = experiments.iter().find(|e| e.id == self.scene)?;
        let subjects = scene.workload.subjects();
        self.locks
            .retain(|l| subjects.iter().any(|s| s == l || s == "all"));
        let judged = !self.locks.is_empty() && self.check(experiments).is_ok();
        judged.then_some(self)
    }

    /// One verdict a lock.
    fn judge(&self, document: Option<&Document>) -> Vec<Judged> {
        let of_lock = |lock: &String| {
            let (measured, mut verdict) =
                document.map_or((String::new(), Verdict::NotMeasured), |d| {
                    if self.refused {
                        self.refusal(d, lock)
                    } else {
                        self.measured(d, lock)
                    }
                });
            let statement = Statement::find(&self.statement);
            let load = document.and_then(|d| self.load(d, lock));
            let elsewhere =
                document.and_then(|d| statement.and_then(|s| s.elsewhere(&d.machine, load)));
            if elsewhere.is_some() && verdict != Verdict::NotMeasured {
                verdict = Verdict::Shown;
            }
            let because = self.reasons.iter().find_map(|b| b.for_lock(lock));
            if verdict == Verdict::Fails && statement.is_some() && because.is_none() {
                verdict = Verdict::Unexplained;
            }
            let reason = match verdict {
                _ if elsewhere.is_some() => Reason::elsewhere(&elsewhere.unwrap_or_default()),
                Verdict::Unexplained => Reason::unknown(),
                Verdict::Fails | Verdict::FailsWithinNoise => because.cloned().unwrap_or_default(),
                _ => Reason::default(),
            };
            Judged {
                lock: lock.clone(),
                place: statement.map_or_else(String::new, Statement::place),
                quote: statement.map_or_else(String::new, |s| s.quote.clone()),
                said_of: statement.map_or_else(String::new, |s| s.machine.clone()),
                subscription: statement.map_or_else(String::new, |s| s.load.text().into()),
                claim: self.says.clone(),
                at: self.point.clone(),
                published: statement.map_or_else(String::new, |s| s.printed(lock, load)),
                measured,
                verdict,
                experiment: reason.shown(),
                reason: reason.says,
                result: document.map_or(String::new(), |d| d.title.clone()),
            }
        };
        self.locks.iter().map(of_lock).collect()
    }

    /// Whether it says what its paper says.
    fn agrees(&self) -> Result<(), String> {
        if self.statement.is_empty() {
            return Ok(());
        }
        let statement = Statement::find(&self.statement)
            .ok_or_else(|| format!("no statement is called '{}'", self.statement))?;
        let Some(factor) = self.least.or(self.most) else {
            return Ok(());
        };
        let of = self.of.as_ref().and_then(|of| of.lock.as_deref());
        statement.agrees(Bound {
            locks: &self.locks,
            measure: &self.measure,
            against: of.unwrap_or_default(),
            least: self.least.is_some(),
            factor,
        })
    }

    /// Threads for each hardware context where it is judged.
    fn load(&self, document: &Document, lock: &str) -> Option<f64> {
        let mut entries = document.results.iter();
        let entry = entries.find(|e| e.subject == lock && is_at(&e.point, &self.at))?;
        statement::load(&entry.point, document.machine.hardware_contexts)
    }

    fn refusal(&self, document: &Document, lock: &str) -> (String, Verdict) {
        let refused = document.unavailable.iter().find(|u| u.subject == lock);
        match refused {
            Some(refused) => (refused.reason.clone(), Verdict::Holds),
            None if document
                .results
                .iter()
                .any(|e| e.subject == lock && !e.rounds.is_empty()) =>
            {
                (
                    "it ran: this machine has what it needs".into(),
                    Verdict::NotMeasured,
                )
            }
            None => (String::new(), Verdict::NotMeasured),
        }
    }

    fn measured(&self, document: &Document, lock: &str) -> (String, Verdict) {
        let mut numbers = vec![Number::find(document, lock, &self.measure, &self.at)];
        if let Some(of) = &self.of {
            let other = of.lock.as_deref().unwrap_or(lock);
            let measure = of.measure.as_ref().unwrap_or(&self.measure);
            let at = of.at.as_ref().unwrap_or(&self.at);
            numbers.push(Number::find(document, other, measure, at));
        }
        let Some(numbers) = numbers.into_iter().collect::<Option<Vec<Number>>>() else {
            return (String::new(), Verdict::NotMeasured);
        };
        let ratio = match (&self.of, &numbers[..]) {
            (Some(Other { lock: Some(_), .. }), [a, b]) => a.ratio(b),
            _ => None,
        };
        let known: Option<Vec<_>> = numbers.iter().map(Number::known).collect();
        let (mut text, mut verdict) = match (known.as_deref(), &ratio) {
            (Some([a, b]), Some(ratio)) => {
                let (ratio, verdict) = self.shown((Unit::Plain, ratio), None);
                let [a, b] = [a, b].map(|number| written(*number, 0).0);
                (format!("{a} against {b}, ratio {ratio}"), verdict)
            }
            (Some([a, rest @ ..]), _) => self.shown(*a, rest.first().copied()),
            _ => (String::new(), Verdict::TooFewRounds),
        };
        let sound = match &ratio {
            Some(ratio) => ratio.is_sound(),
            None => numbers.iter().all(Number::is_sound),
        };
        let lacking = numbers.iter().find(|number| !number.is_complete());
        if let Some(number) = lacking {
            let space = if text.is_empty() { "" } else { "; " };
            let _ = write!(text, "{space}{}", number.told());
        }
        if verdict != Verdict::Shown && (lacking.is_some() || !sound) {
            verdict = match lacking {
                Some(_) if self.ends => Verdict::Fails,
                _ => Verdict::TooFewRounds,
            };
        }
        (text, verdict)
    }

    /// The numbers and the verdict. They have three digits, and more where a reader would judge otherwise by three.
    fn shown(&self, a: (Unit, &Estimate), b: Option<(Unit, &Estimate)>) -> (String, Verdict) {
        let one = Estimate::of([(0, 1.0)]).unwrap_or_else(|| a.1.clone());
        let verdict = |a: &Estimate, b: Option<&Estimate>| match (self.least, self.most) {
            (Some(factor), _) => Verdict::of(a, b.unwrap_or(&one), true, factor),
            (None, Some(factor)) => Verdict::of(a, b.unwrap_or(&one), false, factor),
            (None, None) => Verdict::Shown,
        };
        let exact = verdict(a.1, b.map(|(_, b)| b));
        let mut text = String::new();
        for more in 0..=MORE_DIGITS {
            let (left, read) = written(a, more);
            let b = b.map(|b| written(b, more));
            text = match &b {
                Some((right, _)) => format!("{left} against {right}"),
                None => left,
            };
            if verdict(&read, b.as_ref().map(|(_, b)| b)) == exact {
                break;
            }
        }
        (text, exact)
    }
}

/// As many as tell any two numbers apart.
const MORE_DIGITS: usize = 14;

/// An estimate with so many digits more than three, and as they have it.
fn written((unit, e): (Unit, &Estimate), more: usize) -> (String, Estimate) {
    let [median, low, high] = [e.median, e.low, e.high].map(|x| unit.number_to(x, more));
    let text = format!("{median} ({low} to {high})");
    let [median, low, high] = [median, low, high].map(|n| n.parse().unwrap_or(f64::NAN));
    let read = Estimate {
        median,
        low,
        high,
        ..e.clone()
    };
    (text, read)
}

/// `documents`: by the name of their scene.
pub fn judge(claims: &[Claim], documents: &[(String, &Document)]) -> Vec<Judged> {
    let of = |scene: &str| {
        documents
            .iter()
            .find(|(name, _)| name == scene)
            .map(|(_, d)| *d)
    };
    claims.iter().flat_map(|c| c.judge(of(&c.scene))).collect()
}

/// How many have which verdict.
pub fn summary(judged: &[Judged]) -> String {
    let all = [
        Verdict::Holds,
        Verdict::WithinNoise,
        Verdict::FailsWithinNoise,
        Verdict::Fails,
        Verdict::Unexplained,
        Verdict::TooFewRounds,
        Verdict::NotMeasured,
        Verdict::Shown,
    ];
    let told = |verdict: Verdict| {
        let n = judged.iter().filter(|j| j.verdict == verdict).count();
        format!("{n} {}", verdict.text().replace('*', ""))
    };
    format!(
        "Of {} verdicts, one for each lock and point: {}.",
        judged.len(),
        all.map(told).join("; ")
    )
}

/// Each reason that is shown, once, and the experiment behind it.
pub fn experiments(judged: &[Judged]) -> Vec<(&str, &str)> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for j in judged.iter().filter(|j| !j.experiment.is_empty()) {
        if !all.iter().any(|(reason, _)| *reason == j.reason) {
            all.push((&j.reason, &j.experiment));
        }
    }
    all
}

/// As a table in Markdown.
pub fn table(title: &str, machine: &machine::Machine, judged: &[Judged]) -> String {
    let mut text = format!(
        "# {title}: what is claimed, and whether it holds here\n\n{}\n\n{}\n\n\
         | lock | place | claim | at | published | measured | verdict |\n|---|---|---|---|---|---|---|\n",
        machine.describe(),
        summary(judged),
    );
    for j in judged {
        let reason = match j.reason.as_str() {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {}{reason} |",
            j.lock,
            j.place,
            j.claim,
            j.at,
            j.published,
            j.measured,
            j.verdict.text()
        );
    }
    let experiments = experiments(judged);
    if !experiments.is_empty() {
        text.push_str("\n## The experiments behind the reasons\n\n");
    }
    for (reason, experiment) in experiments {
        let _ = writeln!(text, "- {reason}: {experiment}");
    }
    let mut said: Vec<String> = Vec::new();
    for j in judged.iter().filter(|j| !j.quote.is_empty()) {
        let one = format!(
            "- {}: \"{}\" (of {}; load: {})\n",
            j.place, j.quote, j.said_of, j.subscription
        );
        if !said.contains(&one) {
            said.push(one);
        }
    }
    if !said.is_empty() {
        let _ = write!(text, "\n## What the papers say\n\n{}", said.concat());
    }
    text
}

#[cfg(test)]
mod tests;
