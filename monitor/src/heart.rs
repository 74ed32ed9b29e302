// SPDX-License-Identifier: MIT
//! The heartbeat, in a thread of its own: whatever a client does to the server, the page tells the truth about the
//! monitor's counter. With it goes what keeps that counter from telling old news.

use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use flexguard_abi::{FG_HEARTBEAT_NS, fg_shared};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};

use crate::error::os;
use crate::kernel::Kernel;
use crate::records::{FG_AGED_NS, fg_listed};
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
    let mut switches = Switches::default();
    let mut aging = Aging::default();
    loop {
        kernel.beat(true)?;
        let page = kernel.shared_page();
        kernel.publish_cpus_off_line(page.cpus_seen);
        if aging.is_due(&page) {
            age(kernel);
            aging.once_more = bury(kernel);
        }
        let mut fds = stops.map(|stop| PollFd::new(stop.as_fd(), PollFlags::POLLIN));
        let has_slept = match poll(&mut fds, period) {
            Ok(0) => true,
            Err(Errno::EINTR) => false,
            Ok(_) => return Ok(()),
            Err(errno) => return Err(os("waiting for the next heartbeat")(errno)),
        };
        if has_slept && switches.stand_still(kernel.cpu_counts()?.switches) {
            kernel.beat(false)?; // nobody may trust a counter that nothing moves
            return Err(Error::Detached);
        }
    }
}

/// The context switches that the kernel half has seen. The heart's own sleep makes some; so if there are none, the
/// kernel half is not attached any more. The kernel may run no tracer at a single switch (monitor.bpf.c), so one sleep
/// is no proof.
#[derive(Debug, Default)]
struct Switches {
    seen: u64,
    sleeps_without: u32,
}

impl Switches {
    /// After a sleep: `seen` are all so far. True if neither this sleep nor the one before has made any.
    fn stand_still(&mut self, seen: u64) -> bool {
        if seen == self.seen {
            self.sleeps_without += 1;
        } else {
            self.sleeps_without = 0;
        }
        self.seen = seen;
        self.sleeps_without >= 2
    }
}

/// Whether there may be threads that are preempted for too long.
#[derive(Debug, Default)]
struct Aging {
    was_above_zero: bool,
    /// A recount has found dead threads, and the next is to say the same.
    once_more: bool,
}

impl Aging {
    /// At a beat. While the counter falls to 0 now and then there may be old threads, too; but they do little harm.
    ///
    /// Two CPUs that move the counter at once may leave it above 0 without a time since when. Where it is so at two
    /// beats in a row, only a look at the threads can tell.
    fn is_due(&mut self, page: &fg_shared) -> bool {
        let above_zero = page.num_preempted_cs != 0;
        let was_above_zero = std::mem::replace(&mut self.was_above_zero, above_zero);
        if std::mem::take(&mut self.once_more) {
            return true;
        }
        if page.blocking_since_ns == 0 {
            return above_zero && was_above_zero;
        }
        blocking_for_ns(page) >= u64::from(FG_AGED_NS)
    }
}

/// So many of the aged threads are named at a time: a user may have any number of them, and who reads the log must not
/// keep the heart from beating.
const MOST_NAMED: usize = 8;

fn tell(aged: &[fg_listed]) {
    let (named, others) = aged.split_at(aged.len().min(MOST_NAMED));
    for thread in named {
        tracing::warn!(
            pid = thread.tgid,
            tid = thread.tid,
            by_pid = thread.by_tgid,
            "a thread with a lock has not had a CPU for a second: it is no longer counted"
        );
    }
    if !others.is_empty() {
        tracing::warn!(others = others.len(), "and so it is with other threads");
    }
}

/// Forgets the threads that died while they were counted, where the kernel half did not see it. Returns whether that takes
/// another recount.
fn bury(kernel: &Kernel) -> bool {
    let (dead, again) = kernel.recount().unwrap_or_else(|errno| {
        tracing::warn!(%errno, "cannot count the preempted threads again");
        (0, false)
    });
    if dead > 0 {
        tracing::warn!(
            dead,
            "threads had died in the counter: they are no longer counted"
        );
    }
    again
}

/// Forgets the threads that are preempted for too long, and says which.
fn age(kernel: &Kernel) {
    // The kernel may be out of memory for the iterator: then the next beat tries again.
    let aged = kernel.age().inspect_err(
        |errno| tracing::warn!(%errno, "cannot look for threads that are preempted for too long"),
    );
    tell(&aged.unwrap_or_default());
}

