// SPDX-License-Identifier: MIT
//! `flexguard bench overhead`: what the Preemption Monitor costs, section 5.4 of the paper.
//!
//! hackbench does little but switch between processes, so it shows the monitor's worst case. Six conditions take turns:
//!
//! - without: no monitor is loaded;
//! - bystander: another process is registered, and hackbench has nothing to do with the monitor;
//! - registered: hackbench is registered, so every switch of it is examined;
//! - the latter two once more, timed: the kernel clocks the monitor's program. That slows every switch, so their run
//!   times count for nothing, and their nanoseconds per switch are the result;
//! - unused, timed: no process has registered, and the monitor's program returns at once. Nearly all of that is the
//!   time that the kernel takes to call the program and to read its clock, so it is in the other two as well.

use std::collections::BTreeMap;
use std::time::Duration;

use flexguard_monitor::{SocketName, Stats};
use serde::Serialize;
use serde_json::Value;

use super::figure::{FigureSpec, Shape};
use super::machine;
use super::measure::{Measure, Unit, measure};
use super::point::Point;
use super::runner::{Capture, Run, with_tail};
use super::stats::Better::Lower;
use super::workload::{Counts, Launch, MonitorUse, Reading, Workload};
use flexguard_launch::MonitorMode;
use flexguard_launch::Preload;
use flexguard_launch::child;
use flexguard_launch::failure::{Failure, NOT_FOUND, Result};
use flexguard_launch::locks;
use flexguard_launch::prefix::Prefix;
use which::which;

/// The paper's load is 26 groups on 104 hardware contexts.
const CONTEXTS_PER_GROUP: usize = 4;

const WITHOUT: &str = "without";
const BYSTANDER: &str = "bystander";
const REGISTERED: &str = "registered";
const UNUSED_TIMED: &str = "unused, timed";
const BYSTANDER_TIMED: &str = "bystander, timed";
const REGISTERED_TIMED: &str = "registered, timed";
const CONDITIONS: [&str; 6] = [
    WITHOUT,
    BYSTANDER,
    REGISTERED,
    UNUSED_TIMED,
    BYSTANDER_TIMED,
    REGISTERED_TIMED,
];

#[derive(Debug, Serialize)]
pub struct Overhead {
    /// Groups of senders and receivers; by default one for every four hardware contexts
    pub groups: Option<u32>,

    /// Senders, and as many receivers, in a group
    pub fds: u32,

    /// Messages from every sender to every receiver
    pub loops: u32,

    /// Bytes of a message
    pub size: u32,

    #[serde(skip)]
    preload: Option<Preload>,
}

impl Overhead {
    pub fn new(groups: Option<u32>, fds: u32, loops: u32, size: u32) -> Self {
        Self {
            groups,
            fds,
            loops,
            size,
            preload: None,
        }
    }

    /// What `bench paper` measures.
    pub fn of(loops: u32) -> Self {
        Self::new(None, 25, loops, 512)
    }

    fn groups(&self) -> u32 {
        self.groups
            .unwrap_or((machine::contexts() / CONTEXTS_PER_GROUP).max(1) as u32)
    }

    fn is_installed() -> bool {
        which("hackbench").is_ok()
    }

    /// Why the overhead cannot be measured on this machine; None: it can.
    pub fn obstacle() -> Option<Failure> {
        if !Self::is_installed() {
            return Some(
                Failure::new("bench overhead needs hackbench, which is not installed")
                    .code(NOT_FOUND)
                    .advice("on Debian or Ubuntu: apt install rt-tests"),
            );
        }
        if !flexguard_monitor::probe().usable() {
            return Some(
                Failure::new("bench overhead cannot load the monitor here")
                    .advice("`flexguard doctor` says why"),
            );
        }
        let daemon = SocketName::from_env().ok().flatten();
        if daemon.is_some_and(|socket| Stats::query(&socket).is_ok()) {
            return Some(
                Failure::new("bench overhead needs runs without a monitor, and one is running")
                    .advice("stop the daemon (`flexguard monitor`) meanwhile"),
            );
        }
        None
    }
}

impl Workload for Overhead {
    fn name(&self) -> &str {
        "overhead"
    }

    fn title(&self) -> String {
        format!(
            "Cost of the Preemption Monitor: hackbench, {} processes",
            2 * self.groups() * self.fds
        )
    }

    fn prepare(&mut self, prefix: &Prefix) -> Result<()> {
        if let Some(obstacle) = Self::obstacle() {
            return Err(obstacle);
        }
        self.preload = Some(Preload::of(prefix, locks::DEFAULT)?);
        Ok(())
    }

