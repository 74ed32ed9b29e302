// SPDX-License-Identifier: MIT
//! The profile as text.

use std::fmt::Write;

use flexguard_launch::output;

use super::record::{Kind, Lock, Process, Profile, Times, duration};

/// Call sites of a lock that are shown.
const SITES: usize = 3;

/// Of each process the `most` locks that matter most.
pub fn table(profile: &Profile, most: usize) -> String {
    let mut text = String::new();
    if profile.processes.is_empty() {
        text += "flexguard: no lock was used: the program is statically linked, is setuid, clears its environment, or \
                 uses none\n";
    }
    for process in &profile.processes {
        of_process(process, most, &mut text);
    }
    if let Some(why) = &profile.preemptions_unknown
        && !profile.processes.is_empty()
    {
        let _ = writeln!(text, "preempted while held: unknown ({why})");
    }
    text
}

fn of_process(process: &Process, most: usize, text: &mut String) {
    let (pid, all) = (process.pid, process.locks.len());
    let name = output::foreign(&process.name);
    let _ = writeln!(text, "{name} [{pid}]: {}", kinds(process));
    let titles = [
        "lock",
        "kind",
        "acquired",
        "contended",
        "waited",
        "p50",
        "p90",
        "p99",
        "max",
        "held",
        "p50",
        "p90",
        "p99",
        "max",
        "preempted",
    ];
    let locks = &process.locks[..all.min(most)];
    *text += &output::table(&titles, locks.iter().map(row).collect(), 2..titles.len());
    for lock in locks {
        let used = match lock.kind {
            Kind::Mutex | Kind::RwLock => "acquired",
            _ => "waited for",
        };
        let label = lock.label();
        let _ = writeln!(text, "{} was {used} by", output::foreign(&label));
        for (site, share) in lock.sites.iter().zip(lock.shares()).take(SITES) {
            let of = if lock.wait.is_some() {
                "waiting"
            } else {
                "acquisitions"
            };
            let (share, site) = (share * 100.0, site.text());
            let _ = writeln!(text, "  {share:3.0} % of {of}: {}", output::foreign(&site));
        }
    }
    if all > most {
        let _ = writeln!(text, "{} locks more (--top)", all - most);
    }
    let lost = &process.lost;
    if lost.any() {
        let _ = writeln!(
            text,
            "lost, because tables were full: {} acquisitions, {} call sites, {} timed holds",
            lost.acquisitions, lost.call_sites, lost.holds
        );
    }
}

/// `3 mutexes, 1 barrier`.
pub fn kinds(process: &Process) -> String {
    let of = |kind: Kind| match process.locks.iter().filter(|l| l.kind == kind).count() {
        0 => None,
        1 => Some(format!("1 {}", kind.text())),
        n => Some(format!("{n} {}", kind.plural())),
    };
    let kinds: Vec<String> = Kind::ALL.into_iter().filter_map(of).collect();
    kinds.join(", ")
}

fn row(lock: &Lock) -> Vec<String> {
    let mut row = vec![
        output::foreign(&lock.label()).into_owned(),
        lock.kind.text().into(),
        lock.acquisitions.to_string(),
        format!("{:.1} %", lock.contended_share * 100.0),
    ];
    row.extend(times(lock.wait.as_ref()));
    row.extend(times(lock.hold.as_ref()));
    row.push(lock.preempted.map_or("?".into(), |preempted| {
        let time = duration(preempted.seconds * 1e6);
        format!("{} x, {time}", preempted.count)
    }));
    row
}

/// The total, three percentiles and the maximum.
pub fn times(times: Option<&Times>) -> [String; 5] {
    let Some(t) = times else {
        return std::array::from_fn(|_| "-".to_owned());
    };
    [
        t.total_seconds * 1e6,
        t.p50_us,
        t.p90_us,
        t.p99_us,
        t.max_us,
    ]
    .map(duration)
}
