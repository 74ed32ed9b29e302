// SPDX-License-Identifier: MIT
//! What becomes of a registration when its process forks, execs, dies, or hangs up; and of the page when the monitor goes.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::thread;
use std::time::{Duration, Instant};

use flexguard_abi::*;
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::harness::{
    AN_OFFSET, Running, connect, load, pidfd, register, registration, start, timeout,
};
use crate::victim::block_offset;

fn is_registered(running: &Running, pid: i32) -> bool {
    running
        .monitor
        .registration(pidfd(pid).as_fd())
        .unwrap()
        .is_some()
}

#[test]
fn two_images_and_twice_the_same() {
    let Some(running) = start() else { return };
    let window = |begin| fg_window {
        begin,
        end: begin + 8,
        ..Default::default()
    };
    let me = pidfd(std::process::id() as i32);
    let mine = || running.monitor.registration(me.as_fd()).unwrap();
    assert_eq!(mine(), None);
    register(&running.name, AN_OFFSET, &[window(0x1000)]);
    register(
        &running.name,
        AN_OFFSET + 256,
        &[window(0x2000), window(0x3000)],
    );
    let both = mine().unwrap();
    assert_eq!(
        (both.block_offsets.as_slice(), both.windows),
        (&[AN_OFFSET, AN_OFFSET + 256][..], 3)
    );
    register(&running.name, AN_OFFSET, &[window(0x1000)]);
    assert_eq!(mine(), Some(both));
    assert_eq!(running.stats().registered_processes, 1);
}

#[test]
fn a_process_may_call_itself_whatever_it_likes() {
    let Some(running) = start() else { return };
    assert_eq!(running.helper("odd-name").hear(), "registered");
    assert_eq!(running.stats().registered_processes, 1);
}

/// Of two that give a thread its first storage at once the kernel turns one away, which has to try again.
#[test]
fn two_monitors_take_one_process_at_once() {
    let (Some(one), Some(other)) = (start(), start()) else {
        return;
    };
    for _ in 0..100 {
        let mut helper = one.ready(&format!("both {}", other.name));
        let pid = helper.pid();
        assert!(is_registered(&one, pid) && is_registered(&other, pid));
        helper.kill();
    }
    for running in [one, other] {
        assert_eq!(running.stats().lost_records, 0);
    }
}

#[test]
fn fork_inherits() {
    let Some(running) = start() else { return };
    let _hog = running.ready("hog");
    let mut parent = running.helper("fork");
    let child: i32 = parent.hear().parse().unwrap();
    assert!(is_registered(&running, child));
    assert_eq!(running.stats().inherited_processes, 1);
    // The parent sleeps, so these are the child's.
    let before = running.stats().preempted_holders;
    running.wait_until("the child's preemptions", |stats| {
        stats.preempted_holders >= before + 10
    });
    parent.go();
    assert_eq!(parent.hear(), "done");
    running.wait_until("the counter to be 0", |stats| stats.num_preempted_cs == 0);
}

#[test]
fn exec_drops() {
    let Some(running) = start() else { return };
    let mut helper = running.ready("exec");
    assert!(is_registered(&running, helper.pid()));
    helper.go();
    assert_eq!(helper.hear(), "another program");
    assert!(!is_registered(&running, helper.pid()));
}

#[test]
fn a_spawned_program_is_not_registered() {
    let Some(running) = start() else { return };
    let mut helper = running.helper("spawn");
    // In whichever order: the child's number from its parent, and the child itself, once it runs.
    let said = [helper.hear(), helper.hear()];
    assert!(said.contains(&"another program".to_owned()), "{said:?}");
    let child: i32 = said.iter().find_map(|word| word.parse().ok()).unwrap();
    assert!(is_registered(&running, helper.pid()));
    assert!(!is_registered(&running, child));
    assert_eq!(
        running.stats().inherited_processes,
        1,
        "the child had it until it called exec"
    );
}

/// Its record might have come after an exec that should have dropped it.
#[test]
fn who_hangs_up_before_the_answer_is_not_registered() {
    let Some((monitor, name)) = load() else {
        return;
    };
    let mut client = connect(&name);
    client
        .write_all(&registration(block_offset(), &[]))
        .unwrap();
    drop(client);
    let running = Running::serve(monitor, name);
    let stats = running.wait_until("the refusal", |stats| stats.rejected_registrations == 1);
    assert_eq!(stats.registered_processes, 0);
    assert!(!is_registered(&running, std::process::id() as i32));
}

