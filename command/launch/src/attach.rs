// SPDX-License-Identifier: MIT
//! Which monitor the locks report to: the machine's daemon, one of our own, or none.

use std::ffi::{OsStr, OsString};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flexguard_monitor::{Error, Monitor, Options, SocketName, Stats, Stop};
use serde::Serialize;

use crate::failure::{Context, Failure, Result};

/// Which monitor a run asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MonitorMode {
    /// The daemon that answers; else a monitor that is loaded for this run, if that is permitted; else none.
    Auto,
    /// As `Auto`, but an error instead of none.
    Require,
    /// None: the locks spin for a while, then block.
    Off,
}

/// The environment variable that tells the locks where to register.
pub const SOCKET_ENV: &str = "FLEXGUARD_SOCKET";
/// 1: the monitor is being loaded, and the locks do not wait for it (lib/runtime/monitor.h).
pub const LOADING_ENV: &str = "FLEXGUARD_LOADING";
/// 1: no program starts without a monitor (lib/interpose/require.c), and no run (`MonitorMode::Require`).
pub const REQUIRE_ENV: &str = "FLEXGUARD_REQUIRE";

/// The monitor of a run. Dropping it unloads our own; the daemon stays.
pub enum Attachment {
    Own(Served),
    Shared(SocketName),
    /// Why there is no monitor, and what to do about it.
    Absent(Failure),
}

impl Attachment {
    /// The monitor that `mode` asks for, loaded if need be. Signals must be held: a monitor of our own starts threads.
    pub fn find(mode: MonitorMode) -> Result<Self> {
        if let Some(found) = Self::find_without_loading(mode)? {
            return Ok(found);
        }
        match Served::for_a_run(false) {
            Ok(own) => Ok(Self::Own(own)),
            Err(why) => Self::absent(why, mode),
        }
    }

    /// As `find`; None where a monitor of our own would have to be loaded.
    pub fn find_without_loading(mode: MonitorMode) -> Result<Option<Self>> {
        if mode == MonitorMode::Off {
            return Ok(Some(Self::none("--monitor off was given")));
        }
        let Some(socket) = SocketName::from_env().context(SOCKET_ENV)? else {
            let empty = Failure::new(format_args!("{SOCKET_ENV} is empty"));
            let empty = empty.advice(format_args!("unset {SOCKET_ENV}"));
            return Self::absent(empty, mode).map(Some);
        };
        Ok(Stats::query(&socket)
            .is_ok()
            .then_some(Self::Shared(socket)))
    }

    /// No monitor, and why.
    pub fn none(why: &str) -> Self {
        Self::Absent(Failure::new(why))
    }

    fn absent(why: Failure, mode: MonitorMode) -> Result<Self> {
        if mode != MonitorMode::Require {
            return Ok(Self::Absent(why));
        }
        let advice = why
            .find_advice()
            .map(|a| format!("{a}\n"))
            .unwrap_or_default();
        Err(
            Failure::because(why, "--monitor require").advice(format_args!(
                "{advice}or have an administrator start `flexguard monitor`, once for the machine\n\
             `flexguard doctor` checks everything"
            )),
        )
    }

    /// The value of FLEXGUARD_SOCKET for the program.
    fn socket(&self) -> OsString {
        match self {
            Self::Own(own) => spelled(own.monitor.socket()),
            Self::Shared(socket) => spelled(socket),
            Self::Absent(_) => OsString::new(),
        }
    }

    /// Says to the program where to register. If it shall have no monitor, it need not have one.
    pub fn tell(&self, command: &mut Command) {
        command.env(SOCKET_ENV, self.socket());
        if !self.is_active() {
            command.env_remove(REQUIRE_ENV);
        }
    }

    /// What has been counted so far; None without a monitor, or when it has gone.
    pub fn stats(&self) -> Option<Stats> {
        match self {
            Self::Own(own) => own.monitor.stats().ok(),
            Self::Shared(socket) => Stats::query(socket).ok(),
            Self::Absent(_) => None,
        }
    }

    pub fn is_active(&self) -> bool {
        !matches!(self, Self::Absent(_))
    }

    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Why there is no monitor, in a few words; `flexguard doctor` has the advice.
    pub fn why_absent(&self) -> String {
        match self {
            Self::Absent(why) => why_absent(why),
            _ => String::new(),
        }
    }

    /// `active`, `active (shared daemon)` or `absent (why; what to do)`.
    pub fn describe(&self) -> String {
        match self {
            Self::Own(_) => "active".into(),
            Self::Shared(_) => "active (shared daemon)".into(),
            Self::Absent(why) => match why.find_advice() {
                None => format!("absent ({why:#})"),
                Some(advice) => format!("absent ({why:#}; {advice})"),
            },
        }
    }
}

/// As `Attachment::why_absent`.
pub fn why_absent(why: &Failure) -> String {
    format!("{why:#}; `flexguard doctor` says what to do")
}

/// Whether a monitor can be loaded here, as far as that is seen without trying: what is missing is missed at once, and a run
/// need not begin before it knows.
pub fn may_load() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    const CAP_PERFMON: u32 = 38;
    const CAP_BPF: u32 = 39;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    let has = |capability: u32| effective.is_some_and(|set| set >> capability & 1 == 1);
    (has(CAP_SYS_ADMIN) || has(CAP_BPF) && has(CAP_PERFMON))
        && std::path::Path::new("/sys/kernel/btf/vmlinux").exists()
}

