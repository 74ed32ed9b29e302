// SPDX-License-Identifier: MIT
//! `flexguard status`: what the machine's monitor counts, for whom, and who holds its counter up.

use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use flexguard_launch::child;
use flexguard_launch::failure::{Context, Result};
use flexguard_launch::output;
use flexguard_monitor::{Error, Listing, SocketName, Stats, Version};
use nix::sys::utsname::uname;
use serde::Serialize;

use super::{Subcommand, monitor};
use crate::manual::{OWN_EXIT, SOCKET_ENVIRONMENT, SOCKET_FILES, Section, examples};
use crate::programs::{
    PREEMPTED_HEADINGS, Preempted, Program, Unwatched, duration, shown, unwatched,
};

/// The monitor's rates are those of so long a time.
const SAMPLE: Duration = Duration::from_millis(500);
/// No monitor is there. As `systemctl status` says it of a service that does not run.
const ABSENT: u8 = 3;

/// Show what the machine's monitor counts, which programs it watches, and who holds its counter up
///
/// It needs no privilege. So it cannot show what /proc hides of other users' programs, their lock for example.
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
                    "Threads that have lost their CPU in a critical section, now, on the whole machine: 0 lets every waiter spin.",
                ),
                (
                    "rates",
                    "What was counted in half a second, by the second: preempted holders, preempted heads of queues \
                     (next waiters), changes from spinning to blocking (mode transitions), context switches; -: the \
                     monitor was started meanwhile.",
                ),
                (
                    "CPU time",
                    "Of the monitor, in the same time: its process's, and that of its program at context switches, which \
                     uses the time of the threads that switch. The kernel keeps the latter where \
                     kernel.bpf_stats_enabled is 1; -: it is not known.",
                ),
                (
                    "totals",
                    "The monitor's counters; unreadable, missed and lost records are preemptions that it could not judge. \
                     Refused clients come with the reasons, and so do forks whose user has too many programs; not watched \
                     are the programs among them.",
                ),
                (
                    "programs",
                    "The processes that have registered, or inherited a registration by fork. The lock is known where \
                     the program's memory map may be read. The domain is whose counter its locks go by (flexguard monitor \
                     --domains), with that counter now: they block while it is above 0.",
                ),
                (
                    "not watched",
                    "Processes that have loaded a lock of FlexGuard's, or its library, and are not registered with this \
                     monitor: they began without one, or were refused. Of other users' processes root alone sees them.",
                ),
                (
                    "preempted now",
                    "Critical threads without a CPU: what they have, for how long, and who has taken their CPU. The counter is \
                     their number. A thread that had no CPU for a second has aged: it is shown and no longer counted.",
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
        SOCKET_ENVIRONMENT,
        SOCKET_FILES,
        examples(&[(
            "flexguard status --json | jq .counter",
            "Only the number of critical sections that are preempted now.",
        )]),
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
    /// The monitor's; None: it does not tell.
    version: Option<String>,
    command_version: String,
    abi: u32,
    kernel: String,
    uptime_seconds: f64,
    counter: u64,
    rates_per_second: Rates,
    totals: Stats,
    programs: Vec<Program>,
    /// Those that run without it.
    unwatched_programs: Vec<Unwatched>,
    preempted_now: Vec<Preempted>,
}

/// None: the monitor was started meanwhile.
#[derive(Debug, Serialize)]
struct Rates {
    preempted_holders: Option<f64>,
    preempted_next_waiters: Option<f64>,
    mode_transitions: Option<f64>,
    switches: Option<f64>,
    /// The part of the time in which the locks blocked.
    blocking: Option<f64>,
    /// CPU time of the monitor's process and of its program; None, too, where it is not known.
    process_cpus: Option<f64>,
    program_cpus: Option<f64>,
}