pub fn map_page(fd: &OwnedFd, protection: ProtFlags) -> Result<NonNull<fg_shared>, Errno> {
    let length = (FG_PAGE as usize).try_into().unwrap();
    // SAFETY: a new mapping at an address of the kernel's choice.
    let page = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, fd, 0) }?;
    Ok(page.cast())
}

pub fn read_page(page: NonNull<fg_shared>) -> fg_shared {
    // SAFETY: a mapped page of at least this size; a torn read does no harm to the fields compared.
    unsafe { page.read_volatile() }
}

pub fn map_published(fd: &OwnedFd) -> NonNull<fg_published> {
    let length = size_of::<fg_published>().try_into().unwrap();
    let (read, shared) = (ProtFlags::PROT_READ, MapFlags::MAP_SHARED);
    // SAFETY: a new mapping at an address of the kernel's choice.
    unsafe { mmap(None, length, read, shared, fd, 0) }
        .unwrap()
        .cast()
}

/// What the CPU says of itself.
pub fn read_cpu(published: NonNull<fg_published>, cpu: usize) -> fg_cpu {
    assert!(cpu < FG_CPUS as usize);
    // SAFETY: mapped, of this size; a torn read does no harm to the fields compared.
    unsafe { (&raw const (*published.as_ptr()).cpus[cpu]).read_volatile() }
}

fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    Duration::from(now).as_nanos() as u64
}

#[test]
fn the_page_is_read_only_and_its_heart_beats() {
    let begin = now_ns();
    let Some(running) = start() else { return };
    let fd = register(&running.name, block_offset(), &[]);
    let write = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    assert_eq!(map_page(&fd, write), Err(Errno::EPERM));
    let page = map_page(&fd, ProtFlags::PROT_READ).unwrap();
    // SAFETY: the page is mapped; making it writable must fail.
    let made_writable = unsafe { nix::sys::mman::mprotect(page.cast(), FG_PAGE as usize, write) };
    assert_eq!(made_writable, Err(Errno::EACCES));

    let first = read_page(page);
    assert_eq!((first.magic, first.version), (FG_ABI_MAGIC, FG_ABI_VERSION));
    assert!((begin..=now_ns()).contains(&first.heartbeat_ns));
    let deadline = Instant::now() + timeout();
    while read_page(page).heartbeat_ns == first.heartbeat_ns {
        assert!(Instant::now() < deadline, "no second beat");
        thread::sleep(Duration::from_millis(10));
    }
    drop(running);
    assert_eq!(read_page(page).heartbeat_ns, 0, "no goodbye");
    // SAFETY: mapped above, and not used any more.
    unsafe { munmap(page.cast(), FG_PAGE as usize) }.unwrap();
}

/// A client that may use bpf(2) itself gains nothing by it.
#[test]
fn the_page_cannot_be_written_through_bpf_either() {
    let Some(running) = start() else { return };
    let fd = register(&running.name, block_offset(), &[]);
    let (key, value) = ([0u8; 4], [0u8; FG_PAGE as usize]);
    let (key, value) = (key.as_ptr().cast(), value.as_ptr().cast());
    // SAFETY: key and value are as long as the map's.
    let result = unsafe { libbpf_sys::bpf_map_update_elem(fd.as_raw_fd(), key, value, 0) };
    assert_eq!(result, -libc::EPERM);
}

/// One monitor serves the machine: a process that holds nothing sees another's holder preempted.
#[test]
fn a_neighbour_sees_it() {
    let Some(running) = start() else { return };
    let _hog = running.ready("hog");
    let fd = register(&running.name, block_offset(), &[]);
    let page = map_page(&fd, ProtFlags::PROT_READ).unwrap();
    assert_eq!(read_page(page).num_preempted_cs, 0);
    let mut holder = running.ready("spin held");
    let deadline = Instant::now() + timeout();
    while read_page(page).num_preempted_cs == 0 {
        assert!(Instant::now() < deadline, "it never rose");
        thread::sleep(Duration::from_micros(100));
    }
    holder.kill();
    assert_eq!(read_page(page).num_preempted_cs, 0, "it did not fall");
    // SAFETY: mapped above, and not used any more.
    unsafe { munmap(page.cast(), FG_PAGE as usize) }.unwrap();
}
