// SPDX-License-Identifier: MIT
//! The summary that ends `flexguard run --stats`.

use std::fmt::Write;
use std::time::Duration;

use flexguard_launch::attach::Attachment;
use flexguard_launch::child::{End, Status};
use flexguard_launch::failure::Result;
use flexguard_launch::locks::POSIX;
use flexguard_launch::{Counted, output};
use serde::Serialize;

use crate::args::StatsFormat;

/// What a run did. Counters are None where no monitor counted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    pub lock: String,
    pub monitor: String,
    pub preempted_critical_sections: Option<u64>,
    pub preempted_holders: Option<u64>,
    pub preempted_next_waiters: Option<u64>,
    pub mode_transitions: Option<u64>,
    pub missed: Option<u64>,
    pub switches: Option<u64>,
    pub registered_processes: Option<u64>,
    pub elapsed_seconds: f64,
    pub user_seconds: f64,
    pub system_seconds: f64,
    pub max_rss_kib: i64,
    pub voluntary_switches: i64,
    pub involuntary_switches: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Summary {
    pub fn new(
        lock: &str,
        monitor: &Attachment,
        counted: Option<Counted>,
        end: &End,
        elapsed: Duration,
    ) -> Self {
        Self {
            lock: lock.into(),
            monitor: match (&counted, monitor.is_active()) {
                (None, true) => "absent (it ended during the run)".into(),
                _ => monitor.describe(),
            },
            preempted_critical_sections: counted.map(|c| c.preempted_critical_sections()),
            preempted_holders: counted.map(|c| c.preempted_holders),
            preempted_next_waiters: counted.map(|c| c.preempted_next_waiters),
            mode_transitions: counted.map(|c| c.mode_transitions),
            missed: counted.map(|c| c.missed),
            switches: counted.map(|c| c.switches),
            registered_processes: counted.map(|c| c.registered_processes),
            elapsed_seconds: elapsed.as_secs_f64(),
            user_seconds: end.user_seconds(),
            system_seconds: end.system_seconds(),
            max_rss_kib: end.usage.ru_maxrss,
            voluntary_switches: end.usage.ru_nvcsw,
            involuntary_switches: end.usage.ru_nivcsw,
            note: counted.and_then(|c| note(lock, c, end.status)),
        }
    }

    pub fn render(&self, format: StatsFormat) -> Result<String> {
        match format {
            StatsFormat::Json => output::to_json(self),
            StatsFormat::Text => Ok(self.text()),
        }
    }

    fn text(&self) -> String {
        let count = |n: Option<u64>| n.map_or("unknown".to_string(), |n| n.to_string());
        let lines = [
            ("lock", self.lock.clone()),
            ("monitor", self.monitor.clone()),
            (
                "preempted-critical-sections",
                count(self.preempted_critical_sections),
            ),
            ("preempted-holders", count(self.preempted_holders)),
            ("preempted-next-waiters", count(self.preempted_next_waiters)),
            ("mode-transitions", count(self.mode_transitions)),
            ("missed", count(self.missed)),
            ("switches", count(self.switches)),
            ("registered-processes", count(self.registered_processes)),
            ("elapsed-seconds", format!("{:.3}", self.elapsed_seconds)),
            ("user-seconds", format!("{:.3}", self.user_seconds)),
            ("system-seconds", format!("{:.3}", self.system_seconds)),
            ("max-rss-kib", self.max_rss_kib.to_string()),
            ("voluntary-switches", self.voluntary_switches.to_string()),
            (
                "involuntary-switches",
                self.involuntary_switches.to_string(),
            ),
        ];
        let mut text = String::new();
        for (name, value) in lines {
            let _ = writeln!(text, "{name}: {value}");
        }
        if let Some(note) = &self.note {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }
}

/// Why nothing registered, if that is not what the user can expect.
fn note(lock: &str, counted: Counted, status: Status) -> Option<String> {
    if lock == POSIX || counted.registered_processes > 0 || status != Status::Exited(0) {
        return None;
    }
    Some("no process registered: the program is statically linked, is setuid, clears its environment, or never used a mutex".into())
}