impl Rates {
    fn of(counted: Option<&Stats>, seconds: f64) -> Rates {
        let rate = |count: fn(&Stats) -> u64| counted.map(|c| count(c) as f64 / seconds);
        Rates {
            preempted_holders: rate(|c| c.preempted_holders),
            preempted_next_waiters: rate(|c| c.preempted_next_waiters),
            mode_transitions: rate(|c| c.mode_transitions),
            switches: rate(|c| c.switches),
            blocking: rate(|c| c.blocking_ns).map(|ns| (ns / 1e9).min(1.0)),
            process_cpus: counted.and_then(|c| c.process_cpus(seconds)),
            program_cpus: counted.and_then(|c| c.program_cpus(seconds)),
        }
    }

    fn text(&self) -> String {
        let number = |rate: Option<f64>| rate.map_or("-".into(), |rate| format!("{rate:.0}"));
        let percent = |part: Option<f64>| part.map_or("-".into(), |p| format!("{:.1}", p * 100.0));
        format!(
            "rates a second: {} preempted holders, {} next waiters, {} mode transitions, {} switches; \
             blocking {} % of the time\n\
             CPU time: {} % of a CPU for the monitor's process, {} % for its program at context switches\n",
            number(self.preempted_holders),
            number(self.preempted_next_waiters),
            number(self.mode_transitions),
            number(self.switches),
            percent(self.blocking),
            percent(self.process_cpus),
            percent(self.program_cpus)
        )
    }
}

impl Report {
    fn of(socket: &SocketName) -> Result<Report, Error> {
        let before = Stats::query(socket)?;
        let begin = Instant::now();
        std::thread::sleep(SAMPLE);
        let (totals, listing) = Listing::query(socket)?;
        let seconds = begin.elapsed().as_secs_f64();
        // A monitor that was restarted in between has counted less than its predecessor.
        let counted = totals.since(&before);
        let programs: Vec<Program> = listing.processes.iter().map(Program::of).collect();
        let mut preempted_now: Vec<_> = listing.counted.iter().map(Preempted::of).collect();
        preempted_now.sort_by(|a, b| b.for_ms.total_cmp(&a.for_ms));
        Ok(Report {
            state: "running",
            socket: socket.to_string(),
            version: totals.monitor_version().map(|version| version.to_string()),
            command_version: Version::OWN.to_string(),
            abi: flexguard_monitor::ABI_VERSION,
            kernel: uname()
                .map_or_else(|_| String::new(), |n| n.release().to_string_lossy().into()),
            uptime_seconds: totals.uptime_ns as f64 / 1e9,
            counter: totals.num_preempted_cs,
            rates_per_second: Rates::of(counted.as_ref(), seconds),
            totals,
            unwatched_programs: unwatched(&programs),
            programs,
            preempted_now,
        })
    }

    fn text(&self) -> String {
        let totals = &self.totals;
        let mut text = format!(
            "monitor: running on {} ({}, ABI {}, kernel {}), for {}\n",
            self.socket,
            versions(self.version.as_deref(), &self.command_version),
            self.abi,
            self.kernel,
            duration(self.uptime_seconds)
        );
        text += &format!(
            "counter: {} critical sections are preempted now\n",
            self.counter
        );
        text += &self.rates_per_second.text();
        text += &format!(
            "totals: {} preempted holders, {} next waiters; {} not watched, {} refused{}; {} unreadable, {} missed, \
             {} lost records, {} without a domain\n",
            totals.preempted_holders,
            totals.preempted_next_waiters,
            totals.unmonitored,
            totals.rejected_registrations,
            totals
                .refusals_told()
                .map_or_else(String::new, |reasons| format!(" ({reasons})")),
            totals.unreadable,
            totals.missed,
            totals.lost_records,
            totals.without_domain
        );
        text += &format!("programs: {}\n", self.programs.len());
        if !self.programs.is_empty() {
            text += &output::table(
                &[
                    "pid", "threads", "user", "lock", "command", "domain", "cgroup",
                ],
                self.programs.iter().map(program_row).collect(),
                0..2,
            );
        }
        text += &unwatched_table(&self.unwatched_programs);
        if !self.preempted_now.is_empty() {
            text += "preempted now:\n";
            text += &output::table(
                &PREEMPTED_HEADINGS,
                self.preempted_now
                    .iter()
                    .map(|p| p.row().to_vec())
                    .collect(),
                0..3,
            );
        }
        text
    }
}

