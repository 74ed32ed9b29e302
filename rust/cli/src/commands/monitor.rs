// SPDX-License-Identifier: MIT
//! `flexguard monitor`: the Preemption Monitor for the whole machine, and the question how it is doing.

use std::time::Duration;

use clap::{Args, ValueHint};
use flexguard_launch::attach::{SOCKET_ENV, Served};
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::output;
use flexguard_launch::signals;
use flexguard_monitor::{Options, SocketName, Stats};
use sd_notify::NotifyState;
use serde::Serialize;

use super::Subcommand;
use crate::manual::{LOG_ITEM, OWN_EXIT, SOCKET_FILE, SOCKET_ITEM, Section};

/// How often to look whether the serving thread is still there.
const LOOK: Duration = Duration::from_secs(1);

/// Serve the Preemption Monitor to every process of the machine, in the foreground
///
/// Programs that `flexguard run` starts find it by themselves and need no privilege. SIGTERM and SIGINT end it cleanly.
#[derive(Debug, Args)]
pub struct Monitor {
    /// The socket to serve, or with --status to ask: a path, or @NAME in the abstract namespace
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    socket: Option<String>,

    /// Print the counters of the monitor that is running, and end
    #[arg(long)]
    status: bool,

    /// Let the kernel time the monitor's program, for --status; costs two clock reads a context switch
    #[arg(long, conflicts_with = "status")]
    run_time: bool,

    /// Print JSON, one object a line: when ready, when ended (with the counters), or the status
    #[arg(long)]
    json: bool,
}

impl Subcommand for Monitor {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "PRIVILEGE",
            items: &[(
                "CAP_BPF and CAP_PERFMON",
                "Needed to load the monitor; root has both. --status and the programs that the monitor serves need none.",
            )],
        },
        Section {
            title: "EXIT STATUS",
            items: &[
                (
                    "0",
                    "The monitor was told to end, or the status was printed.",
                ),
                OWN_EXIT[0],
                OWN_EXIT[1],
            ],
        },
        Section {
            title: "ENVIRONMENT",
            items: &[
                SOCKET_ITEM,
                (
                    "NOTIFY_SOCKET",
                    "Where the monitor tells the service manager that it is ready (sd_notify).",
                ),
                LOG_ITEM,
            ],
        },
        Section {
            title: "FILES",
            items: &[SOCKET_FILE],
        },
        Section {
            title: "EXAMPLES",
            items: &[
                ("flexguard monitor", "Serve all programs of the machine."),
                (
                    "flexguard monitor --status",
                    "Print what has been counted so far.",
                ),
            ],
        },
    ];

    fn run(self) -> Result<Status> {
        let socket = match &self.socket {
            Some(name) => SocketName::parse(name.as_ref()).context("--socket")?,
            None => SocketName::from_env().context(SOCKET_ENV)?.ok_or_else(|| {
                Failure::new(format_args!(
                    "{SOCKET_ENV} is empty, so there is no socket to serve or ask"
                ))
                .advice("unset it, or give --socket")
            })?,
        };
        if self.status {
            status(&self, &socket)
        } else {
            serve(&self, socket)
        }
    }
}

/// What `--status --json` prints, and with `--json` the last line of a daemon.
#[derive(Serialize)]
struct Report<'a> {
    state: &'a str,
    socket: String,
    #[serde(flatten)]
    stats: Option<Stats>,
}

fn status(args: &Monitor, socket: &SocketName) -> Result<Status> {
    let stats = Stats::query(socket).context("cannot ask the monitor")?;
    output::print(&line(args, "running", socket, Some(stats))?)?;
    Ok(Status::Exited(0))
}

fn serve(args: &Monitor, socket: SocketName) -> Result<Status> {
    signals::hold()?;
    let options = Options {
        socket: socket.clone(),
        run_time_stats: args.run_time,
    };
    let served = Served::load(options)?;
    output::announce(&line(args, "ready", &socket, None)?);
    notify(NotifyState::Ready);
    while !served.has_stopped() && !told_to_end() {}
    notify(NotifyState::Stopping);
    let stats = served.monitor.stats().ok();
    served.end()?;
    output::announce(&line(args, "ended", &socket, stats)?);
    Ok(Status::Exited(0))
}

fn told_to_end() -> bool {
    signals::wait(Some(LOOK))
        .is_some_and(|s| matches!(s.number, libc::SIGTERM | libc::SIGINT | libc::SIGHUP))
}

fn line(args: &Monitor, state: &str, socket: &SocketName, stats: Option<Stats>) -> Result<String> {
    let report = Report {
        state,
        socket: socket.to_string(),
        stats,
    };
    let value = serde_json::to_value(&report).context("cannot write JSON")?;
    if args.json {
        return Ok(format!("{value}\n"));
    }
    let fields = value.as_object().into_iter().flatten();
    let mut text = format!("flexguard monitor: {state} on {socket}\n");
    for (name, value) in fields.filter(|(name, _)| !matches!(name.as_str(), "state" | "socket")) {
        text.push_str(&format!("{}: {value}\n", name.replace('_', "-")));
    }
    Ok(text)
}

/// Tells the service manager, if there is one. One that does not listen is no reason to end.
fn notify(state: NotifyState) {
    if let Err(e) = sd_notify::notify(std::slice::from_ref(&state)) {
        output::note(&format!(
            "flexguard: cannot tell the service manager on NOTIFY_SOCKET ({state}): {e}\n"
        ));
    }
}
