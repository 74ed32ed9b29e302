// SPDX-License-Identifier: MIT
//! Programs of another C library than glibc, whose loader would take the lock's library and then find that it needs
//! glibc's names.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, NOT_EXECUTABLE, Result};

const PT_INTERP: u32 = 3;

/// Refuses a program whose loader is musl's.
pub fn refuse(program: &OsStr) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(found) = find(program, &path) else {
        return Ok(()); // starting it will say why
    };
    match loader(&found) {
        Some(loader) if is_musl(&loader) => Err(Failure::new(format_args!(
            "{} is linked to musl ({loader}), and the locks replace glibc's",
            program.display()
        ))
        .code(NOT_EXECUTABLE)
        .advice(
            "use its build for glibc, run it with `--lock posix`, or link it to libflexguard.a",
        )),
        _ => Ok(()),
    }
}

fn is_musl(loader: &str) -> bool {
    Path::new(loader)
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("ld-musl-"))
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

/// The loader that a 64-bit ELF file names. None: it names none, or is no such file.
pub(crate) fn loader(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = u64::from_le_bytes(header[32..40].try_into().ok()?);
    let size = u64::from(u16::from_le_bytes(header[54..56].try_into().ok()?));
    let count = u64::from(u16::from_le_bytes(header[56..58].try_into().ok()?));
    for i in 0..count {
        let mut entry = [0; 56];
        let at = table.checked_add(i * size)?;
        file.read_exact_at(&mut entry, at).ok()?;
        if u32::from_le_bytes(entry[..4].try_into().ok()?) != PT_INTERP {
            continue;
        }
        let at = u64::from_le_bytes(entry[8..16].try_into().ok()?);
        let size = u64::from_le_bytes(entry[32..40].try_into().ok()?);
        let mut name = vec![0; usize::try_from(size).ok().filter(|size| *size <= 4096)?];
        file.read_exact_at(&mut name, at).ok()?;
        let end = name.iter().position(|byte| *byte == 0)?;
        return Some(String::from_utf8_lossy(&name[..end]).into_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_of_this_program_is_glibc_s() {
        let own = loader(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.starts_with('/') && !is_musl(&own), "{own}");
        assert!(is_musl("/lib/ld-musl-x86_64.so.1"));
        assert_eq!(loader(Path::new("/etc/passwd")), None);
        assert_eq!(loader(Path::new("/no/such/file")), None);
    }

    #[test]
    fn names_are_looked_up_as_execvp_does() {
        let path = OsStr::new("/no/such/directory:/usr/bin:/bin");
        assert!(find(OsStr::new("env"), path).unwrap().ends_with("bin/env"));
        assert_eq!(find(OsStr::new("no-such-program"), path), None);
        assert_eq!(find(OsStr::new("./x"), path).unwrap(), Path::new("./x"));
    }
}
