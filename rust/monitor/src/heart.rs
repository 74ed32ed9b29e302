// SPDX-License-Identifier: MIT
//! The heartbeat, in a thread of its own: whatever a client does to the server, the page tells the truth about the
//! monitor's counter.

use std::os::fd::AsFd;
use std::thread;

use flexguard_abi::FG_HEARTBEAT_NS;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::os;
use crate::kernel::Kernel;
use crate::{Error, Stop};

/// Renews the heartbeat while `work` runs. If the heartbeat fails, the `Stop` that `work` gets is set, and `work` returns.
pub fn beat_while(
    kernel: &Kernel,
    stop: &Stop,
    work: impl FnOnce(&Stop) -> Result<(), Error>,
) -> Result<(), Error> {
    let ended = Stop::new()?;
    thread::scope(|scope| {
        let heart = scope.spawn(|| {
            let result = beat(kernel, [stop, &ended]);
            ended.stop();
            result
        });
        let result = work(&ended);
        ended.stop();
        let beaten = heart.join().expect("the heart does not panic");
        result.and(beaten)
    })
}

fn beat(kernel: &Kernel, stops: [&Stop; 2]) -> Result<(), Error> {
    let period = PollTimeout::from((FG_HEARTBEAT_NS / 1_000_000) as u16);
    loop {
        kernel.beat(true)?;
        let mut fds = stops.map(|stop| PollFd::new(stop.as_fd(), PollFlags::POLLIN));
        match poll(&mut fds, period) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(os("waiting for the next heartbeat")(errno)),
        }
    }
}
