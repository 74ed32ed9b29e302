// SPDX-License-Identifier: MIT
//! `flexguard bench shm`: the shared-memory-access microbenchmark, section 5.2 of the paper.

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::contention::Contention;
use super::measure::Measure;
use super::plot::FigureSpec;
use super::point::Point;
use super::runner::Run;
use super::worker;
use super::workload::{Counts, Launch, Reading, Workload};
use crate::args::MonitorMode;
use crate::failure::Result;
use crate::prefix::Prefix;

#[derive(Debug, Clone, Args, Serialize)]
pub struct Shm {
    #[command(flatten)]
    #[serde(flatten)]
    pub contention: Contention,

    /// Cycles that each thread spends between its critical sections
    #[arg(long, value_name = "CYCLES", value_delimiter = ',', default_value = "100",
          value_parser = clap::value_parser!(u64).range(0..=1_000_000_000_000))]
    pub cycles_between: Vec<u64>,

    /// Cycles that a critical section lasts longer
    #[arg(long, value_name = "CYCLES", value_delimiter = ',', default_value = "0",
          value_parser = clap::value_parser!(u64).range(0..=1_000_000_000_000))]
    pub section_cycles: Vec<u64>,

    /// Cache lines that each critical section reads and writes
    #[arg(long, value_name = "LINES", value_delimiter = ',', default_value = "2",
          value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub lines: Vec<u32>,

    /// Locks, of which a thread takes one at random for each section
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub lock_count: Vec<u32>,

    /// Microseconds that the holder sleeps in each section
    #[arg(long, value_name = "MICROSECONDS", value_delimiter = ',', default_value = "0",
          value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    pub hold_sleep_us: Vec<u64>,
}

const OWN: [&str; 5] = [
    "cycles_between",
    "section_cycles",
    "lines",
    "lock_count",
    "hold_sleep_us",
];

impl Shm {
    pub fn of(contention: Contention) -> Self {
        Self {
            contention,
            cycles_between: vec![100],
            section_cycles: vec![0],
            lines: vec![2],
            lock_count: vec![1],
            hold_sleep_us: vec![0],
        }
    }
}

impl Workload for Shm {
    fn name(&self) -> &'static str {
        "shm"
    }

    fn title(&self) -> String {
        "Shared-memory access: threads that contend for a lock".into()
    }

    fn prepare(&mut self, prefix: &Prefix) -> Result<()> {
        self.contention.prepare(prefix)
    }

    fn subjects(&self) -> Vec<String> {
        self.contention.locks.clone()
    }

    fn points(&self) -> Vec<Point> {
        let long = |values: &[u64]| values.iter().map(|v| *v as f64).collect();
        let short = |values: &[u32]| values.iter().map(|v| f64::from(*v)).collect();
        self.contention.points(&[
            ("cycles_between", long(&self.cycles_between), 100.0),
            ("section_cycles", long(&self.section_cycles), 0.0),
            ("lines", short(&self.lines), 2.0),
            ("lock_count", short(&self.lock_count), 1.0),
            ("hold_sleep_us", long(&self.hold_sleep_us), 0.0),
        ])
    }

    fn settings(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
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
        self.contention.figures("one lock, shared cache lines")
    }

    fn monitor(&self) -> Option<MonitorMode> {
        Some(self.contention.monitor)
    }

    fn launch(&self, point: &Point, lock: &str) -> Launch {
        self.contention.launch(self.name(), point, lock, &OWN)
    }

    fn read(&self, run: &Run, _: Option<&Counts>) -> Result<Reading, String> {
        worker::read(run)
    }

    fn run_seconds(&self, point: &Point) -> Option<f64> {
        Some(self.contention.run_seconds(point))
    }
}
