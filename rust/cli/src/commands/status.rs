// SPDX-License-Identifier: MIT
//! `flexguard status`: what the machine's monitor counts, for whom, and who holds its counter up.

use std::fs;
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use flexguard_launch::child;
use flexguard_launch::failure::{Context, Result};
use flexguard_launch::output;
use flexguard_monitor::{Counted, Error, Listing, SocketName, Stats};
use nix::sys::utsname::uname;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Uid, User};
use serde::Serialize;

use super::{Subcommand, monitor};
use crate::manual::{OWN_EXIT, SOCKET_FILE, SOCKET_ITEM, Section};

/// The monitor's rates are those of so long a time.
const SAMPLE: Duration = Duration::from_millis(500);
/// No monitor is there. As `systemctl status` says it of a service that does not run.
const ABSENT: u8 = 3;

/// Show what the machine's monitor counts, which programs it watches, and who holds its counter up
///
/// It needs no privilege. What /proc tells of other users' programs it may not show: their lock, for example.
#[derive(Debug, Args)]
pub struct Status {
    /// The socket to ask: a path, or @NAME in the abstract namespace
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    socket: Option<String>,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Subcommand for Status {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "WHAT IT SHOWS",
            items: &[
                (
                    "counter",
                    "Threads that have lost their CPU in a critical section, now: 0 lets every waiter on the machine spin.",
                ),
                (
                    "rates",
                    "What was counted in half a second, by the second: preempted holders, preempted heads of queues \
                     (next waiters), changes from spinning to blocking (mode transitions), context switches.",
                ),
                (
                    "totals",
                    "The monitor's counters; unreadable, missed and lost records are preemptions that it could not judge.",
                ),
                (
                    "programs",
                    "The processes that have registered, or inherited a registration by fork. The lock is known where \
                     the program's memory map may be read.",
                ),
                (
                    "preempted now",
                    "The threads that the counter consists of, what they have, and for how long.",
                ),
            ],
        },
        Section {
            title: "EXIT STATUS",
            items: &[
                ("0", "A monitor answered."),
                ("3", "No monitor listens there; programs run without one."),
                OWN_EXIT[0],
                OWN_EXIT[1],
            ],
        },
        Section {
            title: "ENVIRONMENT",
            items: &[SOCKET_ITEM],
        },
        Section {
            title: "FILES",
            items: &[SOCKET_FILE],
        },
        Section {
            title: "EXAMPLES",
            items: &[(
                "flexguard status --json | jq .counter",
                "Only the number of critical sections that are preempted now.",
            )],
        },
    ];

    fn run(self) -> Result<child::Status> {
        let socket = monitor::socket(self.socket.as_deref())?;
        let report = match Report::of(&socket) {
            Err(Error::NotListening(_)) => return self.absent(&socket),
            report => report.context("cannot ask the monitor")?,
        };
        if self.json {
            output::print_json(&report)?;
        } else {
            output::print(&report.text())?;
        }
        Ok(child::Status::Exited(0))
    }
}

impl Status {
    fn absent(&self, socket: &SocketName) -> Result<child::Status> {
        let socket = socket.to_string();
        if self.json {
            let report = serde_json::json!({"state": "absent", "socket": socket});
            output::print_json(&report)?;
        } else {
            output::print(&format!(
                "no monitor listens on {socket}: programs run without one\n  start the service, or `flexguard monitor` as root\n"
            ))?;
        }
        Ok(child::Status::Exited(ABSENT))
    }
}

#[derive(Debug, Serialize)]
struct Report {
    state: &'static str,
    socket: String,
    abi: u32,
    kernel: String,
    uptime_seconds: f64,
    counter: u64,
    rates_per_second: Rates,
    totals: Stats,
    programs: Vec<Program>,
    preempted_now: Vec<Preempted>,
}

#[derive(Debug, Serialize)]
struct Rates {
    preempted_holders: f64,
    preempted_next_waiters: f64,
    mode_transitions: f64,
    switches: f64,
}

/// A process that is registered, as far as /proc tells.
#[derive(Debug, Serialize)]
struct Program {
    pid: u32,
    uid: Option<u32>,
    user: Option<String>,
    threads: Option<u64>,
    lock: Option<String>,
    cgroup: Option<String>,
    command: Option<String>,
}

#[derive(Debug, Serialize)]
struct Preempted {
    pid: u32,
    tid: u32,
    role: &'static str,
    for_ms: f64,
    command: Option<String>,
}

impl Report {
    fn of(socket: &SocketName) -> Result<Report, Error> {
        let before = Stats::query(socket)?;
        let begin = Instant::now();
        std::thread::sleep(SAMPLE);
        let (totals, listing) = Listing::query(socket)?;
        let seconds = begin.elapsed().as_secs_f64();
        // A monitor that was restarted in between has counted less than its predecessor.
        let counted = totals.since(&before).unwrap_or_default();
        let rate = |count: u64| count as f64 / seconds;
        let mut preempted_now: Vec<_> = listing.counted.iter().map(Preempted::of).collect();
        preempted_now.sort_by(|a, b| b.for_ms.total_cmp(&a.for_ms));
        Ok(Report {
            state: "running",
            socket: socket.to_string(),
            abi: flexguard_monitor::ABI_VERSION,
            kernel: uname()
                .map_or_else(|_| String::new(), |n| n.release().to_string_lossy().into()),
            uptime_seconds: totals.uptime_ns as f64 / 1e9,
            counter: totals.num_preempted_cs,
            rates_per_second: Rates {
                preempted_holders: rate(counted.preempted_holders),
                preempted_next_waiters: rate(counted.preempted_next_waiters),
                mode_transitions: rate(counted.mode_transitions),
                switches: rate(counted.switches),
            },
            totals,
            programs: listing.processes.into_iter().map(Program::of).collect(),
            preempted_now,
        })
    }

