// SPDX-License-Identifier: MIT
//! Two profiles of a program: what has changed, lock by lock. A lock is found again by its process's name, its kind and its
//! variable, or by where it was used first: addresses and process numbers are others in each run.

use std::collections::BTreeMap;

use flexguard_launch::output;
use serde::Serialize;

use super::record::{Kind, Lock, Profile, duration};

const SCHEMA: &str = "flexguard-profile-comparison/1";

/// docs/design/schemas/profile-comparison.json describes all of it.
#[derive(Debug, Serialize)]
pub struct Comparison {
    schema: &'static str,
    version: &'static str,
    before: Run,
    after: Run,
    /// The one whose waiting time has changed most comes first.
    locks: Vec<Pair>,
}

#[derive(Debug, Serialize)]
struct Run {
    command: Vec<String>,
    lock: String,
    elapsed_seconds: f64,
}

/// None: the run did not use it.
#[derive(Debug, Serialize)]
struct Pair {
    process: String,
    kind: Kind,
    name: String,
    before: Option<Sums>,
    after: Option<Sums>,
}

/// Over all locks that have the same name.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize)]
struct Sums {
    locks: u64,
    acquisitions: u64,
    contended: u64,
    wait_seconds: f64,
    hold_seconds: f64,
}

type Key = (String, Kind, String);

fn sums(profile: &Profile) -> BTreeMap<Key, Sums> {
    let mut all: BTreeMap<Key, Sums> = BTreeMap::new();
    for process in &profile.processes {
        for lock in &process.locks {
            let key = (process.name.clone(), lock.kind, name(lock));
            all.entry(key).or_default().add(lock);
        }
    }
    all
}

/// What is the same in each run.
fn name(lock: &Lock) -> String {
    match (&lock.name, lock.used_at()) {
        (Some(name), _) => name.clone(),
        (None, Some(place)) => format!("first used in {place}"),
        (None, None) => "without a name".into(),
    }
}

impl Sums {
    fn add(&mut self, lock: &Lock) {
        self.locks = self.locks.saturating_add(1);
        self.acquisitions = self.acquisitions.saturating_add(lock.acquisitions);
        self.contended = self.contended.saturating_add(lock.contended);
        self.wait_seconds += lock.waited();
        self.hold_seconds += lock.held();
    }

    fn share(&self) -> String {
        let share = self.contended as f64 / self.acquisitions.max(1) as f64;
        format!("{:.1} %", share * 100.0)
    }
}

impl Pair {
    fn change(&self, of: fn(&Sums) -> f64) -> f64 {
        let of = |sums: &Option<Sums>| sums.as_ref().map_or(0.0, of);
        of(&self.after) - of(&self.before)
    }

    fn row(&self) -> Vec<String> {
        let both = |of: fn(&Sums) -> String| {
            [&self.before, &self.after].map(|sums| sums.as_ref().map_or("-".into(), of))
        };
        let waited = both(|sums| duration(sums.wait_seconds * 1e6));
        let change = self.change(|sums| sums.wait_seconds);
        let sign = if change < 0.0 { "-" } else { "+" };
        let name = output::foreign(&self.name).into_owned();
        let mut row = vec![name, self.kind.text().into()];
        row.extend(waited);
        row.push(format!("{sign}{}", duration(change.abs() * 1e6)));
        row.extend(both(|sums| duration(sums.hold_seconds * 1e6)));
        row.extend(both(Sums::share));
        row.extend(both(|sums| sums.acquisitions.to_string()));
        row
    }
}

impl Comparison {
    pub fn of(before: &Profile, after: &Profile) -> Comparison {
        let (old, mut new) = (sums(before), sums(after));
        let pair = |(process, kind, name): Key, before, after| Pair {
            process,
            kind,
            name,
            before,
            after,
        };
        let mut locks: Vec<Pair> = (old.into_iter())
            .map(|(key, sums)| {
                let after = new.remove(&key);
                pair(key, Some(sums), after)
            })
            .collect();
        locks.extend(
            new.into_iter()
                .map(|(key, sums)| pair(key, None, Some(sums))),
        );
        let change = |of: fn(&Sums) -> f64| move |pair: &Pair| pair.change(of).abs();
        let (waited, held) = (change(|s| s.wait_seconds), change(|s| s.hold_seconds));
        locks.sort_by(|a, b| {
            let by_wait = waited(b).total_cmp(&waited(a));
            by_wait.then_with(|| held(b).total_cmp(&held(a)))
        });
        Comparison {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            before: Run::of(before),
            after: Run::of(after),
            locks,
        }
    }

    pub fn text(&self, most: usize) -> String {
        let mut text = String::new();
        for (title, run) in [("before", &self.before), ("after", &self.after)] {
            let command = run.command.join(" ");
            let command = output::foreign(&command);
            let (seconds, lock) = (run.elapsed_seconds, output::foreign(&run.lock));
            text += &format!("{title}: {seconds:.2} s under {lock}: {command}\n");
        }
        let mut processes: Vec<&str> = Vec::new();
        let shown = &self.locks[..self.locks.len().min(most)];
        for pair in shown {
            if !processes.contains(&pair.process.as_str()) {
                processes.push(&pair.process);
            }
        }
        let titles = [
            "lock",
            "kind",
            "waited",
            "after",
            "change",
            "held",
            "after",
            "contended",
            "after",
            "acquired",
            "after",
        ];
        for process in processes {
            let of = shown.iter().filter(|pair| pair.process == process);
            text += &format!("{}:\n", output::foreign(process));
            text += &output::table(&titles, of.map(Pair::row).collect(), 2..titles.len());
        }
        if self.locks.len() > most {
            text += &format!("{} locks more (--top)\n", self.locks.len() - most);
        }
        text
    }
}

impl Run {
    fn of(profile: &Profile) -> Run {
        Run {
            command: profile.command.clone(),
            lock: profile.lock.clone(),
            elapsed_seconds: profile.elapsed_seconds,
        }
    }
}
