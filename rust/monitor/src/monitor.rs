// SPDX-License-Identifier: MIT
//! The monitor as one object.

use crate::{Error, SocketName, Stats, Stop};

/// How to run a monitor.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where to listen.
    pub socket: SocketName,
    /// Ask the kernel to keep the programs' run time (needs CAP_SYS_ADMIN, costs two clock reads a switch).
    pub run_time_stats: bool,
}

/// A running monitor. Send and Sync: serve in one thread, look at the statistics in another.
/// Drop detaches the programs, says goodbye on the shared page and removes the socket.
pub struct Monitor {}

impl Monitor {
    /// Loads the programs, attaches them and starts to listen; clients wait in the backlog until [`Monitor::serve`].
    pub fn start(options: Options) -> Result<Monitor, Error> {
        let _ = options;
        todo!()
    }

    /// Serves registrations and renews the heartbeat until `stop` is thrown.
    pub fn serve(&self, stop: &Stop) -> Result<(), Error> {
        let _ = stop;
        todo!()
    }

    /// What has been counted so far.
    pub fn stats(&self) -> Result<Stats, Error> {
        todo!()
    }

    /// Where it listens.
    pub fn socket(&self) -> &SocketName {
        todo!()
    }
}
