// SPDX-License-Identifier: MIT
//! The kernel half, loaded: what the user half does to it and reads from it.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use flexguard_abi::{FG_MAX_WINDOWS, FG_WANT_SLICE_FORECAST, fg_shared};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel,
    ProgramInput, ProgramMut,
};
use nix::errno::Errno;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_getres};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::error::os;
use crate::keep::{Keeper, Kept};
use crate::message::Registration;
use crate::records::{
    FG_RECORD_BYTES, fg_beat_args, fg_cpu_counts, fg_image, fg_listed, fg_process_record,
};
use crate::{Domain, DomainKind, Error, capabilities, peer};

mod cpus;
mod images;
mod page;
mod recount;
mod tables;
mod users;
#[cfg(test)]
mod verified;

use page::Page;
use tables::Tables;

/// The kernel half as this crate was built with it.
pub static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/monitor.bpf.o"));

const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Between searches for domains that no process is in.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);
/// Names another BTF file than the kernel's own.
const BTF_ENV: &str = "FLEXGUARD_BTF";

const HOOKS: [&str; 4] = ["fg_fork", "fg_exec", "fg_free", "fg_sched_switch"];
/// The maps with the state that outlives a monitor.
const MAPS: [&str; 5] = ["shared", "processes", "tables", "threads", "counts"];
pub const KEY_ZERO: [u8; 4] = [0; 4];
/// A thread's first storage may be given to it by another monitor, or any BPF program, at the same moment: EAGAIN.
const WRITE_TRIES: u32 = 8;

/// The loaded programs and maps. Dropping it detaches and unloads everything.
#[derive(Debug)]
pub struct Kernel {
    // Before `object`: fields are dropped in this order.
    links: Vec<Link>,
    run_time: Option<OwnedFd>,
    shared: MapHandle,
    page: Page,
    processes: MapHandle,
    table_map: MapHandle,
    tables: Mutex<Tables>,
    threads: MapHandle,
    counts: MapHandle,
    full_accounts: MapHandle,
    budget: MapHandle,
    object: Object,
    tick_ns: u32,
    domains: DomainKind,
    /// When domains that no process is in were last looked for.
    searched: Mutex<Option<Instant>>,
    keeper: Keeper,
}

/// What came of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    /// It is the first image of its process.
    pub first: bool,
    pub domain: u32,
    /// Whose share of the records it takes.
    pub account: u64,
    /// It shares a domain with others of its class of users because no other one was free.
    pub without_domain: bool,
}

/// Run time of one program, as far as the kernel kept it.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunTime {
    pub ns: u64,
    pub count: u64,
    pub recursion_misses: u64,
}

/// The BTF file that the programs are fitted to.
pub fn btf_path() -> PathBuf {
    env::var_os(BTF_ENV).map_or_else(|| BTF.into(), PathBuf::from)
}

impl Kernel {
    /// Loads the object and attaches its hooks, with the state that `keeper` has kept.
    pub fn load(
        object: &[u8],
        keep_run_time: bool,
        mut keeper: Keeper,
        domains: DomainKind,
    ) -> Result<Kernel, Error> {
        let btf = btf_path();
        File::open(&btf).map_err(|source| Error::NoBtf {
            path: btf.clone(),
            source,
        })?;
        if let Some(missing) = capabilities::missing_capabilities() {
            return Err(Error::NoPrivilege { missing });
        }
        libbpf_rs::set_print(Some((PrintLevel::Debug, log_libbpf)));
        let kept = keeper.take(&MAPS)?;
        let mut object = open(object, &btf)?;
        for mut map in object.maps_mut() {
            if let Some(fd) = map.name().to_str().and_then(|name| kept.map(name)) {
                map.reuse_fd(fd).map_err(bpf("taking over its maps"))?;
            }
        }
        let object = object.load().map_err(bpf("loading it"))?;
        let shared = map(&object, "shared")?;
        let mut kernel = Kernel {
            links: Vec::new(),
            // Asked for before the hooks run, so that no switch goes unmeasured.
            run_time: if keep_run_time {
                enable_run_time()
            } else {
                None
            },
            page: Page::map(shared.as_fd()).map_err(os("mapping the shared page"))?,
            shared,
            processes: map(&object, "processes")?,
            table_map: map(&object, "tables")?,
            tables: Mutex::default(),
            threads: map(&object, "threads")?,
            counts: map(&object, "counts")?,
            full_accounts: map(&object, "full_accounts")?,
            budget: map(&object, "budget")?,
            object,
            tick_ns: tick_ns(),
            domains,
            searched: Mutex::new(None),
            keeper,
        };
        // Before any client has it: from here on no process, this one included, can write the page.
        if kept.maps.is_empty() {
            kernel
                .shared
                .freeze()
                .map_err(bpf("freezing the shared page"))?;
        }
        kernel.find_tables()?;
        kernel
            .set_budget(i64::from(FG_RECORD_BYTES))
            .map_err(os("setting the budget of its records"))?;
        kernel.attach_hooks()?;
        tracing::info!(
            run_time = kernel.run_time.is_some(),
            taken_over = !kept.maps.is_empty(),
            "the monitor's programs are attached"
        );
        kernel.keep(kept)?;
        Ok(kernel)
    }

