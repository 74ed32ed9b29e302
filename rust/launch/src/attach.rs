// SPDX-License-Identifier: MIT
//! Which monitor the locks report to: the machine's daemon, one of our own, or none.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::thread::JoinHandle;

use flexguard_monitor::{Error, Monitor, Options, SocketName, Stats, Stop};
use serde::Serialize;

use crate::failure::{Failure, Result};

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

/// The monitor of a run. Dropping it unloads our own; the daemon stays.
pub enum Attachment {
    Own(Served),
    Shared(SocketName),
    Absent(Absence),
}

/// Why there is no monitor, and what to do about it.
#[derive(Debug, Clone)]
pub struct Absence {
    pub why: String,
    pub advice: Option<String>,
}

impl Attachment {
    /// The monitor that `mode` asks for, loaded if need be. Signals must be held: a monitor of our own starts threads.
    pub fn find(mode: MonitorMode) -> Result<Self> {
        if let Some(found) = Self::find_without_loading(mode)? {
            return Ok(found);
        }
        match Served::for_a_run(false) {
            Ok(own) => Ok(Self::Own(own)),
            Err(e) => Absence {
                why: e.to_string(),
                advice: e.hint(),
            }
            .unless_required(mode),
        }
    }

    /// As `find`; None where a monitor of our own would have to be loaded.
    pub fn find_without_loading(mode: MonitorMode) -> Result<Option<Self>> {
        if mode == MonitorMode::Off {
            return Ok(Some(Self::Absent(Absence {
                why: "turned off by --monitor off".into(),
                advice: None,
            })));
        }
        let socket = SocketName::from_env().map_err(|e| failure(SOCKET_ENV, &e))?;
        let Some(socket) = socket else {
            let absence = Absence {
                why: format!("{SOCKET_ENV} is empty"),
                advice: Some(format!("unset {SOCKET_ENV}")),
            };
            return absence.unless_required(mode).map(Some);
        };
        Ok(Stats::query(&socket)
            .is_ok()
            .then_some(Self::Shared(socket)))
    }

    /// No monitor, and why.
    pub fn none(why: &str) -> Self {
        Self::Absent(Absence {
            why: why.into(),
            advice: None,
        })
    }

    /// The value of FLEXGUARD_SOCKET for the program.
    pub fn socket(&self) -> OsString {
        match self {
            Self::Own(own) => spelled(own.monitor.socket()),
            Self::Shared(socket) => spelled(socket),
            Self::Absent(_) => OsString::new(),
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

    /// `active`, `active (shared daemon)` or `absent (why; what to do)`.
    pub fn describe(&self) -> String {
        match self {
            Self::Own(_) => "active".into(),
            Self::Shared(_) => "active (shared daemon)".into(),
            Self::Absent(Absence { why, advice: None }) => format!("absent ({why})"),
            Self::Absent(Absence {
                why,
                advice: Some(advice),
            }) => format!("absent ({why}; {advice})"),
        }
    }
}

impl Absence {
    fn unless_required(self, mode: MonitorMode) -> Result<Attachment> {
        if mode != MonitorMode::Require {
            return Ok(Attachment::Absent(self));
        }
        let advice = self.advice.map(|a| format!("{a}\n")).unwrap_or_default();
        Err(Failure::new(format_args!("--monitor require: there is no monitor: {}", self.why)).advice(format_args!(
            "{advice}or start `flexguard monitor` with the privilege, once for the machine\n`flexguard doctor` checks everything"
        )))
    }
}

/// The monitor's error as a failure of the command.
pub fn failure(doing: &str, error: &Error) -> Failure {
    let failure = Failure::new(format_args!("{doing}: {error}"));
    match error.hint() {
        Some(hint) => failure.advice(hint),
        None => failure,
    }
}

/// A monitor in this process with the thread that serves it. Drop ends both.
pub struct Served {
    pub monitor: Arc<Monitor>,
    stop: Stop,
    server: Option<JoinHandle<Result<(), Error>>>,
}

impl Served {
    pub fn load(options: Options) -> Result<Self, Error> {
        let stop = Stop::new()?;
        let monitor = Arc::new(Monitor::start(options)?);
        let server = {
            let (monitor, stop) = (monitor.clone(), stop.clone());
            std::thread::Builder::new()
                .name("monitor".into())
                .spawn(move || monitor.serve(&stop))
        };
        let server = server.map_err(|source| Error::Os {
            step: "starting the monitor's thread",
            source,
        })?;
        Ok(Self {
            monitor,
            stop,
            server: Some(server),
        })
    }

    /// A monitor for one run, which nobody else finds. Signals must be held: it starts threads.
    pub fn for_a_run(run_time_stats: bool) -> Result<Self, Error> {
        let socket = unguessable_name().map_err(|source| Error::Os {
            step: "getting random bytes for the socket's name",
            source,
        })?;
        Self::load(Options {
            socket,
            run_time_stats,
        })
    }

    /// Serving has ended although nobody asked for it.
    pub fn has_stopped(&self) -> bool {
        self.server.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends serving and says how it went.
    pub fn end(mut self) -> Result<(), Error> {
        self.join().unwrap_or(Ok(()))
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

/// An abstract socket vanishes with its last descriptor, however we end. Other users can bind in the same namespace, so the
/// name must not be foreseeable: the locks of the program trust whoever answers there.
fn unguessable_name() -> std::io::Result<SocketName> {
    let mut random = [0u8; 16];
    // SAFETY: the buffer is valid for its length.
    let got = unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
    if got != random.len() as isize {
        return Err(std::io::Error::last_os_error());
    }
    let random = u128::from_ne_bytes(random);
    Ok(SocketName::Abstract(
        format!("flexguard-run.{}.{random:032x}", std::process::id()).into_bytes(),
    ))
}

fn spelled(socket: &SocketName) -> OsString {
    match socket {
        SocketName::Path(path) => path.as_os_str().to_owned(),
        SocketName::Abstract(name) => OsString::from_vec([b"@", name.as_slice()].concat()),
    }
}
