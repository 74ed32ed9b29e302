// SPDX-License-Identifier: MIT
//! The summary that ends `flexguard run --stats`.

use std::time::Duration;

use clap::ValueEnum;
use flexguard_launch::attach::Attachment;
use flexguard_launch::child::{End, Status};
use flexguard_launch::failure::Result;
use flexguard_launch::locks::POSIX;
use flexguard_launch::output;
use flexguard_monitor::Stats;
use serde::{Serialize, Serializer};
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatsFormat {
    /// One `name: value` a line
    Text,
    /// One object with the same names
    Json,
}

/// What a run did: names and values, in the order in which they are shown. A counter is null where no monitor counted.
#[derive(Debug)]
pub struct Summary(Vec<(&'static str, Value)>);

impl Summary {
    pub fn new(
        lock: &str,
        monitor: &Attachment,
        counted: Option<Stats>,
        end: &End,
        elapsed: Duration,
    ) -> Self {
        let monitor = match (&counted, monitor.is_active()) {
            (None, true) => "absent (it was there at the start and has gone)".into(),
            _ => monitor.describe(),
        };
        let count = |counter: fn(&Stats) -> u64| Value::from(counted.as_ref().map(counter));
        let mut lines: Vec<(&str, Value)> = vec![
            ("lock", lock.into()),
            ("monitor", monitor.into()),
            (
                "preempted-critical-sections",
                count(Stats::preempted_critical_sections),
            ),
            ("preempted-holders", count(|s| s.preempted_holders)),
            (
                "preempted-next-waiters",
                count(|s| s.preempted_next_waiters),
            ),
            ("mode-transitions", count(|s| s.mode_transitions)),
            ("missed", count(|s| s.missed)),
            ("switches", count(|s| s.switches)),
            ("registered-processes", count(|s| s.registered_processes)),
            ("elapsed-seconds", elapsed.as_secs_f64().into()),
            ("user-seconds", end.user_seconds().into()),
            ("system-seconds", end.system_seconds().into()),
            ("max-rss-kib", end.usage.ru_maxrss.into()),
            ("voluntary-switches", end.usage.ru_nvcsw.into()),
            ("involuntary-switches", end.usage.ru_nivcsw.into()),
        ];
        let refused = counted.and_then(|counted| counted.refusals_told());
        lines.extend(refused.map(|refused| ("refused-clients", refused.into())));
        let note = counted.and_then(|c| note(lock, &c, end.status));
        lines.extend(note.map(|note| ("note", note.into())));
        Self(lines)
    }

    /// `objects`: those that a program has from glibc, whose layout is not known.
    pub fn with_what_glibc_keeps(mut self, objects: Option<String>) -> Self {
        self.0
            .extend(objects.map(|objects| ("left-to-glibc", objects.into())));
        self
    }

    /// The monitor was loaded while the program ran already.
    pub fn with_watched_after(mut self, time: Option<Duration>) -> Self {
        let line = |time: Duration| ("watched-after-seconds", time.as_secs_f64().into());
        self.0.extend(time.map(line));
        self
    }

    pub fn render(&self, format: StatsFormat) -> Result<String> {
        match format {
            StatsFormat::Json => output::to_json(self),
            StatsFormat::Text => Ok(self.text()),
        }
    }

    fn text(&self) -> String {
        let shown = |value: &Value| match value {
            Value::Null => "unknown".to_owned(),
            Value::String(text) => text.clone(),
            Value::Number(n) if n.is_f64() => format!("{:.3}", n.as_f64().unwrap_or(0.0)),
            other => other.to_string(),
        };
        let lines = self
            .0
            .iter()
            .map(|(name, value)| format!("{name}: {}\n", shown(value)));
        lines.collect()
    }
}

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Why nothing registered, if that is not what the user can expect.
fn note(lock: &str, counted: &Stats, status: Status) -> Option<String> {
    if lock == POSIX || counted.registered_processes > 0 || status != Status::Exited(0) {
        return None;
    }
    if counted.unmonitored > 0 {
        return Some("no process registered: the monitor refused (refused-clients)".into());
    }
    let causes = "the program is statically linked, is setuid, or clears its environment";
    Some(format!("no process registered: {causes}"))
}
