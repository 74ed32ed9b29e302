// SPDX-License-Identifier: MIT
//! What the monitor has counted.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem::size_of;
use std::os::fd::OwnedFd;

use flexguard_abi::{FG_ABI_MAGIC, FG_ABI_VERSION, fg_reply};
use serde::Serialize;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::records::{
    FG_AGED, FG_DURATIONS, FG_KIND_HOLDER, FG_KIND_NONE, FG_SHORTEST_NS, fg_listed,
};
use crate::{Domain, DomainKind, Error, Refused, SocketName, Version, lists, message, stream};

/// The statistics of the oldest monitor of this ABI version: up to `uptime_ns`.
const OLDEST_BYTES: usize = 15 * size_of::<u64>();

/// A snapshot. Everything but `num_preempted_cs` only grows, from the moment the monitor was loaded.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Serialize,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
)]
#[repr(C)]
pub struct Stats {
    /// Critical threads that are runnable but off CPU now, system-wide.
    pub num_preempted_cs: u64,
    /// Preemptions of a thread that held a lock.
    pub preempted_holders: u64,
    /// Preemptions of the head of a queue.
    pub preempted_next_waiters: u64,
    /// `num_preempted_cs` went from 0 to 1: the locks of domain 0 turned to blocking.
    pub mode_transitions: u64,
    /// Critical preemptions that could not be counted because the thread had no record.
    pub missed: u64,
    /// Records for which the kernel had no memory.
    pub lost_records: u64,
    /// Switches at which a thread block, or what it points to, was not in memory.
    pub unreadable: u64,
    /// Context switches seen.
    pub switches: u64,
    /// Of these, those that took the CPU from a runnable thread of a registered process.
    pub registered_preemptions: u64,
    /// Processes that registered over the socket.
    pub registered_processes: u64,
    /// Processes that inherited a registration by fork.
    pub inherited_processes: u64,
    /// Refused: clients, and forks that inherit no registration; the sum of `refused` and `too_many_programs`.
    pub rejected_registrations: u64,
    /// Nanoseconds spent in the sched_switch program; 0 if the kernel does not keep BPF run times.
    pub run_time_ns: u64,
    /// Runs of it while the time was kept.
    pub run_count: u64,
    /// Since this monitor was started; its counters may be older (see Keeper).
    pub uptime_ns: u64,
    /// Time for which `num_preempted_cs` was not 0: the locks of domain 0 blocked instead of spinning.
    pub blocking_ns: u64,
    /// Time off CPU of the critical sections that were preempted and run again.
    pub preempted_ns: u64,
    /// How many were off CPU for how long: entry i for [`Stats::DURATIONS_NS`]`[i]` at most, the last for longer.
    pub durations: [u64; FG_DURATIONS as usize],
    /// The refused clients, by reason.
    pub refused: Refused,
    /// Switches at which the kernel did not run the sched_switch program, since it was running already.
    pub recursion_misses: u64,
    /// The kernel's number of the map with the processes' records: for the tracer.
    #[serde(skip)]
    pub processes_map: u64,
    /// Threads that were off CPU for a second and more, and that `num_preempted_cs` has forgotten for that.
    pub aged: u64,
    /// Processes that found no domain free, and so share one with others of their class of users.
    pub without_domain: u64,
    /// [`DomainKind`], as a number.
    #[serde(serialize_with = "DomainKind::write")]
    pub domain_kind: u64,
    /// Programs that are not watched because their user has as many that are as one may have: clients refused, and forks.
    pub too_many_programs: u64,
    /// Clients that were refused what makes a program watched, and those forks.
    pub unmonitored: u64,
    /// [`Version`] of the monitor, as a number; 0: it does not tell.
    #[serde(skip)]
    pub version: u64,
    /// The kernel's number of the map with the windows of their images: for the tracer, too.
    #[serde(skip)]
    pub tables_map: u64,
    /// CPU time of the monitor's process; its programs in the kernel use others' time. 0: it does not tell.
    pub cpu_ns: u64,
}

