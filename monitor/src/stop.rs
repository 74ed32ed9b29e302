// SPDX-License-Identifier: MIT
//! How the caller ends [`Monitor::serve`](crate::Monitor::serve): an eventfd, so that a signal handler can do it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::{Error, os};

/// A switch that is thrown once. Clones throw the same switch.
///
/// From a signal handler, write the eight bytes of `1u64` to [`Stop::as_raw_fd`]: write(2) is async-signal-safe.
#[derive(Debug, Clone)]
pub struct Stop(Arc<EventFd>);

impl Stop {
    pub fn new() -> Result<Self, Error> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let fd = EventFd::from_value_and_flags(0, flags).map_err(os("creating an eventfd"))?;
        Ok(Stop(Arc::new(fd)))
    }

    /// Makes every `serve` that was given this switch return soon.
    pub fn stop(&self) {
        // A full counter (EAGAIN) means that it was thrown already.
        let _ = self.0.write(1);
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Stop {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}