/// A monitor that is being loaded while the program runs already. Its socket is there: what the program sends waits.
pub struct Loading {
    socket: SocketName,
    begun: Instant,
    thread: JoinHandle<Result<(Served, Instant)>>,
}

impl Loading {
    /// `failed` is called if the monitor cannot be loaded. Signals must be held: it starts threads.
    pub fn begin(failed: impl FnOnce(&Failure) + Send + 'static) -> Result<Self> {
        let name = unguessable_name()?;
        let SocketName::Abstract(bytes) = &name else {
            unreachable!("the name is abstract")
        };
        let address = SocketAddr::from_abstract_name(bytes);
        let listener = address.and_then(|address| UnixListener::bind_addr(&address));
        let options = Options {
            listener: Some(listener.context("cannot make the monitor's socket")?.into()),
            ..Options::default()
        };
        let load = move || {
            let loaded = Served::load(options);
            loaded.as_ref().err().map(failed);
            loaded.map(|served| (served, Instant::now()))
        };
        let thread = std::thread::Builder::new().name("loader".into());
        Ok(Self {
            socket: name,
            begun: Instant::now(),
            thread: thread.spawn(load).context("cannot start a thread")?,
        })
    }

    pub fn tell(&self, command: &mut Command) {
        tell_of_loading(command, &spelled(&self.socket));
    }

    /// The program has ended. The monitor, and how long after its begin the program was watched.
    pub fn end(self) -> (Attachment, Option<Duration>) {
        if !self.thread.is_finished() {
            let early = "the program ended before the monitor was loaded";
            return (Attachment::none(early), None);
        }
        match self.thread.join() {
            Ok(Ok((served, loaded))) => (Attachment::Own(served), Some(loaded - self.begun)),
            Ok(Err(why)) => (Attachment::Absent(why), None),
            Err(_) => (Attachment::none("it could not be loaded"), None),
        }
    }
}

/// Says to the program where a monitor that is being loaded will answer.
pub fn tell_of_loading(command: &mut Command, socket: &OsStr) {
    command.env(SOCKET_ENV, socket).env(LOADING_ENV, "1");
}

/// A monitor in this process with the thread that serves it. Drop ends both.
pub struct Served {
    pub monitor: Arc<Monitor>,
    stop: Stop,
    server: Option<JoinHandle<Result<(), Error>>>,
}

impl Served {
    pub fn load(options: Options) -> Result<Self> {
        let doing = "cannot start the monitor";
        let stop = Stop::new().context(doing)?;
        let soon = Soon::begin();
        let monitor = Arc::new(Monitor::start(options).context(doing)?);
        drop(soon);
        let server = {
            let (monitor, stop) = (monitor.clone(), stop.clone());
            std::thread::Builder::new()
                .name("monitor".into())
                .spawn(move || monitor.serve(&stop))
        };
        Ok(Self {
            monitor,
            stop,
            server: Some(server.context("cannot start the monitor's thread")?),
        })
    }

    /// A monitor for one run. Other programs find its name only in /proc/net/unix. Signals must be held: it starts threads.
    pub fn for_a_run(run_time_stats: bool) -> Result<Self> {
        Self::load(Options {
            socket: unguessable_name()?,
            run_time_stats,
            ..Options::default()
        })
    }

    /// Serving has ended by itself.
    pub fn has_stopped(&self) -> bool {
        self.server.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends serving and says how it went.
    pub fn end(mut self) -> Result<()> {
        self.join()
            .unwrap_or(Ok(()))
            .context("the monitor stopped serving")
    }

    fn join(&mut self) -> Option<Result<(), Error>> {
        self.stop.stop();
        self.server.take()?.join().ok()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.join();
    }
}

/// The calling thread has the highest priority of the usual ones, where that is permitted: until the monitor is loaded, the
/// program runs unwatched, and its threads may keep all CPUs busy.
struct Soon {
    before: libc::c_int,
}

impl Soon {
    const NICE: libc::c_int = -20;

    fn begin() -> Self {
        let before = nice();
        set_nice(Self::NICE);
        Self { before }
    }
}

impl Drop for Soon {
    fn drop(&mut self) {
        set_nice(self.before);
    }
}

/// Of the calling thread: 0 is this thread, not the process.
fn nice() -> libc::c_int {
    // SAFETY: no pointers.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

fn set_nice(nice: libc::c_int) {
    // SAFETY: no pointers.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

/// An abstract socket vanishes with its last descriptor, however we end. Other users can bind in the same namespace, and the
/// locks of the program trust the process that answers there: the name must not be foreseeable.
fn unguessable_name() -> Result<SocketName> {
    let mut random = [0u8; 16];
    getrandom::fill(&mut random).context("cannot get random bytes for the socket's name")?;
    let random = u128::from_ne_bytes(random);
    let name = format!("flexguard-run.{}.{random:032x}", std::process::id());
    Ok(SocketName::Abstract(name.into_bytes()))
}

fn spelled(socket: &SocketName) -> OsString {
    match socket {
        SocketName::Path(path) => path.as_os_str().to_owned(),
        SocketName::Abstract(name) => OsString::from_vec([b"@", name.as_slice()].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_is_loaded_before_all_else_and_then_is_as_nice_as_before() {
        let before = nice();
        let soon = Soon::begin();
        let raised = nice();
        if nix::unistd::geteuid().is_root() {
            assert_eq!(raised, Soon::NICE);
        }
        drop(soon);
        assert_eq!(nice(), before);
    }
}
