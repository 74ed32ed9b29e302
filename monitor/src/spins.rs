// SPDX-License-Identifier: MIT
//! The sampler of spins: where a program's threads spend CPU time, and whether another thread of the program waited for a
//! CPU meanwhile. It needs no monitor, and the privileges of one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::{Link, Object, ProgramAttachType, ProgramMut, num_possible_cpus};
use libbpf_sys::perf_event_attr;
use zerocopy::{FromBytes, FromZeros};

use crate::Error;
use crate::kernel::{bpf, btf_path, open, owned};
use crate::records::{FG_SPIN_UNKNOWN, FG_SPIN_USER, fg_spin_control, fg_spin_sample};
use crate::ring::{Control, Ring};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/spins.bpf.o"));
/// Of perf_event_open(2).
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
/// Time between two samples of a CPU. Not a divisor of what programs and schedulers count in.
const PERIOD: Duration = Duration::from_nanos(1_003_009);
/// Maps of judge.h, which this object does not use.
const UNUSED: [&str; 2] = ["processes", "tables"];

/// Where a thread of the program was when [`SpinSampler::PERIOD`] of a CPU's time was over. Numbers are those of the initial
/// PID namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpinSample {
    pub pid: u32,
    pub tid: u32,
    /// The thread's CPU time. It may go back by what a host has taken.
    pub cpu: Duration,
    /// With `tid` it tells threads apart: a `tid` is used again, and a thread that calls exec takes over that of its
    /// process's first thread.
    pub life: u64,
    /// In user mode, or where it entered the kernel.
    pub ip: u64,
    /// The word on top of its stack; 0: none.
    pub caller: u64,
    /// The system call that it was in.
    pub call: Option<u32>,
    /// Other threads of the program that were runnable and off their CPU; None: not known.
    pub waiting: Option<u32>,
}

impl SpinSample {
    fn of(bytes: &[u8]) -> Option<SpinSample> {
        let (sample, _) = fg_spin_sample::read_from_prefix(bytes).ok()?;
        Some(SpinSample {
            pid: sample.pid,
            tid: sample.tid,
            cpu: Duration::from_nanos(sample.cpu_ns),
            life: sample.begun.wrapping_add(sample.task),
            ip: sample.ip,
            caller: sample.caller,
            call: Some(sample.call).filter(|&call| call != FG_SPIN_USER),
            waiting: Some(sample.waiting).filter(|&waiting| waiting != FG_SPIN_UNKNOWN),
        })
    }
}

/// Which program is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpinProgram {
    /// The process, and those that come of it.
    From(u32),
    /// What this process starts from now on.
    Children,
}

/// A sampler that is attached. Dropping it detaches it.
pub struct SpinSampler {
    // Before `object`: fields are dropped in this order.
    _links: Vec<Link>,
    ring: Ring<SpinSample>,
    control: Control<fg_spin_control>,
    object: Object,
}

impl SpinSampler {
    pub const PERIOD: Duration = PERIOD;

    pub fn attach(program: SpinProgram) -> Result<SpinSampler, Error> {
        let mut object = open(OBJECT, &btf_path())?;
        for mut map in object.maps_mut() {
            if UNUSED.iter().any(|name| map.name() == OsStr::new(name)) {
                map.set_autocreate(false).map_err(bpf("leaving maps out"))?;
            }
        }
        let object = object.load().map_err(bpf("loading the sampler"))?;
        let settings = fg_spin_control {
            root: match program {
                SpinProgram::From(pid) => pid,
                SpinProgram::Children => std::process::id(),
            },
            without: (program == SpinProgram::Children).into(),
            ..FromZeros::new_zeroed()
        };
        let control = Control::set(&object, "setting the sampler up", &settings)?;
        let ring = Ring::of(&object, "reading the sampler's samples", SpinSample::of)?;
        let links = attach(&object)?;
        let sampler = SpinSampler {
            _links: links,
            ring,
            control,
            object,
        };
        sampler.look()?;
        Ok(sampler)
    }