/// Since the counter last rose from 0; 0 while it is 0.
pub(crate) fn blocking_for_ns(page: &fg_shared) -> u64 {
    let since = page.blocking_since_ns;
    if since == 0 || page.num_preempted_cs == 0 {
        return 0;
    }
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(since, |now| Duration::from(now).as_nanos() as u64);
    now.saturating_sub(since)
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use zerocopy::FromZeros;

    use super::*;

    fn load() -> Option<Kernel> {
        // Where there is no BPF, the monitor's other tests say so.
        let (keeper, domains) = (crate::Keeper::Nobody, crate::DomainKind::Machine);
        Kernel::load(crate::kernel::OBJECT, false, keeper, domains).ok()
    }

    #[test]
    fn the_heart_stops_where_the_server_panics() {
        let Some(kernel) = load() else { return };
        let stop = Stop::new().unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = beat_while(&kernel, &stop, |_| panic!("as a server would"));
        }));
        assert!(panicked.is_err()); // and does not wait for ever
    }

    fn wait_for(stop: &Stop) -> bool {
        let mut fds = [PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(10_000u16)).unwrap() == 1
    }

    #[test]
    fn a_kernel_half_that_is_detached_ends_the_monitor_and_the_page_says_so() {
        let Some(mut kernel) = load() else { return };
        kernel.detach_switch_hook();
        let stop = Stop::new().unwrap();
        let result = beat_while(&kernel, &stop, |ended| {
            assert!(wait_for(ended), "the heart goes on");
            Ok(())
        });
        assert!(matches!(result, Err(Error::Detached)), "{result:?}");
        assert_eq!(kernel.shared_page().heartbeat_ns, 0);
    }

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn of_a_crowd_of_aged_threads_a_few_are_named() {
        for (aged, named, others) in [(3, 3, None), (8, 8, None), (30_000, 8, Some(29_992))] {
            let log = Log::default();
            let writer = log.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_writer(move || writer.clone())
                .with_ansi(false)
                .finish();
            let aged = vec![fg_listed::new_zeroed(); aged];
            tracing::subscriber::with_default(subscriber, || tell(&aged));
            let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
            let says = |what: &str| log.lines().filter(|line| line.contains(what)).count();
            let told = (says("has not had a CPU"), log.lines().count());
            assert_eq!(told, (named, named + usize::from(others.is_some())));
            let number = others.map(|others| says(&format!("others={others}")));
            assert_eq!(number.unwrap_or(1), 1);
        }
    }

    #[test]
    fn one_sleep_without_a_switch_is_no_proof() {
        let mut switches = Switches::default();
        let seen = [5, 5, 6, 6, 6];
        let still = seen.map(|seen| switches.stand_still(seen));
        assert_eq!(still, [false, false, false, false, true]);
    }

    fn page(num_preempted_cs: u32, blocking_since_ns: u64) -> fg_shared {
        fg_shared {
            num_preempted_cs,
            blocking_since_ns,
            ..fg_shared::new_zeroed()
        }
    }

    #[test]
    fn a_counter_above_zero_since_nobody_knows_when_is_looked_at_from_the_second_beat() {
        let mut aging = Aging::default();
        let pages = [page(1, 0), page(1, 0), page(2, 0), page(0, 0), page(1, 0)];
        let due = pages.map(|page| aging.is_due(&page));
        assert_eq!(due, [false, true, true, false, false]);
    }

    #[test]
    fn a_counter_above_zero_for_a_second_is_looked_at_and_zero_is_not() {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
        let now = std::time::Duration::from(now).as_nanos() as u64;
        let long_ago = now - u64::from(FG_AGED_NS);
        for (page, due) in [
            (page(1, long_ago), true),
            (page(1, now), false),
            (page(0, long_ago), false), // the time that a race has left behind
        ] {
            let mut aging = Aging {
                was_above_zero: true,
                once_more: false,
            };
            assert_eq!(aging.is_due(&page), due);
        }
    }

    /// The machine's counter says nothing of the dead in a domain's.
    #[test]
    fn a_recount_that_has_found_the_dead_is_followed_by_another() {
        let mut aging = Aging {
            was_above_zero: false,
            once_more: true,
        };
        let due = [page(0, 0), page(0, 0)].map(|page| aging.is_due(&page));
        assert_eq!(due, [true, false]);
    }
}
