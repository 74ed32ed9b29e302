// SPDX-License-Identifier: MIT
//! Call stacks of another process, from registers and a copy of the stack, by the call frame information of its files: libc
//! is compiled without frame pointers. x86-64 only: elsewhere a stack has its innermost place alone.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;

use flexguard_monitor::{Registers, Wait};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Register, RegisterRule,
    UnwindContext, UnwindSection,
};

use super::elf::{self, Section, file_address, sections};

/// As DWARF numbers them.
const BP: Register = Register(6);
const SP: Register = Register(7);
const RETURN: Register = Register(16);
/// Deeper is no stack that a reader wants.
const MOST: usize = 64;

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

    fn at(&self, address: u64) -> Option<&Mapped> {
        let mut mapped = self.mapped.iter();
        mapped.find(|m| (m.start..m.end).contains(&address))
    }

    /// The file of the address, to open, and the address in it as the file counts.
    pub fn in_file(&self, address: u64) -> Option<(String, u64)> {
        let (path, base) = self.base(address)?;
        Some((path, address.checked_sub(base)?))
    }

    /// As the process's own mount namespace names it.
    pub fn path(&self, address: u64) -> Option<String> {
        let mapped = self.at(address).filter(|m| !m.path.is_empty())?;
        let path = mapped.path.strip_suffix(DELETED);
        Some(path.unwrap_or(&mapped.path).to_owned())
    }

    /// The file that the address belongs to, and what the loader has added to the file's own addresses.
    fn base(&self, address: u64) -> Option<(String, u64)> {
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

/// How to get from a function to its caller.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Where the caller's stack pointer was: an offset to this register.
    from: Register,
    offset: i64,
    /// Where the return address and the caller's frame pointer are, from there; None: it has been left alone.
    back: i64,
    bp: Option<i64>,
}

struct File {
    bytes: Vec<u8>,
    base: u64,
}

/// Remembers the files that it has read, and the steps.
pub struct Unwinder {
    maps: Maps,
    files: HashMap<String, Option<File>>,
    steps: HashMap<u64, Option<Step>>,
}

impl Unwinder {
    pub fn new(pid: u32) -> Unwinder {
        Unwinder {
            maps: Maps::of(pid),
            files: HashMap::new(),
            steps: HashMap::new(),
        }
    }

    /// Addresses, innermost first; all but the first are return addresses.
    pub fn stack(&mut self, wait: &Wait) -> Vec<u64> {
        let mut at = wait.registers;
        let mut stack = vec![at.ip];
        if !cfg!(target_arch = "x86_64") {
            return stack;
        }
        while stack.len() < MOST {
            // A return address may be behind the function's last instruction.
            let place = at.ip - u64::from(stack.len() > 1);
            let Some(step) = self.step(place) else { break };
            let Some(caller) = step.take(at, wait) else {
                break;
            };
            if caller.ip == 0 || caller.sp <= at.sp || self.maps.at(caller.ip).is_none() {
                break;
            }
            stack.push(caller.ip);
            at = caller;
        }
        stack
    }

    /// The files in which these addresses, and those of variables, are.
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    fn step(&mut self, place: u64) -> Option<Step> {
        if let Some(step) = self.steps.get(&place) {
            return *step;
        }
        let step = self.find_step(place);
        self.steps.insert(place, step);
        step
    }

    fn find_step(&mut self, place: u64) -> Option<Step> {
        // A file may have been loaded since.
        if self.maps.at(place).is_none() {
            self.maps = Maps::of(self.maps.pid);
        }
        let path = self.maps.at(place)?.path.clone();
        let maps = &self.maps;
        let file = self.files.entry(path).or_insert_with(|| {
            let (path, base) = maps.base(place)?;
            let bytes = elf::read(&path)?;
            Some(File { bytes, base })
        });
        let file = file.as_ref()?;
        step_in(&file.bytes, place.checked_sub(file.base)?)
    }
}

fn step_in(bytes: &[u8], address: u64) -> Option<Step> {
    let sections = sections(bytes)?;
    let named = |name: &[u8]| sections.iter().find(|s| s.name == name);
    let at = |section: Option<&Section>| section.map_or(0, |s| s.address);
    let (frames, index) = (named(b".eh_frame")?, named(b".eh_frame_hdr")?);
    let bases = BaseAddresses::default()
        .set_eh_frame(frames.address)
        .set_eh_frame_hdr(index.address)
        .set_text(at(named(b".text")))
        .set_got(at(named(b".got")));
    let frames = EhFrame::from(EndianSlice::new(frames.bytes, LittleEndian));
    let index = EhFrameHdr::from(EndianSlice::new(index.bytes, LittleEndian));
    let index = index.parse(&bases, 8).ok()?;
    let mut context = UnwindContext::new();
    let row = index
        .table()?
        .unwind_info_for_address(
            &frames,
            &bases,
            &mut context,
            address,
            |section, bases, at| section.cie_from_offset(bases, at),
        )
        .ok()?;
    let &CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
        return None; // an expression: the linker's own stubs have one
    };
    let Some(RegisterRule::Offset(back)) = row.register(RETURN) else {
        return None; // the outermost function has no caller
    };
    let bp = match row.register(BP) {
        Some(RegisterRule::Offset(bp)) => Some(bp),
        _ => None,
    };
    Some(Step {
        from: register,
        offset,
        back,
        bp,
    })
}

impl Step {
    fn take(&self, at: Registers, wait: &Wait) -> Option<Registers> {
        let from = match self.from {
            SP => at.sp,
            BP => at.bp,
            _ => return None,
        };
        let sp = from.checked_add_signed(self.offset)?;
        let word = |offset: i64| {
            let place = sp
                .checked_add_signed(offset)?
                .checked_sub(wait.registers.sp)?;
            let place = usize::try_from(place).ok()?;
            let bytes = wait.stack.get(place..place.checked_add(8)?)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        Some(Registers {
            ip: word(self.back)?,
            sp,
            bp: match self.bp {
                Some(offset) => word(offset)?,
                None => at.bp,
            },
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

    #[test]
    fn a_fifo_or_a_text_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let made = std::process::Command::new("mkfifo")
            .arg(path("fifo"))
            .status();
        assert!(made.unwrap().success());
        fs::write(path("text"), "no library").unwrap();
        for name in ["fifo", "text", "none"] {
            assert_eq!(elf::read(&path(name)), None);
        }
        assert_eq!(elf::read("/dev/zero"), None);
    }
}
