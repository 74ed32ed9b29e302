// SPDX-License-Identifier: MIT
//! What the kernel and the C library say of themselves.

use std::ffi::CStr;

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
