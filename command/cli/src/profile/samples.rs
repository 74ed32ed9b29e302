// SPDX-License-Identifier: MIT
//! A profile as other tools see one: call stacks with numbers. Flame graphs and all exports are made of it.

use super::record::{Place, Profile};

/// What the numbers of each stack are, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// As file names and pprof have it.
    pub name: &'static str,
    pub unit: &'static str,
    pub title: &'static str,
}

pub const NANOSECONDS: &str = "nanoseconds";

pub const ACQUISITIONS: Column = Column {
    name: "acquisitions",
    unit: "count",
    title: "Acquisitions",
};
pub const WAIT: Column = Column {
    name: "wait",
    unit: NANOSECONDS,
    title: "Time that threads waited for locks",
};
pub const HOLD: Column = Column {
    name: "hold",
    unit: NANOSECONDS,
    title: "Time that threads held locks",
};
/// Of waits.
pub const SAMPLES: Column = Column {
    name: "samples",
    unit: "count",
    title: "Waits that were sampled",
};
pub const PREEMPTIONS: Column = Column {
    name: "preemptions",
    unit: "count",
    title: "Preemptions in critical sections",
};
pub const PREEMPTED: Column = Column {
    name: "preempted",
    unit: NANOSECONDS,
    title: "Time that preempted threads were off CPU in critical sections",
};

/// All that there are.
pub const COLUMNS: [Column; 6] = [ACQUISITIONS, WAIT, HOLD, SAMPLES, PREEMPTIONS, PREEMPTED];

/// All that a profile says of call stacks.
#[derive(Debug)]
pub struct Samples {
    pub columns: &'static [Column],
    pub stacks: Vec<Stack>,
    pub seconds: f64,
    /// What was profiled, in a line.
    pub comment: String,
}

#[derive(Debug)]
pub struct Stack {
    pub pid: u32,
    pub process: String,
    /// The lock, with its kind.
    pub lock: String,
    /// Innermost first.
    pub places: Vec<Place>,
    /// As many as there are columns.
    pub numbers: Vec<u64>,
}

impl Samples {
    /// Of a profile of the program's own run.
    pub fn of(profile: &Profile) -> Samples {
        let mut stacks = Vec::new();
        for process in &profile.processes {
            for lock in &process.locks {
                stacks.extend(lock.sites.iter().map(|site| Stack {
                    pid: process.pid,
                    process: process.name.clone(),
                    lock: format!("{} {}", lock.kind.text(), lock.label()),
                    places: site.stack.clone(),
                    numbers: vec![
                        site.acquisitions,
                        nanoseconds(site.wait_seconds),
                        nanoseconds(site.hold_seconds),
                    ],
                }));
            }
        }
        Samples {
            columns: &[ACQUISITIONS, WAIT, HOLD],
            stacks,
            seconds: profile.elapsed_seconds,
            comment: format!(
                "flexguard profile --lock {}: {}",
                profile.lock,
                profile.command.join(" ")
            ),
        }
    }

    /// Those columns that are times, with their index.
    pub fn times(&self) -> impl Iterator<Item = (usize, &'static Column)> {
        let columns = self.columns.iter().enumerate();
        columns.filter(|(_, column)| column.unit == NANOSECONDS)
    }

    /// As flame graph tools read it: `process;outermost;...;innermost;lock number`, sorted.
    pub fn folded(&self, column: usize) -> Vec<String> {
        let stacks = self.stacks.iter().filter(|s| s.numbers[column] > 0);
        let line = |stack: &Stack| {
            let mut line = format!("{} [{}];", word(&stack.process), stack.pid);
            for place in stack.places.iter().rev() {
                line += &word(&place.name());
                line.push(';');
            }
            format!("{line}{} {}", word(&stack.lock), stack.numbers[column])
        };
        let mut lines: Vec<String> = stacks.map(line).collect();
        lines.sort();
        lines
    }
}

pub fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// A semicolon would begin another frame.
fn word(name: &str) -> String {
    name.replace(';', ":").replace('\n', " ")
}
