// SPDX-License-Identifier: MIT
//! `flexguard profile --pid`: what the monitor sees of a program from outside.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::{output, signals};
use flexguard_monitor::{Event, Listing, SocketName, Tracer};
use serde::Serialize;

use super::flame::flame_graph_of;
use super::preempted::refuse_other_namespaces;
use super::record::duration;
use crate::symbols::{Frame, Symbols};

pub const SCHEMA: &str = "flexguard-profile-attached/1";
/// How often to take the events, and to look whether the program still runs.
const LOOK: Duration = Duration::from_millis(100);
/// Call sites of a lock that are shown as text.
const SITES: usize = 3;
const UNSEEN: &str = "Acquisitions, contention, waits and holds are not seen from outside: flexguard profile -- PROGRAM";

/// What was seen; docs/design/schemas/profile-attached.json describes all of it.
#[derive(Debug, Serialize)]
struct Attached {
    schema: &'static str,
    version: &'static str,
    pid: u32,
    elapsed_seconds: f64,
    /// Preemptions for which there was no memory, or whose end went unseen.
    lost: u64,
    /// The one whose threads were off CPU for longest comes first.
    locks: Vec<Lock>,
}

#[derive(Debug, Default, Serialize)]
struct Lock {
    /// Of the lock's word; None: the threads do not say which lock.
    address: Option<String>,
    /// Threads that held the lock, and heads of its queue, when they lost their CPU.
    holders: Preempted,
    next_waiters: Preempted,
    /// Where they were: the one with the longest time off CPU comes first.
    sites: Vec<Site>,
}

#[derive(Debug, Default, Clone, Serialize)]
struct Preempted {
    count: u64,
    seconds: f64,
    longest_us: f64,
}

#[derive(Debug, Serialize)]
struct Site {
    preempted: Preempted,
    stack: Vec<Frame>,
}

/// How a running process is watched.
pub struct Watch<'a> {
    pub pid: u32,
    pub time: Option<Duration>,
    /// Locks that are shown.
    pub most: usize,
    pub json: bool,
    /// Where the files go.
    pub output: Option<&'a Path>,
}

impl Watch<'_> {
    /// Until the process ends, a signal comes, or the time is over.
    pub fn run(self, socket: &SocketName) -> Result<Status> {
        let file = self.output.map(open).transpose()?;
        let attached = watch(socket, self.pid, self.time)?;
        if let (Some(directory), Some(mut file)) = (self.output, file) {
            let doing = format!("cannot write the profile to {}", directory.display());
            let json = output::to_json(&attached)?;
            file.write_all(json.as_bytes()).context(&doing)?;
            let graph = directory.join("preempted.svg");
            let _ = fs::remove_file(&graph); // that of an earlier run
            if let Some(svg) = flame_graph_of(attached.lines(), TITLE)? {
                fs::write(graph, svg).context(&doing)?;
            }
        }
        match self.json {
            true => output::print_json(&attached)?,
            false => output::print(&attached.text(self.most))?,
        }
        Ok(Status::Exited(0))
    }
}

const TITLE: &str = "Time that preempted threads were off CPU in critical sections";

/// Before it watches: better not to begin than to lose what was seen.
fn open(directory: &Path) -> Result<File> {
    let doing = || format!("cannot write the profile to {}", directory.display());
    fs::create_dir_all(directory).context(doing())?;
    File::create(directory.join("profile.json")).context(doing())
}

fn watch(socket: &SocketName, pid: u32, time: Option<Duration>) -> Result<Attached> {
    refuse_other_namespaces()?;
    let proc = format!("/proc/{pid}");
    if !Path::new(&proc).exists() {
        return Err(Failure::new(format_args!("there is no process {pid}")).advice(LISTS));
    }
    let (_, listing) = Listing::query(socket).context("cannot ask the monitor")?;
    if !listing.processes.iter().any(|process| process.pid == pid) {
        let why = format!(
            "the monitor does not watch process {pid}: it runs without a lock of FlexGuard's"
        );
        return Err(Failure::new(why).advice(LISTS));
    }
    signals::hold()?;
    let tracer = Tracer::attach(socket, Some(pid)).context("cannot trace")?;
    let begin = Instant::now();
    let (mut seen, symbols) = (Seen::default(), Symbols::new());
    output::note(&format!("flexguard: watching process {pid}; Ctrl-C ends\n"));
    while time.is_none_or(|time| begin.elapsed() < time) && Path::new(&proc).exists() {
        let signal = signals::wait(Some(LOOK)).map(|signal| signal.number);
        for event in tracer.take().context("cannot read what was traced")? {
            seen.add(&event, &symbols);
        }
        if let Some(libc::SIGINT | libc::SIGTERM | libc::SIGHUP) = signal {
            break;
        }
    }
    Ok(Attached {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        pid,
        elapsed_seconds: begin.elapsed().as_secs_f64(),
        lost: tracer.lost().context("cannot read what was lost")?,
        locks: seen.locks(),
    })
}

const LISTS: &str = "`flexguard status` lists the programs that the monitor watches";

type Sites = HashMap<Vec<u64>, Site>;

/// By the lock's address, and there by call stack.
#[derive(Default)]
struct Seen(HashMap<Option<u64>, (Lock, Sites)>);