/// The programs that run without the monitor; nothing if there are none.
fn unwatched_table(programs: &[Unwatched]) -> String {
    if programs.is_empty() {
        return String::new();
    }
    let row = |p: &Unwatched| {
        vec![
            p.pid.to_string(),
            shown(&p.user),
            output::foreign(&p.lock).into_owned(),
            shown(&p.command),
            output::foreign(&p.why).into_owned(),
        ]
    };
    let rows = programs.iter().map(row).collect();
    let table = output::table(&["pid", "user", "lock", "command", "why"], rows, 0..1);
    format!("not watched: {}\n{table}", programs.len())
}

/// The monitor's version, and the command's where it is another one.
fn versions(monitor: Option<&str>, command: &str) -> String {
    match monitor {
        Some(same) if same == command => format!("version {same}"),
        Some(other) => format!("version {other}; this command is {command}"),
        None => format!("a version before that of this command, {command}"),
    }
}

fn program_row(program: &Program) -> Vec<String> {
    vec![
        program.pid.to_string(),
        shown(&program.threads),
        program.user(),
        shown(&program.lock),
        shown(&program.command),
        format!("{}: {}", program.domain, program.domain_counter),
        shown(&program.cgroup),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_of_the_monitor_is_told_with_that_of_the_command() {
        assert_eq!(versions(Some("1.2.3"), "1.2.3"), "version 1.2.3");
        let other = versions(Some("1.2.3"), "1.2.4");
        assert_eq!(other, "version 1.2.3; this command is 1.2.4");
        assert!(versions(None, "1.2.4").contains("before"));
    }

    #[test]
    fn what_others_have_named_is_obeyed_by_no_terminal_and_begins_no_line() {
        let (name, spelled) = ("a\n\x1b[31m\u{202e}", "a\\u000a\\u001b[31m\\u202e");
        let named = || Some(name.to_owned());
        let watched = Program {
            pid: 1,
            uid: Some(0),
            user: named(),
            threads: Some(1),
            lock: named(),
            cgroup: named(),
            command: named(),
            preempted_holders: 0,
            preempted_next_waiters: 0,
            preempted_ns: 0,
            domain: "machine".into(),
            domain_counter: 0,
        };
        let row = program_row(&watched);
        assert_eq!(row.iter().filter(|cell| *cell == spelled).count(), 4);
        let unwatched = Unwatched {
            pid: 2,
            user: named(),
            lock: name.into(),
            command: named(),
            why: name.into(),
        };
        let text = unwatched_table(&[unwatched]);
        assert_eq!(text.matches(spelled).count(), 4, "{text:?}");
        assert_eq!(text.lines().count(), 3, "{text:?}");
    }

    #[test]
    fn what_is_not_known_is_no_zero() {
        let text = Rates::of(None, 0.5).text();
        assert!(
            text.starts_with("rates a second: - preempted holders, - next"),
            "{text}"
        );
        assert!(
            text.contains("blocking - % of the time\nCPU time: - % of a CPU"),
            "{text}"
        );
        let mut counted = Stats {
            cpu_ns: 1_000_000,
            ..Stats::default()
        };
        let text = Rates::of(Some(&counted), 0.5).text();
        assert!(text.starts_with("rates a second: 0 preempted"), "{text}");
        assert!(
            text.contains("CPU time: 0.2 % of a CPU for the monitor's process, - % for"),
            "{text}"
        );
        (counted.run_time_ns, counted.run_count) = (5_000_000, 9);
        let text = Rates::of(Some(&counted), 0.5).text();
        assert!(
            text.ends_with(", 1.0 % for its program at context switches\n"),
            "{text}"
        );
    }
}
