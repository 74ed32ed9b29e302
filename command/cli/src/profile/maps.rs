// SPDX-License-Identifier: MIT
//! The memory of another process: which file is where.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;

use flexguard_launch::elf::{self, file_address};

/// What the kernel puts behind the path of a file that has no name now. At the path may be another one: after an update the
/// new library, and for memory that processes share /dev/zero.
const DELETED: &str = " (deleted)";

/// A part of the process's memory.
struct Mapped {
    start: u64,
    end: u64,
    offset: u64,
    /// Of the file, as the process's own mount namespace has it, with DELETED behind it if it is not there any more; empty:
    /// it is of no file.
    path: String,
}

/// The files of a process.
pub struct Maps {
    pid: u32,
    mapped: Vec<Mapped>,
    /// The lowest address of each file, as it counts; None: it cannot be read.
    begins: RefCell<HashMap<String, Option<u64>>>,
}

impl Maps {
    pub fn of(pid: u32) -> Maps {
        let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text); // one name that is no UTF-8 does not hide the others
        let mapped = text.lines().filter_map(Mapped::parse).collect();
        Maps {
            pid,
            mapped,
            begins: RefCell::default(),
        }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn has(&self, address: u64) -> bool {
        self.at(address).is_some()
    }

    fn at(&self, address: u64) -> Option<&Mapped> {
        let mut mapped = self.mapped.iter();
        mapped.find(|m| (m.start..m.end).contains(&address))
    }

    /// The file of the address, to open, and the address in it as the file counts.
    pub fn in_file(&self, address: u64) -> Option<(String, u64)> {
        let (path, base) = self.base(address)?;
        Some((path, address.checked_sub(base)?))
    }

    /// The file of the address, to open, and the offset in it.
    pub fn offset(&self, address: u64) -> Option<(String, u64)> {
        let of = self.at(address).filter(|m| m.path.starts_with('/'))?;
        let offset = of.offset.checked_add(address - of.start)?;
        Some((of.to_open(self.pid), offset))
    }

    /// As the process's own mount namespace names it.
    pub fn path(&self, address: u64) -> Option<String> {
        let mapped = self.at(address).filter(|m| !m.path.is_empty())?;
        let path = mapped.path.strip_suffix(DELETED);
        Some(path.unwrap_or(&mapped.path).to_owned())
    }

    /// The file that the address belongs to, to open, and what the loader has added to the file's own addresses.
    pub fn base(&self, address: u64) -> Option<(String, u64)> {
        let index = (self.mapped.iter()).position(|m| (m.start..m.end).contains(&address))?;
        let mut of = &self.mapped[index];
        if of.path.is_empty() {
            // Uninitialised variables are behind the file's last mapping.
            let before = &self.mapped[index.checked_sub(1)?];
            of = Some(before).filter(|before| before.end == of.start)?;
        }
        if !of.path.starts_with('/') {
            return None;
        }
        let mapped = self.mapped.iter();
        let first = mapped
            .filter(|m| m.path == of.path && m.offset == 0 && m.start <= address)
            .max_by_key(|m| m.start)?;
        let path = first.to_open(self.pid);
        let mut begins = self.begins.borrow_mut();
        let begin = *begins
            .entry(path.clone())
            .or_insert_with(|| file_address(&elf::read(&path)?, 0));
        Some((path, first.start.checked_sub(begin?)?))
    }
}

impl Mapped {
    /// A file without a name is opened by what is mapped, which needs more privilege.
    fn to_open(&self, pid: u32) -> String {
        match self.path.ends_with(DELETED) {
            true => format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end),
            false => format!("/proc/{pid}/root{}", self.path),
        }
    }

    /// `START-END PERMISSIONS OFFSET DEVICE INODE PATH`
    fn parse(line: &str) -> Option<Mapped> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        words.nth(1)?;
        let path = words.next().map_or("", |word| {
            let begin = word.as_ptr() as usize - line.as_ptr() as usize;
            &line[begin..]
        });
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Mapped {
            start: number(start)?,
            end: number(end)?,
            offset: number(offset)?,
            path: path.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::process::id;

    use super::*;

    /// A page that is shared: of the file, or of none. It stays mapped.
    fn page(file: Option<&File>) -> u64 {
        let (kind, fd) = match file {
            Some(file) => (libc::MAP_PRIVATE, file.as_raw_fd()),
            None => (libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
        };
        let nowhere = std::ptr::null_mut();
        // SAFETY: the kernel finds a place where nothing is.
        let page = unsafe { libc::mmap(nowhere, 4096, libc::PROT_READ, kind, fd, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        page as u64
    }

    #[test]
    fn a_line_of_maps_names_the_file_of_its_addresses() {
        let line =
            "7f0000001000-7f0000003000 r-xp 00001000 fe:01 123      /usr/lib/libgomp.so.1.0.0";
        let maps = |line: &str| Maps {
            pid: 0,
            mapped: Mapped::parse(line).into_iter().collect(),
            begins: RefCell::default(),
        };
        let path = |line, address| maps(line).path(address);
        let file = Some("/usr/lib/libgomp.so.1.0.0".to_owned());
        assert_eq!(path(line, 0x7f00_0000_1000), file);
        assert_eq!(path(line, 0x7f00_0000_2fff), file);
        assert_eq!(path(line, 0x7f00_0000_3000), None);
        assert_eq!(path("1000-2000 rw-p 00000000 00:00 0", 0x1000), None);
        assert_eq!(path("", 0), None);
    }

    /// The kernel calls such memory `/dev/zero (deleted)`, and that file has no end.
    #[test]
    fn memory_that_processes_share_is_in_no_file() {
        let place = page(None);
        let maps = Maps::of(id());
        assert_eq!(maps.path(place).as_deref(), Some("/dev/zero"));
        assert_eq!(maps.in_file(place), None);
        // The same by its own name.
        let zero = File::open("/dev/zero").unwrap();
        assert_eq!(Maps::of(id()).in_file(page(Some(&zero))), None);
    }

    #[test]
    fn a_file_that_has_been_replaced_is_the_one_that_is_mapped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("library.so");
        fs::copy("/proc/self/exe", &path).unwrap();
        let place = page(Some(&File::open(&path).unwrap()));
        let named = Maps::of(id()).in_file(place).unwrap().0;
        assert!(named.ends_with("/library.so"), "{named}");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another").unwrap();
        let maps = Maps::of(id());
        assert_eq!(maps.path(place).as_deref(), path.to_str());
        match maps.in_file(place) {
            Some((file, _)) => {
                let own = fs::read("/proc/self/exe").unwrap();
                assert!(elf::read(&file).unwrap() == own, "{file}");
            }
            None => assert!(!nix::unistd::geteuid().is_root()),
        }
    }
}