    fn attach_hooks(&mut self) -> Result<(), Error> {
        for hook in HOOKS {
            let attached = self.program(hook).attach_trace();
            self.links.push(attached.map_err(bpf("attaching it"))?);
        }
        Ok(())
    }

    /// As if another program had detached it.
    #[cfg(test)]
    pub fn detach_switch_hook(&mut self) {
        let last = self.links.pop();
        assert_eq!(HOOKS.last(), Some(&"fg_sched_switch"));
        drop(last.expect("it is attached"));
    }

    fn keep(&self, kept: Kept) -> Result<(), Error> {
        let maps = [
            &self.shared,
            &self.processes,
            &self.table_map,
            &self.threads,
            &self.counts,
        ];
        let maps = MAPS.into_iter().zip(maps.map(|map| map.as_fd()));
        let mut links = Vec::new();
        for (hook, link) in HOOKS.into_iter().zip(&self.links) {
            // The kernel's number of the link: no other link that exists has it.
            let id = link.info().map_err(bpf("asking for its links"))?.id;
            links.push((format!("{hook}-{id}"), link.as_fd()));
        }
        self.keeper.put(kept, maps, links.into_iter())
    }

    /// Nothing outlives this monitor, as far as it is for us to say.
    pub fn forget_kept(&self) -> Result<(), Error> {
        self.keeper.forget_all()
    }

