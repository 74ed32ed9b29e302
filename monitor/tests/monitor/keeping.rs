// SPDX-License-Identifier: MIT
//! What a monitor leaves to its successor in a BPF file system, and what the successor does with half of it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

use flexguard_monitor::{Error, Keeper, Monitor, Options, SocketName};
use nix::mount::{MsFlags, mount, umount};

use crate::harness::{fresh_name, is_root, start};

/// As many as the monitor has maps that outlive it, and hooks.
const MAPS: usize = 5;
const HOOKS: usize = 4;

/// Mounted for the test; unmounted, and all that was pinned gone, at its end.
struct BpfFileSystem(tempfile::TempDir);

impl BpfFileSystem {
    /// None: the test is skipped.
    fn mount() -> Option<Self> {
        if start().is_none() || !is_root() {
            return None; // mounting is root's
        }
        let dir = tempfile::tempdir().unwrap();
        let (kind, options) = (Some("bpf"), None::<&str>);
        mount(Some("bpf"), dir.path(), kind, MsFlags::empty(), options).unwrap();
        Some(Self(dir))
    }

    fn pins(&self) -> PathBuf {
        self.0.path().join("monitor")
    }

    fn pinned(&self) -> Vec<String> {
        let names = fs::read_dir(self.pins()).unwrap();
        let mut names: Vec<_> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn try_start(&self) -> Result<Monitor, Error> {
        Monitor::start(Options {
            socket: SocketName::parse(fresh_name().as_ref()).unwrap(),
            keeper: Keeper::Directory(self.pins()),
            ..Options::default()
        })
    }

    fn start(&self) -> Monitor {
        self.try_start().unwrap()
    }

    /// A monitor that starts, and ends as one that is killed.
    fn start_and_leave(&self) {
        let monitor = self.start();
        assert_eq!(self.pinned().len(), MAPS + HOOKS, "{:?}", self.pinned());
        monitor.leave_to_a_successor();
    }
}

impl Drop for BpfFileSystem {
    fn drop(&mut self) {
        umount(self.0.path()).unwrap();
    }
}

/// In a PID namespace of its own each monitor has the number 1. Here all of them have this process's.
#[test]
fn a_successor_with_the_same_process_number_takes_over() {
    let Some(files) = BpfFileSystem::mount() else {
        return;
    };
    for _ in 0..3 {
        files.start_and_leave();
    }
    drop(files.start());
    assert_eq!(files.pinned(), [""; 0]);
}

/// Where anybody may write, anybody may leave maps for a monitor to take over.
#[test]
fn a_directory_of_other_users_is_no_place_for_pins() {
    let Some(files) = BpfFileSystem::mount() else {
        return;
    };
    fs::create_dir(files.pins()).unwrap();
    for (owner, mode) in [(65534, 0o755), (0, 0o775), (0, 0o757)] {
        chown(files.pins(), Some(owner), None).unwrap();
        fs::set_permissions(files.pins(), Permissions::from_mode(mode)).unwrap();
        assert!(
            matches!(files.try_start(), Err(Error::Pin { .. })),
            "{owner} {mode:o}"
        );
    }
    fs::set_permissions(files.pins(), Permissions::from_mode(0o755)).unwrap();
    drop(files.start());
}

/// Or they could put another directory in its place.
#[test]
fn nor_is_one_below_a_directory_that_others_may_write() {
    let Some(files) = BpfFileSystem::mount() else {
        return;
    };
    let above = files.0.path();
    for (mode, is_safe) in [
        (0o777, false),
        (0o775, false),
        (0o1777, true),
        (0o700, true),
    ] {
        fs::set_permissions(above, Permissions::from_mode(mode)).unwrap();
        match files.try_start() {
            Ok(_) => assert!(is_safe, "{mode:o}"),
            Err(error) => {
                let told = error.told();
                assert!(!is_safe && told.contains("mode=0700"), "{mode:o}: {told}");
            }
        }
    }
}

/// A monitor is killed when it has pinned some of its maps, or removed some of its pins.
#[test]
fn a_set_of_pins_that_is_incomplete_is_replaced() {
    let Some(files) = BpfFileSystem::mount() else {
        return;
    };
    for kept in ["-shared", "-counts", "-fg_fork"] {
        files.start_and_leave();
        let is_kept = |name: &str| name.ends_with(kept) || name.contains(&format!("{kept}-"));
        for name in files.pinned().iter().filter(|name| !is_kept(name)) {
            fs::remove_file(files.pins().join(name)).unwrap();
        }
        assert_eq!(files.pinned().len(), 1);
    }
    files.start_and_leave();
}
