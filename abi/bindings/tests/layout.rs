// SPDX-License-Identifier: MIT
//! The layout that the header asserts for C and BPF, asserted for Rust.

use std::mem::{offset_of, size_of};

use flexguard_abi::*;

#[test]
fn thread_block() {
    assert_eq!(size_of::<fg_thread_block>(), FG_CACHE_LINE as usize);
    assert_eq!(offset_of!(fg_thread_block, held), 0);
    assert_eq!(offset_of!(fg_thread_block, self_), 4);
    assert_eq!(offset_of!(fg_thread_block, node), 8);
    assert_eq!(offset_of!(fg_thread_block, pending), 16);
    assert_eq!(offset_of!(fg_thread_block, life), 24);
    assert_eq!(offset_of!(fg_thread_block, parks), 28);
    assert_eq!(offset_of!(fg_thread_block, lock_private), 40);
}

#[test]
fn queue_node() {
    assert_eq!(size_of::<fg_queue_node>(), FG_CACHE_LINE as usize);
    assert_eq!(offset_of!(fg_queue_node, next), 0);
    assert_eq!(offset_of!(fg_queue_node, state), 8);
    assert_eq!(offset_of!(fg_queue_node, lock_private), 40);
}

#[test]
fn registration() {
    assert_eq!(size_of::<fg_window>(), 40);
    assert_eq!(offset_of!(fg_window, reg), 32);
    assert_eq!(size_of::<fg_registration>(), 32);
    assert_eq!(offset_of!(fg_registration, block_offset), 16);
    assert_eq!(offset_of!(fg_registration, flags), 24);
    assert_eq!(size_of::<fg_reply>(), 16);
}

#[test]
fn shared_page() {
    assert_eq!(offset_of!(fg_shared, num_preempted_cs), 0);
    assert_eq!(offset_of!(fg_shared, magic), 64);
    assert_eq!(offset_of!(fg_shared, heartbeat_ns), 72);
    assert_eq!(offset_of!(fg_shared, mode_transitions), 128);
    assert_eq!(offset_of!(fg_shared, missed), 136);
    assert_eq!(offset_of!(fg_shared, tick_ns), 144);
    assert_eq!(offset_of!(fg_shared, domain_kind), 192);
    assert_eq!(offset_of!(fg_shared, any_process), 200);
    assert_eq!(offset_of!(fg_shared, cpus_seen), 216);
    assert_eq!(offset_of!(fg_shared, blocking_ns), 232);
    assert_eq!(offset_of!(fg_shared, preemptions), 256);
    assert_eq!(offset_of!(fg_shared, off_cpu), 1280);
    assert_eq!(size_of::<fg_shared>(), FG_PAGE as usize);
}

#[test]
fn domains() {
    assert_eq!(size_of::<fg_domain>(), FG_CACHE_LINE as usize);
    assert_eq!(offset_of!(fg_domain, key), 8);
    assert_eq!(offset_of!(fg_published, domains), FG_PAGE as usize);
    assert_eq!(offset_of!(fg_published, off_cpu), 3 * FG_PAGE as usize);
    assert_eq!(
        offset_of!(fg_published, off_cpu_notes),
        35 * FG_PAGE as usize
    );
    assert_eq!(offset_of!(fg_published, cpus), 67 * FG_PAGE as usize);
    assert_eq!(size_of::<fg_published>(), 83 * FG_PAGE as usize);
}

#[test]
fn cpus() {
    assert_eq!(size_of::<fg_cpu>(), FG_CACHE_LINE as usize);
    assert_eq!(offset_of!(fg_cpu, slice_end_ns), 0);
    assert_eq!(offset_of!(fg_cpu, idle), 8);
    assert_eq!(offset_of!(fg_cpu, process_switches), 12);
    assert_eq!(offset_of!(fg_cpu, stay), 14);
}

#[test]
fn constants() {
    assert_eq!(FG_ABI_MAGIC.to_le_bytes(), *b"FLGD");
    assert_eq!(FG_OWNER_MASK, 0x1fff_ffff);
    assert_eq!(FG_SOCKET_ENV.to_str(), Ok("FLEXGUARD_SOCKET"));
}
