// SPDX-License-Identifier: MIT
//! `flexguard bench first`: what FlexGuard is for, in half a minute. A few real programs under glibc's mutexes, the
//! published lock and the default lock, and a line on what each of them shows.

use std::io::IsTerminal;

use super::document::{Document, Entry};
use super::exec::Exec;
use super::options::Plan;
use super::pipeline;
use super::progress::Progress;
use super::session::{self, Session};
use super::workload::Workload;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use flexguard_launch::output;
use flexguard_launch::prefix::Prefix;
use flexguard_launch::signals;

#[derive(Debug)]
pub struct First {
    /// How often each program runs under each lock
    pub rounds: u32,
}

/// The first one is what the others are compared with.
const LOCKS: [&str; 3] = ["posix", "flexguard-sosp25", "flexguard"];

struct Program {
    title: &'static str,
    command: &'static str,
    shows: &'static str,
}

/// Chosen by measurement (docs/results/first-run.md): four that wait for locks, and one that hardly does.
const PROGRAMS: [Program; 5] = [
    Program {
        title: "sysbench threads",
        command: "sysbench threads --threads=8 --thread-locks=2 --events=100 --time=0 run",
        shows: "Eight threads share two mutexes and yield the CPU while they hold one.",
    },
    Program {
        title: "RocksDB, writes",
        command: "db_bench --benchmarks=fillrandom --num=8000 --threads=8 --db={scratch}",
        shows: "Eight threads write into one database, in groups, by a mutex and condition variables.",
    },
    Program {
        title: "Kyoto Cabinet, tasks",
        command: "kcutiltest para -th 8 400000",
        shows: "Eight threads take tiny tasks from one queue. Putting a thread to sleep costs more than a task.",
    },
    Program {
        title: "Kyoto Cabinet, cache",
        command: "kccachetest wicked -th 4 -it 1 50000",
        shows: "Four threads work on a cache behind many mutexes, with short sections.",
    },
    Program {
        title: "sysbench mutex",
        command: "sysbench mutex --threads=4 --mutex-num=4096 --mutex-locks=100000 --mutex-loops=2000 run",
        shows: "Four threads take mutexes at random and hardly ever meet: no difference.",
    },
];

impl Program {
    fn workload(&self, prefix: &Prefix) -> Result<Exec> {
        let argv = self.command.split(' ').map(Into::into).collect();
        let mut exec = Exec::new(LOCKS.map(String::from).to_vec(), argv, None);
        exec.timeout = 60.0;
        exec.prepare(prefix)?;
        Ok(exec)
    }
}

pub fn run(args: First) -> Result<Status> {
    let prefix = Prefix::find()?;
    let plan = Plan {
        rounds: args.rounds,
        warmup_rounds: 0,
        noise: false,
        tell: None,
    };
    let workloads = PROGRAMS
        .iter()
        .map(|p| p.workload(&prefix))
        .collect::<Result<Vec<_>>>()?;
    signals::hold()?;
    let monitor = session::monitor(&workloads[0])?;
    let steps = || workloads.iter().flat_map(|w| Session::steps(w, &plan));
    let progress = Progress::new(steps().count(), steps().map(|s| s.1).sum());
    let (mut documents, mut interrupted) = (Vec::new(), None);
    for (program, workload) in PROGRAMS.iter().zip(&workloads) {
        if !std::io::stderr().is_terminal() {
            output::note(&format!("flexguard: {}\n", program.command));
        }
        let mut document = session::begin(workload, &plan, &prefix, &monitor);
        interrupted = Session {
            workload,
            plan: &plan,
            monitor: &monitor,
            progress: &progress,
            handover: prefix.handover(),
            origin: session::origin(workload, &prefix),
            keep: &|_| Ok(()),
            enough: &|_| false,
        }
        .run(&mut document)?;
        documents.push(document);
        if interrupted.is_some() {
            break;
        }
    }
    drop(progress);
    output::print(&conclusion(&documents))?;
    documents.iter().for_each(pipeline::tell_failures);
    let failed = documents.iter().any(|d| !d.failures.is_empty());
    Ok(match interrupted {
        Some(signal) => Status::Signaled(signal),
        None => Status::Exited(u8::from(failed)),
    })
}

