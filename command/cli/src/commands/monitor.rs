// SPDX-License-Identifier: MIT
//! `flexguard monitor`: the Preemption Monitor for the whole machine, and the question how it is doing.

use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use flexguard_launch::attach::{SOCKET_ENV, Served};
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::{output, runs, signals};
use flexguard_monitor::{DomainKind, Keeper, Options, SocketName, Stats};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;
use serde::Serialize;

use super::Subcommand;
use crate::manual::{LOG_ITEM, OWN_EXIT, SOCKET_FILES, SOCKET_ITEM, Section, examples};

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

    /// Whose preempted critical sections make a program's locks block
    ///
    /// Those of the programs of the same user, of the same control group, or with the same allowed CPUs (cpuset); or
    /// those of the whole machine, as in the paper. A program keeps what it had when it registered. There are 127
    /// domains at a time; programs for which none is free share one with others of their class of users.
    #[arg(
        long,
        value_name = "KIND",
        value_enum,
        default_value = "user",
        conflicts_with = "status"
    )]
    domains: Domains,

    /// So many programs of one user are watched at a time (8192); those beyond run without the monitor
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with = "status"
    )]
    programs_per_user: Option<u32>,

    /// Let the kernel time the monitor's program, for --status; costs two clock reads a context switch
    #[arg(long, conflicts_with = "status")]
    run_time: bool,

    /// Keep the maps and programs in DIR, of a BPF file system, for a successor
    ///
    /// A monitor that is started with the same DIR after a crash or SIGUSR2 goes on where this one ended: programs stay
    /// registered, and their critical sections are counted meanwhile. Under systemd the service manager keeps them.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "status")]
    pin: Option<PathBuf>,

    /// Serve the runs of root that ask for it, and end with the last
    #[arg(long, hide = true)]
    of_runs: bool,

    /// Print JSON, one object a line: when ready, when ended (with the counters), or the status
    #[arg(long)]
    json: bool,
}

/// [`DomainKind`], as an option says it.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Domains {
    Machine,
    User,
    Cgroup,
    Cpuset,
}

impl From<Domains> for DomainKind {
    fn from(domains: Domains) -> DomainKind {
        match domains {
            Domains::Machine => DomainKind::Machine,
            Domains::User => DomainKind::User,
            Domains::Cgroup => DomainKind::Cgroup,
            Domains::Cpuset => DomainKind::Cpuset,
        }
    }
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
            title: "SIGNALS",
            items: &[
                ("SIGTERM, SIGINT", "End, and remove what --pin keeps."),
                (
                    "SIGHUP",
                    "End, unless it was ignored when the monitor started (nohup).",
                ),
                (
                    "SIGUSR2",
                    "End, and leave to a successor what --pin or the service manager keeps.",
                ),
            ],
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
                    "Where the monitor tells the service manager that it is ready (sd_notify), and hands over what a \
                     successor needs (FDSTORE).",
                ),
                (
                    "LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES",
                    "The socket to serve, from the service manager, and what a predecessor has left with it.",
                ),
                (
                    "WATCHDOG_USEC",
                    "The service manager is told so often that the monitor is not stuck.",
                ),
                LOG_ITEM,
            ],
        },
        SOCKET_FILES,
        examples(&[
            ("flexguard monitor", "Serve all programs of the machine."),
            (
                "flexguard monitor --status",
                "Print what has been counted so far.",
            ),
        ]),
    ];

    fn run(self) -> Result<Status> {
        if self.of_runs {
            runs::serve()?;
            return Ok(Status::Exited(0));
        }
        let socket = socket(self.socket.as_deref())?;
        if self.status {
            status(&self, &socket)
        } else {
            serve(&self, socket)
        }
    }
}

/// The socket that `--socket` or the environment names.
pub fn socket(option: Option<&str>) -> Result<SocketName> {
    match option {
        Some(name) => SocketName::parse(name.as_ref()).context("--socket"),
        None => SocketName::from_env().context(SOCKET_ENV)?.ok_or_else(|| {
            Failure::new(format_args!(
                "{SOCKET_ENV} is empty, so there is no socket to serve or ask"
            ))
            .advice("unset it, or give --socket")
        }),
    }
}

/// What `--status --json` prints, and with `--json` the last line of a daemon.
#[derive(Serialize)]
struct Report<'a> {
    state: &'a str,
    socket: String,
    /// Of the monitor that has counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(flatten)]
    stats: Option<Stats>,
}