impl Seen {
    fn add(&mut self, event: &Event, symbols: &Symbols) {
        let (lock, sites) = self.0.entry(event.lock).or_default();
        match event.holder {
            true => lock.holders.add(event.off_cpu_ns),
            false => lock.next_waiters.add(event.off_cpu_ns),
        }
        // While the process is there to tell what its addresses mean.
        let site = sites.entry(event.stack.clone()).or_insert_with(|| Site {
            preempted: Preempted::default(),
            stack: symbols.of(event.pid, &event.stack),
        });
        site.preempted.add(event.off_cpu_ns);
    }

    fn locks(self) -> Vec<Lock> {
        let mut locks: Vec<Lock> = (self.0.into_iter())
            .map(|(address, (lock, sites))| {
                let mut sites: Vec<Site> = sites.into_values().collect();
                sites.sort_by(|a, b| b.preempted.seconds.total_cmp(&a.preempted.seconds));
                Lock {
                    address: address.map(|address| format!("{address:#x}")),
                    sites,
                    ..lock
                }
            })
            .collect();
        locks.sort_by(|a, b| b.seconds().total_cmp(&a.seconds()));
        locks
    }
}

impl Preempted {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.seconds += ns as f64 / 1e9;
        self.longest_us = self.longest_us.max(ns as f64 / 1e3);
    }

    fn cells(&self) -> [String; 3] {
        if self.count == 0 {
            return ["0", "-", "-"].map(str::to_owned);
        }
        [
            self.count.to_string(),
            duration(self.seconds * 1e6),
            duration(self.longest_us),
        ]
    }
}

impl Lock {
    fn seconds(&self) -> f64 {
        self.holders.seconds + self.next_waiters.seconds
    }

    fn name(&self) -> &str {
        self.address.as_deref().unwrap_or("unknown")
    }

    fn row(&self) -> Vec<String> {
        let cells = [self.holders.cells(), self.next_waiters.cells()].concat();
        [self.name().to_owned()].into_iter().chain(cells).collect()
    }
}

impl Attached {
    /// `lock;outermost;...;innermost nanoseconds`.
    fn lines(&self) -> Vec<String> {
        let line = |lock: &Lock, site: &Site| {
            let mut words = vec![format!("lock {}", lock.name())];
            words.extend(site.stack.iter().rev().map(|frame| {
                let name = frame.symbol.as_ref().unwrap_or(&frame.address);
                name.replace(';', ":")
            }));
            let ns = (site.preempted.seconds * 1e9).round() as u64;
            format!("{} {ns}", words.join(";"))
        };
        let mut lines: Vec<String> = (self.locks.iter())
            .flat_map(|lock| lock.sites.iter().map(move |site| line(lock, site)))
            .collect();
        lines.sort();
        lines
    }

    fn text(&self, most: usize) -> String {
        let mut text = format!(
            "process {}: {:.1} s, {} locks with preempted threads, {} preemptions lost\n",
            self.pid,
            self.elapsed_seconds,
            self.locks.len(),
            self.lost
        );
        let shown = &self.locks[..self.locks.len().min(most)];
        if !shown.is_empty() {
            let titles = [
                "lock",
                "holders preempted",
                "off CPU",
                "longest",
                "next waiters",
                "off CPU",
                "longest",
            ];
            text += &output::table(
                &titles,
                shown.iter().map(Lock::row).collect(),
                1..titles.len(),
            );
        }
        for lock in shown {
            text += &format!("{}: its threads lost their CPU in\n", lock.name());
            for site in lock.sites.iter().take(SITES) {
                let share = site.preempted.seconds / lock.seconds().max(f64::MIN_POSITIVE) * 100.0;
                let stack: Vec<String> = site.stack.iter().map(Frame::text).collect();
                text += &format!("  {share:3.0} % of the time: {}\n", stack.join(" < "));
            }
        }
        text + UNSEEN + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(lock: Option<u64>, holder: bool, off_cpu_ns: u64, stack: &[u64]) -> Event {
        Event {
            since_ns: 0,
            off_cpu_ns,
            pid: std::process::id(),
            tid: 1,
            name: String::new(),
            cpu: 0,
            holder,
            lock,
            waiters: None,
            by_pid: 2,
            by_tid: 2,
            by_name: String::new(),
            stack: stack.to_vec(),
        }
    }

    #[test]
    fn preemptions_are_added_up_by_lock_and_by_call_stack() {
        let (mut seen, symbols) = (Seen::default(), Symbols::new());
        for event in [
            event(Some(16), true, 1_000, &[5000]),
            event(Some(16), true, 3_000, &[6000]),
            event(Some(16), false, 500, &[5000]),
            event(None, true, 9_000, &[]),
        ] {
            seen.add(&event, &symbols);
        }
        let locks = seen.locks();
        let names: Vec<_> = locks.iter().map(Lock::name).collect();
        assert_eq!(names, ["unknown", "0x10"]);
        let lock = &locks[1];
        assert_eq!((lock.holders.count, lock.next_waiters.count), (2, 1));
        assert_eq!(lock.holders.longest_us, 3.0);
        let counts: Vec<_> = lock.sites.iter().map(|site| site.preempted.count).collect();
        assert_eq!(counts, [1, 2], "the longer time comes first");
    }
}