    fn program(&self, name: &str) -> ProgramMut<'_> {
        let mut programs = self.object.progs_mut();
        programs
            .find(|program| program.name() == OsStr::new(name))
            .expect("the object defines this program")
    }

    /// The descriptor that clients map. Its map is frozen: no holder of the descriptor can write through it.
    pub fn shared_fd(&self) -> BorrowedFd<'_> {
        self.shared.as_fd()
    }

    /// Renews the heartbeat on the shared page, or marks the page as ended. Only BPF programs write the page.
    pub fn beat(&self, alive: bool) -> Result<(), Error> {
        let mut args = fg_beat_args {
            alive: alive.into(),
            tick_ns: self.tick_ns,
            cpus: libbpf_rs::num_possible_cpus().map_or(1, |cpus| cpus as u32),
            domain_kind: self.domains.number(),
        };
        let input = ProgramInput {
            context_in: Some(args.as_mut_bytes()),
            ..Default::default()
        };
        self.program("fg_beat")
            .test_run(input)
            .map_err(bpf("renewing the heartbeat"))?;
        Ok(())
    }

    /// Runs a program of the user half's own, with that argument.
    fn run(&self, program: &str, args: Option<&mut [u8]>) -> Result<(), Errno> {
        let input = ProgramInput {
            context_in: args,
            ..Default::default()
        };
        let run = self.program(program).test_run(input);
        run.map(drop).map_err(errno)
    }

    /// From now on the ends of slices are published to the processes that want them.
    fn want_slices(&self) -> Result<(), Errno> {
        self.run("fg_want_slices", None)
    }

    /// What came of an earlier registration of the image, by the program that the process behind `pidfd` runs now; None:
    /// there was none. Afterwards the record has nothing of an earlier program's. It walks no threads.
    pub fn registered(
        &self,
        pidfd: BorrowedFd<'_>,
        image: &Registration,
    ) -> Result<Option<Registered>, Errno> {
        if self.record(pidfd)?.is_none() {
            return Ok(None);
        }
        self.tie_record(pidfd)?;
        let known = self.known_image(image);
        let has = |record: &fg_process_record| {
            known.is_some_and(|known| record.has(known, image.flags as u32))
        };
        let record = self.record(pidfd)?.filter(has);
        Ok(record.map(|record| self.outcome(&record, false)))
    }

    fn is_without_domain(&self, record: &fg_process_record) -> bool {
        let none = record.domain == 0 && self.domains != DomainKind::Machine;
        none || Domain::is_shared(record.domain.into())
    }

    fn outcome(&self, record: &fg_process_record, first: bool) -> Registered {
        Registered {
            first,
            domain: record.domain,
            account: record.account,
            without_domain: self.is_without_domain(record),
        }
    }

    /// Adds an image to the record of the process behind `pidfd`.
    ///
    /// `check` is asked with the record after that was tied to the program that the process runs now, before its threads
    /// have records, and again before the image is in it: if the process runs another program later, the record is void.
    pub fn register(
        &self,
        pidfd: BorrowedFd<'_>,
        image: &Registration,
        mut check: impl FnMut(&fg_process_record) -> Result<(), Errno>,
    ) -> Result<Registered, Errno> {
        if self.record(pidfd)?.is_none() {
            // An empty record first: see fg_tie.
            let empty = fg_process_record::new_zeroed();
            self.write_record(pidfd, &empty, MapFlags::ANY)?;
        }
        let mut ask = || {
            let record = self.record(pidfd)?.ok_or(Errno::ECONNRESET)?;
            check(&record).map(|()| record)
        };
        let added = self
            .tie_record(pidfd)
            .and_then(|()| self.need_domain(pidfd))
            .and_then(|()| ask())
            .and_then(|record| self.make_image(image, record.account))
            .and_then(|_| self.adopt_threads(pidfd))
            .and_then(|()| ask())
            .and_then(|_| self.add_image(pidfd, image));
        if added.is_err() && self.record(pidfd)?.is_none_or(|r| r.n_images == 0) {
            self.forget(pidfd)?;
        }
        added
    }

    fn add_image(&self, pidfd: BorrowedFd<'_>, image: &Registration) -> Result<Registered, Errno> {
        // Gone: the process has called exec.
        let old = self.record(pidfd)?.ok_or(Errno::ECONNRESET)?;
        let mut record = old;
        record.add(self.make_image(image, old.account)?, image.flags as u32)?;
        if self.windows_of(&record) > FG_MAX_WINDOWS as usize {
            return Err(Errno::ENOSPC);
        }
        let registered = self.outcome(&record, old.n_images == 0);
        if record == old {
            return Ok(registered);
        }
        if record.flags & FG_WANT_SLICE_FORECAST != 0 {
            self.want_slices()?;
        }
        match self.write_record(pidfd, &record, MapFlags::EXIST) {
            Err(Errno::ENOENT) => Err(Errno::ECONNRESET),
            written => written.map(|()| registered),
        }
    }

    fn write_record(
        &self,
        pidfd: BorrowedFd<'_>,
        record: &fg_process_record,
        flags: MapFlags,
    ) -> Result<(), Errno> {
        let key = pidfd.as_raw_fd().to_ne_bytes();
        let write = || self.processes.update(&key, record.as_bytes(), flags);
        let mut written = write().map_err(errno);
        for _ in 1..WRITE_TRIES {
            if written != Err(Errno::EAGAIN) {
                break;
            }
            written = write().map_err(errno);
        }
        written
    }

    /// Forgets the process behind `pidfd`, and its threads.
    fn forget(&self, pidfd: BorrowedFd<'_>) -> Result<(), Errno> {
        let key = pidfd.as_raw_fd().to_ne_bytes();
        match self.processes.delete(&key).map_err(errno) {
            Ok(()) | Err(Errno::ENOENT) => {} // an exec has deleted it
            Err(errno) => return Err(errno),
        }
        self.iterate("fg_forget", threads_of(pidfd)).map(drop)
    }

    /// The record of the process behind `pidfd`.
    pub fn record(&self, pidfd: BorrowedFd<'_>) -> Result<Option<fg_process_record>, Errno> {
        let key = pidfd.as_raw_fd().to_ne_bytes();
        let Some(value) = self.processes.lookup(&key, MapFlags::ANY).map_err(errno)? else {
            return Ok(None);
        };
        let record = fg_process_record::read_from_prefix(&value).map_err(|_| Errno::EIO)?;
        Ok(Some(record.0))
    }

    /// Runs fg_tie over the first thread of the process behind `pidfd`.
    fn tie_record(&self, pidfd: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut leader = libbpf_sys::bpf_iter_link_info::default();
        leader.task.tid = peer::pid_of(pidfd)? as u32;
        self.iterate("fg_tie", leader).map(drop)
    }

    /// Runs fg_adopt over the threads of the process behind `pidfd`. ESRCH: the iterator cannot see that process, which
    /// lives in a PID namespace that is not below ours.
    fn adopt_threads(&self, pidfd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.iterate("fg_adopt", threads_of(pidfd))?;
        let leader = self
            .threads
            .lookup(&pidfd.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .map_err(errno)?;
        leader.map(drop).ok_or(Errno::ESRCH)
    }

    /// All registered processes, and all threads that are counted now, by their numbers in our PID namespace.
    pub fn list(&self) -> Result<Vec<fg_listed>, Errno> {
        self.iterate("fg_list", Default::default())
            .and_then(|bytes| records_of(&bytes))
    }

    /// Takes the threads that were preempted too long ago out of the counter; returns them.
    pub fn age(&self) -> Result<Vec<fg_listed>, Errno> {
        self.iterate("fg_age", Default::default())
            .and_then(|bytes| records_of(&bytes))
    }

    /// Runs an iterator over the tasks that `info` names; returns what it has written.
    fn iterate(
        &self,
        program: &str,
        mut info: libbpf_sys::bpf_iter_link_info,
    ) -> Result<Vec<u8>, Errno> {
        let options = libbpf_sys::bpf_link_create_opts {
            sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
            iter_info: &mut info,
            iter_info_len: size_of_val(&info) as u32,
            ..Default::default()
        };
        let program = self.program(program).as_fd().as_raw_fd();
        // SAFETY: `options` and the `info` it points to live across the call, which does not keep them.
        let link = unsafe {
            libbpf_sys::bpf_link_create(program, 0, libbpf_sys::BPF_TRACE_ITER, &options)
        };
        let link = owned(link)?;
        // SAFETY: no pointers are passed.
        let mut iterator = File::from(owned(unsafe {
            libbpf_sys::bpf_iter_create(link.as_raw_fd())
        })?);
        let mut written = Vec::new();
        iterator
            .read_to_end(&mut written)
            .map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)))?;
        Ok(written)
    }

    /// The kernel's numbers of the maps with the processes' records, and with their windows.
    pub fn traced_maps(&self) -> Result<[u64; 2], Error> {
        let id = |map: &MapHandle| {
            Ok(map
                .info()
                .map_err(bpf("asking for its maps"))?
                .info
                .id
                .into())
        };
        Ok([id(&self.processes)?, id(&self.table_map)?])
    }

    /// The shared page as it is now.
    pub fn shared_page(&self) -> fg_shared {
        self.page.now()
    }

    /// The per-CPU counts, added up.
    pub fn cpu_counts(&self) -> Result<fg_cpu_counts, Error> {
        let values = self
            .counts
            .lookup_percpu(&KEY_ZERO, MapFlags::ANY)
            .map_err(bpf("reading its counts"))?;
        let mut sum = fg_cpu_counts::new_zeroed();
        for value in values.unwrap_or_default() {
            let (cpu, _) =
                fg_cpu_counts::read_from_prefix(&value).expect("the map's values are of this type");
            sum.switches += cpu.switches;
            sum.registered_preemptions += cpu.registered_preemptions;
            sum.inherited_processes += cpu.inherited_processes;
            sum.lost_records += cpu.lost_records;
            sum.unreadable += cpu.unreadable;
            sum.preempted_ns += cpu.preempted_ns;
            sum.aged += cpu.aged;
            for (sum, cpu) in sum.durations.iter_mut().zip(cpu.durations) {
                *sum += cpu;
            }
        }
        Ok(sum)
    }

    /// The run time of the sched_switch hook; zero where the kernel does not keep it.
    pub fn run_time(&self) -> Result<RunTime, Error> {
        let info = self.info_of("fg_sched_switch")?;
        Ok(RunTime {
            ns: info.run_time_ns,
            count: info.run_cnt,
            recursion_misses: info.recursion_misses,
        })
    }

    fn info_of(&self, program: &str) -> Result<libbpf_sys::bpf_prog_info, Error> {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut length = size_of_val(&info) as u32;
        let fd = self.program(program).as_fd().as_raw_fd();
        // SAFETY: `info` is a bpf_prog_info of `length` bytes whose pointers are null: nothing else is written.
        let result = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &mut info, &mut length) };
        if result < 0 {
            return Err(Error::Bpf {
                step: "reading its run time",
                source: io::Error::from_raw_os_error(-result),
            });
        }
        Ok(info)
    }
}

