// SPDX-License-Identifier: MIT
//! Why the kernel half reads a thread's block by a call. Since Linux 6.13 task storage may hold a pointer to a page of
//! the process (`__uptr`), through which a program reads without one. These tests say what that would save, and what
//! forbids it (docs/results/monitor-cost.md). Clang 14 leaves out what marks such a pointer, so they are run by hand, with
//! a newer clang as the first in PATH:
//!     cargo test --release -p flexguard-monitor --test monitor -- --ignored --nocapture uptr

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::Duration;

use flexguard_abi::fg_thread_block;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, libbpf_sys};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use zerocopy::FromZeros;

use crate::facts::{beside_two_that_yield, costs_of_hooks, counted, from_environment, spread};
use crate::harness::start;
use crate::mutants::compiled;
use crate::privileges::NOBODY;

/// Three hooks of a switch: one finds a thread's record, the second reads its block as the kernel half does, and the
/// third through the pointer in the record.
const READS: &str = r#"
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "flexguard_abi.h"
#include "kernel_types.h"
char dual_license[] SEC("license") = "Dual MIT/GPL";
struct record { struct fg_thread_block __attribute__((btf_type_tag("uptr"))) *block; };
struct { __uint(type, BPF_MAP_TYPE_TASK_STORAGE); __uint(map_flags, BPF_F_NO_PREALLOC); __type(key, int);
	__type(value, struct record); } blocks SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_TASK_STORAGE); __uint(map_flags, BPF_F_NO_PREALLOC); __type(key, int);
	__type(value, __u64); } addresses SEC(".maps");
struct fg_thread_block whole; /* so that its members are in the BTF */
volatile __u64 seen[3] SEC(".data.seen");
SEC("tp_btf/sched_switch") int BPF_PROG(finds, bool preempt, struct task_struct *prev)
{
	__u64 *address = bpf_task_storage_get(&addresses, prev, 0, 0);
	if (address)
		seen[0] = *address;
	return 0;
}
SEC("tp_btf/sched_switch") int BPF_PROG(by_call, bool preempt, struct task_struct *prev)
{
	__u64 *address = bpf_task_storage_get(&addresses, prev, 0, 0);
	struct fg_thread_block block;
	if (address && !bpf_probe_read_user(&block, __builtin_offsetof(struct fg_thread_block, parks), (void *)*address))
		seen[1] = block.pending + block.held;
	return 0;
}
SEC("tp_btf/sched_switch") int BPF_PROG(by_pointer, bool preempt, struct task_struct *prev)
{
	struct record *record = bpf_task_storage_get(&blocks, prev, 0, 0);
	struct fg_thread_block *block = record ? record->block : 0;
	if (block)
		seen[2] = block->pending + block->held;
	return 0;
}
"#;
const HELD: u64 = 1;
const PENDING: u64 = 0x1000;
const HOOKS: [&str; 3] = ["finds", "by_call", "by_pointer"];

/// None, with a line, where BPF cannot be loaded or the kernel has no such pointers.
fn load_if_possible(folder: &Path) -> Option<Object> {
    start()?; // says, or fails, if nothing can be loaded here
    let object = compiled(folder, "uptr", READS);
    match ObjectBuilder::default().open_file(object).unwrap().load() {
        Ok(object) => Some(object),
        Err(error) => {
            let release = nix::sys::utsname::uname().unwrap();
            let release = release.release().to_str().unwrap();
            let mut numbers = release.split(['.', '-']).map(|n| n.parse().unwrap_or(0));
            let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
            assert!(version < (6, 13), "Linux {release} refuses: {error}");
            eprintln!("SKIPPED: Linux {release} has no pointers to user memory in task storage");
            None
        }
    }
}

/// The descriptor that names this thread to the kernel.
fn this_thread() -> OwnedFd {
    const PIDFD_THREAD: u32 = libc::O_EXCL as u32;
    // SAFETY: pidfd_open takes two numbers, and returns a descriptor that is ours.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, libc::gettid(), PIDFD_THREAD);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd as i32)
    }
}

#[repr(align(64))]
struct Aligned(fg_thread_block);

