// SPDX-License-Identifier: MIT
//! The heartbeat, in a thread of its own: whatever a client does to the server, the page tells the truth about the
//! monitor's counter. With it goes what keeps that counter from telling old news.

use std::os::fd::AsFd;
use std::thread;

use flexguard_abi::FG_HEARTBEAT_NS;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::os;
use crate::kernel::Kernel;
use crate::monitor::blocking_for_ns;
use crate::records::FG_AGED_NS;
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
        // The heart stops also where `work` panics: it must not say that a monitor lives which serves nobody.
        let stopper = StopAtEnd(&ended);
        let result = work(&ended);
        drop(stopper);
        let beaten = heart.join().expect("the heart does not panic");
        result.and(beaten)
    })
}

struct StopAtEnd<'a>(&'a Stop);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn beat(kernel: &Kernel, stops: [&Stop; 2]) -> Result<(), Error> {
    let period = PollTimeout::from((FG_HEARTBEAT_NS / 1_000_000) as u16);
    loop {
        kernel.beat(true)?;
        age(kernel)?;
        let mut fds = stops.map(|stop| PollFd::new(stop.as_fd(), PollFlags::POLLIN));
        match poll(&mut fds, period) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(os("waiting for the next heartbeat")(errno)),
        }
    }
}

/// Forgets the threads that are preempted for too long, and says which.
fn age(kernel: &Kernel) -> Result<(), Error> {
    // While the counter falls to 0 now and then there may be old threads, too; but they do little harm.
    if blocking_for_ns(&kernel.shared_page()?) < u64::from(FG_AGED_NS) {
        return Ok(());
    }
    // The kernel may be out of memory for the iterator: then the next beat tries again.
    let aged = kernel.age().inspect_err(
        |errno| tracing::warn!(%errno, "cannot look for threads that are preempted for too long"),
    );
    for thread in aged.unwrap_or_default() {
        tracing::warn!(
            pid = thread.tgid,
            tid = thread.tid,
            by_pid = thread.by_tgid,
            "a thread with a lock has not had a CPU for a second: it is no longer counted"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heart_stops_where_the_server_panics() {
        let Ok(kernel) = Kernel::load(
            crate::kernel::OBJECT,
            false,
            crate::Keeper::Nobody,
            crate::DomainKind::Machine,
        ) else {
            return; // no BPF here; the monitor's other tests say so
        };
        let stop = Stop::new().unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = beat_while(&kernel, &stop, |_| panic!("as a server would"));
        }));
        assert!(panicked.is_err()); // and does not wait for ever
    }
}
