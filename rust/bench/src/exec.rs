// SPDX-License-Identifier: MIT
//! `flexguard bench exec`: any program, under several locks.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use regex_lite::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::measure::{Measure, Unit, measure};
use super::plot::{FigureSpec, Shape};
use super::point::Point;
use super::presets::{self, Preset};
use super::runner::{Capture, Run, with_tail};
use super::stats::Better::{Higher, Lower};
use super::workload::{Counts, Launch, MonitorUse, Reading, Workload};
use super::{memcached, worker};
use flexguard_launch::MonitorMode;
use flexguard_launch::Preload;
use flexguard_launch::child;
use flexguard_launch::failure::{Failure, Result};
use flexguard_launch::locks;
use flexguard_launch::prefix::Prefix;

#[derive(Debug)]
pub struct Exec {
    /// Locks to compare, or `all`; ratios are to the first
    pub locks: Vec<String>,

    /// Compare what this regular expression finds in the output (its first group, a number, more is better)
    pub score: Option<Regex>,

    /// Run a well-known program instead of PROGRAM
    pub preset: Option<Preset>,

    /// The preset's threads; 2x: two for each hardware context
    pub threads: u32,

    /// How much work the preset does
    pub scale: f64,

    /// Give up on a run that takes longer
    pub timeout: f64,

    /// Where the locks learn of preemptions
    pub monitor: MonitorMode,

    /// The program and its arguments
    pub program: Vec<OsString>,

    preloads: BTreeMap<String, Preload>,

    /// The preset's files; they go when this goes.
    scratch: Option<TempDir>,
}

impl Exec {
    /// A program, or a preset, under `locks`.
    pub fn new(locks: Vec<String>, program: Vec<OsString>, preset: Option<Preset>) -> Self {
        Self {
            locks,
            score: None,
            preset,
            threads: 1,
            scale: 1.0,
            timeout: 3600.0,
            monitor: MonitorMode::Auto,
            program,
            preloads: BTreeMap::new(),
            scratch: None,
        }
    }

    /// What `bench paper` measures.
    pub fn of(preset: Preset, locks: &[String], threads: u32, scale: f64) -> Self {
        Self {
            threads,
            scale,
            timeout: 600.0,
            ..Self::new(locks.to_vec(), Vec::new(), Some(preset))
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
        if let Some(preset) = self.preset {
            let prepared = preset.prepare(self.threads, self.scale)?;
            (self.program, self.score) = (prepared.argv, prepared.score);
            self.scratch = prepared.scratch;
        }
        match &self.score {
            Some(regex) if regex.captures_len() < 2 => Err(Failure::new("--score has no group")
                .advice("put the number in parentheses: --score 'ops/s: ([0-9.]+)'")),
            _ => presets::executable(&self.program[0]),
        }
    }

    fn subjects(&self) -> Vec<String> {
        self.locks.clone()
    }

    fn points(&self) -> Vec<Point> {
        vec![match self.preset {
            Some(_) => Point::default().with("threads", f64::from(self.threads)),
            None => Point::default(),
        }]
    }

    fn settings(&self) -> Value {
        let program: Vec<_> = self.program.iter().map(|a| a.to_string_lossy()).collect();
        json!({
            "locks": self.locks,
            "program": program,
            "score": self.score.as_ref().map(Regex::as_str),
            "preset": self.preset.map(Preset::name),
            "scale": self.scale,
            "timeout": self.timeout,
        })
    }

    fn measures(&self) -> Vec<Measure> {
        let mut measures = vec![
            measure("elapsed_seconds", "time", Unit::Seconds, Lower),
            measure("cpu_seconds", "CPU", Unit::Seconds, Lower),
            measure("max_rss_kib", "resident KiB", Unit::Count, Lower),
            measure("switches_per_s", "context switches", Unit::PerSecond, None),
            measure("preempted", "preempted sections", Unit::Count, Lower),
            measure("transitions", "mode transitions", Unit::Count, None),
        ];
        if self.primary() == "score" {
            measures.insert(0, measure("score", "score", Unit::Plain, Higher));
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

    fn launch(&self, _: &Point, lock: &str) -> Launch {
        let mut command = child::command(&self.program);
        if let Some(preload) = self.preloads.get(lock) {
            match self.preset {
                // The load is generated without it.
                Some(Preset::Memcached) => preload.set(memcached::PRELOAD_ENV, &mut command),
                _ => preload.apply(&mut command),
            }
        }
        Launch {
            command,
            capture: Capture::Together,
            limit: Duration::from_secs_f64(self.timeout),
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
        ]);
        if let Some(regex) = &self.score {
            values.insert("score".into(), find_score(regex, &run.stdout)?);
        }
        if let Some(c) = counts.and_then(|c| c.after.since(&c.before)) {
            values.insert("preempted".into(), c.preempted_critical_sections() as f64);
            values.insert("transitions".into(), c.mode_transitions as f64);
        }
        Ok(Reading {
            values,
            detail: Value::Null,
        })
    }

    fn run_seconds(&self, _: &Point) -> Option<f64> {
        self.preset.map(|p| p.seconds(self.scale))
    }
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
