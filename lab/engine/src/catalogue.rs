// SPDX-License-Identifier: MIT
//! The workloads of fg-bench and their options, as `fg-bench --options` prints them.
//!
//! They are declared there, in C, once: names, ranges, defaults and help texts of the command and of scenes come from here.

use std::process::Command;

use flexguard_launch::failure::{Failure, Result};
use flexguard_launch::names;
use flexguard_launch::prefix::Prefix;
use serde::Deserialize;

/// The format that this crate understands.
const VERSION: u32 = 1;

#[derive(Debug, Clone, Deserialize)]
pub struct Catalogue {
    version: u32,
    /// Options of every round.
    pub round: Vec<Choice>,
    pub workloads: Vec<Workload>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Workload {
    pub name: String,
    /// One line for people.
    pub brief: String,
    /// It calls pthread functions: each lock is brought by its interposer.
    pub by_pthread: bool,
    /// One thread, and the result is the time of a pair of lock and unlock: the options of every round mean nothing.
    #[serde(default)]
    pub pairs: bool,
    pub options: Vec<Choice>,
}

/// An option of the worker.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Choice {
    /// As on the command line, without the dashes in front.
    pub name: String,
    pub kind: Kind,
    pub brief: String,
    #[serde(default = "least")]
    pub min: f64,
    #[serde(default = "most")]
    pub max: f64,
    /// None: the worker has no default, or it is a flag.
    pub default: Option<f64>,
}

fn least() -> f64 {
    0.0
}

fn most() -> f64 {
    1.0
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Whole.
    Number,
    Seconds,
    Real,
    /// A list of whole numbers.
    Levels,
    Flag,
}

impl Catalogue {
    pub fn read(prefix: &Prefix) -> Result<Self> {
        let worker = prefix.worker();
        if !worker.exists() {
            return Err(not_built(prefix));
        }
        let told = Command::new(&worker).arg("--options").output();
        let advice = "the installation is incomplete or of another version: run `make workers`";
        let told = told.map_err(|e| {
            Failure::new(format_args!("cannot execute {}: {e}", worker.display())).advice(advice)
        })?;
        Self::parse(&told.stdout).map_err(|e| {
            Failure::new(format_args!("{} --options: {e}", worker.display())).advice(advice)
        })
    }

    fn parse(json: &[u8]) -> Result<Self, String> {
        let catalogue: Self = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        if catalogue.version == VERSION {
            Ok(catalogue)
        } else {
            let version = catalogue.version;
            Err(format!("version {version} of its options, not {VERSION}"))
        }
    }

    pub fn workload(&self, name: &str) -> Result<&Workload> {
        self.workloads
            .iter()
            .find(|w| w.name == name)
            .ok_or_else(|| {
                let names: Vec<&str> = self.workloads.iter().map(|w| w.name.as_str()).collect();
                Failure::new(format_args!("there is no workload called '{name}'"))
                    .advice(names::advice(name, &names))
            })
    }

    /// An option of every round; `name` as the worker spells it.
    pub fn of_round(&self, name: &str) -> Option<&Choice> {
        self.round.iter().find(|c| c.name == name)
    }
}

/// The workers are built apart. What they know stands in the installation, too.
fn not_built(prefix: &Prefix) -> Failure {
    let known = std::fs::read_to_string(prefix.dir().join("share/flexguard/WORKLOADS"));
    let names: Vec<String> = known
        .iter()
        .flat_map(|text| text.lines().map(str::to_owned))
        .collect();
    let names = match names.is_empty() {
        true => String::new(),
        false => format!("; the workloads are {}", names.join(", ")),
    };
    Failure::new("the workers of `flexguard bench` are not built").advice(format_args!(
        "run `make workers` in the source tree, some minutes{names}"
    ))
}

impl Choice {
    /// As in results: `cycles-between` is `cycles_between`.
    pub fn variable(&self) -> String {
        self.name.replace('-', "_")
    }

    /// What is allowed, in words.
    pub fn allowed(&self) -> String {
        let what = match self.kind {
            Kind::Flag => return "true or false".into(),
            Kind::Number => "a whole number",
            Kind::Levels => "a list of whole numbers",
            Kind::Seconds => "a number of seconds",
            Kind::Real => "a number",
        };
        format!("{what} from {} to {}", self.min, self.max)
    }

    pub fn check(&self, value: f64) -> Result<f64, String> {
        let whole = matches!(self.kind, Kind::Number | Kind::Levels);
        if (self.min..=self.max).contains(&value) && (!whole || value.fract() == 0.0) {
            Ok(value)
        } else {
            Err(format!("not {}", self.allowed()))
        }
    }

    pub fn parse(&self, text: &str) -> Result<f64, String> {
        let value = text
            .parse()
            .map_err(|_| format!("not {}", self.allowed()))?;
        self.check(value)
    }
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// The two workloads that `bench paper` needs, with the options that it sets.
    pub fn catalogue() -> Catalogue {
        let json = br#"{"version":1,
            "round":[{"name":"threads","kind":"number","brief":"threads","min":1,"max":4096,"default":0}],
            "workloads":[
                {"name":"shm","brief":"shared memory","by_pthread":false,"options":[
                    {"name":"cycles-between","kind":"number","brief":"cycles","min":0,"max":1e12,"default":100}]},
                {"name":"hashtable","brief":"a table","by_pthread":false,"options":[
                    {"name":"theta","kind":"real","brief":"skew","min":0,"max":10,"default":0.99}]},
                {"name":"turns","brief":"turns","by_pthread":true,"options":[
                    {"name":"after-unlock","kind":"flag","brief":"signal later"}]}]}"#;
        Catalogue::parse(json).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::catalogue;
    use super::*;

    #[test]
    fn another_version_is_refused() {
        let refusal = Catalogue::parse(br#"{"version":2,"round":[],"workloads":[]}"#).unwrap_err();
        assert!(refusal.contains("version 2") && refusal.contains("not 1"));
        assert!(Catalogue::parse(b"").is_err());
    }

    #[test]
    fn values_are_checked_against_the_range() {
        let catalogue = catalogue();
        let cycles = &catalogue.workload("shm").unwrap().options[0];
        assert_eq!(cycles.variable(), "cycles_between");
        assert_eq!(
            (cycles.parse("0"), cycles.parse("1e3")),
            (Ok(0.0), Ok(1000.0))
        );
        for wrong in ["-1", "0.5", "1e13", "nan", "x", ""] {
            assert!(cycles.parse(wrong).is_err(), "{wrong}");
        }
        let theta = &catalogue.workload("hashtable").unwrap().options[0];
        assert_eq!(theta.parse("0.5"), Ok(0.5));
        assert!(theta.parse("11").unwrap_err().contains("from 0 to 10"));
    }

    #[test]
    fn an_unknown_workload_names_those_there_are() {
        let refusal = catalogue().workload("dance").unwrap_err();
        assert!(refusal.report().to_string().contains("shm, hashtable"));
    }
}
