// SPDX-License-Identifier: MIT
//! The record of one benchmark: what ran, where, every value, and what follows from them. This is the JSON that
//! docs/guide/benchmarks.md speaks of. Everything below `results[].rounds` is computed from the rounds, by `analyse`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::distance::{Distance, Place};
use super::figure::FigureSpec;
use super::machine::{Build, Load, Machine, MonitorState, Origin};
use super::measure::Measure;
use super::point::Point;
use super::stats::{self, Better, Difference, Estimate, Leader, Noise, Rounds, lead};
use flexguard_launch::failure::{Context, Failure, Result};

pub const SCHEMA: &str = "flexguard-bench/2";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document {
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    pub workload: String,
    pub title: String,
    /// Every round of everything is in.
    pub complete: bool,
    pub command: Vec<String>,
    pub date: String,
    pub version: String,
    pub commit: Option<String>,
    pub build: Build,
    pub machine: Machine,
    pub load: Load,
    pub monitor: MonitorState,
    pub environment: BTreeMap<String, String>,
    pub settings: Value,
    /// What the entries are: locks, or conditions.
    pub subject: String,
    pub subjects: Vec<String>,
    pub rounds: u32,
    pub measures: Vec<Measure>,
    /// The measure by which subjects are compared.
    pub primary: String,
    /// The measures that the table shows.
    pub columns: Vec<String>,
    pub figures: Vec<FigureSpec>,
    pub results: Vec<Entry>,
    pub noise: Option<Noise>,
    pub verdicts: Vec<Verdict>,
    pub failures: Vec<FailedRun>,
    pub unavailable: Vec<Unavailable>,
    /// Rounds that were thrown away because the CPUs were moved in them.
    #[serde(default)]
    pub moved_rounds: u32,
}

/// One subject at one point.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Entry {
    pub point: Point,
    pub subject: String,
    /// The first subject once more, to see the noise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    pub measures: BTreeMap<String, Estimate>,
    /// By the primary measure: how many times as good as the first subject in the same round.
    pub ratio: Option<Estimate>,
    /// The same of the rounds with the CPUs near and of those with the CPUs far, where there are both.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ratio_by_place: BTreeMap<Place, Estimate>,
    /// What may be said of it against the first subject.
    pub against_first: Option<Difference>,
    pub rounds: Vec<Sample>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sample {
    pub round: u32,
    pub values: BTreeMap<String, f64>,
    /// Of the CPUs, before and after the round; None where it cannot be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<Distance>,
    /// By what and where it was measured.
    #[serde(default)]
    pub origin: Origin,
    /// What the workload had to say besides.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdict {
    pub point: Point,
    pub text: String,
    #[serde(flatten)]
    pub leader: Leader,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FailedRun {
    pub round: u32,
    pub point: Point,
    pub subject: String,
    pub reason: String,
}

/// A lock that says itself that it cannot run here.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unavailable {
    pub subject: String,
    pub reason: String,
}

impl Document {
    pub fn read(path: &Path) -> Result<Self> {
        let doing = || format!("cannot read {}", path.display());
        let text = std::fs::read_to_string(path).context(doing())?;
        let schema = serde_json::from_str::<Value>(&text)
            .context(format_args!("{} is not JSON", path.display()))?
            .get("schema")
            .and_then(Value::as_str)
            .map(str::to_owned);
        if schema.as_deref() != Some(SCHEMA) {
            return Err(Failure::new(format_args!(
                "{} is not a result of this version of `flexguard bench`: its schema is {}, not {SCHEMA}",
                path.display(),
                schema.as_deref().unwrap_or("missing")
            ))
            .advice("measure again, or read it with the version of flexguard that wrote it"));
        }
        serde_json::from_str(&text).context(doing())
    }

    pub fn is_of_one_origin(&self) -> bool {
        let mut origins = self
            .results
            .iter()
            .flat_map(|e| &e.rounds)
            .map(|s| &s.origin);
        let first = origins.next();
        origins.all(|o| first.is_some_and(|f| o.fits(f)))
    }

    /// As JSON without spaces: written often, and read only after a kill.
    pub fn to_line(&self) -> Result<String> {
        serde_json::to_string(self).context("cannot write JSON")
    }

    pub fn measure(&self, name: &str) -> Option<&Measure> {
        self.measures.iter().find(|m| m.name == name)
    }

    /// Which way the primary measure is better; None: it is shown, not judged.
    pub fn better(&self) -> Option<Better> {
        self.measure(&self.primary)?.better
    }

    /// The points, in the order of the results.
    pub fn points(&self) -> Vec<&Point> {
        let mut points: Vec<&Point> = Vec::new();
        for entry in &self.results {
            if !points.contains(&&entry.point) {
                points.push(&entry.point);
            }
        }
        points
    }

    pub fn at(&self, point: &Point) -> impl Iterator<Item = &Entry> {
        self.results.iter().filter(move |e| e.point == *point)
    }

    pub fn entry(&self, point: &Point, subject: &str) -> Option<&Entry> {
        let wanted = |e: &&Entry| e.point == *point && e.subject == subject && !e.again;
        self.results.iter().find(wanted)
    }

