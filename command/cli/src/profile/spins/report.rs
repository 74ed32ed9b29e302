// SPDX-License-Identifier: MIT
//! What `flexguard profile --spins` prints; docs/design/schemas/profile-spins.json describes the JSON.

use std::collections::HashMap;
use std::time::Duration;

use flexguard_launch::output;
use serde::Serialize;

use super::places::{Evidence, Spin};
use crate::profile::record::duration;

pub const SCHEMA: &str = "flexguard-profile-spins/1";

#[derive(Debug, Serialize)]
pub struct Report {
    schema: &'static str,
    version: &'static str,
    /// None: a program was started.
    pid: Option<u32>,
    elapsed_seconds: f64,
    /// Time between two samples of a CPU.
    period_us: f64,
    /// Samples for which there was no memory.
    lost: u64,
    /// All of the program's, as the scheduler counts it. Samples say of a part of it where it was spent.
    cpu_seconds: f64,
    spins: Split,
    /// The one with the most time while a sibling waited comes first.
    functions: Vec<Function>,
    #[serde(skip)]
    seen: HashMap<Spin, Split>,
}

/// CPU time in loops that wait.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Split {
    seconds: f64,
    /// While another thread of the program was runnable and off its CPU.
    sibling_waited_seconds: f64,
    /// While none was.
    none_waited_seconds: f64,
    unknown_seconds: f64,
}

#[derive(Debug, Serialize)]
struct Function {
    function: Option<String>,
    file: Option<String>,
    evidence: Evidence,
    #[serde(flatten)]
    spins: Split,
}

impl Split {
    fn add(&mut self, waiting: Option<u32>, seconds: f64) {
        self.seconds += seconds;
        match waiting {
            None => self.unknown_seconds += seconds,
            Some(0) => self.none_waited_seconds += seconds,
            Some(_) => self.sibling_waited_seconds += seconds,
        }
    }

    fn cells(&self) -> [String; 4] {
        let times = [
            self.seconds,
            self.sibling_waited_seconds,
            self.none_waited_seconds,
            self.unknown_seconds,
        ];
        times.map(|seconds| match seconds {
            0.0 => "0".to_owned(),
            seconds => duration(seconds * 1e6),
        })
    }
}

impl Function {
    fn name(&self) -> String {
        let function = self.function.as_deref().unwrap_or("(no symbol)");
        let name = match &self.file {
            Some(file) => format!("{function} [{file}]"),
            None => function.to_owned(),
        };
        output::foreign(&name).to_string()
    }

    fn evidence(&self) -> &'static str {
        match self.evidence {
            Evidence::Symbol => "symbol",
            Evidence::SpinHint => "spin hint",
            Evidence::Yield => "sched_yield",
        }
    }

    fn row(&self) -> Vec<String> {
        let words = [self.name(), self.evidence().to_owned()];
        words.into_iter().chain(self.spins.cells()).collect()
    }
}

impl Report {
    pub fn new(period: Duration) -> Report {
        Report {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            pid: None,
            elapsed_seconds: 0.0,
            period_us: period.as_secs_f64() * 1e6,
            lost: 0,
            cpu_seconds: 0.0,
            spins: Split::default(),
            functions: Vec::new(),
            seen: HashMap::new(),
        }
    }

    /// A sample of the program, which stands for `time`; `spin`: its thread waited there.
    pub fn add(&mut self, spin: Option<Spin>, waiting: Option<u32>, time: Duration) {
        let seconds = time.as_secs_f64();
        if let Some(spin) = spin {
            self.spins.add(waiting, seconds);
            self.seen.entry(spin).or_default().add(waiting, seconds);
        }
    }

    pub fn end(&mut self, pid: Option<u32>, elapsed: Duration, cpu: Duration, lost: u64) {
        (self.pid, self.lost) = (pid, lost);
        self.elapsed_seconds = elapsed.as_secs_f64();
        self.cpu_seconds = cpu.as_secs_f64();
        let function = |(spin, spins): (Spin, Split)| Function {
            function: spin.function,
            file: spin.file,
            evidence: spin.evidence,
            spins,
        };
        self.functions = self.seen.drain().map(function).collect();
        let key = |f: &Function| (f.spins.sibling_waited_seconds, f.spins.seconds);
        self.functions.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
    }

    pub fn text(&self, most: usize) -> String {
        let share = |seconds: f64| seconds / self.cpu_seconds.max(f64::MIN_POSITIVE) * 100.0;
        let burnt = self.spins.sibling_waited_seconds;
        let mut text = format!(
            "spinning while a sibling waits for a CPU: {:.2} s, {:.0} % of the program's CPU time\n\
             CPU time: {:.2} s in {:.2} s; in loops that wait: {:.2} s, {:.0} %; samples lost: {}\n",
            burnt,
            share(burnt),
            self.cpu_seconds,
            self.elapsed_seconds,
            self.spins.seconds,
            share(self.spins.seconds),
            self.lost
        );
        let shown = &self.functions[..self.functions.len().min(most)];
        if !shown.is_empty() {
            let titles = [
                "function",
                "known by",
                "spun",
                "a sibling waited",
                "none waited",
                "unknown",
            ];
            let rows = shown.iter().map(Function::row).collect();
            text += &output::table(&titles, rows, 2..titles.len());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin(function: &str) -> Option<Spin> {
        Some(Spin {
            function: Some(function.to_owned()),
            file: None,
            evidence: Evidence::Symbol,
        })
    }

    #[test]
    fn time_is_added_up_by_function_and_by_what_waited() {
        let mut report = Report::new(Duration::from_millis(1));
        let ms = Duration::from_millis;
        for waiting in [Some(0), Some(1), Some(3), None] {
            report.add(spin("a"), waiting, ms(1));
        }
        (0..3).for_each(|_| report.add(spin("b"), Some(1), ms(1)));
        report.add(None, Some(1), ms(3));
        report.end(Some(7), Duration::from_secs(1), ms(10), 5);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(report.cpu_seconds, 0.010) && near(report.spins.seconds, 0.007));
        assert!(near(report.spins.sibling_waited_seconds, 0.005));
        let names: Vec<_> = report.functions.iter().map(Function::name).collect();
        assert_eq!(names, ["b", "a"], "the most burnt comes first");
        let a = &report.functions[1].spins;
        assert!(near(a.none_waited_seconds, 0.001) && near(a.unknown_seconds, 0.001));
        let text = report.text(1);
        assert!(
            text.starts_with("spinning while a sibling waits for a CPU: 0.01 s, 50 %"),
            "{text}"
        );
        assert!(
            text.contains("samples lost: 5") && !text.contains("\na "),
            "{text}"
        );
    }

    #[test]
    fn a_program_that_never_ran_has_no_share() {
        let mut report = Report::new(Duration::from_millis(1));
        report.end(None, Duration::ZERO, Duration::ZERO, 0);
        assert!(
            report.text(10).contains("0.00 s, 0 %"),
            "{}",
            report.text(10)
        );
    }
}
