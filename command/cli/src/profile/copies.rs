// SPDX-License-Identifier: MIT
//! ELF files of other processes, for the symbolizer, which maps them and opens the files of debug information that they
//! name, whatever those are: a FIFO would stop it for good, a shorter file end it by SIGBUS, to open a device can have an
//! effect. What others than root and this user can change is copied, and names nothing.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::memfd::{MFdFlags, memfd_create};

use flexguard_launch::elf::{self, MOST_BYTES, sections};

/// The sections that name other files.
const LINKS: [&[u8]; 3] = [b".gnu_debuglink", b".gnu_debugaltlink", b".debug_sup"];

/// By device, inode, size and time of change.
type Key = (u64, u64, u64, i64, i64);

/// Remembers the files that it has seen.
pub struct Copies {
    seen: RefCell<HashMap<(String, Key), Option<Kept>>>,
    /// The bytes that further copies may have.
    left: Cell<u64>,
}

enum Kept {
    /// What only root and this user can change, by its own path.
    Own(PathBuf),
    Copy {
        file: File,
        has_links: bool,
    },
}

/// What the symbolizer is to open.
pub struct Source {
    pub path: PathBuf,
    /// May it read debug information, and what that names?
    pub debug: bool,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            seen: RefCell::default(),
            left: Cell::new(MOST_BYTES),
        }
    }
}

impl Copies {
    /// None: it is no ELF file, or too large.
    pub fn source(&self, path: &str) -> Option<Source> {
        let file = elf::open(path)?;
        let about = file.metadata().ok()?;
        let key = (
            about.dev(),
            about.ino(),
            about.size(),
            about.mtime(),
            about.mtime_nsec(),
        );
        let mut seen = self.seen.borrow_mut();
        let kept = seen.entry((path.to_owned(), key)).or_insert_with(|| {
            let own = own(path, &about).map(Kept::Own);
            own.or_else(|| self.copy(file).ok())
        });
        Some(match kept.as_ref()? {
            Kept::Own(path) => Source {
                path: path.clone(),
                debug: true,
            },
            Kept::Copy { file, has_links } => Source {
                path: format!("/proc/self/fd/{}", file.as_raw_fd()).into(),
                debug: !has_links,
            },
        })
    }

    fn copy(&self, file: File) -> io::Result<Kept> {
        let mut bytes = Vec::new();
        file.take(self.left.get() + 1).read_to_end(&mut bytes)?;
        let left = self.left.get().checked_sub(bytes.len() as u64);
        self.left.set(left.ok_or(io::ErrorKind::FileTooLarge)?);
        let has_links = sections(&bytes)
            .is_none_or(|all| all.iter().any(|section| LINKS.contains(&section.name)));
        let mut file = File::from(memfd_create(c"flexguard-elf", MFdFlags::MFD_CLOEXEC)?);
        io::copy(&mut bytes.as_slice(), &mut file)?;
        file.rewind()?;
        Ok(Kept::Copy { file, has_links })
    }
}

/// The file's path as this process has it, if only root and this user can change what is there.
fn own(path: &str, about: &Metadata) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    let there = fs::symlink_metadata(&path).ok()?;
    let same = (there.dev(), there.ino()) == (about.dev(), about.ino());
    (same && path.ancestors().all(is_own)).then_some(path)
}

fn is_own(path: &Path) -> bool {
    // SAFETY: it has no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    fs::symlink_metadata(path)
        .is_ok_and(|about| [0, user].contains(&about.uid()) && about.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that everybody may write to, and the directory that it is in.
    fn program_of_all() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        fs::copy("/proc/self/exe", &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        (dir, path)
    }

    #[test]
    fn what_others_can_change_is_copied() {
        let (_dir, path) = program_of_all();
        let copies = Copies::default();
        let source = copies.source(path.to_str().unwrap()).unwrap();
        assert!(source.path.starts_with("/proc/self/fd") && source.debug);
        fs::write(&path, "").unwrap(); // its copy is as long as before
        let copy = fs::read(&source.path).unwrap();
        assert!(copy == fs::read("/proc/self/exe").unwrap());
        assert!(copies.source(path.to_str().unwrap()).is_none());
    }

    #[test]
    fn a_file_of_root_is_opened_itself() {
        let program = fs::canonicalize("/bin/sh").unwrap();
        let source = Copies::default().source("/proc/self/root/bin/sh").unwrap();
        assert_eq!((source.path, source.debug), (program, true));
    }

    #[test]
    fn no_more_is_copied_than_fits() {
        let (_dir, path) = program_of_all();
        let copies = Copies::default();
        copies.left.set(fs::metadata(&path).unwrap().len() - 1);
        assert!(copies.source(path.to_str().unwrap()).is_none());
    }
}
