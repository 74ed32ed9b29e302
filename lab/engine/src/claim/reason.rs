// SPDX-License-Identifier: MIT
//! Why a claim does not hold here: a sentence, and the experiment that found it. One reason may explain several claims.
//!
//! ```toml
//! [[reason]]
//! name = "one-waiter"
//! says = "with two contexts a spinner has one thread to wait for"
//! experiment = "flexguard bench shm --locks ... : 9,100 a ms with 2 threads, 300 with 16"
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

use super::Claim;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    name: String,
    pub(super) says: String,
    /// The command, and what it measured.
    pub(super) experiment: String,
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
    /// Whether it is about the point at which the variable has the value.
    pub(super) fn is_at(&self, name: &str, value: &Value) -> bool {
        match self.at.get(name) {
            None => true,
            Some(Value::Array(values)) => values.contains(value),
            Some(one) => one == value,
        }
    }
}

impl Claim {
    /// Looks up the reasons that it names. Before it is taken apart into its points.
    pub fn explain<'a>(&mut self, known: impl Iterator<Item = &'a Reason>) -> Result<(), String> {
        let known: Vec<&Reason> = known.collect();
        for because in &mut self.reasons {
            let found = known.iter().find(|r| r.name == because.reason);
            let found = found.ok_or_else(|| format!("no reason is called '{}'", because.reason))?;
            because.known = (*found).clone();
            if let Some(other) = because.locks.iter().find(|l| !self.locks.contains(l)) {
                return Err(format!("a reason is about {other}, the claim is not"));
            }
            if let Some(other) = because.at.keys().find(|name| !self.at.contains_key(*name)) {
                return Err(format!("a reason is about {other}, the claim is not"));
            }
        }
        Ok(())
    }

    pub(super) fn reason_for(&self, lock: &str) -> Option<&Reason> {
        let is_for = |b: &&Because| b.locks.is_empty() || b.locks.iter().any(|l| l == lock);
        self.reasons.iter().find(is_for).map(|b| &b.known)
    }

    #[cfg(test)]
    pub fn names_of_reasons(&self) -> impl Iterator<Item = &str> {
        self.reasons.iter().map(|b| b.reason.as_str())
    }
}

impl Reason {
    /// Why a claim about other CPUs is not judged.
    pub(super) fn elsewhere(cpu: &str) -> Self {
        Self {
            says: format!("not judged: the paper says it of {cpu} CPUs"),
            ..Self::default()
        }
    }

    #[cfg(test)]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[cfg(test)]
    pub fn experiment(&self) -> &str {
        &self.experiment
    }
}
