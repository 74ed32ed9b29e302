// SPDX-License-Identifier: MIT
//! The locks of Rust under fg-bench's own harness: the C sources of lab/worker make the threads, time the operations
//! and print the result, as they do for every other lock, and call the lock through two functions. The call is all that
//! the locks measured here pay beyond those that inline into the loop.

use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

unsafe extern "C" {
    fn fgb_main(argc: c_int, argv: *mut *mut c_char) -> c_int;
}

/// Runs fg-bench on this process's arguments.
pub fn main() -> ExitCode {
    let arguments: Vec<CString> = std::env::args_os()
        .map(|a| CString::new(a.into_vec()).expect("an argument of a process holds no NUL"))
        .collect();
    let mut argv: Vec<*mut c_char> = arguments
        .iter()
        .map(|a| a.as_ptr().cast_mut())
        .chain([std::ptr::null_mut()])
        .collect();
    let argc = c_int::try_from(arguments.len()).expect("the kernel allows fewer arguments");
    // SAFETY: argv holds argc strings and the NULL behind them, which outlive the call; fg-bench does not write to them.
    let status = unsafe { fgb_main(argc, argv.as_mut_ptr()) };
    ExitCode::from(status as u8)
}
