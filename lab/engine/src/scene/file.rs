// SPDX-License-Identifier: MIT
//! The format of a file of scenes: what is measured, as data, and claims about it.
//!
//! ```toml
//! version = 1
//! title = "What people read above the results"
//!
//! [[scene]]
//! name = "server"                     # names its result file
//! workload = "server"                 # of fg-bench; or program = ["sysbench", ...]; or preset = "rocksdb"
//! locks = ["posix", "flexguard"]
//! threads = [2, 8, "4x"]              # 4x: four for each hardware context; several values make several points
//! hogs = 0
//! options = { section-us = [1, 50] }  # of the workload, as `fg-bench WORKLOAD --help` has them; of a program whatever its
//!                                     # arguments name: {section-us}, also {threads}, {seconds}, {scratch} (a directory)
//!
//! [[scene.subject]]                   # a lock that is not as it is by default
//! name = "flexguard, yields for 5 us"
//! lock = "flexguard"
//! environment = { FLEXGUARD_SOCKET = "" }
//! interposed = true
//!
//! [quick]                             # of the short version: these values only, where a scene lists several
//! threads = [2, 8]                    # likewise hogs and locks
//! rounds = 6
//! seconds = 0.1
//! ```
//!
//! Every value is checked before anything runs; an error names the file, the line, and what is allowed there.

use std::collections::BTreeMap;
use std::path::Path;

use flexguard_launch::failure::Failure;
use serde::Deserialize;
use toml::{Spanned, Value};

use crate::claim::{Claim, Reason};
use crate::subject::Subject;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) version: Spanned<i64>,
    pub(super) title: String,
    #[serde(default)]
    pub(super) quick: Quick,
    #[serde(default, rename = "scene")]
    pub(super) scenes: Vec<Spanned<Scene>>,
    #[serde(default, rename = "claim")]
    pub(super) claims: Vec<Spanned<Claim>>,
    #[serde(default, rename = "reason")]
    pub(super) reasons: Vec<Reason>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scene {
    pub(super) name: Spanned<String>,
    pub(super) title: Option<String>,
    pub(super) workload: Option<Spanned<String>>,
    pub(super) program: Option<Vec<String>>,
    pub(super) preset: Option<Spanned<String>>,
    /// The load of guest kernels; `options` are how many guests, virtual CPUs, and burners.
    pub(super) guests: Option<Spanned<String>>,
    /// In guests: kernels that count.
    #[serde(default)]
    pub(super) counts: bool,
    /// Of a program: what is compared, instead of its time.
    pub(super) score: Option<Spanned<String>>,
    /// A lower score is the better one.
    #[serde(default)]
    pub(super) lower: bool,
    #[serde(default)]
    pub(super) locks: Vec<String>,
    #[serde(default, rename = "subject")]
    pub(super) subjects: Vec<Subject>,
    #[serde(default)]
    pub(super) interposed: bool,
    #[serde(default)]
    pub(super) threads: Option<Spanned<Value>>,
    pub(super) hogs: Option<Spanned<Value>>,
    pub(super) seconds: Option<Spanned<Value>>,
    pub(super) warmup: Option<Spanned<Value>>,
    pub(super) nice: Option<Spanned<Value>>,
    /// How often the number of runnable threads is looked at.
    #[serde(rename = "trace-us")]
    pub(super) trace_us: Option<Spanned<Value>>,
    #[serde(default)]
    pub(super) options: BTreeMap<String, Spanned<Value>>,
    pub(super) rounds: Option<Spanned<i64>>,
    #[serde(default)]
    pub(super) noise: bool,
    /// What is compared, instead of the workload's own measure.
    pub(super) primary: Option<String>,
    /// How much work a preset or a guest does.
    pub(super) scale: Option<f64>,
    /// Not in the short version.
    #[serde(default)]
    pub(super) full: bool,
    /// Of the short version, where its seconds are too few for this scene.
    #[serde(rename = "quick-seconds")]
    pub(super) quick_seconds: Option<f64>,
    /// Of a workload: seconds that a run works before it warms up. The plan's times count them.
    #[serde(default)]
    pub(super) preparation: f64,
    /// Of a program: seconds after which a run is given up, or ended and counts as so long.
    pub(super) timeout: Option<f64>,
    pub(super) longest: Option<f64>,
}

/// What the short version measures.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quick {
    #[serde(default)]
    pub(super) locks: Vec<String>,
    #[serde(default)]
    pub(super) threads: Vec<Value>,
    #[serde(default)]
    pub(super) hogs: Vec<Value>,
    pub(super) rounds: Option<u32>,
    pub(super) seconds: Option<f64>,
}

/// What is wrong in a file, and where: a byte.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) what: String,
    pub(super) allowed: String,
}

impl Wrong {
    pub(super) fn at<T>(
        place: &Spanned<T>,
        what: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            at: place.span().start,
            what: what.into(),
            allowed: allowed.into(),
        }
    }

    pub(super) fn in_file(self, path: &Path, text: &str) -> Failure {
        let line = text[..self.at.min(text.len())].matches('\n').count() + 1;
        let failure = Failure::new(format_args!("{}:{line}: {}", path.display(), self.what));
        if self.allowed.is_empty() {
            failure
        } else {
            failure.advice(self.allowed)
        }
    }
}

pub(super) type Checked<T> = std::result::Result<T, Wrong>;

/// A number, or a list of numbers: of a program, whose ranges are not known here.
pub(super) fn plain(value: &Spanned<Value>) -> Checked<Vec<f64>> {
    let one = |v: &Value| v.as_integer().map(|n| n as f64).or(v.as_float());
    let numbers: Option<Vec<f64>> = match value.get_ref() {
        Value::Array(values) => values.iter().map(one).collect(),
        value => one(value).map(|number| vec![number]),
    };
    numbers
        .filter(|n| !n.is_empty())
        .ok_or_else(|| Wrong::at(value, "not a number", "a number, or a list of numbers"))
}
