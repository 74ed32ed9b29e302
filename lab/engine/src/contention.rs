// SPDX-License-Identifier: MIT
//! What the microbenchmarks have in common: locks, threads, durations, and what disturbs them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::figure::{FigureSpec, Part, Shape};
use super::measure::{Measure, Unit, measure};
use super::options::distinct;
use super::point::{Point, number};
use super::worker;
use flexguard_launch::attach::SOCKET_ENV;
use flexguard_launch::failure::Failure;
use flexguard_launch::locks::{self, Lock};
use flexguard_launch::prefix::Prefix;
use flexguard_launch::{MonitorMode, Preload, failure, output};

use super::simulated::{self, Simulated};
use super::subject::Subject;
use super::workload::{Launch, Reading};

/// An option of a workload's own. Several values make a point of each.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// As in the results: `cycles_between` is `--cycles-between`.
    pub name: String,
    pub values: Vec<f64>,
    /// The value that is not worth mentioning.
    pub usual: f64,
    /// 1: the option is given; 0: it is not.
    pub flag: bool,
}

/// Those that have other values than the usual one.
pub fn unusual(variables: &[Variable]) -> Vec<(&str, Vec<f64>)> {
    variables
        .iter()
        .filter(|v| v.values != [v.usual])
        .map(|v| (v.name.as_str(), distinct(&v.values)))
        .collect()
}

/// Options that take several values make a point of each combination.
#[derive(Debug, Clone, Serialize)]
pub struct Contention {
    /// What is compared. Before `prepare`, `all` stands for every lock of this installation, `peers` for those of others.
    pub subjects: Vec<Subject>,

    /// Every subject is interposed: the workload calls pthread functions.
    pub interposed: bool,

    /// Threads; 2x: two for each hardware context
    pub threads: Vec<u32>,

    /// Measured seconds of each run
    pub seconds: Vec<f64>,

    /// Seconds that each run warms up before it measures
    pub warmup: f64,

    /// Busy processes that compete for the CPUs
    pub hogs: Vec<u32>,

    /// Nice levels, dealt to the threads in turn
    pub nice: Vec<i32>,

    /// Sample the number of runnable threads at this interval (0: do not; else 100 or more)
    pub trace_us: u64,

    /// Where the locks learn of preemptions
    pub monitor: MonitorMode,

    /// The machine that is simulated; None: it runs here.
    #[serde(skip)]
    pub simulated: Option<Simulated>,

    /// A lock that this installation does not have, or this machine cannot run, is an error; else it is left out.
    #[serde(skip)]
    pub demanding: bool,

    /// About how long a run works before it warms up: for the plan.
    #[serde(skip)]
    pub preparation: f64,

    #[serde(skip)]
    worker: PathBuf,

    /// Of the simulators.
    #[serde(skip)]
    prefix: Option<Prefix>,

    /// By subject, of those that are interposed.
    #[serde(skip)]
    preloads: BTreeMap<String, Preload>,
}

impl Contention {
    /// What `bench paper` measures: everything else as by default.
    pub fn of(locks: &[String], threads: Vec<u32>, seconds: f64, warmup: f64) -> Self {
        Self {
            subjects: locks.iter().map(|l| Subject::of(l)).collect(),
            interposed: false,
            threads,
            seconds: vec![seconds],
            warmup,
            hogs: vec![0],
            nice: Vec::new(),
            trace_us: 0,
            monitor: MonitorMode::Auto,
            simulated: None,
            demanding: true,
            preparation: 0.0,
            worker: PathBuf::new(),
            prefix: None,
            preloads: BTreeMap::new(),
        }
    }

    pub fn prepare(&mut self, prefix: &Prefix) -> failure::Result<()> {
        self.worker = worker::find(prefix)?;
        let known = worker::locks(prefix, &self.worker)?;
        let mut resolved: Vec<Subject> = Vec::new();
        for subject in &self.subjects {
            for lock in self.locks_of(subject, &known, prefix)? {
                let name = if subject.name == subject.lock {
                    lock.clone()
                } else {
                    subject.name.clone()
                };
                if !resolved.iter().any(|s| s.name == name) {
                    resolved.push(Subject {
                        name,
                        lock,
                        ..subject.clone()
                    });
                }
            }
        }
        self.subjects = resolved;
        if self.subjects.is_empty() && self.simulated.is_some() {
            return Err(Failure::new("--machine: none of the locks has a simulator")
                .advice("only locks of this project have; `flexguard list` shows them"));
        }
        if self.simulated.is_some() {
            return self.prepare_simulation(prefix);
        }
        for subject in &self.subjects {
            if self.interposed || subject.interposed {
                let preload = Preload::of(prefix, &subject.lock)?;
                self.preloads.insert(subject.name.clone(), preload);
            }
        }
        Ok(())
    }

