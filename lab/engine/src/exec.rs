// SPDX-License-Identifier: MIT
//! `flexguard bench exec`: any program, under several locks.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regex_lite::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::figure::{FigureSpec, Shape};
use super::measure::{Measure, Unit, measure};
use super::point::{Point, number};
use super::presets::{self, Preset};
use super::runner::{Capture, Run, with_tail};
use super::stats::Better::{Higher, Lower};
use super::workload::{Counts, Launch, MonitorUse, Reading, Workload};
use super::{memcached, worker};
use flexguard_launch::MonitorMode;
use flexguard_launch::Preload;
use flexguard_launch::child;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::locks;
use flexguard_launch::prefix::Prefix;
use flexguard_launch::waits;

#[derive(Debug)]
pub struct Exec {
    /// Locks to compare, or `all`; ratios are to the first
    pub locks: Vec<String>,

    /// Compare what this regular expression finds in the output (its first group, a number, more is better)
    pub score: Option<Regex>,
    /// The score is a cost.
    pub lower: bool,

    /// Run a well-known program instead of PROGRAM
    pub preset: Option<Preset>,

    /// Threads: several values make several points, as all that follows. None: the program does not take them from here.
    pub threads: Vec<u32>,

    /// What else stands in the program's arguments, by its name
    pub variables: BTreeMap<String, Vec<f64>>,

    /// Variables of the program's runtimes: each is a subject after the locks, under the first of them
    pub waits: Vec<&'static waits::Preset>,

    /// Busy processes beside the program
    pub hogs: Vec<u32>,

    /// How much work the preset does
    pub scale: f64,

    /// Give up on a run that takes longer
    pub timeout: f64,

    /// End a run after so many seconds, and count it as that long
    pub longest: Option<f64>,

    /// Where the locks learn of preemptions
    pub monitor: MonitorMode,

    /// About how long a run takes, if that is known; `{seconds}` in the arguments stands for it
    pub seconds: Option<f64>,

    /// The program and its arguments. In an argument `{threads}` and `{NAME}` stand for the value at the point that is measured,
    /// `{scratch}` for an empty directory, in memory where possible
    pub program: Vec<OsString>,

    preloads: BTreeMap<String, Preload>,

    /// The program's files; they go when this goes.
    scratch: Option<TempDir>,
}

impl Exec {
    /// A program, or a preset, under `locks`.
    pub fn new(locks: Vec<String>, program: Vec<OsString>, preset: Option<Preset>) -> Self {
        Self {
            locks,
            score: None,
            lower: false,
            preset,
            threads: Vec::new(),
            variables: BTreeMap::new(),
            waits: Vec::new(),
            hogs: vec![0],
            scale: 1.0,
            timeout: 3600.0,
            longest: None,
            seconds: None,
            monitor: MonitorMode::Auto,
            program,
            preloads: BTreeMap::new(),
            scratch: None,
        }
    }
}

impl Workload for Exec {
    fn name(&self) -> &str {
        "exec"
    }

    fn title(&self) -> String {
        match self.preset {
            Some(preset) => preset.title().into(),
            None => self
                .program
                .iter()
                .map(|a| a.to_string_lossy())
                .collect::<Vec<_>>()
                .join(" "),
        }
    }

    fn prepare(&mut self, prefix: &Prefix) -> Result<()> {
        self.locks = worker::resolve(&locks::read(prefix)?, &self.locks)?;
        for lock in &self.locks {
            self.preloads
                .insert(lock.clone(), Preload::of(prefix, lock)?);
        }
        for wait in &self.waits {
            let first = Preload::of(prefix, &self.locks[0])?;
            self.preloads.insert(wait.setting(), first);
        }
        if let Some(preset) = self.preset {
            let prepared = preset.prepare(self.scale)?;
            self.program = prepared.argv.into_iter().map(Into::into).collect();
            self.score = prepared.score;
        }
        self.check_places()?;
        if self.has_place("scratch") {
            self.scratch = Some(temporary()?);
        }
        match &self.score {
            Some(regex) if regex.captures_len() < 2 => Err(Failure::new("--score has no group")
                .advice("put the number in parentheses: --score 'ops/s: ([0-9.]+)'")),
            _ => presets::executable(&self.program[0]),
        }
    }

