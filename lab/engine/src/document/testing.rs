// SPDX-License-Identifier: MIT
//! A document for tests: three locks at 1, 2 and 8 threads, seven rounds, noise measured. At 1 thread nobody wins, at 8
//! flexguard does.

use std::collections::BTreeMap;

use serde_json::json;

use super::super::machine::{Build, Load, Machine, MonitorState};
use super::super::worker;
use super::*;
use crate::figure::{FigureSpec, Shape};

const JITTER: [f64; 7] = [1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995];

fn throughput(lock: &str, threads: f64, round: usize) -> f64 {
    let base = match (lock, threads as u32) {
        (_, 1) => 6000.0,
        ("flexguard", _) => 5200.0,
        ("mcs", 8) => return if round.is_multiple_of(2) { 40.0 } else { 900.0 },
        ("mcs", _) => 3500.0,
        _ => 3000.0,
    };
    base * JITTER[(round * lock.len()) % 7] * (1.0 + 0.001 * lock.len() as f64)
}

fn blank() -> Document {
    Document {
        schema: SCHEMA.into(),
        workload: "shm".into(),
        title: "Shared-memory access: threads that contend for a lock".into(),
        complete: false,
        command: vec!["flexguard".into(), "bench".into(), "shm".into()],
        date: "2026-01-02T03:04:05Z".into(),
        version: "0.1.0".into(),
        commit: None,
        build: Build {
            compiler: None,
            fingerprint: "0".into(),
        },
        machine: Machine::here(),
        load: Load {
            before: Some([0.1; 3]),
            after: None,
        },
        monitor: MonitorState {
            active: true,
            shared: false,
            description: "active".into(),
        },
        environment: BTreeMap::new(),
        settings: json!({}),
        subject: "lock".into(),
        subjects: ["posix", "mcs", "flexguard"].map(Into::into).to_vec(),
        rounds: 7,
        measures: worker::measures(),
        primary: "throughput_ops_per_ms".into(),
        columns: ["throughput_ops_per_ms", "ratio", "cs_mean_ns"]
            .map(Into::into)
            .to_vec(),
        figures: [("throughput", Shape::Lines), ("bars", Shape::Bars)]
            .map(|(id, shape)| FigureSpec {
                id: id.into(),
                title: format!("Throughput as {id}"),
                measure: "throughput_ops_per_ms".into(),
                shape,
                ..FigureSpec::default()
            })
            .to_vec(),
        results: Vec::new(),
        noise: None,
        verdicts: Vec::new(),
        failures: Vec::new(),
        unavailable: Vec::new(),
        moved_rounds: 0,
    }
}

pub fn document() -> Document {
    let mut document = blank();
    for threads in [1.0, 2.0, 8.0] {
        for (lock, again) in [
            ("posix", false),
            ("posix", true),
            ("mcs", false),
            ("flexguard", false),
        ] {
            let point = Point::default().with("threads", threads);
            let mut entry = Entry::new(point, lock.into(), again);
            entry.rounds = (0..7)
                .map(|round| {
                    let value = throughput(lock, threads, round) * if again { 1.01 } else { 1.0 };
                    let values = [
                        ("throughput_ops_per_ms", value),
                        ("cs_mean_ns", 1e6 / value),
                    ];
                    Sample {
                        round: round as u32,
                        values: values.map(|(k, v)| (k.to_owned(), v)).into(),
                        detail: Value::Null,
                        distance: None,
                        origin: Origin::default(),
                    }
                })
                .collect();
            document.results.push(entry);
        }
    }
    document.analyse();
    document
}

#[test]
fn winners_ties_and_noise_are_found() {
    let document = document();
    let texts: Vec<&str> = document.verdicts.iter().map(|v| v.text.as_str()).collect();
    assert!(texts[0].starts_with("cannot be told apart"), "{texts:?}");
    assert!(texts[2].starts_with("flexguard wins"), "{texts:?}");
    let at_8 = Point::default().with("threads", 8.0);
    let mcs = document.entry(&at_8, "mcs").unwrap();
    assert_eq!(mcs.against_first, Some(Difference::Worse));
    let noise = document.noise.as_ref().unwrap();
    assert!((noise.typical - 0.01).abs() < 1e-6, "{noise:?}");
    assert_eq!(document.variables(), ["threads"]);
}

/// What is computed follows from the rounds alone, and survives the file.
#[test]
fn a_document_survives_its_json() {
    let document = document();
    let text = serde_json::to_string(&document).unwrap();
    let mut read: Document = serde_json::from_str(&text).unwrap();
    read.analyse();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}