impl Stats {
    /// Preempted critical sections, of either kind.
    pub fn preempted_critical_sections(&self) -> u64 {
        self.preempted_holders + self.preempted_next_waiters
    }

    /// None: a monitor that is so old that it does not tell.
    pub fn monitor_version(&self) -> Option<Version> {
        Version::of_number(self.version)
    }

    /// What was refused: each reason, with its number.
    pub fn refusals(&self) -> Vec<(&'static str, u64)> {
        let mut reasons = self.refused.reasons().to_vec();
        reasons.push(("too_many_programs", self.too_many_programs));
        reasons
    }

    /// `2 too slow, 1 gone`; None: none was refused.
    pub fn refusals_told(&self) -> Option<String> {
        let refusals = self.refusals().into_iter();
        let told: Vec<_> = refusals
            .filter(|(_, number)| *number > 0)
            .map(|(reason, number)| format!("{number} {}", reason.replace('_', " ")))
            .collect();
        (!told.is_empty()).then(|| told.join(", "))
    }

    /// The bounds of `durations`, in nanoseconds; its last entry has none.
    pub const DURATIONS_NS: [u64; FG_DURATIONS as usize - 1] = {
        let mut bounds = [FG_SHORTEST_NS as u64; FG_DURATIONS as usize - 1];
        let mut i = 1;
        while i < bounds.len() {
            bounds[i] = bounds[i - 1] * 2;
            i += 1;
        }
        bounds
    };

    /// What was counted since `before`; None if a counter went back: that is another monitor than before.
    pub fn since(&self, before: &Stats) -> Option<Stats> {
        let numbers = |stats: &Stats| -> [u64; size_of::<Stats>() / size_of::<u64>()] {
            zerocopy::transmute!(*stats)
        };
        let mut counted = numbers(self);
        // The first is no counter: it goes up and down.
        for (now, before) in counted.iter_mut().zip(numbers(before)).skip(1) {
            *now = now.checked_sub(before)?;
        }
        let counted: Stats = zerocopy::transmute!(counted);
        Some(Stats {
            domain_kind: self.domain_kind,
            version: self.version,
            tables_map: self.tables_map,
            ..counted
        })
    }

    /// Mean cost of the monitor per context switch; None if the kernel does not keep BPF run times.
    pub fn ns_per_switch(&self) -> Option<f64> {
        (self.run_count > 0).then(|| self.run_time_ns as f64 / self.run_count as f64)
    }

    /// Of what `since` gives, for so many seconds: the monitor's process, in CPUs; None: it does not tell.
    pub fn process_cpus(&self, seconds: f64) -> Option<f64> {
        (self.cpu_ns > 0).then(|| self.cpu_ns as f64 / 1e9 / seconds)
    }

    /// The same of the sched_switch program; None if the kernel does not keep BPF run times.
    pub fn program_cpus(&self, seconds: f64) -> Option<f64> {
        (self.run_count > 0).then(|| self.run_time_ns as f64 / 1e9 / seconds)
    }

    /// Asks the monitor that listens on `socket`. No step waits longer than ten seconds.
    pub fn query(socket: &SocketName) -> Result<Stats, Error> {
        ask(socket, false).map(|(stats, _)| stats)
    }

    pub(crate) fn to_wire(self) -> [u8; size_of::<Stats>()] {
        self.as_bytes()
            .try_into()
            .expect("a Stats is as long as itself")
    }

    /// The ABI version of a monitor that does not speak ours.
    fn other_abi(answer: &[u8]) -> Option<u32> {
        let (reply, _) = fg_reply::read_from_prefix(answer).ok()?;
        (reply.magic == FG_ABI_MAGIC && reply.version != FG_ABI_VERSION).then_some(reply.version)
    }

