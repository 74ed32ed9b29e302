// SPDX-License-Identifier: MIT
//! `flexguard bench hashtable`: a hash table with a lock for each bucket, section 5.2 of the paper (Fig. 3a-d).

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
use crate::failure;
use crate::prefix::Prefix;

#[derive(Debug, Clone, Args, Serialize)]
pub struct Hashtable {
    #[command(flatten)]
    #[serde(flatten)]
    pub contention: Contention,

    /// Buckets, each with a lock of its own
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "100",
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub buckets: Vec<u32>,

    /// Cycles that each thread spends between its operations
    #[arg(long, value_name = "CYCLES", value_delimiter = ',', default_value = "0",
          value_parser = clap::value_parser!(u64).range(0..=1_000_000_000_000))]
    pub cycles_between: Vec<u64>,

    /// Skew of the keys' Zipf distribution (0: none)
    #[arg(long, value_name = "THETAS", value_delimiter = ',', default_value = "0.99", value_parser = share)]
    pub theta: Vec<f64>,

    /// Share of inserts and removals
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_value = "0.2", value_parser = share)]
    pub update_ratio: Vec<f64>,

    /// Microseconds that the holder sleeps in each section
    #[arg(long, value_name = "MICROSECONDS", value_delimiter = ',', default_value = "0",
          value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    pub hold_sleep_us: Vec<u64>,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.0..=1.0).contains(&s) => Ok(s),
        _ => Err("not a number from 0 to 1".into()),
    }
}

const OWN: [&str; 5] = [
    "buckets",
    "cycles_between",
    "theta",
    "update_ratio",
    "hold_sleep_us",
];

impl Hashtable {
    pub fn of(contention: Contention) -> Self {
        Self {
            contention,
            buckets: vec![100],
            cycles_between: vec![0],
            theta: vec![0.99],
            update_ratio: vec![0.2],
            hold_sleep_us: vec![0],
        }
    }
}

impl Workload for Hashtable {
    fn name(&self) -> &'static str {
        "hashtable"
    }

    fn title(&self) -> String {
        "Hash table: a lock for each bucket, keys from a shifting Zipf distribution".into()
    }

    fn prepare(&mut self, prefix: &Prefix) -> failure::Result<()> {
        self.contention.prepare(prefix)
    }

    fn subjects(&self) -> Vec<String> {
        self.contention.locks.clone()
    }

    fn points(&self) -> Vec<Point> {
        let whole = |values: &[u64]| values.iter().map(|v| *v as f64).collect();
        let buckets = self.buckets.iter().map(|v| f64::from(*v)).collect();
        self.contention.points(&[
            ("buckets", buckets, 100.0),
            ("cycles_between", whole(&self.cycles_between), 0.0),
            ("theta", self.theta.clone(), 0.99),
            ("update_ratio", self.update_ratio.clone(), 0.2),
            ("hold_sleep_us", whole(&self.hold_sleep_us), 0.0),
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
        self.contention.figures("hash table")
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
