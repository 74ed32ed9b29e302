// SPDX-License-Identifier: MIT
//! `flexguard monitor`: the Preemption Monitor for the whole machine, and the question how it is doing.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use flexguard_monitor::{Options, SocketName, Stats};
use serde::Serialize;

use crate::args;
use flexguard_launch::attach::{self, SOCKET_ENV, Served};
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
        Some(name) => {
            SocketName::parse(name.as_ref()).map_err(|e| attach::failure("--socket", &e))?
        }
        None => SocketName::from_env()
            .map_err(|e| attach::failure(SOCKET_ENV, &e))?
            .ok_or_else(|| {
                Failure::new(format_args!("{SOCKET_ENV} is empty"))
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
    let stats = Stats::query(socket).map_err(|e| attach::failure("cannot ask the monitor", &e))?;
    output::print(&line(args, "running", socket, Some(stats))?)?;
    Ok(Status::Exited(0))
}

fn serve(args: &args::Monitor, socket: SocketName) -> Result<Status> {
    signals::hold();
    let options = Options {
        socket: socket.clone(),
        run_time_stats: args.run_time,
    };
    let served =
        Served::load(options).map_err(|e| attach::failure("cannot start the monitor", &e))?;
    output::announce(&line(args, "ready", &socket, None)?);
    notify("READY=1");
    while !served.has_stopped() && !told_to_end() {}
    notify("STOPPING=1");
    let stats = served.monitor.stats().ok();
    served
        .end()
        .map_err(|e| attach::failure("the monitor stopped serving", &e))?;
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

/// Tells the service manager, if there is one (sd_notify's protocol: one datagram). One that does not listen is no reason to end.
fn notify(message: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|n| !n.is_empty()) else {
        return;
    };
    let sent = (|| -> io::Result<()> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&name)?,
        };
        UnixDatagram::unbound()?
            .send_to_addr(message.as_bytes(), &address)
            .map(|_| ())
    })();
    if let Err(e) = sent {
        output::note(&format!(
            "flexguard: cannot tell the service manager ({message} to NOTIFY_SOCKET): {e}\n"
        ));
    }
}
