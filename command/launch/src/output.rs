// SPDX-License-Identifier: MIT
//! Writing to stdout and stderr without panics, also where the reader has closed them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::failure::{Context, Result};
use crate::signals;

/// Is it more than a character to a terminal: does it move the cursor, change colours or titles, or the order of what
/// stands around it?
fn is_command(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn without(text: &str, unwanted: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&unwanted) {
        return text.into();
    }
    let mut shown = String::new();
    for c in text.chars() {
        match unwanted(c) {
            true => shown += &format!("\\u{:04x}", u32::from(c)), // in JSON, too
            false => shown.push(c),
        }
    }
    shown.into()
}

/// Text that may have parts from anybody (names of programs, symbols, files, control groups), as a terminal may have it.
/// All that is written below is.
pub fn printable(text: &str) -> Cow<'_, str> {
    without(text, |c| is_command(c) && c != '\n' && c != '\t')
}

/// Such a part by itself: it stays on its line.
pub fn foreign(text: &str) -> Cow<'_, str> {
    without(text, is_command)
}

/// Writes `text` to stdout. If the reader has gone (`flexguard list | head -1`) the command ends as any filter does: by SIGPIPE.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let text = printable(text);
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => signals::die_by(libc::SIGPIPE),
        done => done.context("cannot write to stdout"),
    }
}

/// Writes `text` to stdout if anybody reads it: for a daemon, which goes on either way.
pub fn announce(text: &str) {
    let mut out = io::stdout().lock();
    let text = printable(text);
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
    let _ = io::stderr().lock().write_all(printable(text).as_bytes());
}

/// For a log: what is written to it is noted.
pub struct Notes;

impl Write for Notes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        note(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Likewise, but each text once only: for what several experiments of one command meet.
pub fn note_once(text: &str) {
    static NOTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
    if noted.insert(text.to_owned()) {
        note(text);
    }
}

/// Rows in columns below their titles, of which there may be none. The columns `numbers` are aligned right.
pub fn table<T: Into<comfy_table::Cell>>(
    titles: &[impl ToString],
    rows: Vec<Vec<T>>,
    numbers: Range<usize>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    if !titles.is_empty() {
        table.set_header(titles.iter().map(ToString::to_string));
    }
    table.add_rows(rows);
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if numbers.contains(&i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_commands_from_foreign_text() {
        let name = "\x1b]0;title\x07\u{9b}31m\r\u{202e}gpj.\x7fz\u{e4}";
        let shown = "\\u001b]0;title\\u0007\\u009b31m\\u000d\\u202egpj.\\u007fz\u{e4}";
        assert_eq!(printable(name), shown);
        assert_eq!(foreign(name), shown);
        assert_eq!(printable("a\tb\n"), "a\tb\n");
        assert_eq!(foreign("a\tb\n"), "a\\u0009b\\u000a");
        let json = to_json(&name).unwrap();
        let read: String = serde_json::from_str(&printable(&json)).unwrap();
        assert_eq!(read, name, "JSON means the same");
    }

    #[test]
    fn names_left_numbers_right() {
        let titles = ["lock", "ops"];
        let rows = vec![vec!["posix", "1"], vec!["mcs", "1000"]];
        assert_eq!(
            table(&titles, rows, 1..2),
            "lock    ops\nposix     1\nmcs    1000\n"
        );
    }
}