    fn text(&self) -> String {
        let (rates, totals) = (&self.rates_per_second, &self.totals);
        let mut text = format!(
            "monitor: running on {} (ABI {}, kernel {}), for {}\n",
            self.socket,
            self.abi,
            self.kernel,
            duration(self.uptime_seconds)
        );
        text += &format!(
            "counter: {} critical sections are preempted now\n",
            self.counter
        );
        text += &format!(
            "rates a second: {:.0} preempted holders, {:.0} next waiters, {:.0} mode transitions, {:.0} switches\n",
            rates.preempted_holders,
            rates.preempted_next_waiters,
            rates.mode_transitions,
            rates.switches
        );
        text += &format!(
            "totals: {} preempted holders, {} next waiters; {} refused clients; {} unreadable, {} missed, {} lost records\n",
            totals.preempted_holders,
            totals.preempted_next_waiters,
            totals.rejected_registrations,
            totals.unreadable,
            totals.missed,
            totals.lost_records
        );
        text += &format!("programs: {}\n", self.programs.len());
        if !self.programs.is_empty() {
            text += &output::table(
                &["pid", "threads", "user", "lock", "command", "cgroup"],
                self.programs.iter().map(Program::row).collect(),
                0..2,
            );
        }
        if !self.preempted_now.is_empty() {
            text += "preempted now:\n";
            text += &output::table(
                &["pid", "tid", "for ms", "role", "command"],
                self.preempted_now.iter().map(Preempted::row).collect(),
                0..3,
            );
        }
        text
    }
}

fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

fn read(pid: u32, file: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/{file}")).ok()
}

fn command(pid: u32) -> Option<String> {
    Some(read(pid, "comm")?.trim_end().to_owned())
}

fn shown(value: &Option<impl ToString>) -> String {
    value
        .as_ref()
        .map_or_else(|| "?".to_owned(), ToString::to_string)
}

impl Program {
    fn of(pid: u32) -> Program {
        let status = read(pid, "status").unwrap_or_default();
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
        };
        let uid = field("Uid:").and_then(|uid| uid.parse().ok());
        let user = uid.and_then(|uid| User::from_uid(Uid::from_raw(uid)).ok()?);
        Program {
            pid,
            uid,
            user: user.map(|user| user.name),
            threads: field("Threads:").and_then(|n| n.parse().ok()),
            lock: read(pid, "maps").and_then(|maps| lock(&maps)),
            cgroup: read(pid, "cgroup").and_then(|groups| cgroup(&groups)),
            command: command(pid),
        }
    }

    fn row(&self) -> Vec<String> {
        let user = self
            .user
            .clone()
            .or_else(|| self.uid.map(|uid| uid.to_string()));
        vec![
            self.pid.to_string(),
            shown(&self.threads),
            shown(&user),
            shown(&self.lock),
            shown(&self.command),
            shown(&self.cgroup),
        ]
    }
}

/// The lock whose interposer the process has mapped, or the library of the C API.
fn lock(maps: &str) -> Option<String> {
    let paths = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]));
    let mut files = paths.filter_map(|path| {
        let (directory, file) = path.rsplit_once('/')?;
        if file.starts_with("libflexguard.so") {
            return Some("the C API".to_owned());
        }
        let name = file.strip_suffix(".so")?;
        directory.ends_with("/flexguard").then(|| name.to_owned())
    });
    files.next()
}

/// The control group of version 2, or the deepest of those of version 1.
fn cgroup(groups: &str) -> Option<String> {
    let paths = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?))
    });
    let (_, path) = paths.max_by_key(|(controllers, path)| (controllers.is_empty(), path.len()))?;
    Some(path.to_owned())
}

impl Preempted {
    fn of(counted: &Counted) -> Preempted {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
        let since = Duration::from_nanos(counted.since_ns);
        Preempted {
            pid: counted.pid,
            tid: counted.tid,
            role: if counted.holder {
                "holder"
            } else {
                "next waiter"
            },
            for_ms: now.saturating_sub(since).as_secs_f64() * 1e3,
            command: command(counted.pid),
        }
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.pid.to_string(),
            self.tid.to_string(),
            format!("{:.1}", self.for_ms),
            self.role.to_owned(),
            shown(&self.command),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_the_interposer_that_is_mapped() {
        let line = |path: &str| format!("7f00-7f10 r-xp 00000000 08:01 42    {path}\n");
        let of = |paths: &[&str]| lock(&paths.iter().map(|p| line(p)).collect::<String>());
        assert_eq!(
            of(&["/bin/true", "/usr/lib/flexguard/mcs.so"]).as_deref(),
            Some("mcs")
        );
        assert_eq!(
            of(&["/usr/lib/libflexguard.so.0"]).as_deref(),
            Some("the C API")
        );
        assert_eq!(of(&["/usr/lib/libc.so.6", "[stack]"]), None);
    }

    #[test]
    fn the_control_group_is_that_of_version_2_if_there_is_one() {
        assert_eq!(cgroup("4:memory:/a/b/c\n0::/x\n").as_deref(), Some("/x"));
        assert_eq!(cgroup("4:memory:/a/b\n3:cpu:/a\n").as_deref(), Some("/a/b"));
        assert_eq!(cgroup(""), None);
    }

    #[test]
    fn durations_are_told_in_two_units() {
        for (seconds, told) in [
            (5.9, "5 s"),
            (65.0, "1 min 5 s"),
            (7260.0, "2 h 1 min"),
            (90000.0, "1 d 1 h"),
        ] {
            assert_eq!(duration(seconds), told);
        }
    }
}
