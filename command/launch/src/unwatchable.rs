// SPDX-License-Identifier: MIT
//! Programs into which no lock can be put. They are left alone: the loader of each finds nothing to load, or nobody
//! loads, and what is preloaded is there for their children. docs/guide/limits.md has the table.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{getegid, geteuid, getgid, getuid};

use crate::elf::{self, LOAD, Segment, number};
use crate::failure::{Failure, NOT_EXECUTABLE, Result};

const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
/// What a hostile file may make us read at once.
const MOST_BYTES: u64 = 1 << 16;

/// Why a program gets no lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    Static,
    ThirtyTwoBit,
    /// By its loader.
    Musl(String),
    Privileged,
    /// gcc's, a library of its own. The program's own, as clang has it, goes with every lock.
    ThreadSanitizer,
    /// Valgrind's tool of that name, which knows glibc's locks alone.
    RaceChecker(&'static str),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Static => f.write_str("it is linked statically"),
            Reason::ThirtyTwoBit => f.write_str("it is a 32-bit program"),
            Reason::Musl(loader) => write!(f, "it is linked to musl ({loader})"),
            Reason::Privileged => f.write_str(
                "it is setuid, setgid or has capabilities, and its loader preloads nothing",
            ),
            Reason::ThreadSanitizer => f.write_str("ThreadSanitizer watches its locks"),
            Reason::RaceChecker(tool) => write!(f, "Valgrind's {tool} watches its locks"),
        }
    }
}

/// Why the program that this command line would start gets no lock; None: it gets one, as far as is seen without starting
/// it. Of a script it is the interpreter.
pub fn reason(command: &[OsString]) -> Option<Reason> {
    let (program, arguments) = command.split_first()?;
    if let Some(tool) = race_checker(program, arguments, std::env::var_os("VALGRIND_OPTS")) {
        return Some(Reason::RaceChecker(tool));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = find(program, &path)?;
    of_file(&interpreter(&found).unwrap_or(found))
}

impl Reason {
    /// The program that is meant is one that this one starts: it must not be given the lock either.
    pub fn is_of_what_it_starts(&self) -> bool {
        matches!(self, Reason::RaceChecker(_))
    }
}

/// The tool that Valgrind would run, if it watches the locks of a program. Of its options the last counts, and the command
/// line's are after those of the environment.
fn race_checker(
    program: &OsStr,
    arguments: &[OsString],
    options: Option<OsString>,
) -> Option<&'static str> {
    if Path::new(program).file_name()? != "valgrind" {
        return None;
    }
    let of_environment = options.unwrap_or_default();
    let of_environment = of_environment.as_bytes().split(u8::is_ascii_whitespace);
    let own = arguments.iter().map(|argument| argument.as_bytes());
    let own = own.take_while(|argument| argument.starts_with(b"-"));
    let tools = of_environment.chain(own);
    let tool = tools.filter_map(|option| option.strip_prefix(b"--tool="));
    let tool = tool.last()?;
    ["helgrind", "drd"]
        .into_iter()
        .find(|known| known.as_bytes() == tool)
}

/// Why a program that is this file gets no lock.
pub fn of_file(file: &Path) -> Option<Reason> {
    match is_privileged(file) {
        true => Some(Reason::Privileged),
        false => Elf::open(file)?.reason(),
    }
}

/// Refuses a program that the locks' effect on it is asked for.
pub fn refuse(command: &[OsString]) -> Result<()> {
    match reason(command) {
        None | Some(Reason::Privileged) => Ok(()), // its children may be meant
        Some(reason) => Err(Failure::new(format_args!(
            "{} can have no lock but its own: {reason}",
            command[0].display()
        ))
        .code(NOT_EXECUTABLE)
        .advice(match reason {
            Reason::RaceChecker(_) => "run the program without Valgrind",
            _ => "use a build that is linked dynamically, to glibc, for 64 bits, and without sanitizers",
        })),
    }
}

/// The loader that a 64-bit ELF file names.
pub(crate) fn loader(file: &Path) -> Option<String> {
    Elf::open(file)?.loader()
}

