// SPDX-License-Identifier: MIT
//! `flexguard profile --pid`: what is seen of a program from outside: what its threads sleep for, and, where the monitor
//! watches it, who was preempted in a critical section.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::{output, signals};
use flexguard_monitor::{Event, Listing, LostWaits, SocketName, Tracer, WaitWatch};
use serde::Serialize;

use super::files::Report;
use super::preempted::refuse_other_namespaces;
use super::record::{Place, duration};
use super::samples::{PREEMPTED, PREEMPTIONS, SAMPLES, Samples, Stack, WAIT, nanoseconds};
use super::target::Target;
use super::waits::{self, Sleepers, Waited};
use crate::symbols::{Frame, Symbols};

pub const SCHEMA: &str = "flexguard-profile-attached/1";
/// How often to take the events, and to look whether the program still runs.
const LOOK: Duration = Duration::from_millis(100);
/// Call sites of a lock that are shown as text.
const SITES: usize = 3;
const UNSEEN: &str = "Acquisitions, holds and waits that spin are not seen from outside: flexguard profile -- PROGRAM";

/// What was seen; docs/design/schemas/profile-attached.json describes all of it.
#[derive(Debug, Serialize)]
struct Attached {
    schema: &'static str,
    version: &'static str,
    pid: u32,
    elapsed_seconds: f64,
    /// Preemptions for which there was no memory, or whose end went unseen.
    lost: u64,
    /// Why preemptions were not seen; None: they were.
    preemptions_unknown: Option<String>,
    /// Why waits were not seen; None: they were.
    waits_unknown: Option<String>,
    /// The one whose threads were off CPU for longest comes first.
    locks: Vec<Lock>,
    /// What threads slept for; the one with the longest time comes first.
    waits: Vec<Waited>,
    lost_waits: u64,
    lost_wait_samples: u64,
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
        let report = self.output.map(Report::open).transpose()?;
        let attached = watch(socket, self.pid, self.time)?;
        if let Some(report) = report {
            let json = output::to_json(&attached)?;
            report.write(&json, &attached.samples(), |_| None)?;
        }
        match self.json {
            true => output::print_json(&attached)?,
            false => output::print(&attached.text(self.most))?,
        }
        Ok(Status::Exited(0))
    }
}

/// What is watched: both, or what can be.
struct Watches {
    preemptions: Result<Tracer>,
    waits: Result<WaitWatch>,
}

impl Watches {
    fn attach(socket: &SocketName, pid: u32) -> Result<Watches> {
        let preemptions = tracer(socket, pid);
        let waits = WaitWatch::attach(pid).context("cannot watch waits");
        match (&preemptions, waits) {
            (Err(_), Err(why)) => Err(why),
            (_, waits) => Ok(Watches { preemptions, waits }),
        }
    }

    fn take(&self, seen: &mut Seen, waits: &mut Sleepers, symbols: &Symbols) -> Result<()> {
        if let Ok(tracer) = &self.preemptions {
            for event in tracer.take().context("cannot read what was traced")? {
                seen.add(&event, symbols);
            }
        }
        if let Ok(watch) = &self.waits {
            for wait in watch.take().context("cannot read what was seen of waits")? {
                waits.add(&wait, symbols);
            }
        }
        Ok(())
    }
}

fn tracer(socket: &SocketName, pid: u32) -> Result<Tracer> {
    let (_, listing) = Listing::query(socket).context("cannot ask the monitor")?;
    if !listing.processes.iter().any(|process| process.pid == pid) {
        return Err(Failure::new(
            "the monitor does not watch it: it runs without a lock of FlexGuard's",
        ));
    }
    Tracer::attach(socket, Some(pid)).context("cannot trace")
}

fn watch(socket: &SocketName, pid: u32, time: Option<Duration>) -> Result<Attached> {
    refuse_other_namespaces()?;
    let target = Target::find(pid)?;
    signals::hold()?;
    let mut watches = Watches::attach(socket, pid)?;
    let begin = Instant::now();
    let (mut seen, symbols) = (Seen::default(), Symbols::new());
    let mut sleepers = Sleepers::new(pid);
    output::note(&format!("flexguard: watching process {pid}; Ctrl-C ends\n"));
    while time.is_none_or(|time| begin.elapsed() < time) && !target.has_ended() {
        let signal = signals::wait(Some(LOOK)).map(|signal| signal.number);
        watches.take(&mut seen, &mut sleepers, &symbols)?;
        if let Some(libc::SIGINT | libc::SIGTERM | libc::SIGHUP) = signal {
            break;
        }
    }
    let elapsed_seconds = begin.elapsed().as_secs_f64();
    let doing = "cannot read what was lost";
    let (waits, lost_waits) = match &mut watches.waits {
        Ok(watch) => {
            let words = watch
                .words()
                .context("cannot read what was seen of waits")?;
            (sleepers.waits(&words), watch.lost().context(doing)?)
        }
        Err(_) => (vec![], LostWaits::default()),
    };
    let lost = match &watches.preemptions {
        Ok(tracer) => tracer.lost().context(doing)?,
        Err(_) => 0,
    };
    let unknown = |why: &Failure| format!("{why:#}");
    Ok(Attached {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        pid,
        elapsed_seconds,
        lost,
        preemptions_unknown: watches.preemptions.as_ref().err().map(unknown),
        waits_unknown: watches.waits.as_ref().err().map(unknown),
        locks: seen.locks(),
        waits,
        lost_waits: lost_waits.waits,
        lost_wait_samples: lost_waits.samples,
    })
}

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
    fn samples(&self) -> Samples {
        let stack = |lock: String, places: Vec<Place>, numbers: [u64; 4]| Stack {
            pid: self.pid,
            process: "process".into(),
            lock,
            places,
            numbers: numbers.into(),
        };
        let mut stacks = Vec::new();
        for lock in &self.locks {
            stacks.extend(lock.sites.iter().map(|site| {
                let places = site.stack.iter().cloned().map(Place::from).collect();
                let sums = (site.preempted.count, nanoseconds(site.preempted.seconds));
                let name = format!("lock {}", lock.name());
                stack(name, places, [sums.0, sums.1, 0, 0])
            }));
        }
        for waited in &self.waits {
            stacks.extend(waited.sites.iter().map(|site| {
                let places = site.stack.clone();
                let numbers = [0, 0, site.samples, nanoseconds(site.seconds)];
                stack(waited.label(), places, numbers)
            }));
        }
        Samples {
            columns: &[PREEMPTIONS, PREEMPTED, SAMPLES, WAIT],
            stacks,
            seconds: self.elapsed_seconds,
            comment: format!("flexguard profile --pid {}", self.pid),
        }
    }

    fn text(&self, most: usize) -> String {
        let mut text = format!("process {}: {:.1} s\n", self.pid, self.elapsed_seconds);
        match &self.waits_unknown {
            Some(why) => text += &format!("waits: unknown ({why})\n"),
            None => text += &waits::text(&self.waits, most),
        }
        if self.lost_waits + self.lost_wait_samples > 0 {
            text += &format!(
                "lost: {} waits were not counted, {} call stacks not stored\n",
                self.lost_waits, self.lost_wait_samples
            );
        }
        match &self.preemptions_unknown {
            Some(why) => text += &format!("preempted holders: unknown ({why})\n"),
            None => text += &self.preempted(most),
        }
        text + UNSEEN + "\n"
    }

    fn preempted(&self, most: usize) -> String {
        let mut text = format!(
            "{} locks with preempted threads, {} preemptions lost\n",
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
        text
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
