// SPDX-License-Identifier: MIT
//! The tracer: each critical section that is preempted, as it ends. It needs more than the monitor: CAP_SYS_ADMIN, to open
//! the monitor's map by its number.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use libbpf_rs::{Link, Object};
use zerocopy::{FromBytes, FromZeros};

use crate::kernel::{bpf, btf_path, open, owned};
use crate::records::{FG_KIND_HOLDER, FG_TRACE_UNKNOWN, fg_trace_control, fg_trace_event};
use crate::ring::{Control, Ring};
use crate::{Error, SocketName, Stats};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/trace.bpf.o"));
/// No code is below (mmap_min_addr).
const LOWEST_PLACE: u64 = 4096;

/// A thread that was preempted in a critical section, and runs again. Numbers are those of the initial PID namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When it lost its CPU, CLOCK_MONOTONIC.
    pub since_ns: u64,
    pub off_cpu_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub name: String,
    pub cpu: u32,
    /// It holds a lock; otherwise it is the head of a queue.
    pub holder: bool,
    /// The address of the lock's word, where the thread block says it.
    pub lock: Option<u64>,
    /// Threads that slept on the lock's word when it ran again; None: the word does not name its owner.
    pub waiters: Option<u32>,
    /// Who took its CPU.
    pub by_pid: u32,
    pub by_tid: u32,
    pub by_name: String,
    /// Where it was: addresses, innermost first, as far as frame pointers lead.
    pub stack: Vec<u64>,
}

impl Event {
    fn of(bytes: &[u8]) -> Option<Event> {
        let (event, _) = fg_trace_event::read_from_prefix(bytes).ok()?;
        let frames = (event.frames as usize).min(event.stack.len());
        Some(Event {
            since_ns: event.since_ns,
            off_cpu_ns: event.until_ns.saturating_sub(event.since_ns),
            pid: event.pid,
            tid: event.tid,
            name: text(&event.name),
            cpu: event.cpu,
            holder: event.kind == FG_KIND_HOLDER,
            lock: Some(event.lock).filter(|&lock| lock != 0),
            waiters: Some(event.waiters).filter(|&waiters| waiters != FG_TRACE_UNKNOWN),
            by_pid: event.by_pid,
            by_tid: event.by_tid,
            by_name: text(&event.by_name),
            // Code that is compiled without frame pointers leads to numbers that are no addresses.
            stack: event.stack[..frames]
                .iter()
                .copied()
                .take_while(|&place| place >= LOWEST_PLACE)
                .collect(),
        })
    }
}

fn text(name: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = name
        .iter()
        .map(|&c| c as u8)
        .take_while(|&c| c != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A tracer that is attached. Dropping it detaches it.
pub struct Tracer {
    // Before `object`: fields are dropped in this order.
    _link: Link,
    ring: Ring<Event>,
    control: Control<fg_trace_control>,
    processes_map: u64,
    _object: Object,
}

impl Tracer {
    /// Traces the processes that are registered with the monitor on `socket`, or `only` that one.
    pub fn attach(socket: &SocketName, only: Option<u32>) -> Result<Tracer, Error> {
        let stats = Stats::query(socket)?;
        let processes_map = stats.processes_map;
        let mut object = open(OBJECT, &btf_path())?;
        for (name, id) in [("processes", processes_map), ("tables", stats.tables_map)] {
            // SAFETY: no pointers are passed.
            let fd = owned(unsafe { libbpf_sys::bpf_map_get_fd_by_id(id as u32) });
            let fd = fd.map_err(|errno| Error::Trace {
                source: errno.into(),
            })?;
            let mut maps = object.maps_mut();
            let shared = maps.find(|map| map.name() == OsStr::new(name));
            shared
                .expect("the object defines this map")
                .reuse_fd(fd.as_fd())
                .map_err(bpf("sharing the monitor's maps"))?;
        }
        let object = object.load().map_err(bpf("loading the tracer"))?;
        let settings = fg_trace_control {
            only_pid: only.unwrap_or(0),
            ..FromZeros::new_zeroed()
        };
        let control = Control::set(&object, "setting the tracer up", &settings)?;
        let ring = Ring::of(&object, "reading the tracer's events", Event::of)?;
        let program = object.progs_mut().next();
        let link = program
            .expect("the object defines a program")
            .attach_trace();
        Ok(Tracer {
            _link: link.map_err(bpf("attaching the tracer"))?,
            ring,
            control,
            processes_map,
            _object: object,
        })
    }

    /// The events that have ended since the last call. Does not wait.
    pub fn take(&self) -> Result<Vec<Event>, Error> {
        self.ring.take()
    }

    /// Events for which there was no memory, or whose end went unseen.
    pub fn lost(&self) -> Result<u64, Error> {
        Ok(self.control.get("reading the tracer's counts")?.lost)
    }

    /// Whether the monitor that is there goes by other records than those that are traced: it was started anew.
    pub fn is_outdated(&self, stats: &Stats) -> bool {
        stats.processes_map != self.processes_map
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn an_event_is_read_as_it_was_written() {
        let mut wire = fg_trace_event::new_zeroed();
        wire.since_ns = 5;
        wire.until_ns = 12;
        wire.kind = FG_KIND_HOLDER;
        wire.name[..2].copy_from_slice(&[b'h' as _, b'i' as _]);
        wire.frames = 2;
        wire.stack[0] = 7777;
        wire.stack[1] = 8;
        let event = Event::of(wire.as_bytes()).unwrap();
        assert_eq!(
            (event.off_cpu_ns, event.holder, event.lock),
            (7, true, None)
        );
        assert_eq!((event.name.as_str(), event.stack), ("hi", vec![7777]));
        assert_eq!(event.waiters, Some(0));
        wire.waiters = FG_TRACE_UNKNOWN;
        assert_eq!(Event::of(wire.as_bytes()).unwrap().waiters, None);
        assert_eq!(
            Event::of(&wire.as_bytes()[..size_of::<fg_trace_event>() - 1]),
            None
        );
        wire.frames = u32::MAX; // more than there are
        wire.stack.fill(7777);
        assert_eq!(
            Event::of(wire.as_bytes()).unwrap().stack.len(),
            wire.stack.len()
        );
    }
}
