// SPDX-License-Identifier: MIT
//! What the addresses of another process mean.

use std::fmt;

use blazesym::Pid;
use blazesym::symbolize::source::{Elf, Process, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};
use cpp_demangle::DemangleOptions;
use flexguard_launch::output;
use serde::{Deserialize, Serialize};

use crate::profile::copies::Copies;
use crate::profile::maps::Maps;

/// One place of a call stack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Frame {
    pub address: String,
    /// The function, and how far in it the address is; None where the file has no symbols, or the process has ended.
    pub symbol: Option<String>,
    pub offset: Option<usize>,
    /// The source line, where the file has debug information.
    pub file: Option<String>,
    pub line: Option<u32>,
}

/// What is known of an address.
#[derive(Default)]
struct Found<'s> {
    /// By debug information where there is any.
    sym: Option<Symbolized<'s>>,
    /// By the symbol table. Debug information has one name and one begin for all parts of a function that the compiler has
    /// split (`f.cold`, `f.part.0`); the table has those of each part.
    part: Option<Symbolized<'s>>,
}

/// Remembers the files that it has read.
pub struct Symbols {
    symbolizer: Symbolizer,
    files: Copies,
}

impl Symbols {
    pub fn new() -> Symbols {
        // It would take the C function `f` for the mangled name of a type.
        let symbolizer = Symbolizer::builder().enable_demangling(false).build();
        let files = Copies::default();
        Symbols { symbolizer, files }
    }

    /// `stack` holds addresses of the process `pid`, innermost first. All but the first are behind a call. Where calls were
    /// inlined, one address has several frames.
    pub fn of(&self, pid: u32, stack: &[u64]) -> Vec<Frame> {
        let maps = Maps::of(pid);
        let frames = stack.iter().enumerate();
        frames
            .flat_map(|(i, &address)| {
                let place = address.saturating_sub(u64::from(i > 0));
                let found = match maps.offset(place) {
                    Some((path, offset)) => self.in_file(&path, Input::FileOffset(&[offset])),
                    None => self.in_no_file(pid, place),
                };
                Frame::all(address, i, &found)
            })
            .collect()
    }

    fn in_file(&self, path: &str, place: Input<&[u64]>) -> Found<'_> {
        let Some(file) = self.files.source(path) else {
            return Found::default();
        };
        let find = |debug: bool| {
            let mut source = Elf::new(&file.path);
            source.debug_syms = debug;
            let found = self.symbolizer.symbolize(&Source::Elf(source), place);
            found.ok()?.pop()
        };
        Found {
            sym: find(file.debug),
            part: file.debug.then(|| find(false)).flatten(),
        }
    }

    /// The kernel's part of the process. What a program says of code that it has made is not read: it may be no file.
    fn in_no_file(&self, pid: u32, place: u64) -> Found<'_> {
        let mut process = Process::new(Pid::from(pid));
        (process.debug_syms, process.perf_map) = (false, false);
        let source = Source::Process(process);
        let found = self.symbolizer.symbolize(&source, Input::AbsAddr(&[place]));
        let sym = found.ok().and_then(|mut found| found.pop());
        Found { sym, part: None }
    }

    /// The return address `address` of a process that has gone; in the file, if there is one, it is `in_file`.
    pub fn of_file(&self, file: Option<&str>, in_file: u64, address: u64) -> Vec<Frame> {
        let place = [in_file.saturating_sub(1)];
        match file {
            Some(file) => Frame::all(address, 1, &self.in_file(file, Input::VirtOffset(&place))),
            None => vec![Frame::of(address, 1, None)],
        }
    }
}

impl Frame {
    /// The functions that are inlined at the address, innermost first, and the one that they are inlined in.
    fn all(address: u64, index: usize, found: &Found<'_>) -> Vec<Frame> {
        let symbol = found.sym.as_ref().and_then(Symbolized::as_sym);
        let inlined = symbol.map_or(&[][..], |symbol| &symbol.inlined);
        let mut frames: Vec<Frame> = (inlined.iter().rev())
            .map(|f| Frame::named(address, &f.name, f.code_info.as_ref()))
            .collect();
        let mut outermost = Frame::of(address, index, symbol);
        let part = found.part.as_ref().and_then(Symbolized::as_sym);
        let part = part.map(|part| Frame::of(address, index, Some(part)));
        if let Some(part) = part.filter(|part| part.offset.is_some()) {
            (outermost.symbol, outermost.offset) = (part.symbol, part.offset);
        }
        frames.push(outermost);
        frames
    }

    fn named(address: u64, name: &str, code: Option<&CodeInfo<'_>>) -> Frame {
        Frame {
            address: format!("{address:#x}"),
            symbol: Some(demangled(name)),
            offset: None,
            file: code.map(|code| code.to_path().to_string_lossy().into_owned()),
            line: code.and_then(|code| code.line),
        }
    }

    fn of(address: u64, index: usize, symbol: Option<&Sym<'_>>) -> Frame {
        let Some(symbol) = symbol else {
            return Frame {
                address: format!("{address:#x}"),
                symbol: None,
                offset: None,
                file: None,
                line: None,
            };
        };
        // By debug information, the size of a function in several parts is not known, or less: from the begin of the
        // first part, or of the file, the offset says nothing.
        let inside = symbol.size.is_some_and(|size| symbol.offset < size);
        Frame {
            offset: inside.then(|| symbol.offset + usize::from(index > 0)),
            ..Frame::named(address, &symbol.name, symbol.code_info.as_deref())
        }
    }