    fn subjects(&self) -> Vec<String> {
        let waits = self.waits.iter().map(|w| w.setting());
        self.locks.iter().cloned().chain(waits).collect()
    }

    fn points(&self) -> Vec<Point> {
        let numbers = |values: &[u32]| values.iter().copied().map(f64::from).collect();
        let mut variables = Vec::new();
        if !self.threads.is_empty() {
            variables.push(("threads", numbers(&self.threads)));
        }
        variables.extend(self.variables.iter().map(|(n, v)| (n.as_str(), v.clone())));
        if self.hogs != [0] {
            variables.push(("hogs", numbers(&self.hogs)));
        }
        Point::product(&variables)
    }

    fn settings(&self) -> Value {
        let program: Vec<_> = self.program.iter().map(|a| a.to_string_lossy()).collect();
        json!({
            "locks": self.locks,
            "program": program,
            "score": self.score.as_ref().map(Regex::as_str),
            "preset": self.preset.map(Preset::name),
            "seconds": self.seconds,
            "scale": self.scale,
            "timeout": self.timeout,
            "longest": self.longest,
        })
    }

    fn measures(&self) -> Vec<Measure> {
        let mut measures = vec![
            measure("elapsed_seconds", "time", Unit::Seconds, Lower),
            measure("cpu_seconds", "CPU", Unit::Seconds, Lower),
            measure("max_rss_kib", "resident KiB", Unit::Count, Lower),
            measure("switches_per_s", "context switches", Unit::PerSecond, None),
            measure("sleeps_per_s", "sleeps", Unit::PerSecond, None),
            measure("registered", "registered processes", Unit::Count, None),
            measure("preempted", "preempted sections", Unit::Count, Lower),
            measure("transitions", "mode transitions", Unit::Count, None),
        ];
        if self.primary() == "score" {
            let better = if self.lower { Lower } else { Higher };
            measures.insert(0, measure("score", "score", Unit::Plain, better));
        }
        measures
    }

    fn primary(&self) -> &'static str {
        match self.preset {
            Some(preset) if preset.is_scored() => "score",
            None if self.score.is_some() => "score",
            _ => "elapsed_seconds",
        }
    }

    fn columns(&self) -> Vec<String> {
        let rest = [
            "ratio",
            "elapsed_seconds",
            "cpu_seconds",
            "preempted",
            "transitions",
        ];
        let first = self.primary();
        std::iter::once(first)
            .chain(rest.into_iter().filter(|c| *c != first))
            .map(Into::into)
            .collect()
    }

    fn figures(&self) -> Vec<FigureSpec> {
        vec![FigureSpec {
            id: "result".into(),
            title: self.title(),
            measure: self.primary().into(),
            shape: Shape::Bars,
            ..FigureSpec::default()
        }]
    }

    fn monitor(&self) -> Option<MonitorMode> {
        Some(self.monitor)
    }

    fn launch(&self, point: &Point, subject: &str) -> Launch {
        let mut command = child::command(&self.at(point));
        let wait = self.waits.iter().find(|w| w.setting() == subject);
        command.envs(wait.map(|w| (w.variable, w.value)));
        if let Some(preload) = self.preloads.get(subject) {
            match self.preset {
                // The load is generated without it.
                Some(Preset::Memcached) => preload.set(memcached::PRELOAD_ENV, &mut command),
                _ => preload.apply(&mut command),
            }
        }
        Launch {
            seeded: false,
            command,
            capture: Capture::Together,
            hogs: point.get("hogs").map_or(0, |n| n as u32),
            limit: Duration::from_secs_f64(self.longest.unwrap_or(self.timeout)),
            monitor: MonitorUse::Shared,
            environment: BTreeMap::new(),
        }
    }

    fn read(&self, run: &Run, _: &str, counts: Option<&Counts>) -> Result<Reading, String> {
        let elapsed = run.elapsed.as_secs_f64();
        let usage = &run.end.usage;
        let switches = (usage.ru_nvcsw + usage.ru_nivcsw) as f64;
        let mut values = BTreeMap::from([
            ("elapsed_seconds".to_owned(), elapsed),
            ("cpu_seconds".to_owned(), run.end.cpu_seconds()),
            ("max_rss_kib".to_owned(), usage.ru_maxrss as f64),
            ("switches_per_s".to_owned(), switches / elapsed),
            ("sleeps_per_s".to_owned(), usage.ru_nvcsw as f64 / elapsed),
        ]);
        if let Some(regex) = &self.score {
            values.insert("score".into(), find_score(regex, &run.stdout)?);
        }
        if let Some(c) = counts.and_then(|c| c.after.since(&c.before)) {
            values.insert("preempted".into(), c.preempted_critical_sections() as f64);
            values.insert("registered".into(), c.registered_processes as f64);
            values.insert("transitions".into(), c.mode_transitions as f64);
        }
        Ok(Reading {
            values,
            detail: Value::Null,
        })
    }

    fn at_limit(&self, limit: Duration) -> Option<Reading> {
        self.longest?;
        let values = BTreeMap::from([("elapsed_seconds".to_owned(), limit.as_secs_f64())]);
        Some(Reading {
            values,
            detail: json!({ "ended_at_limit": true }),
        })
    }

    fn run_seconds(&self, point: &Point) -> Option<f64> {
        let threads = point.get("threads").unwrap_or(Preset::USUAL_THREADS);
        let hogs = point.get("hogs").unwrap_or(0.0);
        let of_preset = self.preset.map(|p| p.seconds(self.scale, threads, hogs));
        of_preset.or(self.seconds)
    }
}