    fn from_reply(answer: &[u8]) -> Option<Stats> {
        let (reply, rest) = fg_reply::read_from_prefix(answer).ok()?;
        if reply.magic != FG_ABI_MAGIC || reply.version != FG_ABI_VERSION || reply.status != 0 {
            return None;
        }
        // Fields are only ever added at the end: those of a monitor of another build that we do not know are left out.
        // Those that it does not know are 0.
        let mut stats = Stats::default();
        let known = rest.len().min(size_of::<Stats>());
        if known < OLDEST_BYTES || known % size_of::<u64>() != 0 {
            return None;
        }
        stats.as_mut_bytes()[..known].copy_from_slice(&rest[..known]);
        Some(stats)
    }
}

/// Who is registered, and who is counted, by the numbers of the monitor's PID namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub processes: Vec<Listed>,
    pub counted: Vec<Counted>,
}

/// A registered process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    pub pid: u32,
    /// Since it registered: its threads that were preempted holding a lock, and as heads of queues.
    pub preempted_holders: u64,
    pub preempted_next_waiters: u64,
    /// How long they were off CPU then, added up.
    pub preempted_ns: u64,
    pub domain: Domain,
    /// Of its domain, now.
    pub counter: u32,
}

/// A critical thread that is runnable but off CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counted {
    pub pid: u32,
    pub tid: u32,
    /// It holds a lock; otherwise it is the head of a queue.
    pub holder: bool,
    /// When it lost its CPU, CLOCK_MONOTONIC.
    pub since_ns: u64,
    /// Who took it.
    pub by_pid: u32,
    pub by_tid: u32,
    /// It is off CPU for so long that `num_preempted_cs` has forgotten it.
    pub aged: bool,
}

impl Listing {
    /// Asks the monitor that listens on `socket` for its statistics, too.
    pub fn query(socket: &SocketName) -> Result<(Stats, Listing), Error> {
        let (stats, list) = ask(socket, true)?;
        let protocol = || Error::Protocol {
            socket: socket.clone(),
        };
        let mut bytes = Vec::new();
        let mut list = File::from(list.ok_or_else(protocol)?);
        list.seek(SeekFrom::Start(0)) // where the monitor has written it, it was at the end
            .and_then(|_| list.read_to_end(&mut bytes))
            .map_err(|_| protocol())?;
        let read = list.metadata().map_err(|_| protocol())?;
        if lists::was_withdrawn(&read) {
            return Err(Error::Socket {
                step: "read too late the list of",
                socket: socket.clone(),
                source: io::ErrorKind::TimedOut.into(),
            });
        }
        Ok((stats, Listing::of(&bytes)))
    }

    fn of(bytes: &[u8]) -> Listing {
        let mut listing = Listing::default();
        let entries = bytes.chunks_exact(size_of::<fg_listed>());
        for entry in entries.filter_map(|bytes| fg_listed::read_from_bytes(bytes).ok()) {
            if entry.registered != 0 {
                listing.processes.push(Listed {
                    pid: entry.tgid,
                    preempted_holders: entry.preempted_holders,
                    preempted_next_waiters: entry.preempted_next_waiters,
                    preempted_ns: entry.preempted_ns,
                    domain: Domain::of_key(entry.domain_key),
                    counter: entry.domain_counter,
                });
            }
            if entry.counted_as != FG_KIND_NONE {
                listing.counted.push(Counted {
                    pid: entry.tgid,
                    tid: entry.tid,
                    holder: entry.counted_as & !FG_AGED == FG_KIND_HOLDER,
                    since_ns: entry.since_ns,
                    by_pid: entry.by_tgid,
                    by_tid: entry.by_tid,
                    aged: entry.counted_as & FG_AGED != 0,
                });
            }
        }
        listing
    }
}