    pub fn entry_mut(&mut self, point: &Point, subject: &str, again: bool) -> Option<&mut Entry> {
        self.results
            .iter_mut()
            .find(|e| e.point == *point && e.subject == subject && e.again == again)
    }

    /// The subject's place among all, and so its colour in every figure.
    pub fn number_of(&self, subject: &str) -> usize {
        self.subjects.iter().position(|s| s == subject).unwrap_or(0)
    }

    /// The variables that take more than one value.
    pub fn variables(&self) -> Vec<String> {
        let Some(first) = self.results.first() else {
            return Vec::new();
        };
        let varies = |name: &str| {
            self.results
                .iter()
                .any(|e| e.point.get(name) != first.point.get(name))
        };
        let names = first.point.0.iter().map(|(name, _)| name.clone());
        names.filter(|name| varies(name)).collect()
    }

    /// Computes everything that follows from the rounds.
    pub fn analyse(&mut self) {
        let better = self.better();
        let primary = self.primary.clone();
        let first_subject = self.subjects.first().cloned().unwrap_or_default();
        let first_rounds: Vec<(Point, Vec<Sample>)> = self
            .results
            .iter()
            .filter(|e| e.subject == first_subject && !e.again)
            .map(|e| (e.point.clone(), e.rounds.clone()))
            .collect();
        for entry in &mut self.results {
            let first = first_rounds.iter().find(|(p, _)| *p == entry.point);
            entry.estimate(
                &self.measures,
                &primary,
                better,
                first.map_or(&[], |f| &f.1),
            );
        }
        self.noise = self.noise_of(&primary);
        for entry in &mut self.results {
            let first = entry.subject == first_subject && !entry.again;
            entry.against_first = match &entry.ratio {
                Some(ratio) if !first => Some(Difference::of(ratio)),
                _ => None,
            };
        }
        self.verdicts = self
            .points()
            .into_iter()
            .filter_map(|point| self.verdict(point))
            .collect();
    }

    /// What the first subject differed from itself, by any measure.
    pub fn noise_of(&self, measure: &str) -> Option<Noise> {
        let first = self.subjects.first()?;
        let median = |e: &Entry| e.measures.get(measure).map(|m| m.median);
        let medians = self.points().into_iter().filter_map(|point| {
            let once = self.entry(point, first)?;
            let again = self.at(point).find(|e| e.again)?;
            Some((point.to_string(), median(once)?, median(again)?))
        });
        Noise::of(first, medians)
    }

    fn verdict(&self, point: &Point) -> Option<Verdict> {
        let candidates: Vec<(&str, Rounds)> = self
            .at(point)
            .filter(|e| !e.again && e.measures.contains_key(&self.primary))
            .map(|e| (e.subject.as_str(), e.values_of(&self.primary)))
            .collect();
        let leader = lead(self.better()?, &candidates)?;
        Some(Verdict {
            point: point.clone(),
            text: leader.sentence(),
            leader,
        })
    }
}

impl Entry {
    pub fn new(point: Point, subject: String, again: bool) -> Self {
        Self {
            point,
            subject,
            again,
            measures: BTreeMap::new(),
            ratio: None,
            ratio_by_place: BTreeMap::new(),
            against_first: None,
            rounds: Vec::new(),
        }
    }

    /// As it is called in tables: the second go of the first subject is told from the first.
    pub fn label(&self) -> String {
        if self.again {
            format!("{} again", self.subject)
        } else {
            self.subject.clone()
        }
    }

    fn estimate(
        &mut self,
        measures: &[Measure],
        primary: &str,
        better: Option<Better>,
        first: &[Sample],
    ) {
        self.measures = measures
            .iter()
            .filter_map(|m| {
                let values = self
                    .rounds
                    .iter()
                    .filter_map(|s| Some((s.round, *s.values.get(&m.name)?)));
                Some((m.name.clone(), Estimate::of(values)?))
            })
            .collect();
        // Round by round: what slows a whole round down cancels out.
        let first: Rounds = first
            .iter()
            .filter_map(|s| Some((s.round, *s.values.get(primary)?)))
            .collect();
        let ours = self.values_of(primary);
        let ratio = |ours: &Rounds| better.and_then(|better| stats::against(better, ours, &first));
        let places = [Place::Near, Place::Far].map(|place| {
            let there = ours
                .iter()
                .filter(|(round, _)| self.place(**round) == Some(place));
            let there: Rounds = there.map(|(round, value)| (*round, *value)).collect();
            (place, ratio(&there))
        });
        self.ratio = ratio(&ours);
        self.ratio_by_place = match places {
            [(near, Some(a)), (far, Some(b))] => BTreeMap::from([(near, a), (far, b)]),
            _ => BTreeMap::new(),
        };
    }

    /// Where the CPUs were in a round, if that is known.
    fn place(&self, round: u32) -> Option<Place> {
        let sample = self.rounds.iter().find(|s| s.round == round)?;
        sample.distance.as_ref()?.place()
    }

    pub fn values_of(&self, measure: &str) -> Rounds {
        let values = self.rounds.iter();
        values
            .filter_map(|s| Some((s.round, *s.values.get(measure)?)))
            .collect()
    }
}

#[cfg(test)]
pub mod schema;
#[cfg(test)]
pub mod testing;
