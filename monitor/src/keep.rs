// SPDX-License-Identifier: MIT
//! What outlives a monitor, so that its successor goes on where it ended: the maps, with the page that clients have
//! mapped, and the links that keep the programs attached.
//!
//! Either the service manager keeps the descriptors (sd_notify's FDSTORE), which needs no privilege, or they are pinned
//! in a directory of a BPF file system. A successor takes the maps over if it has the same layouts, attaches its own
//! programs, and then drops its predecessor's links.

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use flexguard_abi::FG_ABI_VERSION;
use nix::unistd::geteuid;
use sd_notify::NotifyState;

use crate::Error;
use crate::records::FG_RECORDS_VERSION;

const PREFIX: &str = "flexguard-";
/// To poll a map is an error, for which the service manager would drop it at once.
const DO_NOT_POLL: NotifyState<'_> = NotifyState::Custom("FDPOLL=0");

/// Who keeps the maps and links when this process has ended.
#[derive(Debug, Default)]
pub enum Keeper {
    /// Nobody: with the process, all of it goes.
    #[default]
    Nobody,
    /// The service manager; here is what it has kept so far, by name.
    Manager(Vec<(String, OwnedFd)>),
    /// A directory of a BPF file system, made if it is not there.
    Directory(PathBuf),
}

/// What a predecessor has left.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The maps that this monitor can go on with, by their names in the object.
    pub maps: Vec<(String, OwnedFd)>,
    /// Some of them, but not all: a predecessor was killed while it kept them or let them go.
    incomplete: Vec<(String, OwnedFd)>,
    /// Links, and maps of another layout. To be dropped once our own programs are attached.
    stale: Vec<(String, OwnedFd)>,
    /// What was made to keep it in.
    made: MadeDirectories,
}

/// Directories that go again, the last first, unless the monitor has something to keep in them.
#[derive(Debug, Default)]
struct MadeDirectories(Vec<PathBuf>);

impl MadeDirectories {
    /// Makes `path`, and those above it that are not there.
    fn make(path: &Path) -> io::Result<MadeDirectories> {
        let mut missing: Vec<_> = path.ancestors().take_while(|p| !p.exists()).collect();
        let mut made = MadeDirectories::default();
        while let Some(directory) = missing.pop().filter(|d| !d.as_os_str().is_empty()) {
            DirBuilder::new().mode(0o755).create(directory)?;
            made.0.push(directory.into());
        }
        Ok(made)
    }
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        for directory in self.0.iter().rev() {
            let _ = fs::remove_dir(directory); // one that is in use by now stays
        }
    }
}

impl Kept {
    pub fn map(&self, name: &str) -> Option<BorrowedFd<'_>> {
        let found = self.maps.iter().find(|(kept, _)| kept == name);
        found.map(|(_, fd)| fd.as_fd())
    }
}

fn map_prefix() -> String {
    format!("{PREFIX}map-v{FG_ABI_VERSION}-{FG_RECORDS_VERSION}-")
}

impl Keeper {
    /// Names that begin so are ours; the service manager may keep other descriptors.
    pub fn is_ours(name: &str) -> bool {
        name.starts_with(PREFIX)
    }

