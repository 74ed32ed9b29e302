// SPDX-License-Identifier: MIT
//! The microbenchmarks, which the worker runs: threads that contend for locks, under several values of a few variables.

use flexguard_launch::MonitorMode;
use flexguard_launch::failure;
use flexguard_launch::prefix::Prefix;
use serde_json::{Map, Value};

use crate::contention::Contention;
use crate::measure::Measure;
use crate::plot::FigureSpec;
use crate::point::Point;
use crate::runner::Run;
use crate::worker;
use crate::workload::{Counts, Launch, Reading, Workload};

/// An option of a workload's own. Several values make a point of each.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// As in the results: `cycles_between` is `--cycles-between`.
    pub name: &'static str,
    pub values: Vec<f64>,
    /// The value that is not worth mentioning.
    pub usual: f64,
}

#[derive(Debug, Clone)]
pub struct Micro {
    /// As the worker knows it.
    name: &'static str,
    title: &'static str,
    /// What the titles of its figures end with.
    figures: &'static str,
    pub contention: Contention,
    pub variables: Vec<Variable>,
}

fn variables(list: &[(&'static str, f64)]) -> Vec<Variable> {
    list.iter()
        .map(|(name, usual)| Variable {
            name,
            values: vec![*usual],
            usual: *usual,
        })
        .collect()
}

impl Micro {
    /// Shared-memory access, section 5.2 of the paper.
    pub fn shm(contention: Contention) -> Self {
        Self {
            name: "shm",
            title: "Shared-memory access: threads that contend for a lock",
            figures: "one lock, shared cache lines",
            contention,
            variables: variables(&[
                ("cycles_between", 100.0),
                ("section_cycles", 0.0),
                ("lines", 2.0),
                ("lock_count", 1.0),
                ("hold_sleep_us", 0.0),
            ]),
        }
    }

    /// A hash table with a lock for each bucket, section 5.2 of the paper (Fig. 3a-d).
    pub fn hashtable(contention: Contention) -> Self {
        Self {
            name: "hashtable",
            title: "Hash table: a lock for each bucket, keys from a shifting Zipf distribution",
            figures: "hash table",
            contention,
            variables: variables(&[
                ("buckets", 100.0),
                ("cycles_between", 0.0),
                ("theta", 0.99),
                ("update_ratio", 0.2),
                ("hold_sleep_us", 0.0),
            ]),
        }
    }

    /// Other values for one of its variables; the name must be one of its own.
    pub fn set(mut self, name: &str, values: Vec<f64>) -> Self {
        if let Some(variable) = self.variables.iter_mut().find(|v| v.name == name) {
            variable.values = values;
        } else {
            debug_assert!(false, "{} has no {name}", self.name);
        }
        self
    }
}

impl Workload for Micro {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> String {
        self.title.into()
    }

    fn prepare(&mut self, prefix: &Prefix) -> failure::Result<()> {
        self.contention.prepare(prefix)
    }

    fn subjects(&self) -> Vec<String> {
        self.contention.locks.clone()
    }

    fn points(&self) -> Vec<Point> {
        self.contention.points(&self.variables)
    }

    fn settings(&self) -> Value {
        let settings = serde_json::to_value(&self.contention).unwrap_or_default();
        let Value::Object(all) = settings else {
            return settings;
        };
        let own = self
            .variables
            .iter()
            .map(|v| (v.name.to_owned(), v.values.clone().into()));
        Value::Object(all.into_iter().chain(own).collect::<Map<_, _>>())
    }

    fn measures(&self) -> Vec<Measure> {
        self.contention.measures()
    }

    fn primary(&self) -> &'static str {
        "throughput_ops_per_ms"
    }

    fn columns(&self) -> Vec<String> {
        self.contention.columns()
    }

    fn figures(&self) -> Vec<FigureSpec> {
        self.contention.figures(self.figures)
    }

    fn monitor(&self) -> Option<MonitorMode> {
        Some(self.contention.monitor)
    }

    fn launch(&self, point: &Point, lock: &str) -> Launch {
        self.contention
            .launch(self.name, point, lock, &self.variables)
    }

    fn read(&self, run: &Run, _: Option<&Counts>) -> Result<Reading, String> {
        worker::read(run)
    }

    fn run_seconds(&self, point: &Point) -> Option<f64> {
        Some(self.contention.run_seconds(point))
    }
}