    /// Each subject has a simulator, which needs nothing of the host.
    fn prepare_simulation(&mut self, prefix: &Prefix) -> failure::Result<()> {
        for subject in &self.subjects {
            if (self.interposed || subject.interposed) && subject.lock != locks::POSIX {
                return Err(Failure::new(format_args!(
                    "--machine: the interposer of '{}' is not simulated",
                    subject.lock
                ))
                .advice(
                    "what calls pthread functions runs with --locks posix alone, the models of glibc's; shm, server and \
                     others, without --interposed, run with every lock",
                ));
            }
            simulated::simulator(prefix, &subject.lock)?;
        }
        self.prefix = Some(prefix.clone());
        Ok(())
    }

    /// The locks that a subject stands for.
    fn locks_of(
        &self,
        subject: &Subject,
        known: &[Lock],
        prefix: &Prefix,
    ) -> failure::Result<Vec<String>> {
        let group = ["all", "peers", "constants", "rules"].contains(&subject.lock.as_str());
        if let Some(option) = worker::lacks(known, &subject.lock) {
            output::note_once(&format!(
                "flexguard: left out: {} (`make workers {option}`)\n",
                subject.lock
            ));
            return Ok(Vec::new());
        }
        if self.demanding || group {
            let mut found = worker::resolve(known, std::slice::from_ref(&subject.lock))?;
            if let (true, Some(prefix)) = (group, self.simulated.as_ref().and(Some(prefix))) {
                found.retain(|lock| has_simulator(prefix, lock));
            }
            return Ok(found);
        }
        match locks::find(known, &subject.lock) {
            // Whether this machine has what the lock needs is for the worker to say: that is a result, too.
            Ok(lock) => Ok(vec![lock.name.clone()]),
            Err(unknown) => {
                output::note(&format!("flexguard: left out: {unknown}\n"));
                Ok(Vec::new())
            }
        }
    }

    /// Ours, then the workload's own. Of the variables that keep their default, only `threads` is worth mentioning.
    pub fn points(&self, own: &[Variable]) -> Vec<Point> {
        let whole = |values: &[u32]| distinct(values).into_iter().map(f64::from).collect();
        let mut variables: Vec<(&str, Vec<f64>)> = vec![("threads", whole(&self.threads))];
        if self.seconds.len() > 1 {
            variables.push(("seconds", distinct(&self.seconds)));
        }
        let hogs = [Variable {
            name: "hogs".into(),
            values: whole(&self.hogs),
            usual: 0.0,
            flag: false,
        }];
        variables.extend(unusual(&hogs));
        variables.extend(unusual(own));
        Point::product(&variables)
    }

    pub fn seconds_at(&self, point: &Point) -> f64 {
        point.get("seconds").unwrap_or(self.seconds[0])
    }

    pub fn run_seconds(&self, point: &Point) -> f64 {
        if let Some(simulated) = &self.simulated {
            let threads = point.get("threads").unwrap_or(1.0);
            return simulated.run_seconds(self.seconds_at(point) + self.warmup, threads);
        }
        self.preparation + self.seconds_at(point) + self.warmup + worker::START_SECONDS
    }

    /// The options of every round at `point`, then the workload's own; and the seconds that they make.
    pub fn options(
        &self,
        point: &Point,
        own: Vec<(String, Option<String>)>,
    ) -> (Vec<(String, Option<String>)>, f64) {
        let given = |variable: &str| point.get(variable).map(number);
        let seconds = self.seconds_at(point);
        let nice: Vec<String> = self.nice.iter().map(ToString::to_string).collect();
        let nice = Some(nice.join(",")).filter(|n| !n.is_empty());
        let trace = (self.trace_us > 0).then(|| self.trace_us.to_string());
        let mut options = vec![
            ("--threads".to_owned(), given("threads")),
            ("--seconds".to_owned(), Some(seconds.to_string())),
            ("--warmup".to_owned(), Some(self.warmup.to_string())),
            ("--hogs".to_owned(), given("hogs").filter(|h| h != "0")),
            ("--nice".to_owned(), nice),
            ("--trace-us".to_owned(), trace),
        ];
        options.extend(own);
        (options, seconds + self.warmup)
    }

    /// A run of the worker under a subject's lock.
    pub fn launch(
        &self,
        workload: &str,
        subject: &str,
        options: &[(String, Option<String>)],
        seconds: f64,
    ) -> Launch {
        if let (Some(simulated), Some(prefix)) = (&self.simulated, &self.prefix) {
            let subject = self.subjects.iter().find(|s| s.name == subject);
            let environment = subject.map_or(BTreeMap::new(), |s| s.environment.clone());
            let lock = subject.map_or("", |s| s.lock.as_str());
            let monitored = self.monitor != MonitorMode::Off
                && environment.get(SOCKET_ENV).is_none_or(|s| !s.is_empty());
            let mut launch = simulated.launch(prefix, workload, lock, options, seconds, monitored);
            launch.environment = environment;
            return launch;
        }
        let interposer = self.preloads.get(subject);
        let subject = self.subjects.iter().find(|s| s.name == subject);
        let lock = match interposer {
            Some(_) => locks::POSIX,
            None => subject.map_or("", |s| s.lock.as_str()),
        };
        let mut launch = worker::launch(&self.worker, workload, lock, options, seconds);
        if let Some(preload) = interposer {
            preload.apply(&mut launch.command);
        }
        launch.environment = subject.map_or(BTreeMap::new(), |s| s.environment.clone());
        launch
    }

