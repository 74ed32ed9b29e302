// SPDX-License-Identifier: MIT
//! The monitor as one object.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use std::time::{Duration, Instant};

use flexguard_abi::fg_shared;
use nix::time::{ClockId, clock_gettime};

use crate::clients::CLIENT_TIME;
use crate::error::os;
use crate::heart::blocking_for_ns;
use crate::kernel::{Kernel, OBJECT};
use crate::records::FG_RECORD_BYTES;
use crate::server::Server;
use crate::socket::Listener;
use crate::tally::Tally;
use crate::{DomainKind, Error, Keeper, SocketName, Stats, Stop, Version, lists};

/// Where the options do not say otherwise.
const PROGRAMS_OF_USER: u32 = 8192;

/// How to run a monitor.
#[derive(Debug, Default)]
pub struct Options {
    /// Where to listen.
    pub socket: SocketName,
    /// The socket to serve instead, if somebody has made it already.
    pub listener: Option<OwnedFd>,
    /// Who has made that one, the service manager, goes on listening when this monitor has ended.
    pub listener_stays: bool,
    /// Who keeps the maps and links for the monitor's successor.
    pub keeper: Keeper,
    /// Whose preempted critical sections a process polls: those of its user, where the options do not say otherwise.
    pub domains: DomainKind,
    /// So many registered processes a user may have (of root, and where control groups make the domains, a control group);
    /// None: 8,192.
    pub programs_of_user: Option<u32>,
    /// So many bytes the records of all processes may take; None: 32 MiB. For the tests.
    #[doc(hidden)]
    pub record_bytes: Option<u32>,
    /// Ask the kernel to keep the programs' run time (needs CAP_SYS_ADMIN, costs two clock reads a switch).
    pub run_time_stats: bool,
    /// How long a client may take over its message; None: a second. For the tests: a client of theirs may have no CPU
    /// for so long.
    #[doc(hidden)]
    pub client_time: Option<Duration>,
    /// How long a client may take over reading a list; None: 30 seconds. For the tests: none waits for so long.
    #[doc(hidden)]
    pub list_time: Option<Duration>,
}

/// What one process has registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Of its thread blocks from the thread pointer, one for each image.
    pub block_offsets: Vec<i64>,
    /// Windows of all its images.
    pub windows: usize,
}

/// A running monitor. Send and Sync: serve in one thread, look at the statistics in another.
/// Drop marks the shared page as ended, detaches the programs and removes the socket. What a keeper keeps stays.
#[derive(Debug)]
pub struct Monitor {
    // Before `kernel`: no client may connect to a monitor that has gone.
    listener: Listener,
    kernel: Kernel,
    tally: Tally,
    programs_of_user: u32,
    record_bytes: u32,
    client_time: Duration,
    list_time: Duration,
    socket: SocketName,
    leaves: AtomicBool,
    started: Instant,
}

impl Monitor {
    /// Loads the programs, attaches them and starts to listen; clients wait in the backlog until [`Monitor::serve`].
    pub fn start(options: Options) -> Result<Monitor, Error> {
        Monitor::start_with(OBJECT, options)
    }

    /// The same with another kernel half. For the tests, which break it on purpose.
    #[doc(hidden)]
    pub fn start_with(object: &[u8], options: Options) -> Result<Monitor, Error> {
        // The address first: to be told that a monitor runs already needs no privilege.
        let (listener, socket) = match options.listener {
            Some(passed) => Listener::passed(passed, options.listener_stays)?,
            None => (options.socket.listen()?, options.socket),
        };
        let kernel = Kernel::load(
            object,
            options.run_time_stats,
            options.keeper,
            options.domains,
        )?;
        kernel.beat(true)?;
        tracing::info!(%socket, "listening");
        Ok(Monitor {
            listener,
            kernel,
            tally: Tally::default(),
            programs_of_user: options.programs_of_user.unwrap_or(PROGRAMS_OF_USER),
            record_bytes: options.record_bytes.unwrap_or(FG_RECORD_BYTES),
            client_time: options.client_time.unwrap_or(CLIENT_TIME),
            list_time: options.list_time.unwrap_or(lists::LIFETIME),
            socket,
            leaves: AtomicBool::new(false),
            started: Instant::now(),
        })
    }