/// For an iterator over the threads of the process behind `pidfd`.
fn threads_of(pidfd: BorrowedFd<'_>) -> libbpf_sys::bpf_iter_link_info {
    let mut info = libbpf_sys::bpf_iter_link_info::default();
    info.task.pid_fd = pidfd.as_raw_fd() as u32;
    info
}

/// What an iterator has written.
fn records_of<T: FromBytes>(bytes: &[u8]) -> Result<Vec<T>, Errno> {
    bytes
        .chunks_exact(size_of::<T>())
        .map(|bytes| T::read_from_bytes(bytes).map_err(|_| Errno::EIO))
        .collect()
}

pub fn open(object: &[u8], btf: &Path) -> Result<OpenObject, Error> {
    let mut builder = ObjectBuilder::default();
    builder.name("flexguard").map_err(bpf("opening it"))?;
    if btf != Path::new(BTF) {
        builder
            .btf_custom_path(btf)
            .map_err(bpf("reading FLEXGUARD_BTF"))?;
    }
    builder.open_memory(object).map_err(bpf("opening it"))
}

pub fn map(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let found = object.maps().find(|map| map.name() == OsStr::new(name));
    MapHandle::try_from(&found.expect("the object defines this map"))
        .map_err(bpf("opening its maps"))
}