impl Exec {
    /// Some argument contains `{name}`.
    fn has_place(&self, name: &str) -> bool {
        let place = format!("{{{name}}}");
        self.program
            .iter()
            .any(|a| a.to_string_lossy().contains(&place))
    }

    /// What has values has a place in the arguments: else all its points would be the same.
    fn check_places(&self) -> Result<()> {
        let threads = (!self.threads.is_empty()).then_some("threads");
        let mut names = threads
            .into_iter()
            .chain(self.variables.keys().map(String::as_str));
        match names.find(|name| !self.has_place(name)) {
            None => Ok(()),
            Some(name) => Err(Failure::new(format_args!(
                "the program's arguments do not say where the number of {name} stands"
            ))
            .advice(format_args!("write {{{name}}} in an argument"))),
        }
    }

    /// The program and its arguments at a point. The scratch directory is made anew.
    fn at(&self, point: &Point) -> Vec<OsString> {
        let mut values: Vec<(String, String)> = point
            .0
            .iter()
            .map(|(name, value)| (format!("{{{name}}}"), number(*value)))
            .collect();
        values.extend(self.seconds.map(|s| ("{seconds}".to_owned(), number(s))));
        if let Some(scratch) = &self.scratch {
            let path = emptied(scratch.path());
            values.push(("{scratch}".into(), path.to_string_lossy().into_owned()));
        }
        let fill = |argument: &OsString| match argument.to_str() {
            None => argument.clone(),
            Some(text) => values
                .iter()
                .fold(text.to_owned(), |text, (place, value)| {
                    text.replace(place, value)
                })
                .into(),
        };
        self.program.iter().map(fill).collect()
    }
}

/// An empty directory below `parent`. If it cannot be made, the program says so.
fn emptied(parent: &Path) -> PathBuf {
    let path = parent.join("files");
    let _ = fs::remove_dir_all(&path);
    let _ = fs::create_dir(&path);
    path
}

/// In memory where that is possible: the time of a disk would hide the time of the locks.
fn temporary() -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("flexguard-bench-");
    builder
        .tempdir_in("/dev/shm")
        .or_else(|_| builder.tempdir())
        .context("cannot make a directory for the benchmark's files")
}