    fn subject(&self) -> &'static str {
        "monitor"
    }

    fn subjects(&self) -> Vec<String> {
        CONDITIONS.map(Into::into).to_vec()
    }

    fn points(&self) -> Vec<Point> {
        vec![Point::default()]
    }

    fn settings(&self) -> Value {
        let mut settings = serde_json::to_value(self).unwrap_or_default();
        settings["groups"] = self.groups().into();
        settings
    }

    fn measures(&self) -> Vec<Measure> {
        vec![
            measure("hackbench_seconds", "hackbench", Unit::Seconds, Lower),
            measure("ns_per_switch", "per switch", Unit::Nanoseconds, Lower),
            measure("switches_per_s", "switches", Unit::PerSecond, None),
            measure("timed_seconds", "hackbench, timed", Unit::Seconds, None),
        ]
    }

    fn primary(&self) -> &'static str {
        "hackbench_seconds"
    }

    fn columns(&self) -> Vec<String> {
        [
            "hackbench_seconds",
            "ratio",
            "ns_per_switch",
            "switches_per_s",
        ]
        .map(Into::into)
        .into()
    }

    fn figures(&self) -> Vec<FigureSpec> {
        let spec = |id: &str, title: &str, measure: &str| FigureSpec {
            id: id.into(),
            title: title.into(),
            measure: measure.into(),
            shape: Shape::Bars,
            ..FigureSpec::default()
        };
        vec![
            spec(
                "hackbench",
                "hackbench without and with the monitor",
                "hackbench_seconds",
            ),
            spec(
                "switch",
                "The monitor's program, a context switch",
                "ns_per_switch",
            ),
        ]
    }

    fn monitor(&self) -> Option<MonitorMode> {
        None
    }

    fn launch(&self, _: &Point, condition: &str) -> Launch {
        let hackbench = [
            "hackbench".to_owned(),
            "--process".into(),
            format!("--groups={}", self.groups()),
            format!("--fds={}", self.fds),
            format!("--loops={}", self.loops),
            format!("--datasize={}", self.size),
        ];
        // The shell is registered, and waits for hackbench.
        let beside = ["sh", "-c", "unset LD_PRELOAD; \"$@\"; exit $?", "sh"];
        let before: &[&str] = match condition {
            BYSTANDER | BYSTANDER_TIMED => &beside,
            _ => &[],
        };
        let argv: Vec<_> = before.iter().map(Into::into).collect();
        let argv = [argv, hackbench.map(Into::into).to_vec()].concat();
        let mut command = child::command(&argv);
        let preloaded = !matches!(condition, WITHOUT | UNUSED_TIMED);
        if let Some(preload) = self.preload.as_ref().filter(|_| preloaded) {
            preload.apply(&mut command);
        }
        Launch {
            seeded: false,
            hogs: 0,
            command,
            capture: Capture::Together,
            limit: Duration::from_secs(3600),
            monitor: match condition {
                WITHOUT => MonitorUse::None,
                condition => MonitorUse::Own {
                    timed: matches!(condition, UNUSED_TIMED | BYSTANDER_TIMED | REGISTERED_TIMED),
                },
            },
            environment: BTreeMap::new(),
        }
    }

    fn read(&self, run: &Run, _: &str, counts: Option<&Counts>) -> Result<Reading, String> {
        let time = run.stdout.lines().find_map(|l| l.strip_prefix("Time: "));
        let seconds: f64 = time
            .and_then(|t| t.trim().parse().ok())
            .ok_or_else(|| with_tail("hackbench printed no time", &run.stdout))?;
        let mut values = BTreeMap::new();
        let clocked = counts.map_or(0, |c| c.after.run_count - c.before.run_count);
        if let Some(Counts { before, after }) = counts {
            let switches = (after.switches - before.switches) as f64;
            values.insert(
                "switches_per_s".to_owned(),
                switches / run.elapsed.as_secs_f64(),
            );
            if clocked > 0 {
                let ns = (after.run_time_ns - before.run_time_ns) as f64 / clocked as f64;
                values.insert("ns_per_switch".to_owned(), ns);
            }
        }
        let name = if clocked > 0 {
            "timed_seconds"
        } else {
            "hackbench_seconds"
        };
        values.insert(name.to_owned(), seconds);
        Ok(Reading {
            values,
            detail: Value::Null,
        })
    }

    /// A message takes about half a microsecond of CPU time.
    fn run_seconds(&self, _: &Point) -> Option<f64> {
        let messages =
            f64::from(self.groups()) * f64::from(self.fds).powi(2) * f64::from(self.loops);
        Some(messages * 2e-6 / machine::contexts() as f64 + 0.3)
    }
}
