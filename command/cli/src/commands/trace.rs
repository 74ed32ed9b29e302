// SPDX-License-Identifier: MIT
//! `flexguard trace`: each critical section that is preempted, as it ends.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueHint};
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::{output, signals};
use flexguard_monitor::{Event, SocketName, Stats, Tracer};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::{Subcommand, monitor};
use crate::manual::{OWN_EXIT, SOCKET_ENVIRONMENT, SOCKET_FILES, Section, examples};
use crate::symbols::{Frame, Symbols};

/// How often to look for events.
const LOOK: Duration = Duration::from_millis(100);
/// How often to ask whether the monitor is still the same.
const ASK: Duration = Duration::from_secs(1);

/// Show each preemption of a critical section: who lost the CPU, to whom, for how long, and where
///
/// A preemption is shown when the thread runs again. Call stacks follow frame pointers. It needs root, and a running monitor.
#[derive(Debug, Args)]
pub struct Trace {
    /// Only the process N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,

    /// The socket of the monitor: a path, or @NAME in the abstract namespace
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    socket: Option<String>,

    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
}

/// A line of `--json`; docs/design/schemas/trace.json describes all of it.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line<'a> {
    Start {
        socket: String,
        pid: Option<u32>,
    },
    Preemption(Preemption<'a>),
    End {
        preemptions: u64,
        /// Preemptions for which there was no memory, or whose end went unseen.
        lost: u64,
    },
}

#[derive(Debug, Serialize)]
struct Preemption<'a> {
    /// When the thread lost its CPU, in seconds since 1970.
    time: f64,
    off_cpu_us: f64,
    pid: u32,
    tid: u32,
    name: &'a str,
    role: &'static str,
    lock: Option<String>,
    waiters: Option<u32>,
    cpu: u32,
    preemptor: Preemptor<'a>,
    stack: Vec<Frame>,
}

#[derive(Debug, Serialize)]
struct Preemptor<'a> {
    pid: u32,
    tid: u32,
    name: &'a str,
}

impl Subcommand for Trace {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "WHAT IT SHOWS",
            items: &[
                (
                    "role",
                    "A holder owns a lock, or is passing one on. A next waiter is the head of a queue.",
                ),
                (
                    "lock",
                    "The address of the lock's word, where the thread says which lock it holds; the default lock does.",
                ),
                (
                    "waiters",
                    "Threads of the process that slept on the lock's word when the thread ran again. A waiter that spins, \
                     yields its CPU, or waits for the mutex after a condition variable is not among them, nor is one \
                     that has slept since before the trace began. Unknown where the lock's word does not name its \
                     owner; the default lock's does.",
                ),
                (
                    "lost",
                    "Preemptions that could not be shown: too many at once, or the kernel did not report their end.",
                ),
            ],
        },
        Section {
            title: "SIGNALS",
            items: &[("SIGINT, SIGTERM, SIGHUP", "End, with exit status 0.")],
        },
        Section {
            title: "EXIT STATUS",
            items: &[
                ("0", "It was told to end, or the time is over."),
                OWN_EXIT[0],
                OWN_EXIT[1],
            ],
        },
        SOCKET_ENVIRONMENT,
        SOCKET_FILES,
        examples(&[(
                "flexguard trace --json --seconds 10 | jq -r 'select(.event == \"preemption\") | .preemptor.name' | sort | uniq -c",
                "Which programs have taken the CPU from critical sections in ten seconds, and how often.",
            )]),
    ];

    fn run(self) -> Result<Status> {
        let socket = monitor::socket(self.socket.as_deref())?;
        if let Some(pid) = self
            .pid
            .filter(|pid| !Path::new(&format!("/proc/{pid}")).exists())
        {
            return Err(Failure::new(format_args!("there is no process {pid}"))
                .advice("`flexguard status` lists the programs that the monitor watches"));
        }
        signals::hold()?;
        let mut session = Session {
            tracer: attach(&socket, self.pid)?,
            args: &self,
            socket: &socket,
            symbols: Symbols::new(),
            preemptions: 0,
            lost: 0,
        };
        session.line(Line::Start {
            socket: socket.to_string(),
            pid: self.pid,
        })?;
        let ends_at = self
            .seconds
            .map(|s| Instant::now() + Duration::from_secs(s));
        let mut asked = Instant::now();
        while ends_at.is_none_or(|end| Instant::now() < end) {
            let signal = signals::wait(Some(LOOK)).map(|signal| signal.number);
            session.show()?;
            if let Some(libc::SIGINT | libc::SIGTERM | libc::SIGHUP) = signal {
                break;
            }
            if asked.elapsed() >= ASK {
                session.keep_up();
                asked = Instant::now();
            }
        }
        session.end()
    }
}