/// The file that the kernel will be asked to execute.
pub(crate) fn find(program: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if program.to_string_lossy().contains('/') {
        return Some(program.into());
    }
    std::env::split_paths(path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut line = [0; 256];
    let n = File::open(path).ok()?.read_at(&mut line, 0).ok()?;
    let line = line[..n].strip_prefix(b"#!")?;
    let mut words = line.split(|b| b.is_ascii_whitespace());
    let word = words.find(|word| !word.is_empty())?;
    Some(OsStr::from_bytes(word).into())
}

/// Does it start with other rights than ours? The loader then trusts no variable.
fn is_privileged(path: &Path) -> bool {
    let Ok(file) = path.metadata() else {
        return false;
    };
    let (mode, user, group) = (file.permissions().mode(), getuid(), getgid());
    (mode & libc::S_ISUID != 0 && file.uid() != user.as_raw())
        || (mode & libc::S_ISGID != 0 && file.gid() != group.as_raw())
        || geteuid() != user
        || getegid() != group
        || (!user.is_root() && has_capabilities(path))
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let name = c"security.capability";
    // SAFETY: both strings end, and no buffer is given.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// An ELF file of this machine's byte order.
enum Elf {
    ThirtyTwoBit,
    SixtyFourBit(File, Vec<Segment>),
}

impl Elf {
    /// None: no such file, or one that ends too early.
    fn open(path: &Path) -> Option<Elf> {
        let file = File::open(path).ok()?;
        if read(&file, 0, 6)? == b"\x7fELF\x01\x01" {
            return Some(Elf::ThirtyTwoBit);
        }
        let segments = elf::segments(|at, length| read(&file, at, length))?;
        Some(Elf::SixtyFourBit(file, segments))
    }

    /// That the file names; None: none.
    fn loader(&self) -> Option<String> {
        let Elf::SixtyFourBit(file, segments) = self else {
            return None;
        };
        let interpreter = segments.iter().find(|segment| segment.kind == PT_INTERP)?;
        text(file, interpreter.offset)
    }

    fn reason(&self) -> Option<Reason> {
        let Elf::SixtyFourBit(file, segments) = self else {
            return Some(Reason::ThirtyTwoBit);
        };
        let of_kind = |kind| segments.iter().find(|segment| segment.kind == kind);
        if of_kind(PT_INTERP).is_none() {
            return Some(Reason::Static);
        }
        let loader = self.loader()?;
        if is_musl(&loader) {
            return Some(Reason::Musl(loader));
        }
        let needs = needed(file, segments, of_kind(PT_DYNAMIC)?).unwrap_or_default();
        let sanitized = needs.iter().any(|name| name.starts_with("libtsan.so"));
        sanitized.then_some(Reason::ThreadSanitizer)
    }
}

fn is_musl(loader: &str) -> bool {
    Path::new(loader)
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("ld-musl-"))
}

/// The libraries that a dynamic section names.
fn needed(file: &File, segments: &[Segment], dynamic: &Segment) -> Option<Vec<String>> {
    let entries = read(file, dynamic.offset, dynamic.size.min(MOST_BYTES))?;
    let entry = |bytes: &[u8]| Some((number::<8>(bytes, 0)?, number::<8>(bytes, 8)?));
    let entries: Vec<_> = entries.chunks_exact(16).filter_map(entry).collect();
    let strings = entries.iter().find(|(tag, _)| *tag == DT_STRTAB)?.1;
    let mut loaded = segments.iter().filter(|segment| segment.kind == LOAD);
    let segment = loaded.find(|s| strings.wrapping_sub(s.address) < s.size)?;
    let strings = strings
        .wrapping_sub(segment.address)
        .checked_add(segment.offset)?;
    let names = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED);
    names
        .map(|(_, at)| text(file, strings.checked_add(*at)?))
        .collect()
}

fn read(file: &File, at: u64, length: u64) -> Option<Vec<u8>> {
    if length > MOST_BYTES {
        return None;
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

/// Up to the byte 0.
fn text(file: &File, at: u64) -> Option<String> {
    let mut bytes = vec![0; 4096];
    let n = loop {
        match file.read_at(&mut bytes, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read.ok()?,
        }
    };
    let end = bytes[..n].iter().position(|byte| *byte == 0)?;
    bytes.truncate(end);
    let text = std::ffi::OsString::from_vec(bytes);
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &Path) -> Option<Option<Reason>> {
        Elf::open(path).map(|elf| elf.reason())
    }

    #[test]
    fn this_program_can_have_a_lock() {
        assert_eq!(of(&std::env::current_exe().unwrap()), Some(None));
        assert!(is_musl("/lib/ld-musl-x86_64.so.1"));
        assert!(of(Path::new("/etc/passwd")).is_none());
        assert!(of(Path::new("/no/such/file")).is_none());
    }

    #[test]
    fn what_a_file_claims_is_not_trusted() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        for at in 0..64.min(own.len()) {
            for value in [0, 0x7f, 0xff] {
                let mut bytes = own[..4096.min(own.len())].to_vec();
                bytes[at] = value;
                std::fs::write(&path, &bytes).unwrap();
                let _ = of(&path);
            }
        }
        for end in (0..4096.min(own.len())).step_by(7) {
            std::fs::write(&path, &own[..end]).unwrap();
            let _ = of(&path);
        }
    }

    #[test]
    fn fuzz_programs() {
        let own = std::fs::read("/bin/true").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        flexguard_fuzz::fuzz("programs", &[&own], |input| {
            std::fs::write(&path, input).unwrap();
            let _ = (of(&path), interpreter(&path));
        });
    }

    #[test]
    fn names_are_looked_up_as_execvp_does() {
        let path = OsStr::new("/no/such/directory:/usr/bin:/bin");
        assert!(find(OsStr::new("env"), path).unwrap().ends_with("bin/env"));
        assert_eq!(find(OsStr::new("no-such-program"), path), None);
        assert_eq!(find(OsStr::new("./x"), path).unwrap(), Path::new("./x"));
    }

    #[test]
    fn checkers_of_races_see_the_locks_of_glibc() {
        let tool = |command: &str, options: &str| {
            let words: Vec<OsString> = command.split_whitespace().map(Into::into).collect();
            race_checker(&words[0], &words[1..], Some(options.into()))
        };
        let helgrind = Some("helgrind");
        assert_eq!(tool("valgrind --tool=helgrind ./p", ""), helgrind);
        assert_eq!(tool("/usr/bin/valgrind -q --tool=drd ./p", ""), Some("drd"));
        assert_eq!(tool("valgrind ./p", "-q --tool=helgrind"), helgrind);
        assert_eq!(tool("valgrind --tool=none ./p", "--tool=drd"), None);
        assert_eq!(tool("valgrind ./p --tool=drd", ""), None);
        assert_eq!(tool("grep --tool=drd", ""), None);
    }

    #[test]
    fn of_a_script_it_is_the_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script");
        std::fs::write(&path, "#! /bin/sh -e\necho\n").unwrap();
        assert_eq!(interpreter(&path).unwrap(), Path::new("/bin/sh"));
        assert_eq!(interpreter(Path::new("/bin/sh")), None);
    }
}
