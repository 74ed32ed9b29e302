// SPDX-License-Identifier: MIT
//! Writing to stdout and stderr without panics, also where the reader has closed them.

use std::io::{self, Write};

use crate::failure::{Context, Result};
use crate::signals;

/// Writes `text` to stdout. If the reader has gone (`flexguard list | head -1`) the command ends as any filter does: by SIGPIPE.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => signals::die_by(libc::SIGPIPE),
        done => done.context("cannot write to stdout"),
    }
}

/// Writes `text` to stdout if anybody reads it: for a daemon, which goes on either way.
pub fn announce(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes `value` to stdout as indented JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&to_json(value)?)
}

pub fn to_json(value: &impl serde::Serialize) -> Result<String> {
    let mut text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
    text.push('\n');
    Ok(text)
}

/// Writes `text` to stderr. A failure has nowhere to be reported.
pub fn note(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