/// The table, what each program shows, and what the numbers rest on.
fn conclusion(documents: &[Document]) -> String {
    let mut titles = vec!["seconds"];
    titles.extend(LOCKS.map(|lock| if lock == "posix" { "glibc" } else { lock }));
    titles.push("the default against glibc");
    let row = |(program, document): (&Program, &Document)| {
        let entries = LOCKS.map(|lock| document.results.iter().find(|e| e.subject == lock));
        let mut row = vec![program.title.to_owned()];
        row.extend(entries.map(|e| e.map_or("-".into(), median)));
        row.push(entries[2].map_or("-".into(), verdict));
        row
    };
    let rows = PROGRAMS.iter().zip(documents).map(row).collect();
    let mut text = output::table(&titles, rows, 1..titles.len() - 1);
    for program in &PROGRAMS[..documents.len()] {
        text += &format!(
            "\n{}: {}\n  {}\n",
            program.title, program.command, program.shows
        );
    }
    if let Some(document) = documents.first() {
        text += &format!(
            "\nMedians of {} interleaved rounds. flexguard-sosp25 is the published lock, flexguard the default.\n\
             Monitor: {}.\nYour own program: flexguard bench exec -- PROGRAM ARGUMENTS...\n",
            document.rounds, document.monitor.description
        );
    }
    text
}

fn median(entry: &Entry) -> String {
    entry
        .measures
        .get("elapsed_seconds")
        .map_or("-".into(), |e| format!("{:.2}", e.median))
}

/// A difference that is less than a tenth is none to a reader of the table.
const TENTH: f64 = 1.1;

/// What the interval of the ratio allows to say: it is of the signed-rank test (stats/paired.rs).
fn verdict(entry: &Entry) -> String {
    match &entry.ratio {
        None => "-".into(),
        Some(ratio) if !ratio.is_sound() => "too few rounds to say (6 or more)".into(),
        Some(ratio) if ratio.low > 1.0 => format!("{:.2} times as fast", ratio.median),
        Some(ratio) if ratio.high < 1.0 => format!("{:.2} times as slow", 1.0 / ratio.median),
        Some(ratio) if ratio.low > 1.0 / TENTH && ratio.high < TENTH => {
            "the same, within 10 %".into()
        }
        Some(ratio) => format!(
            "not clear: {:.2} to {:.2} times as fast",
            ratio.low, ratio.high
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Better, Rounds, against};

    fn said(ratios: &[f64]) -> String {
        let rounds = |values: &[f64]| -> Rounds { (0..).zip(values.iter().copied()).collect() };
        let mut entry = Entry::new(Default::default(), "flexguard".into(), false);
        let ones = rounds(&vec![1.0; ratios.len()]);
        entry.ratio = against(Better::Higher, &rounds(ratios), &ones);
        verdict(&entry)
    }

    #[test]
    fn the_verdict_says_no_more_than_the_interval() {
        assert_eq!(
            said(&[2.0, 2.1, 1.9, 2.0, 2.0, 2.1, 1.9]),
            "2.00 times as fast"
        );
        assert_eq!(said(&[0.5; 7]), "2.00 times as slow");
        assert_eq!(
            said(&[1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.0]),
            "the same, within 10 %"
        );
        // In the medians a fifth faster, and not in every round.
        let said_of_mixed = said(&[1.3, 0.8, 1.2, 1.25, 0.85, 1.3, 0.9]);
        assert!(
            said_of_mixed.starts_with("not clear: 0."),
            "{said_of_mixed}"
        );
        assert!(said(&[2.0; 3]).starts_with("too few rounds"));
    }
}
