// SPDX-License-Identifier: MIT
//! Why a claim does not hold here: a sentence, and the experiment that found it. One reason may explain several claims.
//!
//! ```toml
//! [[reason]]
//! name = "one-waiter"
//! says = "with two contexts a spinner has one thread to wait for"
//! experiment = "flexguard bench shm --locks ... : 9,100 a ms with 2 threads, 300 with 16"
//! data = "papers-cells.csv"           # of docs/results/data: what has these numbers
//!
//! [[claim]]
//! reasons = [{ reason = "one-waiter", locks = ["mcs"], at = { threads = ["1x", "2x"] } }]
//! ```
//!
//! Without `locks` it is the reason for each lock of the claim, without `at` at each of its points. The first that fits
//! is shown.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Value;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    name: String,
    pub(super) says: String,
    /// The command, and what it measured.
    pub(super) experiment: String,
    /// The file of docs/results/data that has its numbers.
    #[serde(default)]
    data: String,
}

/// One of the reasons of a claim, and where it is the reason.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Because {
    reason: String,
    #[serde(default)]
    locks: Vec<String>,
    #[serde(default)]
    at: BTreeMap<String, Value>,
    #[serde(skip)]
    known: Reason,
}

impl Because {
    /// Looks the reason up. `locks` and `at`: what the claim is about, before it is taken apart into its points.
    pub(super) fn explain(
        &mut self,
        known: &[&Reason],
        locks: &[String],
        at: &BTreeMap<String, Value>,
    ) -> Result<(), String> {
        let found = known.iter().find(|r| r.name == self.reason);
        let found = found.ok_or_else(|| format!("no reason is called '{}'", self.reason))?;
        self.known = (*found).clone();
        let lock = self.locks.iter().find(|l| !locks.contains(l));
        match lock.or_else(|| self.at.keys().find(|name| !at.contains_key(*name))) {
            Some(other) => Err(format!("a reason is about {other}, the claim is not")),
            None => Ok(()),
        }
    }

    pub(super) fn for_lock(&self, lock: &str) -> Option<&Reason> {
        let is = self.locks.is_empty() || self.locks.iter().any(|l| l == lock);
        is.then_some(&self.known)
    }

    #[cfg(test)]
    pub(super) fn name(&self) -> &str {
        &self.reason
    }

    /// Whether it is about the point at which the variable has the value.
    pub(super) fn is_at(&self, name: &str, value: &Value) -> bool {
        match self.at.get(name) {
            None => true,
            Some(Value::Array(values)) => values.contains(value),
            Some(one) => one == value,
        }
    }
}

impl Reason {
    /// The experiment, and where its numbers are.
    pub(super) fn shown(&self) -> String {
        match self.data.as_str() {
            "" => self.experiment.clone(),
            data => format!("{} (docs/results/data/{data})", self.experiment),
        }
    }

    /// Why a claim about other machines is not judged.
    pub(super) fn elsewhere(why: &str) -> Self {
        Self {
            says: format!("not judged: {why}"),
            ..Self::default()
        }
    }

    /// Nothing is known of why the numbers are against a paper's.
    pub(super) fn unknown() -> Self {
        Self {
            says: "no experiment yet".into(),
            ..Self::default()
        }
    }

    #[cfg(test)]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[cfg(test)]
    pub fn data(&self) -> &str {
        &self.data
    }

    #[cfg(test)]
    pub fn experiment(&self) -> &str {
        &self.experiment
    }
}