    /// Serves registrations and renews the heartbeat until `stop` is set.
    pub fn serve(&self, stop: &Stop) -> Result<(), Error> {
        let stats = || self.stats();
        Server {
            kernel: &self.kernel,
            listener: &self.listener,
            tally: &self.tally,
            most_programs: self.programs_of_user,
            record_bytes: self.record_bytes.into(),
            client_time: self.client_time,
            list_time: self.list_time,
            stats: &stats,
        }
        .run(stop)
    }

    /// What has been counted so far.
    pub fn stats(&self) -> Result<Stats, Error> {
        let counts = self.kernel.cpu_counts()?;
        let [processes_map, tables_map] = self.kernel.traced_maps()?;
        let page = self.kernel.shared_page(); // after it: who is counted as aged is in num_preempted_cs no more
        let run_time = self.kernel.run_time()?;
        let (refused, full) = self.tally.refusals.read();
        let barren = self.kernel.barren_forks()?;
        Ok(Stats {
            num_preempted_cs: page.num_preempted_cs.into(),
            preempted_holders: page.preemptions.iter().map(|on| on.holders).sum(),
            preempted_next_waiters: page.preemptions.iter().map(|on| on.next_waiters).sum(),
            mode_transitions: page.mode_transitions,
            missed: page.missed,
            lost_records: counts.lost_records,
            unreadable: counts.unreadable,
            switches: counts.switches,
            registered_preemptions: counts.registered_preemptions,
            registered_processes: self.tally.registered.load(Ordering::Relaxed),
            inherited_processes: counts.inherited_processes,
            rejected_registrations: refused.total() + full + barren,
            run_time_ns: run_time.ns,
            run_count: run_time.count,
            uptime_ns: self.started.elapsed().as_nanos() as u64,
            blocking_ns: blocking_ns(&page),
            preempted_ns: counts.preempted_ns,
            durations: counts.durations,
            refused,
            recursion_misses: run_time.recursion_misses,
            processes_map,
            aged: counts.aged,
            without_domain: self.tally.without_domain.load(Ordering::Relaxed),
            domain_kind: page.domain_kind.into(),
            too_many_programs: full + barren,
            unmonitored: self.tally.unmonitored.load(Ordering::Relaxed) + barren,
            version: Version::OWN.number(),
            tables_map,
            cpu_ns: clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
                .map_or(0, |spent| Duration::from(spent).as_nanos() as u64),
        })
    }

    /// What the process behind `pidfd` has registered, itself or by inheritance; None: nothing.
    pub fn registration(&self, pidfd: BorrowedFd<'_>) -> Result<Option<Registered>, Error> {
        let record = self
            .kernel
            .record(pidfd)
            .map_err(os("looking a process up"))?;
        Ok(record
            .filter(|record| record.n_images > 0)
            .map(|record| Registered {
                block_offsets: record
                    .images()
                    .iter()
                    .map(|image| image.block_offset.into())
                    .collect(),
                windows: self.kernel.windows_of(&record),
            }))
    }

    /// This monitor ends soon, and another one takes its place at once: what a keeper keeps stays.
    pub fn leave_to_a_successor(&self) {
        self.leaves.store(true, Ordering::Relaxed);
    }

    /// How often the server has looked for clients: while it grows, the server is not stuck.
    pub fn looks(&self) -> u64 {
        self.tally.looks.load(Ordering::Relaxed)
    }

    /// Where it listens.
    pub fn socket(&self) -> &SocketName {
        &self.socket
    }
}

/// The time so far, with that since the counter last rose from 0.
fn blocking_ns(page: &fg_shared) -> u64 {
    page.blocking_ns + blocking_for_ns(page)
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if self.leaves.load(Ordering::Relaxed) {
            return; // the page goes on without a goodbye
        }
        if let Err(error) = self.kernel.forget_kept() {
            tracing::warn!(error = %error.told(), "the monitor ends, but not all it has pinned could be removed");
        }
        if let Err(error) = self.kernel.beat(false) {
            tracing::warn!(error = %error.told(), "cannot tell clients that the monitor ends; they notice when the heartbeat stops");
        }
    }
}
