// SPDX-License-Identifier: MIT
//! What a paper says, in its own words: of which machine, with how many threads for each hardware context, and which
//! way. A claim that names a statement is judged only where the paper says it, and a claim that the paper's own number
//! does not keep is refused.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::machine::Machine;
use crate::point::Point;

/// Without `unjudged` and `of_all`, which `scripts/papers-pages` reads.
#[derive(Debug, Deserialize)]
pub(super) struct Statement {
    pub(super) name: String,
    #[serde(default)]
    paper: String,
    section: String,
    pub(super) quote: String,
    pub(super) machine: String,
    /// A part of the name of the CPUs of which the paper says it; empty: of all.
    #[serde(default)]
    cpu: String,
    pub(super) load: Load,
    /// It is said of most of what is compared: no verdict on one of them follows.
    #[serde(default)]
    of_most: bool,
    #[serde(default)]
    printed: Several<String>,
    way: Way,
    compares: String,
    #[serde(default)]
    against: String,
    #[serde(default)]
    number: Several<f64>,
}

/// How many threads for each hardware context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Load {
    Half,
    NotOver,
    Full,
    FullOrOver,
    /// Two and three virtual CPUs for each CPU.
    Twice,
    Thrice,
    Over,
    /// As the FlexGuard paper has it: fewer than 120 threads on 104 contexts, and more.
    Light,
    BeyondLight,
    Any,
    /// The paper does not say it.
    Unstated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    More,
    Less,
    Same,
    /// Both ends are said.
    Between,
}

/// One for all, or one for each load or lock.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Several<T> {
    One(T),
    Of(BTreeMap<String, T>),
}

impl<T> Default for Several<T> {
    fn default() -> Self {
        Self::Of(BTreeMap::new())
    }
}

const LIGHT: f64 = 120.0 / 104.0;

impl Load {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Half => "half a thread a context",
            Self::NotOver => "not oversubscribed",
            Self::Full => "a thread a context",
            Self::FullOrOver => "a thread a context and more",
            Self::Twice => "two a context",
            Self::Thrice => "three a context",
            Self::Over => "oversubscribed",
            Self::Light => "oversubscribed, up to 1.15 threads a context",
            Self::BeyondLight => "more than 1.15 threads a context",
            Self::Any => "any",
            Self::Unstated => "not stated",
        }
    }

    /// Whether so many threads for each context are what the paper speaks of. None: it is not known how many.
    fn fits(self, load: Option<f64>) -> bool {
        let Some(load) = load else {
            return matches!(self, Self::Any | Self::Unstated);
        };
        match self {
            Self::Half => load < 1.0,
            Self::NotOver => load <= 1.0,
            Self::Full => load == 1.0,
            Self::FullOrOver => load >= 1.0,
            Self::Twice => load == 2.0,
            Self::Thrice => load == 3.0,
            Self::Over => load > 1.0,
            Self::Light => load > 1.0 && load < LIGHT,
            Self::BeyondLight => load >= LIGHT,
            Self::Any | Self::Unstated => true,
        }
    }
}

/// Threads and busy processes, or virtual CPUs, for each of the contexts.
pub(super) fn load(point: &Point, contexts: usize) -> Option<f64> {
    let beside = |name| point.get(name).unwrap_or(0.0);
    let virtual_cpus = || Some(point.get("guests")? * point.get("vcpus")?);
    let own = point.get("threads").or_else(virtual_cpus)?;
    Some((own + beside("hogs") + beside("burners")) / contexts as f64)
}

/// What a measure measures, as statements have it.
pub(super) fn kind(measure: &str) -> &str {
    match measure {
        "throughput_ops_per_ms" | "throughput" | "ramp_back" => "throughput",
        "cs_mean_ns" | "seconds" | "score" => "time",
        "spins_per_op" | "spins_per_s" => "spins",
        "parks_per_s" => "parks",
        "transitions_per_s" => "transitions",
        "fairness_normalised" => "unfairness",
        "runnable_one" | "runnable_more" | "runnable_mean" => "runnable",
        "waiter_share" => "waiters",
        "psp_per_million" => "preemptions",
        "spin_share" => "spinning",
        "overtaken_most" => "overtaken",
        "hold_p99_ns" => "section",
        "cpu_us_per_op" => "cpu time",
        share if share.starts_with("share_") => "share",
        other => other,
    }
}

