// SPDX-License-Identifier: MIT
//! What the kernel and the C library say of themselves.

use std::ffi::CStr;
use std::io;

/// The first line of a small file; None if it cannot be read.
pub fn read_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(|l| l.trim().to_owned())
}

pub fn glibc_version() -> String {
    // SAFETY: returns a pointer to a constant string.
    unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }
        .to_string_lossy()
        .into_owned()
}

/// The size of the restartable-sequence area that the C library registered for each thread (glibc 2.35 and later).
pub fn rseq_area() -> Option<u32> {
    // SAFETY: a look-up by name; if the symbol exists, it is a constant `unsigned int` (glibc's manual, "Restartable Sequences").
    let size = unsafe {
        libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr())
            .cast::<u32>()
            .as_ref()
    }
    .copied();
    size.filter(|size| *size > 0)
}

/// Asks for this thread's time-slice extension (Linux 7.0), and gives it back if it is granted.
pub fn slice_extension() -> io::Result<()> {
    const PR_RSEQ_SLICE_EXTENSION: i32 = 79;
    const SET: libc::c_ulong = 2;
    // SAFETY: without the feature prctl refuses the number; with it, it sets a flag of this thread only.
    unsafe {
        if libc::prctl(
            PR_RSEQ_SLICE_EXTENSION,
            SET,
            1 as libc::c_ulong,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
        ) != 0
        {
            return Err(named(io::Error::last_os_error()));
        }
        libc::prctl(
            PR_RSEQ_SLICE_EXTENSION,
            SET,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
        );
    }
    Ok(())
}

/// The kernel's own words for its refusals.
fn named(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EINVAL) => io::Error::other("this kernel does not know it"),
        Some(524) => io::Error::other("this kernel was built or booted without it"),
        Some(libc::ENXIO) => io::Error::other("the C library's rseq area is missing or too small"),
        _ => error,
    }
}