    /// Takes what was kept. `wanted` are the maps without which the others are of no use.
    pub(crate) fn take(&mut self, wanted: &[&str]) -> Result<Kept, Error> {
        let mut made = MadeDirectories::default();
        let found = match self {
            Keeper::Nobody => Vec::new(),
            Keeper::Manager(found) => std::mem::take(found),
            Keeper::Directory(path) => {
                made = MadeDirectories::make(path).map_err(pin_error(path))?;
                check_owner(path).map_err(pin_error(path))?;
                pinned(path).map_err(pin_error(path))?
            }
        };
        let prefix = map_prefix();
        let (maps, stale): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|(name, _)| name.starts_with(&prefix));
        let maps: Vec<_> = maps
            .into_iter()
            .map(|(name, fd)| (name[prefix.len()..].to_owned(), fd))
            .collect();
        let is_there = |wanted| maps.iter().any(|(name, _)| name == wanted);
        let (maps, incomplete) = if wanted.iter().all(is_there) {
            (maps, Vec::new())
        } else {
            (Vec::new(), maps)
        };
        Ok(Kept {
            maps,
            incomplete,
            stale,
            made,
        })
    }

    /// Has `links`, and the maps unless they were kept already, kept from now on, and the predecessor's links no longer.
    /// The predecessor's links have other names: both are there for a moment.
    pub(crate) fn put<'a>(
        &self,
        mut kept: Kept,
        maps: impl Iterator<Item = (&'a str, BorrowedFd<'a>)>,
        links: impl Iterator<Item = (String, BorrowedFd<'a>)>,
    ) -> Result<(), Error> {
        for (name, _) in &kept.incomplete {
            self.forget(&(map_prefix() + name))?; // first: what is put has the same names
        }
        let maps = maps.filter(|(name, _)| kept.map(name).is_none());
        let maps = maps.map(|(name, fd)| (map_prefix() + name, fd));
        let links = links.map(|(name, fd)| (format!("{PREFIX}link-{name}"), fd));
        let mut put: Vec<String> = Vec::new();
        for (name, fd) in maps.chain(links) {
            if let Err(error) = self.put_one(&name, fd) {
                put.iter().for_each(|name| drop(self.forget(name))); // the error says what failed first
                return Err(error);
            }
            put.push(name);
        }
        kept.made.0.clear();
        for (name, _) in &kept.stale {
            self.forget(name)?;
        }
        Ok(())
    }

    fn put_one(&self, name: &str, fd: BorrowedFd<'_>) -> Result<(), Error> {
        match self {
            Keeper::Nobody => Ok(()),
            Keeper::Manager(_) => {
                let state = [NotifyState::FdStore, NotifyState::FdName(name), DO_NOT_POLL];
                sd_notify::notify_with_fds(&state, &[fd]).map_err(manager_error)
            }
            Keeper::Directory(directory) => {
                let path = directory.join(name);
                pin(fd, &path).map_err(pin_error(&path))
            }
        }
    }

    fn forget(&self, name: &str) -> Result<(), Error> {
        match self {
            Keeper::Nobody => Ok(()),
            Keeper::Manager(_) => {
                let state = [NotifyState::FdStoreRemove, NotifyState::FdName(name)];
                sd_notify::notify(&state).map_err(manager_error)
            }
            Keeper::Directory(directory) => {
                let path = directory.join(name);
                fs::remove_file(&path).map_err(pin_error(&path))
            }
        }
    }

    /// The end, without a successor. What the service manager has it keeps until the service is stopped.
    pub(crate) fn forget_all(&self) -> Result<(), Error> {
        let Keeper::Directory(directory) = self else {
            return Ok(());
        };
        for (name, _) in pinned(directory).map_err(pin_error(directory))? {
            self.forget(&name)?;
        }
        Ok(())
    }
}

/// Or another user could leave maps there for this monitor to take over, or put another directory in the place of this one
/// or of one above it: a BPF file system may be open to all.
fn check_owner(directory: &Path) -> io::Result<()> {
    const STICKY: u32 = 0o1000; // nobody can put another one in the place of what is root's
    check_one(directory, 0)?;
    let whole = fs::canonicalize(directory)?;
    let mut above = whole.ancestors().skip(1);
    above.try_for_each(|above| check_one(above, STICKY))
}

/// Others may write it if it has one of these bits.
fn check_one(directory: &Path, unless: u32) -> io::Result<()> {
    let metadata = fs::metadata(directory)?;
    let is_ours = [0, geteuid().as_raw()].contains(&metadata.uid());
    let is_safe = metadata.mode() & 0o022 == 0 || metadata.mode() & unless != 0;
    if is_ours && is_safe {
        return Ok(());
    }
    let why = format!(
        "other users may write {0}, or own it; so that nobody else makes directories there, mount the BPF file system with \
         mount -t bpf -o mode=0700 bpf /sys/fs/bpf",
        directory.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

fn pinned(directory: &Path) -> io::Result<Vec<(String, OwnedFd)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if Keeper::is_ours(&name) {
            let fd = unpin(&directory.join(&name))?;
            found.push((name, fd));
        }
    }
    Ok(found)
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

fn pin(fd: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: the path is a C string that lives across the call.
    match unsafe { libbpf_sys::bpf_obj_pin(fd.as_raw_fd(), path.as_ptr()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

fn unpin(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: the path is a C string that lives across the call.
    let fd = unsafe { libbpf_sys::bpf_obj_get(path.as_ptr()) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: libbpf has just opened it for us; nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn pin_error(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    |source| Error::Pin { path, source }
}

fn manager_error(source: io::Error) -> Error {
    Error::Os {
        step: "handing descriptors to the service manager",
        source,
    }
}