    /// What each thread does now. From here on the sampler knows them all.
    fn look(&self) -> Result<(), Error> {
        let program = program(&self.object, "fg_spin_look");
        // SAFETY: the options may be absent.
        let link = unsafe {
            let no_options = std::ptr::null();
            let kind = libbpf_sys::BPF_TRACE_ITER;
            libbpf_sys::bpf_link_create(program.as_fd().as_raw_fd(), 0, kind, no_options)
        };
        let link = owned(link).map_err(system)?;
        // SAFETY: no pointers are passed.
        let iterator = owned(unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) });
        let mut iterator = File::from(iterator.map_err(system)?);
        match iterator.read_to_end(&mut Vec::new()) {
            Ok(_) => Ok(()),
            Err(source) => Err(Error::Trace { source }),
        }
    }

    /// The samples since the last call. Does not wait.
    pub fn take(&self) -> Result<Vec<SpinSample>, Error> {
        self.ring.take()
    }

    /// CPU time of the program since the sampler was attached, as the scheduler counts it.
    pub fn cpu_time(&self) -> Result<Duration, Error> {
        let ns = self.control.get("reading the sampler's counts")?.cpu_ns;
        Ok(Duration::from_nanos(ns.try_into().unwrap_or(0)))
    }

    /// Samples for which there was no memory.
    pub fn lost(&self) -> Result<u64, Error> {
        Ok(self.control.get("reading the sampler's counts")?.lost)
    }
}

fn system(errno: nix::errno::Errno) -> Error {
    Error::Trace {
        source: errno.into(),
    }
}

fn program<'a>(object: &'a Object, name: &str) -> ProgramMut<'a> {
    let found = object.progs_mut().find(|p| p.name() == OsStr::new(name));
    found.expect("the object defines this program")
}

/// The hooks first: what the look at all threads finds must not change unseen.
fn attach(object: &Object) -> Result<Vec<Link>, Error> {
    let doing = || bpf("attaching the sampler");
    let mut links = Vec::new();
    for program in object.progs_mut() {
        if matches!(program.attach_type(), ProgramAttachType::TraceRawTp) {
            links.push(program.attach_trace().map_err(doing())?);
        }
    }
    let sample = program(object, "fg_spin_sample");
    for cpu in 0..num_possible_cpus().map_err(doing())? {
        let Some(event) = cpu_clock(cpu).map_err(|source| Error::Trace { source })? else {
            continue;
        };
        let link = sample.attach_perf_event(event.as_raw_fd());
        links.push(link.map_err(doing())?);
        let _ = event.into_raw_fd(); // the link closes it
    }
    Ok(links)
}

/// The software event that comes each [`PERIOD`] of a CPU's time; None: there is no such CPU now.
fn cpu_clock(cpu: usize) -> io::Result<Option<OwnedFd>> {
    let mut attr = perf_event_attr {
        type_: libbpf_sys::PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>() as u32,
        config: libbpf_sys::PERF_COUNT_SW_CPU_CLOCK.into(),
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = PERIOD.as_nanos() as u64;
    let (all, cpu, no_group, closes) = (-1, cpu as i32, -1, PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the call reads `size` bytes of `attr`, and may write its size there.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw mut attr,
            all,
            cpu,
            no_group,
            closes,
        )
    };
    if fd >= 0 {
        // SAFETY: the call has just opened it.
        return Ok(Some(unsafe { OwnedFd::from_raw_fd(fd as i32) }));
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn a_sample_is_read_as_it_was_written() {
        let mut wire = fg_spin_sample {
            ip: 5,
            cpu_ns: 9,
            begun: 10,
            task: 3,
            caller: 6,
            pid: 7,
            tid: 8,
            waiting: 2,
            call: 24,
        };
        let sample = SpinSample::of(wire.as_bytes()).unwrap();
        assert_eq!(
            (sample.ip, sample.caller, sample.pid, sample.tid),
            (5, 6, 7, 8)
        );
        assert_eq!((sample.waiting, sample.call), (Some(2), Some(24)));
        assert_eq!((sample.cpu, sample.life), (Duration::from_nanos(9), 13));
        (wire.waiting, wire.call) = (FG_SPIN_UNKNOWN, FG_SPIN_USER);
        let sample = SpinSample::of(wire.as_bytes()).unwrap();
        assert_eq!((sample.waiting, sample.call), (None, None));
        assert_eq!(
            SpinSample::of(&wire.as_bytes()[..size_of::<fg_spin_sample>() - 1]),
            None
        );
    }
}
