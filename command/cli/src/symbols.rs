// SPDX-License-Identifier: MIT
//! What the addresses of another process mean.

use std::fmt;

use blazesym::Pid;
use blazesym::symbolize::source::{Elf, Process, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};
use cpp_demangle::DemangleOptions;
use flexguard_launch::output;
use serde::{Deserialize, Serialize};

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

/// Remembers the files that it has read.
pub struct Symbols(Symbolizer);

impl Symbols {
    pub fn new() -> Symbols {
        // It would take the C function `f` for the mangled name of a type.
        Symbols(Symbolizer::builder().enable_demangling(false).build())
    }

    /// `stack` holds addresses of the process `pid`, innermost first. All but the first are behind a call. Where calls were
    /// inlined, one address has several frames.
    pub fn of(&self, pid: u32, stack: &[u64]) -> Vec<Frame> {
        let source = Source::Process(Process::new(Pid::from(pid)));
        let places: Vec<u64> = (stack.iter().enumerate())
            .map(|(i, &address)| address.saturating_sub(u64::from(i > 0)))
            .collect();
        let found = self.0.symbolize(&source, Input::AbsAddr(&places));
        let found = found.unwrap_or_default();
        let known = |i: usize| found.get(i).and_then(Symbolized::as_sym);
        let frames = stack.iter().enumerate();
        frames
            .flat_map(|(i, &address)| Frame::all(address, i, known(i)))
            .collect()
    }

    /// The return address `address` of a process that has gone; in the file, if there is one, it is `in_file`.
    pub fn of_file(&self, file: Option<&str>, in_file: u64, address: u64) -> Vec<Frame> {
        let found = file.and_then(|file| {
            let source = Source::Elf(Elf::new(file));
            let place = [in_file.saturating_sub(1)];
            let mut found = self.0.symbolize(&source, Input::VirtOffset(&place)).ok()?;
            found.pop()
        });
        Frame::all(address, 1, found.as_ref().and_then(Symbolized::as_sym))
    }
}

impl Frame {
    /// The functions that are inlined at the address, innermost first, and the one that they are inlined in.
    fn all(address: u64, index: usize, symbol: Option<&Sym<'_>>) -> Vec<Frame> {
        let inlined = symbol.map_or(&[][..], |symbol| &symbol.inlined);
        let mut frames: Vec<Frame> = (inlined.iter().rev())
            .map(|f| Frame::named(address, &f.name, f.code_info.as_ref()))
            .collect();
        frames.push(Frame::of(address, index, symbol));
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
        // Of a function in several parts the size is not known, or less: from the begin of the first part, or of the
        // file, the offset says nothing.
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

    #[test]
    fn of_a_process_that_has_gone_the_addresses_remain() {
        let frames = Symbols::new().of(u32::MAX >> 2, &[0x4000]);
        assert_eq!((frames.len(), frames[0].text().as_str()), (1, "0x4000"));
    }
}