    /// Makes a subject as much slower as it is to look.
    pub fn handicap(&self, subject: &str, reading: &mut Reading) {
        let subject = self.subjects.iter().find(|s| s.name == subject);
        if let Some(subject) = subject.filter(|s| s.handicap != 1.0)
            && let Some(value) = reading.values.get_mut("throughput_ops_per_ms")
        {
            *value /= subject.handicap;
        }
    }

    /// The worker's, and how the operations are shared out among the nice levels.
    pub fn measures(&self) -> Vec<Measure> {
        let share = |&level: &i32| {
            let title = format!("share at nice {level}");
            measure(&worker::share(level), &title, Unit::Plain, None)
        };
        let mut measures = worker::measures();
        measures.extend(distinct(&self.nice).iter().map(share));
        measures
    }

    pub fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = COLUMNS.map(Into::into).into();
        columns.extend(distinct(&self.nice).into_iter().map(worker::share));
        columns
    }

    /// Each level, and what its threads would get of a CPU that they all share: the kernel gives each 1.25 times the
    /// weight of one a level up. Exact if every place in the list is dealt to equally many threads.
    fn shares(&self) -> FigureSpec {
        let weight = |level: i32| 1.25_f64.powi(-level);
        let all: f64 = self.nice.iter().map(|&level| weight(level)).sum();
        let part = |level: i32| {
            let places = self.nice.iter().filter(|&&l| l == level).count() as f64;
            Part {
                title: format!(
                    "nice {level} (by weight {:.2})",
                    places * weight(level) / all
                ),
                measure: worker::share(level),
            }
        };
        FigureSpec {
            id: "shares".into(),
            title: "Shares of the operations, by nice level".into(),
            shape: Shape::Bars,
            parts: distinct(&self.nice).into_iter().map(part).collect(),
            ..FigureSpec::default()
        }
    }

    /// Figures over whichever variable has several values.
    pub fn figures(&self, shape: &str) -> Vec<FigureSpec> {
        let spec = |id: &str, title: &str, measure: &str, shape| FigureSpec {
            id: id.into(),
            title: title.into(),
            measure: measure.into(),
            shape,
            ..FigureSpec::default()
        };
        let mut figures = vec![
            spec(
                "throughput",
                &format!("Throughput, {shape}"),
                "throughput_ops_per_ms",
                Shape::Lines,
            ),
            FigureSpec {
                normalise_to: vec!["futex".into(), "posix".into()],
                log: true,
                ..spec(
                    "section-time",
                    &format!("Critical-section time, {shape}"),
                    "cs_mean_ns",
                    Shape::Lines,
                )
            },
            FigureSpec {
                base: 0.5,
                ..spec(
                    "fairness",
                    "Fairness (0.5 fair, 1 unfair)",
                    "fairness_normalised",
                    Shape::Bars,
                )
            },
            FigureSpec {
                log: true,
                ..spec("spins", "Busy-waiting", "spins_per_s", Shape::Lines)
            },
        ];
        if !self.nice.is_empty() {
            figures.push(self.shares());
        }
        if self.trace_us > 0 {
            figures.push(spec(
                "runnable",
                "Runnable threads over time",
                "runnable_mean",
                Shape::Trace,
            ));
        }
        figures
    }
}

/// Says so if not.
fn has_simulator(prefix: &Prefix, lock: &str) -> bool {
    let found = simulated::simulator(prefix, lock).is_ok();
    if !found {
        output::note_once(&format!("flexguard: left out: {lock} has no simulator\n"));
    }
    found
}

/// What the tables of the microbenchmarks show.
const COLUMNS: [&str; 8] = [
    "throughput_ops_per_ms",
    "ratio",
    "cs_mean_ns",
    "cs_p99_ns",
    "fairness_factor",
    "longest_wait_ns",
    "cpu_us_per_op",
    "preempted_per_s",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nice_level_has_a_column_and_a_place_in_the_figure() {
        let mut contention = Contention::of(&[], vec![2], 1.0, 0.0);
        assert_eq!(contention.columns(), COLUMNS);
        contention.nice = vec![0, 5, 0];
        assert_eq!(
            contention.columns()[COLUMNS.len()..],
            ["share_nice_0", "share_nice_5"]
        );
        let known: Vec<String> = contention.measures().into_iter().map(|m| m.name).collect();
        assert!(
            contention
                .columns()
                .iter()
                .all(|c| c == "ratio" || known.contains(c))
        );
        let figures = contention.figures("");
        let parts = &figures.last().unwrap().parts;
        // 1024 + 1024 against 335.5
        assert_eq!(
            parts.iter().map(|p| p.title.as_str()).collect::<Vec<_>>(),
            ["nice 0 (by weight 0.86)", "nice 5 (by weight 0.14)"]
        );
    }
}
