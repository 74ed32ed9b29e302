// SPDX-License-Identifier: MIT
//! Flame graphs: where threads waited for locks, and where they held them.

use flexguard_launch::failure::{Context, Result};
use inferno::flamegraph::{self, Options};

use super::record::{Profile, Site};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Wait,
    Hold,
}

impl Measure {
    pub const ALL: [Measure; 2] = [Measure::Wait, Measure::Hold];

    pub fn file(self) -> &'static str {
        match self {
            Measure::Wait => "wait.svg",
            Measure::Hold => "hold.svg",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Measure::Wait => "Time that threads waited for locks",
            Measure::Hold => "Time that threads held locks",
        }
    }

    fn of(self, site: &Site) -> u64 {
        let seconds = match self {
            Measure::Wait => site.wait_seconds,
            Measure::Hold => site.hold_seconds,
        };
        (seconds * 1e9).round() as u64
    }
}

/// An SVG with the process at the bottom and the locks at the top. None: there is no such time.
pub fn flame_graph(profile: &Profile, measure: Measure) -> Result<Option<String>> {
    flame_graph_of(lines(profile, measure), measure.title())
}

/// The same of folded stacks, whose numbers are nanoseconds.
pub fn flame_graph_of(lines: Vec<String>, title: &str) -> Result<Option<String>> {
    if lines.is_empty() {
        return Ok(None);
    }
    let mut options = Options::default();
    options.title = title.into();
    options.count_name = "ns".into();
    options.deterministic = true;
    let mut svg = Vec::new();
    let lines = lines.iter().map(String::as_str);
    flamegraph::from_lines(&mut options, lines, &mut svg).context("cannot draw a flame graph")?;
    Ok(Some(String::from_utf8_lossy(&svg).into_owned()))
}

/// `process;outermost;...;innermost;kind lock nanoseconds`, sorted.
fn lines(profile: &Profile, measure: Measure) -> Vec<String> {
    let mut lines = Vec::new();
    for process in &profile.processes {
        for lock in &process.locks {
            let sites = lock.sites.iter().map(|site| (site, measure.of(site)));
            for (site, ns) in sites.filter(|(_, ns)| *ns > 0) {
                let mut line = format!("{} [{}];", word(&process.name), process.pid);
                for place in site.stack.iter().rev() {
                    line += &word(&place.name());
                    line.push(';');
                }
                let (kind, name) = (lock.kind.text(), word(&lock.label()));
                lines.push(format!("{line}{kind} {name} {ns}"));
            }
        }
    }
    lines.sort();
    lines
}

/// A semicolon would begin another frame.
fn word(name: &str) -> String {
    name.replace(';', ":").replace('\n', " ")
}
