// SPDX-License-Identifier: MIT
//! What was measured of one lock at one point, and in how many of its runs.

use std::collections::BTreeMap;

use toml::Value;

use super::place::is_at;
use crate::document::Document;
use crate::measure::Unit;
use crate::stats::{Better, Estimate, Rounds, against};

pub(super) struct Number {
    unit: Unit,
    /// None: no run has a result.
    estimate: Option<Estimate>,
    values: Rounds,
    /// Those that failed, too.
    runs: usize,
}

impl Number {
    /// None: nothing ran there.
    pub(super) fn find(
        document: &Document,
        lock: &str,
        measure: &str,
        at: &BTreeMap<String, Value>,
    ) -> Option<Self> {
        let mut entries = document.results.iter();
        let entry = entries.find(|e| e.subject == lock && !e.again && is_at(&e.point, at))?;
        let failed = |f: &&crate::document::FailedRun| f.subject == lock && f.point == entry.point;
        let failed = document.failures.iter().filter(failed).count();
        let mut values = entry.values_of(measure);
        values.retain(|_, value| value.is_finite());
        (!entry.rounds.is_empty()).then(|| Self {
            unit: document.measure(measure).map_or(Unit::Plain, |m| m.unit),
            estimate: entry.measures.get(measure).cloned(),
            values,
            runs: entry.rounds.len() + failed,
        })
    }

    pub(super) fn known(&self) -> Option<(Unit, &Estimate)> {
        Some((self.unit, self.estimate.as_ref()?))
    }

    /// Times the other in the same round. None unless each run of the one has a run of the other to compare with, and
    /// where the other did nothing.
    pub(super) fn ratio(&self, other: &Self) -> Option<Estimate> {
        if other.values.values().any(|value| *value == 0.0) {
            return None;
        }
        let ratio = against(Better::Higher, &self.values, &other.values)?;
        (ratio.n == self.values.len() && ratio.n == other.values.len()).then_some(ratio)
    }

    pub(super) fn is_sound(&self) -> bool {
        self.estimate.as_ref().is_some_and(Estimate::is_sound)
    }

    /// Every run has a result. Those without may be the worst: the others say nothing of them.
    pub(super) fn is_complete(&self) -> bool {
        self.values.len() == self.runs
    }

    pub(super) fn told(&self) -> String {
        format!("a result in {} of {} rounds", self.values.len(), self.runs)
    }
}
