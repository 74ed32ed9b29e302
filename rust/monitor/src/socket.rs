// SPDX-License-Identifier: MIT
//! Where a monitor listens.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

use crate::Error;

/// The address of a monitor: a file system path, or `@name` in the abstract namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketName {
    Path(PathBuf),
    Abstract(Vec<u8>),
}

impl SocketName {
    /// Reads a name as FLEXGUARD_SOCKET spells it: a path, or `@name`. An empty one is an error here.
    pub fn parse(name: &OsStr) -> Result<SocketName, Error> {
        let _ = name;
        todo!()
    }

    /// FLEXGUARD_SOCKET if it is set, else the default path. None: it is set and empty ("never register").
    pub fn from_env() -> Result<Option<SocketName>, Error> {
        todo!()
    }
}

impl Default for SocketName {
    fn default() -> Self {
        todo!()
    }
}

/// As FLEXGUARD_SOCKET spells it.
impl fmt::Display for SocketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = f;
        todo!()
    }
}