/// The period of the scheduler's tick: the coarse clock advances by it. 0: ticks do not come at its multiples.
fn tick_ns() -> u32 {
    let skewed = procfs::cmdline().is_ok_and(|words| words.iter().any(|w| w == "skew_tick=1"));
    match clock_getres(ClockId::CLOCK_MONOTONIC_COARSE) {
        Ok(tick) if !skewed => tick.num_nanoseconds() as u32,
        _ => 0,
    }
}

/// Needs CAP_SYS_ADMIN, unlike all the rest: without it there are no run times, and that is all.
fn enable_run_time() -> Option<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    owned(fd)
        .inspect_err(
            |errno| tracing::debug!(%errno, "the kernel does not keep BPF run times for us"),
        )
        .ok()
}

/// Takes a descriptor that libbpf returned, or the errno it returned instead.
pub fn owned(fd: i32) -> Result<OwnedFd, Errno> {
    if fd < 0 {
        return Err(Errno::from_raw(-fd));
    }
    // SAFETY: libbpf has just opened it for us; nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn errno(error: libbpf_rs::Error) -> Errno {
    Errno::from_raw(io_error(error).raw_os_error().unwrap_or(libc::EIO))
}

pub fn bpf(step: &'static str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |error| Error::Bpf {
        step,
        source: io_error(error),
    }
}

/// The system's error below libbpf-rs's own, which keeps its number to itself, but prints it.
fn io_error(error: libbpf_rs::Error) -> io::Error {
    let text = format!("{error:#}");
    let number = text
        .rsplit_once("(os error ")
        .and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    number.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error)
}

/// libbpf explains a failed load in its log, verifier output included; the error itself is a bare number.
fn log_libbpf(level: PrintLevel, message: String) {
    match level {
        PrintLevel::Warn => tracing::info!(target: "libbpf", "{}", message.trim_end()),
        _ => tracing::trace!(target: "libbpf", "{}", message.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::ErrorExt;

    use super::*;

    #[test]
    fn an_error_keeps_its_number() {
        let again = || libbpf_rs::Error::from_raw_os_error(libc::EAGAIN);
        assert_eq!(errno(again()), Errno::EAGAIN);
        assert_eq!(errno(again().context("why")), Errno::EAGAIN);
    }
}
