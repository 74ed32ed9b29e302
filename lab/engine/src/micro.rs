// SPDX-License-Identifier: MIT
//! The microbenchmarks, which the worker runs: threads that contend for locks, under several values of a few variables.

use flexguard_launch::MonitorMode;
use flexguard_launch::failure::{Failure, Result};
use flexguard_launch::names;
use flexguard_launch::prefix::Prefix;
use serde_json::{Map, Value};

use crate::catalogue;
use crate::contention::{Contention, Variable, unusual};
use crate::figure::{FigureSpec, Shape};
use crate::measure::Measure;
use crate::point::{Point, number};
use crate::runner::Run;
use crate::simulated::Simulated;
use crate::worker;
use crate::workload::{Counts, Launch, Reading, Workload};

#[derive(Debug, Clone)]
pub struct Micro {
    /// As the worker knows it.
    name: String,
    title: String,
    pub contention: Contention,
    variables: Vec<Variable>,
    /// See `catalogue::Workload`.
    pairs: bool,
}

/// What a run of pairs takes, about.
const PAIRS_SECONDS: f64 = 0.3;

/// For the worker: an option that the point does not mention is not given, and a flag that is given has an empty value.
fn options_of(variables: &[Variable], point: &Point) -> Vec<(String, Option<String>)> {
    let of = |v: &Variable| {
        let value = point.get(&v.name).map(number);
        let value = match value {
            Some(on) if v.flag => (on == "1").then(String::new),
            value => value,
        };
        (format!("--{}", v.name.replace('_', "-")), value)
    };
    variables.iter().map(of).collect()
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

impl Micro {
    /// A workload of the worker's, every option as it is by default.
    pub fn new(workload: &catalogue::Workload, mut contention: Contention) -> Self {
        contention.interposed |= workload.by_pthread;
        let variable = |choice: &catalogue::Choice| Variable {
            name: choice.variable(),
            values: vec![choice.default.unwrap_or(0.0)],
            usual: choice.default.unwrap_or(0.0),
            flag: choice.kind == catalogue::Kind::Flag,
        };
        Self {
            name: workload.name.clone(),
            title: capitalised(&workload.brief),
            contention,
            variables: workload.options.iter().map(variable).collect(),
            pairs: workload.pairs,
        }
    }

    /// Threads come and go within each run.
    fn ramps(&self) -> bool {
        self.variables
            .iter()
            .any(|v| v.name == "ramp" && v.values.contains(&1.0))
    }

    /// Other values for one of its variables.
    pub fn set(mut self, name: &str, values: Vec<f64>) -> Result<Self> {
        let names: Vec<&str> = self.variables.iter().map(|v| v.name.as_str()).collect();
        let unknown = || {
            Failure::new(format_args!("{} has no option '{name}'", self.name))
                .advice(names::advice(name, &names))
        };
        match names.iter().position(|n| *n == name) {
            Some(at) => self.variables[at].values = values,
            None => return Err(unknown()),
        }
        Ok(self)
    }
}

/// In the manner of the FlexGuard paper's figures 1 and 2 and the poster's figure 1.
fn ramp_figures() -> Vec<FigureSpec> {
    let spec =
        |id: &str, title: &str, measure: &str, log: bool, normalise_to: &[&str]| FigureSpec {
            id: id.into(),
            title: format!("{title}, as threads come and go"),
            measure: measure.into(),
            shape: Shape::Ramp,
            log,
            normalise_to: normalise_to.iter().map(ToString::to_string).collect(),
            ..FigureSpec::default()
        };
    let time = worker::OPERATION_NS;
    vec![
        spec(
            "normalised",
            "Time of an operation, against the blocking lock",
            time,
            true,
            &["futex"],
        ),
        spec("raw", "Time of an operation", time, true, &[]),
        spec("throughput", "Throughput", worker::THROUGHPUT, false, &[]),
        spec(
            "transitions",
            "Mode transitions a second",
            "transitions_per_s",
            false,
            &[],
        ),
    ]
}

impl Workload for Micro {
    fn name(&self) -> &str {
        &self.name
    }

    fn title(&self) -> String {
        self.title.clone()
    }

    fn prepare(&mut self, prefix: &Prefix) -> Result<()> {
        self.contention.prepare(prefix)
    }

    fn subjects(&self) -> Vec<String> {
        let names = self.contention.subjects.iter().map(|s| s.name.clone());
        names.collect()
    }

    fn points(&self) -> Vec<Point> {
        if self.pairs {
            return Point::product(&unusual(&self.variables));
        }
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
            .map(|v| (v.name.clone(), v.values.clone().into()));
        Value::Object(all.into_iter().chain(own).collect::<Map<_, _>>())
    }

    fn measures(&self) -> Vec<Measure> {
        if self.pairs {
            return worker::measures_of_pairs();
        }
        self.contention.measures()
    }

    fn primary(&self) -> &'static str {
        if self.pairs {
            return worker::NS_PER_PAIR;
        }
        worker::THROUGHPUT
    }

    fn columns(&self) -> Vec<String> {
        if self.pairs {
            return [worker::NS_PER_PAIR, "ratio", worker::MEDIAN_NS_PER_PAIR]
                .map(Into::into)
                .into();
        }
        self.contention.columns()
    }

    fn figures(&self) -> Vec<FigureSpec> {
        if self.pairs {
            return vec![FigureSpec {
                id: self.name.clone(),
                title: self.title.clone(),
                measure: worker::NS_PER_PAIR.into(),
                shape: Shape::Bars,
                ..FigureSpec::default()
            }];
        }
        if self.ramps() {
            return ramp_figures();
        }
        self.contention.figures(&self.name)
    }

    fn simulated(&self) -> Option<&Simulated> {
        self.contention.simulated.as_ref()
    }

    fn monitor(&self) -> Option<MonitorMode> {
        Some(self.contention.monitor)
    }

    fn launch(&self, point: &Point, subject: &str) -> Launch {
        let options = options_of(&self.variables, point);
        let (options, seconds) = if self.pairs {
            (options, PAIRS_SECONDS)
        } else {
            self.contention.options(point, options)
        };
        self.contention
            .launch(&self.name, subject, &options, seconds)
    }

    fn read(&self, run: &Run, subject: &str, _: Option<&Counts>) -> Result<Reading, String> {
        let mut reading = worker::read(run, self.primary())?;
        self.contention.handicap(subject, &mut reading);
        Ok(reading)
    }

    fn run_seconds(&self, point: &Point) -> Option<f64> {
        if self.pairs {
            return Some(PAIRS_SECONDS);
        }
        Some(self.contention.run_seconds(point))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::testing::catalogue;

    #[test]
    fn options_come_from_the_worker_and_only_unusual_values_are_mentioned() {
        let contention = Contention::of(&["posix".into()], vec![2], 1.0, 0.0);
        let shm = Micro::new(catalogue().workload("shm").unwrap(), contention);
        assert_eq!(shm.title(), "Shared memory");
        assert_eq!(shm.points()[0].to_string(), "2 threads");
        let shm = shm.set("cycles_between", vec![100.0, 300.0]).unwrap();
        assert_eq!(shm.points().len(), 2);
        assert_eq!(shm.settings()["cycles_between"][1], 300.0);
        let refusal = shm
            .set("depth", vec![1.0])
            .unwrap_err()
            .report()
            .to_string();
        assert!(refusal.contains("cycles_between"), "{refusal}");
    }

    #[test]
    fn what_calls_pthread_functions_is_interposed() {
        let contention = || Contention::of(&["posix".into()], vec![2], 1.0, 0.0);
        let of = |name: &str| Micro::new(catalogue().workload(name).unwrap(), contention());
        assert!(of("turns").contention.interposed && !of("shm").contention.interposed);
    }
}
