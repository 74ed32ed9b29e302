// SPDX-License-Identifier: MIT
//! How little privilege is enough: none for a client, CAP_BPF and CAP_PERFMON for the monitor.

use std::env;
use std::process::Command;

use flexguard_monitor::{Error, Hook, Monitor, Options, SocketName, probe};
use nix::unistd::setgroups;

use crate::domains::become_user;
use crate::harness::{Helper, ROLE_ENV, TIMEOUT, ends_with_us, is_root, register, start};
use crate::victim::{block_offset, say};

pub const NOBODY: u32 = 65534;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// From a process that dies with its parent, and still does.
pub fn become_nobody() {
    setgroups(&[]).unwrap();
    become_user(NOBODY);
}

fn keep_capabilities(capabilities: &[u32]) {
    let bits = capabilities
        .iter()
        .fold(0u64, |bits, capability| bits | 1 << capability);
    let (low, high) = (bits as u32, (bits >> 32) as u32);
    // struct __user_cap_header_struct (version 3, this thread) and twice struct __user_cap_data_struct
    let header = [0x2008_0522u32, 0];
    let data = [low, low, 0, high, high, 0];
    // SAFETY: both arrays have the layout that capset(2) reads.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) };
    assert_eq!(result, 0, "capset: {}", std::io::Error::last_os_error());
}

pub fn play_unprivileged(socket: &str) {
    become_nobody();
    drop(register(socket, block_offset(), &[]));
    let refused = Monitor::start(Options {
        socket: fresh_name("unprivileged"),
        run_time_stats: false,
        ..Options::default()
    });
    say(&format!(
        "{}",
        matches!(refused, Err(Error::NoPrivilege { .. }))
    ));
}

/// Becomes this user, and keeps the two capabilities that a monitor needs.
pub fn become_least(uid: u32) {
    // SAFETY: no pointers are passed.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) }, 0);
    setgroups(&[]).unwrap();
    become_user(uid);
    keep_capabilities(&[CAP_BPF, CAP_PERFMON]);
    nix::sys::prctl::set_dumpable(true).unwrap(); // it may be its own client
}

/// A monitor in this process, until it is killed. Says on which socket.
pub fn serve_here(what: &str) {
    let socket = fresh_name(what);
    let options = Options {
        socket: socket.clone(),
        client_time: Some(TIMEOUT),
        ..Options::default()
    };
    let monitor = Monitor::start(options).unwrap();
    say(&socket.to_string());
    let stop = flexguard_monitor::Stop::new().unwrap();
    monitor.serve(&stop).unwrap();
}

/// Everything that a monitor does, in a process of user nobody with the two capabilities.
pub fn play_least_privilege() {
    become_least(NOBODY);
    let socket = fresh_name("least");
    let monitor = Monitor::start(Options {
        socket: socket.clone(),
        run_time_stats: true,
        client_time: Some(TIMEOUT),
        ..Options::default()
    })
    .unwrap();
    let stop = flexguard_monitor::Stop::new().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| monitor.serve(&stop).unwrap());
        drop(register(&socket.to_string(), block_offset(), &[]));
        stop.stop();
    });
    say(&format!(
        "{} registered",
        monitor.stats().unwrap().registered_processes
    ));
}

fn fresh_name(what: &str) -> SocketName {
    SocketName::parse(format!("@flexguard-test-{what}-{}", std::process::id()).as_ref()).unwrap()
}

#[test]
fn a_client_needs_no_privilege_and_a_monitor_does() {
    let Some(running) = start() else { return };
    if !is_root() {
        return; // nobody to become
    }
    assert_eq!(running.helper("unprivileged").hear(), "true");
    assert_eq!(running.stats().registered_processes, 1);
}

#[test]
fn two_capabilities_are_enough_for_the_monitor() {
    if start().is_none() || !is_root() {
        return;
    }
    assert_eq!(Helper::start("least-privilege", "").hear(), "1 registered");
}

#[test]
fn a_kernel_without_btf_is_said_so() {
    let output = ends_with_us(&mut Command::new(env::current_exe().unwrap()))
        .args(["--ignored", "--exact", "helper", "--nocapture"])
        .env(ROLE_ENV, "no-btf")
        .env("FLEXGUARD_SOCKET", "")
        .env("FLEXGUARD_BTF", "/nonexistent")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("SAYS no BTF"), "{said}");
}

pub fn play_no_btf() {
    let error = Monitor::start(Options {
        socket: fresh_name("btf"),
        run_time_stats: false,
        ..Options::default()
    })
    .unwrap_err();
    assert!(matches!(error, Error::NoBtf { .. }), "{error:?}");
    assert!(error.to_string().contains("/nonexistent"), "{error}");
    assert!(error.advice().is_some());
    let probe = probe();
    assert!(!probe.btf);
    assert!(
        matches!(
            probe.hook,
            Hook::Fails {
                errno: Some(libc::ENOENT),
                ..
            }
        ),
        "{:?}",
        probe.hook
    );
    say("no BTF");
}

#[test]
fn the_probe_agrees_with_what_happens() {
    let probe = probe();
    assert_eq!(probe.usable(), start().is_some(), "{probe:?}");
    assert!(!probe.kernel_release.is_empty());
}
