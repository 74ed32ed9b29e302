// SPDX-License-Identifier: MIT
//! What a microbenchmark compares: a lock, the environment that it runs in, and how it gets into the program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// As in tables.
    pub name: String,
    pub lock: String,
    /// Set for its runs, after everything else: tunables, for example.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The lock's interposer is preloaded into the worker of posix; else the lock is compiled into its own worker.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interposed: bool,
    /// The measured throughput is divided by it. It shows which differences the statistics can tell.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub handicap: f64,
}

fn one() -> f64 {
    1.0
}

fn is_one(x: &f64) -> bool {
    *x == 1.0
}

impl Subject {
    /// A lock as it is.
    pub fn of(lock: &str) -> Self {
        Self {
            name: lock.into(),
            lock: lock.into(),
            environment: BTreeMap::new(),
            interposed: false,
            handicap: 1.0,
        }
    }
}