fn attach(socket: &SocketName, pid: Option<u32>) -> Result<Tracer> {
    Tracer::attach(socket, pid).context("cannot trace")
}

struct Session<'a> {
    tracer: Tracer,
    args: &'a Trace,
    socket: &'a SocketName,
    symbols: Symbols,
    preemptions: u64,
    /// By the tracers before this one.
    lost: u64,
}

impl Session<'_> {
    fn show(&mut self) -> Result<()> {
        let doing = "cannot read what was traced";
        for event in self.tracer.take().context(doing)? {
            self.preemptions += 1;
            let stack = self.symbols.of(event.pid, &event.stack);
            self.line(Line::Preemption(Preemption::of(&event, stack)))?;
        }
        Ok(())
    }

    /// A monitor that was started anew has other records. One that has ended may come back.
    fn keep_up(&mut self) {
        let other = Stats::query(self.socket).is_ok_and(|stats| self.tracer.is_outdated(&stats));
        if other && let Ok(tracer) = attach(self.socket, self.args.pid) {
            self.lost += self.tracer.lost().unwrap_or(0);
            self.tracer = tracer;
        }
    }

    fn end(self) -> Result<Status> {
        let lost = self.lost + self.tracer.lost().context("cannot read what was lost")?;
        self.line(Line::End {
            preemptions: self.preemptions,
            lost,
        })?;
        Ok(Status::Exited(0))
    }

    fn line(&self, line: Line<'_>) -> Result<()> {
        if self.args.json {
            let line = serde_json::to_string(&line).context("cannot write JSON")?;
            return output::print(&format!("{line}\n"));
        }
        match line {
            Line::Preemption(preemption) => output::print(&preemption.text()),
            Line::Start { .. } => Ok(()),
            Line::End { preemptions, lost } => {
                output::note(&format!("{preemptions} preemptions, {lost} lost\n"));
                Ok(())
            }
        }
    }
}

impl<'a> Preemption<'a> {
    fn of(event: &'a Event, stack: Vec<Frame>) -> Self {
        Preemption {
            time: wall_clock(event.since_ns),
            off_cpu_us: event.off_cpu_ns as f64 / 1e3,
            pid: event.pid,
            tid: event.tid,
            name: &event.name,
            role: if event.holder {
                "holder"
            } else {
                "next waiter"
            },
            lock: event.lock.map(|lock| format!("{lock:#x}")),
            waiters: event.waiters,
            cpu: event.cpu,
            preemptor: Preemptor {
                pid: event.by_pid,
                tid: event.by_tid,
                name: &event.by_name,
            },
            stack,
        }
    }

    fn text(&self) -> String {
        let of = self
            .lock
            .as_ref()
            .map(|lock| format!(" of {lock}"))
            .unwrap_or_default();
        let waiters = match self.waiters {
            None => String::new(),
            Some(1) => ", 1 waiter slept".into(),
            Some(number) => format!(", {number} waiters slept"),
        };
        let (day, by) = (self.time.rem_euclid(86400.0), &self.preemptor);
        let (hours, minutes, seconds) = (day as u32 / 3600, day as u32 / 60 % 60, day % 60.0);
        let mut text = format!(
            "{hours:02}:{minutes:02}:{seconds:09.6} {}[{}/{}] {}{of}: off CPU {} for {:.3} ms, by {}[{}/{}]{waiters}\n",
            output::foreign(self.name),
            self.pid,
            self.tid,
            self.role,
            self.cpu,
            self.off_cpu_us / 1e3,
            output::foreign(by.name),
            by.pid,
            by.tid
        );
        for frame in &self.stack {
            text += &format!("    {}\n", frame.text());
        }
        text
    }
}

/// The time since 1970 that CLOCK_MONOTONIC's `ns` was.
fn wall_clock(ns: u64) -> f64 {
    let monotonic = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    (now + Duration::from_nanos(ns))
        .saturating_sub(monotonic)
        .as_secs_f64()
}