/// A block of this thread, which both ways know.
fn known_block(object: &Object) -> Box<Aligned> {
    let mut block = Box::new(Aligned(fg_thread_block::new_zeroed()));
    block.0.held = HELD as i32;
    block.0.pending = PENDING;
    let (address, me) = ((&raw const block.0) as u64, this_thread());
    let key = me.as_raw_fd().to_ne_bytes();
    for map in object.maps() {
        if map.name() == "blocks" || map.name() == "addresses" {
            map.update(&key, &address.to_ne_bytes(), MapFlags::ANY)
                .unwrap();
        }
    }
    block
}

/// While it lives the kernel keeps the times of the hooks.
fn keep_times() -> OwnedFd {
    // SAFETY: a number goes in, a descriptor comes out, which is ours.
    unsafe {
        let stats = libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME);
        assert!(stats >= 0);
        OwnedFd::from_raw_fd(stats)
    }
}

fn attached(object: &Object) -> Vec<Link> {
    let programs = object.progs_mut();
    programs
        .map(|program| program.attach_trace().unwrap())
        .collect()
}

fn seen(object: &Object) -> [u64; 2] {
    let mut maps = object.maps();
    let map = maps
        .find(|map| map.name().to_str().unwrap().ends_with(".data.seen"))
        .unwrap();
    let words = map
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .unwrap()
        .unwrap();
    [1, 2].map(|i| u64::from_ne_bytes(words[8 * i..8 * i + 8].try_into().unwrap()))
}

/// Both ways see what stands in the block.
#[test]
#[ignore = "needs clang 15 or newer"]
fn a_block_can_be_read_through_a_pointer() {
    let folder = tempfile::tempdir().unwrap();
    let Some(object) = load_if_possible(folder.path()) else {
        return;
    };
    let (_kept, links) = (keep_times(), attached(&object));
    let known = || known_block(&object);
    let seen = beside_two_that_yield(known, || {
        while counted(&object, HOOKS[2])[1] < 100 {
            thread::yield_now();
        }
        seen(&object)
    });
    drop(links);
    assert_eq!(seen, [HELD + PENDING; 2]);
}

/// A process must itself say where its block is: the kernel looks the address up in the memory of the caller. So each
/// client would have the map's descriptor. With that a user without privileges can say so of every thread, also of
/// root's, and what it names is its own memory.
#[test]
#[ignore = "needs clang 15 or newer"]
fn who_may_say_where_its_block_is_may_say_so_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let Some(object) = load_if_possible(folder.path()) else {
        return;
    };
    let roots = this_thread();
    let map = object.maps().find(|map| map.name() == "blocks").unwrap();
    let (map, key) = (map.as_fd().as_raw_fd(), roots.as_raw_fd());
    let block = Box::new(Aligned(fg_thread_block::new_zeroed()));
    let address = (&raw const block.0) as u64;
    // SAFETY: the child makes system calls only, and ends.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            // SAFETY: the key and the value are read as long as the map's are, and both live.
            let failed = unsafe {
                libc::setgroups(0, std::ptr::null()) != 0
                    || libc::setresuid(NOBODY, NOBODY, NOBODY) != 0
                    || libbpf_sys::bpf_map_update_elem(
                        map,
                        (&raw const key).cast(),
                        (&raw const address).cast(),
                        0,
                    ) != 0
            };
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(failed)) }
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)));
        }
    }
}

#[test]
#[ignore = "measures: docs/results/monitor-cost.md"]
fn measured() {
    let folder = tempfile::tempdir().unwrap();
    let Some(object) = load_if_possible(folder.path()) else {
        return;
    };
    let time = Duration::from_millis(500);
    let _kept = keep_times();
    let _links = attached(&object);
    let rounds = from_environment("FLEXGUARD_ROUNDS", 21);
    let each: Vec<[f64; 3]> = (0..rounds)
        .map(|_| {
            let costs = || costs_of_hooks(&object, HOOKS, time).0;
            beside_two_that_yield(|| known_block(&object), costs)
        })
        .collect();
    let of = |ns: fn(&[f64; 3]) -> f64| spread(&each.iter().map(ns).collect::<Vec<f64>>());
    println!(
        "A switch, ns: a thread's record {}, its block",
        of(|c| c[0])
    );
    println!(
        "by a call {} more, through a pointer {} more.",
        of(|c| c[1] - c[0]),
        of(|c| c[2] - c[0])
    );
}
