// SPDX-License-Identifier: MIT
//! What all benchmarks have in common: interleaved rounds under one monitor, failures, Ctrl-C, the report.

use std::collections::HashSet;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use crate::args::{MonitorMode, Report};
use crate::attach::{Attachment, SOCKET_ENV};
use crate::bench::progress::Progress;
use crate::bench::report::{Header, Sink};
use crate::bench::runner::{self, Capture, Outcome, Run};
use crate::child::Status;
use crate::failure::Result;
use crate::locks;
use crate::output;
use crate::prefix::Prefix;
use crate::signals;
use crate::summary::Counted;

/// One run among all: lock number `lock` in group number `group` (a thread count, say).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub round: u32,
    pub group: usize,
    pub lock: usize,
}

/// Every round runs every group under every lock. The order of the locks rotates: none always follows the same one, and what
/// disturbs the machine for a while hits all of them.
pub fn interleave(rounds: u32, groups: usize, locks: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    for round in 0..rounds {
        for group in 0..groups {
            steps.extend((0..locks).map(|i| Step {
                round,
                group,
                lock: (i + round as usize) % locks,
            }));
        }
    }
    steps
}

#[derive(Debug, Serialize)]
pub struct FailedRun {
    round: u32,
    run: String,
    reason: String,
}

/// How runs are started and told apart.
pub struct Setup<'a> {
    pub capture: Capture,
    pub limit: Duration,
    pub label: &'a dyn Fn(Step) -> String,
    pub command: &'a dyn Fn(Step) -> Command,
}

pub struct Session {
    monitor: Attachment,
    header: Header,
    sink: Option<Sink>,
    json: bool,
    failures: Vec<FailedRun>,
    interrupted: Option<i32>,
}

#[derive(Serialize)]
struct Document<'a, S, R> {
    #[serde(flatten)]
    header: &'a Header,
    settings: S,
    results: &'a [R],
    failures: &'a [FailedRun],
}

impl Session {
    /// Starts the monitor that all runs share.
    pub fn open(
        schema: &'static str,
        prefix: &Prefix,
        mode: MonitorMode,
        report: &Report,
    ) -> Result<Self> {
        let sink = report.output.as_deref().map(Sink::open).transpose()?;
        signals::hold();
        let monitor = Attachment::find(mode)?;
        let header = Header::new(schema, prefix, &monitor);
        Ok(Self {
            monitor,
            header,
            sink,
            json: report.json,
            failures: Vec::new(),
            interrupted: None,
        })
    }

    /// Runs the steps; `accept` takes each good run, or says why it is none. What failed once is not run again.
    pub fn run(
        &mut self,
        steps: &[Step],
        setup: &Setup,
        mut accept: impl FnMut(Step, Run, Option<Counted>) -> Result<(), String>,
    ) -> Result<()> {
        let progress = Progress::new(steps.len());
        let mut given_up = HashSet::new();
        for &step in steps {
            if given_up.contains(&(step.group, step.lock)) {
                progress.skip(1);
                continue;
            }
            progress.start(format!("round {}: {}", step.round + 1, (setup.label)(step)));
            let (outcome, counted) = self.measure((setup.command)(step), setup)?;
            let accepted = match outcome {
                Outcome::Ended(run) => run.defect().map_or_else(|| accept(step, run, counted), Err),
                Outcome::TimedOut(text) => Err(runner::with_tail(
                    &format!("killed after {} s", setup.limit.as_secs_f64()),
                    &text,
                )),
                Outcome::Interrupted(signal) => {
                    self.interrupted = Some(signal);
                    return Ok(());
                }
            };
            if let Err(reason) = accepted {
                given_up.insert((step.group, step.lock));
                self.failures.push(FailedRun {
                    round: step.round,
                    run: (setup.label)(step),
                    reason,
                });
            }
            progress.done();
        }
        self.header.complete = self.failures.is_empty();
        Ok(())
    }

    fn measure(&self, mut command: Command, setup: &Setup) -> Result<(Outcome, Option<Counted>)> {
        command.env(SOCKET_ENV, self.monitor.socket());
        let before = self.monitor.stats();
        let outcome = runner::run(command, setup.capture, setup.limit)?;
        let counted = before
            .zip(self.monitor.stats())
            .and_then(|(before, after)| Counted::between(&before, &after));
        Ok((outcome, counted))
    }

    /// Reports whatever was measured. The file comes first: a closed stdout must not cost the results.
    pub fn finish<S: Serialize, R: Serialize>(
        self,
        settings: S,
        results: &[R],
        table: &str,
    ) -> Result<Status> {
        let document = Document {
            header: &self.header,
            settings,
            results,
            failures: &self.failures,
        };
        if let Some(sink) = self.sink {
            sink.write(&output::to_json(&document)?)?;
        }
        if self.json {
            output::print_json(&document)?;
        } else {
            let note = if self.header.complete {
                ""
            } else {
                "INCOMPLETE: not every round of every lock is in.\n"
            };
            output::print(&format!("{}\n{table}{note}", self.header.show()))?;
        }
        for failed in &self.failures {
            output::note(&format!(
                "flexguard: round {}, {}: {}\n",
                failed.round + 1,
                failed.run,
                failed.reason
            ));
        }
        Ok(match self.interrupted {
            Some(signal) => Status::Signaled(signal),
            None => Status::Exited(u8::from(!self.failures.is_empty())),
        })
    }
}

/// The locks of `--locks`, each once; `all` stands for posix and every lock of the index.
pub fn resolve(prefix: &Prefix, names: &[String]) -> Result<Vec<String>> {
    let known = locks::read(prefix)?;
    let mut chosen: Vec<String> = Vec::new();
    for name in names {
        let picked: Vec<&str> = match name.as_str() {
            "all" => known.iter().map(|l| l.name.as_str()).collect(),
            name => vec![locks::find(&known, name)?.name.as_str()],
        };
        for name in picked {
            if !chosen.iter().any(|c| c == name) {
                chosen.push(name.to_owned());
            }
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_order_of_the_locks_rotates() {
        let order: Vec<usize> = interleave(3, 1, 3).iter().map(|s| s.lock).collect();
        assert_eq!(order, [0, 1, 2, 1, 2, 0, 2, 0, 1]);
    }

    proptest! {
        #[test]
        fn every_round_runs_everything_once(rounds in 1u32..8, groups in 1usize..4, locks in 1usize..6) {
            let steps = interleave(rounds, groups, locks);
            prop_assert_eq!(steps.len(), rounds as usize * groups * locks);
            let distinct: HashSet<_> = steps.iter().map(|s| (s.round, s.group, s.lock)).collect();
            prop_assert_eq!(distinct.len(), steps.len());
            prop_assert!(steps.is_sorted_by_key(|s| (s.round, s.group)));
        }
    }
}