/// The last match counts: programs print intermediate values first.
fn find_score(regex: &Regex, output: &str) -> Result<f64, String> {
    let found = regex
        .captures_iter(output)
        .last()
        .and_then(|c| c.get(1))
        .map(|m| m.as_str());
    let found = found.ok_or_else(|| {
        with_tail(
            &format!("--score '{regex}' matches nothing in the program's output"),
            output,
        )
    })?;
    found
        .parse()
        .map_err(|_| format!("--score found '{found}', which is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_arguments_take_the_values_of_the_point() {
        let words = ["x", "-t{threads}", "{locks}{locks}", "{other}", "{seconds}"];
        let argv = words.map(Into::into).to_vec();
        let mut exec = Exec::new(vec!["posix".into()], argv, None);
        exec.threads = vec![2, 8];
        exec.hogs = vec![0, 2];
        exec.seconds = Some(0.5);
        exec.variables = BTreeMap::from([("locks".into(), vec![4.0])]);
        let points: Vec<String> = exec.points().iter().map(ToString::to_string).collect();
        assert_eq!(points.len(), 4);
        assert_eq!(points[1], "2 threads, 4 locks, 2 hogs");
        let last = &exec.points()[3];
        assert_eq!(exec.at(last), ["x", "-t8", "44", "{other}", "0.5"]);
        assert_eq!(exec.launch(last, "posix").hogs, 2);
    }

    /// It does not reach the runs of the locks.
    #[test]
    fn a_setting_is_a_subject_with_its_variable() {
        let passive = |w: &&waits::Preset| w.setting() == "OMP_WAIT_POLICY=passive";
        let mut exec = Exec::new(vec!["posix".into()], vec!["true".into()], None);
        exec.waits = waits::PRESETS.iter().filter(passive).collect();
        assert_eq!(exec.subjects(), ["posix", "OMP_WAIT_POLICY=passive"]);
        let set = |subject: &str| {
            let launch = exec.launch(&Point::default(), subject);
            let mut set = launch.command.get_envs();
            let found = set.find(|(name, _)| *name == "OMP_WAIT_POLICY");
            found.and_then(|(_, value)| Some(value?.to_owned()))
        };
        assert_eq!(set("OMP_WAIT_POLICY=passive"), Some("passive".into()));
        assert_eq!(set("posix"), None);
    }

    #[test]
    fn values_without_a_place_are_refused() {
        let mut exec = Exec::new(vec!["posix".into()], vec!["true".into()], None);
        assert_eq!(exec.points(), [Point::default()]);
        exec.check_places().unwrap();
        exec.threads = vec![2];
        let refusal = exec.check_places().unwrap_err().report().to_string();
        assert!(refusal.contains("{threads}"), "{refusal}");
    }

    #[test]
    fn a_run_may_count_as_long_as_it_was_let_run() {
        let mut exec = Exec::new(vec!["posix".into()], vec!["true".into()], None);
        let second = Duration::from_secs(1);
        assert!(exec.at_limit(second).is_none());
        exec.longest = Some(1.0);
        assert_eq!(exec.launch(&Point::default(), "posix").limit, second);
        let values = exec.at_limit(second).unwrap().values;
        assert_eq!(values["elapsed_seconds"], 1.0);
    }

    #[test]
    fn every_run_finds_an_empty_directory() {
        let mut exec = Exec::new(Vec::new(), vec!["{scratch}".into()], None);
        exec.scratch = Some(temporary().unwrap());
        for _ in 0..2 {
            let path = PathBuf::from(&exec.at(&Point::default())[0]);
            assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
            fs::write(path.join("left"), "over").unwrap();
        }
    }

    #[test]
    fn the_last_score_counts() {
        let regex = Regex::new("ops: ([0-9.]+)").unwrap();
        assert_eq!(find_score(&regex, "ops: 1\nops: 2.5\n"), Ok(2.5));
        assert!(
            find_score(&regex, "nothing")
                .unwrap_err()
                .contains("matches nothing")
        );
        assert!(
            find_score(&regex, "ops: ..")
                .unwrap_err()
                .contains("not a number")
        );
    }
}