/// What a claim asks of a number.
#[derive(Clone, Copy)]
pub(super) struct Bound<'a> {
    pub(super) locks: &'a [String],
    pub(super) measure: &'a str,
    pub(super) against: &'a str,
    pub(super) least: bool,
    pub(super) factor: f64,
}

impl Statement {
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|s| s.name == name)
    }

    pub(super) fn place(&self) -> String {
        match self.paper.as_str() {
            "" => self.section.clone(),
            paper => format!("{paper}, {}", self.section),
        }
    }

    /// The number that the paper printed for such a lock with so many threads.
    pub(super) fn printed(&self, lock: &str, load: Option<f64>) -> String {
        match &self.printed {
            Several::One(text) => text.clone(),
            Several::Of(texts) => {
                let side = load.map(|load| if load > 1.0 { "over" } else { "not-over" });
                let text = texts.get(lock).or_else(|| texts.get(side?));
                text.cloned().unwrap_or_default()
            }
        }
    }

    /// Why the paper does not say it of this machine with so many threads.
    pub(super) fn elsewhere(&self, machine: &Machine, load: Option<f64>) -> Option<String> {
        let cpu = machine.cpu.as_deref().unwrap_or_default();
        if !cpu.contains(&self.cpu) {
            return Some(format!("the paper says it of {} CPUs", self.cpu));
        }
        if self.of_most {
            return Some("the paper says it of most locks, and not of each".into());
        }
        let there = self.load.text();
        (!self.load.fits(load)).then(|| format!("the paper says it of another load: {there}"))
    }

    /// Whether a claim says what the paper says, and the paper's own numbers keep it.
    pub(super) fn agrees(&self, bound: Bound) -> Result<(), String> {
        let kind = kind(bound.measure);
        let inverse = match (kind, self.compares.as_str()) {
            (a, b) if a == b => false,
            ("time", "throughput") | ("throughput", "time") => true,
            (a, b) => return Err(format!("it judges {a}, the paper speaks of {b}")),
        };
        let turned = match self.way {
            Way::More => bound.least == inverse,
            Way::Less => bound.least != inverse,
            Way::Same => !keeps(1.0, bound),
            Way::Between => false,
        };
        if turned {
            return Err(format!("it turns what the paper says: \"{}\"", self.quote));
        }
        let own = |x: f64| if inverse { 1.0 / x } else { x };
        let of_them = |name: &str| {
            bound.locks.iter().any(|l| l == name) || ["over", "not-over"].contains(&name)
        };
        let numbers: Vec<f64> = match &self.number {
            Several::One(x) => vec![*x],
            Several::Of(all) => all
                .iter()
                .filter(|(n, _)| of_them(n))
                .map(|(_, x)| *x)
                .collect(),
        };
        let same_lock = self.against.is_empty() || self.against == bound.against;
        match numbers
            .iter()
            .find(|x| same_lock && !keeps(own(**x), bound))
        {
            Some(x) => Err(format!("the paper's own {x} does not keep it")),
            None => Ok(()),
        }
    }
}

fn keeps(x: f64, bound: Bound) -> bool {
    if bound.least {
        x >= bound.factor
    } else {
        x <= bound.factor
    }
}

#[derive(Deserialize)]
struct File {
    statement: Vec<Statement>,
}

static ALL: LazyLock<Vec<Statement>> = LazyLock::new(|| {
    let file: Result<File, _> = toml::from_str(include_str!("statements.toml"));
    file.map(|file| file.statement)
        .unwrap_or_else(|e| unreachable!("statements.toml: {e}"))
});