/// The statistics, and the file that comes with them.
fn ask(socket: &SocketName, list: bool) -> Result<(Stats, Option<OwnedFd>), Error> {
    let mut stream = socket.connect()?;
    let mut answer = [0; size_of::<fg_reply>() + size_of::<Stats>()];
    let talk = stream
        .write_all(&message::status_request(list))
        .and_then(|()| stream::receive_with_descriptor(&stream, &mut answer))
        .and_then(|said| match said.0 {
            0 => Err(io::ErrorKind::UnexpectedEof.into()), // it is ending
            _ => Ok(said),
        });
    let (length, file) = talk.map_err(|source| Error::Socket {
        step: "no answer from",
        socket: socket.clone(),
        source,
    })?;
    let answer = &answer[..length];
    if let Some(abi) = Stats::other_abi(answer) {
        return Err(Error::OtherVersion {
            socket: socket.clone(),
            abi,
        });
    }
    let stats = Stats::from_reply(answer).ok_or_else(|| Error::Protocol {
        socket: socket.clone(),
    })?;
    Ok((stats, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(reply: fg_reply, rest: &[u8]) -> Option<Stats> {
        Stats::from_reply(&[reply.as_bytes(), rest].concat())
    }

    #[test]
    fn a_monitor_that_ends_has_not_answered() {
        let name = format!("@flexguard-test-ends-{}", std::process::id());
        let name = SocketName::parse(name.as_ref()).unwrap();
        let listener = name.listen().unwrap();
        listener.socket.set_nonblocking(false).unwrap();
        let asks = std::thread::spawn(move || Stats::query(&name));
        let (mut client, _) = listener.socket.accept().unwrap();
        let mut request = message::status_request(false);
        client.read_exact(&mut request).unwrap();
        drop(client);
        assert!(matches!(asks.join().unwrap(), Err(Error::Socket { .. })));
    }

    #[test]
    fn counters_are_subtracted_and_the_gauge_is_not() {
        let stats = |num_preempted_cs, missed, run_count| Stats {
            num_preempted_cs,
            missed,
            run_count,
            ..Stats::default()
        };
        assert_eq!(stats(1, 5, 9).since(&stats(2, 3, 9)), Some(stats(1, 2, 0)));
        assert_eq!(stats(1, 2, 9).since(&stats(1, 3, 9)), None);
    }

    #[test]
    fn refusals_are_told_with_their_reasons() {
        let mut stats = Stats::default();
        assert_eq!(stats.refusals_told(), None);
        stats.refused.too_slow = 2;
        stats.too_many_programs = 1;
        let told = stats.refusals_told().unwrap();
        assert_eq!(told, "2 too slow, 1 too many programs");
    }

    #[test]
    fn a_monitor_of_another_abi_is_told_from_none() {
        let reply = |magic, version| fg_reply {
            magic,
            version,
            ..Default::default()
        };
        let of = |reply: fg_reply| Stats::other_abi(reply.as_bytes());
        assert_eq!(
            of(reply(FG_ABI_MAGIC, FG_ABI_VERSION + 1)),
            Some(FG_ABI_VERSION + 1)
        );
        assert_eq!(of(reply(FG_ABI_MAGIC, FG_ABI_VERSION)), None);
        assert_eq!(of(reply(1, FG_ABI_VERSION + 1)), None);
    }

    #[test]
    fn statistics_survive_the_wire_and_nothing_else_does() {
        let stats = Stats {
            num_preempted_cs: 1,
            run_count: 13,
            ..Stats::default()
        };
        let good = fg_reply {
            magic: FG_ABI_MAGIC,
            version: FG_ABI_VERSION,
            status: 0,
            number: 13,
        };
        assert_eq!(reply(good, &stats.to_wire()), Some(stats));
        assert_eq!(
            reply(fg_reply { status: 5, ..good }, &stats.to_wire()),
            None
        );
        assert_eq!(
            reply(
                fg_reply {
                    version: FG_ABI_VERSION + 1,
                    ..good
                },
                &stats.to_wire()
            ),
            None
        );
        assert_eq!(reply(good, &stats.to_wire()[1..]), None);
        assert_eq!(Stats::from_reply(&[]), None);
    }
}
