// SPDX-License-Identifier: MIT
//! `flexguard monitor`: the Preemption Monitor for the whole machine, and the question how it is doing.

use std::time::Duration;

use flexguard_monitor::{Options, SocketName, Stats};
use sd_notify::NotifyState;
use serde::Serialize;

use crate::args;
use flexguard_launch::attach::{SOCKET_ENV, Served};
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::output;
use flexguard_launch::signals;

/// How often to look whether the serving thread is still there.
const LOOK: Duration = Duration::from_secs(1);

/// What `--status --json` prints, and with `--json` the last line of a daemon.
#[derive(Serialize)]
struct Report<'a> {
    state: &'a str,
    socket: String,
    #[serde(flatten)]
    stats: Option<Stats>,
}

pub fn run(args: args::Monitor) -> Result<Status> {
    let socket = match &args.socket {
        Some(name) => SocketName::parse(name.as_ref()).context("--socket")?,
        None => SocketName::from_env().context(SOCKET_ENV)?.ok_or_else(|| {
            Failure::new(format_args!(
                "{SOCKET_ENV} is empty, so there is no socket to serve or ask"
            ))
            .advice("unset it, or give --socket")
        })?,
    };
    if args.status {
        status(&args, &socket)
    } else {
        serve(&args, socket)
    }
}

fn status(args: &args::Monitor, socket: &SocketName) -> Result<Status> {
    let stats = Stats::query(socket).context("cannot ask the monitor")?;
    output::print(&line(args, "running", socket, Some(stats))?)?;
    Ok(Status::Exited(0))
}

fn serve(args: &args::Monitor, socket: SocketName) -> Result<Status> {
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

fn line(
    args: &args::Monitor,
    state: &str,
    socket: &SocketName,
    stats: Option<Stats>,
) -> Result<String> {
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