fn status(args: &Monitor, socket: &SocketName) -> Result<Status> {
    let stats = Stats::query(socket).context("cannot ask the monitor")?;
    output::print(&line(args, "running", socket, Some(stats))?)?;
    Ok(Status::Exited(0))
}

fn serve(args: &Monitor, socket: SocketName) -> Result<Status> {
    let ends_on_hangup = !signals::is_ignored(libc::SIGHUP);
    have_files();
    signals::hold()?;
    let (listener, kept) = passed()?;
    let keeper = match &args.pin {
        Some(directory) => Keeper::Directory(directory.clone()),
        None if std::env::var_os("NOTIFY_SOCKET").is_some() => Keeper::Manager(kept),
        None => Keeper::Nobody,
    };
    let served = Served::load(Options {
        socket,
        listener,
        listener_stays: true,
        keeper,
        domains: args.domains.into(),
        programs_of_user: args.programs_per_user,
        run_time_stats: args.run_time,
        ..Options::default()
    })?;
    let socket = served.monitor.socket().clone();
    output::announce(&line(args, "ready", &socket, None)?);
    notify(NotifyState::Ready);
    let mut looks = 0;
    while !served.has_stopped() {
        match signals::wait(Some(LOOK)).map(|signal| signal.number) {
            Some(libc::SIGUSR2) => {
                served.monitor.leave_to_a_successor();
                break;
            }
            Some(libc::SIGTERM | libc::SIGINT) => break,
            Some(libc::SIGHUP) if ends_on_hangup => break,
            _ => {}
        }
        // The server looks for clients once a second at least. If it does not, the watchdog is to end us.
        let now = served.monitor.looks();
        if now != std::mem::replace(&mut looks, now) && sd_notify::watchdog_enabled().is_some() {
            notify(NotifyState::Watchdog);
        }
    }
    notify(NotifyState::Stopping);
    let stats = served.monitor.stats().ok();
    served.end()?;
    output::announce(&line(args, "ended", &socket, stats)?);
    Ok(Status::Exited(0))
}

/// With fewer, a few users that leave their answers unread leave others little of the monitor.
const ENOUGH_FILES: u64 = 4096;

/// Each client takes an open file for a moment: as many as this process may have.
fn have_files() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    let most = setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_or(soft, |()| hard);
    if most < ENOUGH_FILES {
        output::note(&format!(
            "flexguard monitor: may have only {most} open files, which clients share: some may be refused; let it have \
             {ENOUGH_FILES} (ulimit -n, or LimitNOFILE= of its unit)\n"
        ));
    }
}

/// A descriptor by the name that the service manager gives it.
type Named = (String, OwnedFd);

/// What the service manager has passed: the socket, and what a predecessor has left with it.
fn passed() -> Result<(Option<OwnedFd>, Vec<Named>)> {
    let doing = "cannot take what the service manager passes";
    let fds = sd_notify::listen_fds_with_names().context(doing)?;
    let named = fds.map(|(fd, name)| {
        // SAFETY: the service manager has opened it for us, and nothing else in this process knows the number.
        (name, unsafe { OwnedFd::from_raw_fd(fd) })
    });
    let (kept, mut sockets): (Vec<Named>, Vec<Named>) =
        named.partition(|(name, _)| Keeper::is_ours(name));
    if sockets.len() > 1 {
        return Err(
            Failure::new(format_args!("{doing}: {} sockets", sockets.len()))
                .advice("let the unit's socket have one ListenStream="),
        );
    }
    Ok((sockets.pop().map(|(_, fd)| fd), kept))
}

fn line(args: &Monitor, state: &str, socket: &SocketName, stats: Option<Stats>) -> Result<String> {
    let report = Report {
        state,
        socket: socket.to_string(),
        version: stats
            .and_then(|stats| stats.monitor_version())
            .map(|version| version.to_string()),
        stats,
    };
    let value = serde_json::to_value(&report).context("cannot write JSON")?;
    if args.json {
        return Ok(format!("{value}\n"));
    }
    let fields = value.as_object().into_iter().flatten();
    let mut text = format!("flexguard monitor: {state} on {socket}\n");
    // Histograms and counts by reason are for programs (--json).
    let is_shown = |(name, value): &(&String, &serde_json::Value)| {
        !matches!(name.as_str(), "state" | "socket") && !value.is_array() && !value.is_object()
    };
    for (name, value) in fields.filter(is_shown) {
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