    pub fn text(&self) -> String {
        let mut text = self.address.clone();
        if let Some(symbol) = &self.symbol {
            let offset = self
                .offset
                .map(|offset| format!("+{offset:#x}"))
                .unwrap_or_default();
            text += &format!(" {}{offset}", output::foreign(symbol));
        }
        if let Some(file) = &self.file {
            let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
            text += &format!(" ({}{line})", output::foreign(file));
        }
        text
    }
}

/// No longer name is made of a mangled one: in 300 bytes each part can stand for the one before it twice, which takes many
/// seconds and much memory.
const LONGEST: usize = 1 << 16;

#[derive(Default)]
struct Name(String);

impl fmt::Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// What a compiler has mangled, as the source has it. C does not mangle: its names stay.
pub fn demangled(name: &str) -> String {
    if !["_Z", "__Z", "_R"]
        .iter()
        .any(|begin| name.starts_with(begin))
    {
        return name.to_owned();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let cpp = cpp_demangle::Symbol::new(name).ok().and_then(|symbol| {
        let mut name = Name::default();
        let written = symbol.structured_demangle(&mut name, &DemangleOptions::new());
        written.ok().map(|()| name.0)
    });
    cpp.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::Command;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_mangled_names_are_demangled() {
        for (name, source) in [
            ("f", "f"),
            ("d", "d"),
            ("w", "w"),
            ("_Z3barv", "bar()"),
            (
                "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
                "core::fmt::Write::write_fmt",
            ),
        ] {
            assert_eq!(demangled(name), source);
        }
    }

    #[test]
    fn a_name_that_would_become_very_long_stays_mangled() {
        // f(pair<int, int>, pair<pair<int, int>, pair<int, int>>, ...)
        let doubled = |levels: u32| {
            let number = |n: u32| char::from_digit(n, 36).unwrap().to_ascii_uppercase();
            let pair = |n| format!("S_IS{0}_S{0}_E", number(n));
            let pairs: String = (0..levels).map(pair).collect();
            demangled(&format!("_Z1fSt4pairIiiE{pairs}"))
        };
        assert!(doubled(2).starts_with("f(std::pair<int, int>, std::pair<std::pair<int, int>"));
        assert!(doubled(14).starts_with("_Z1fSt4pairIiiE"));
    }

    #[inline(never)]
    fn a_place_in_this_program() -> u64 {
        a_place_in_this_program as *const () as u64
    }

    #[test]
    fn a_function_of_this_process_has_its_name() {
        let place = a_place_in_this_program();
        let frames = Symbols::new().of(std::process::id(), &[place, place + 1, 1]);
        for frame in &frames[..2] {
            let name = frame.symbol.as_deref().unwrap_or_default();
            assert!(name.contains("a_place_in_this_program"), "{frame:?}");
        }
        assert_eq!((frames[0].offset, frames[1].offset), (Some(0), Some(1)));
        assert_eq!(
            (frames[2].address.as_str(), &frames[2].symbol),
            ("0x1", &None)
        );
    }

    /// A page of the file that stays mapped, as code.
    fn mapped(path: &Path) -> u64 {
        let file = File::open(path).unwrap();
        let (read, private) = (libc::PROT_READ, libc::MAP_PRIVATE);
        // SAFETY: the kernel finds a place where nothing is.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                read,
                private,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(page, libc::MAP_FAILED);
        page as u64
    }

    /// A program may name anything as its debug information, and write what it likes where a symbolizer looks for it.
    #[test]
    fn a_fifo_that_a_file_names_as_its_debug_information_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let [fifo, link, library] =
            ["fifo", "link", "library.so"].map(|name| dir.path().join(name));
        let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
            assert!(
                Command::new(program)
                    .args(arguments)
                    .status()
                    .unwrap()
                    .success()
            );
        };
        run("mkfifo", &[fifo.as_os_str()]);
        let mut named = fifo.as_os_str().as_bytes().to_vec();
        named.resize((named.len() / 4 + 2) * 4, 0); // a zero at least, and the checksum
        fs::write(&link, named).unwrap();
        let mut add = std::ffi::OsString::from(".gnu_debuglink=");
        add.push(&link);
        run(
            "objcopy",
            &[
                "--add-section".as_ref(),
                &add,
                "/proc/self/exe".as_ref(),
                library.as_os_str(),
            ],
        );
        fs::set_permissions(&library, fs::Permissions::from_mode(0o666)).unwrap();
        let place = mapped(&library);
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let symbols = Symbols::new();
            let of_process = symbols.of(std::process::id(), &[place]).len();
            let path = library.to_str().map(str::to_owned);
            let of_file = symbols.of_file(path.as_deref(), 1, place).len();
            let _ = send.send((of_process, of_file));
        });
        let found = receive.recv_timeout(Duration::from_secs(60));
        assert_eq!(found, Ok((1, 1)), "it waits for a writer of the FIFO");
    }

    #[test]
    fn of_a_process_that_has_gone_the_addresses_remain() {
        let frames = Symbols::new().of(u32::MAX >> 2, &[0x4000]);
        assert_eq!((frames.len(), frames[0].text().as_str()), (1, "0x4000"));
    }
}
