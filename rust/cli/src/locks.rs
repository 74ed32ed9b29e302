// SPDX-License-Identifier: MIT
//! The locks of this installation, as `share/flexguard/LOCKS` lists them.

use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::prefix::Prefix;

pub const POSIX: &str = "posix";
pub const DEFAULT: &str = "flexguard";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lock {
    pub name: String,
    /// `libc`, `spin`, `block` or `adaptive`.
    pub class: String,
    pub brief: String,
}

/// posix, then every lock in the order of the index.
pub fn read(prefix: &Prefix) -> Result<Vec<Lock>> {
    let path = prefix.lock_index();
    let text = std::fs::read_to_string(&path).map_err(|e| {
        Failure::new(format_args!(
            "cannot read the index of locks, {}: {e}",
            path.display()
        ))
        .advice(format_args!(
            "the installation is incomplete: run `make`, or set {} to a complete one",
            crate::prefix::PREFIX_ENV
        ))
    })?;
    parse(&text).map_err(|line| {
        Failure::new(format_args!(
            "{}:{line}: not four fields separated by tabs",
            path.display()
        ))
        .advice("the installation is damaged: run `make` again")
    })
}

/// Err: the number of the first malformed line.
fn parse(text: &str) -> Result<Vec<Lock>, usize> {
    let mut locks = vec![Lock {
        name: POSIX.into(),
        class: "libc".into(),
        brief: "the C library's own mutexes, nothing interposed".into(),
    }];
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.splitn(4, '\t').collect();
        let [name, _file, class, brief] = fields[..] else {
            return Err(number + 1);
        };
        locks.push(Lock {
            name: name.into(),
            class: class.into(),
            brief: brief.into(),
        });
    }
    Ok(locks)
}

/// The lock called `name`, or an error that names the nearest.
pub fn find<'a>(locks: &'a [Lock], name: &str) -> Result<&'a Lock> {
    if let Some(lock) = locks.iter().find(|l| l.name == name) {
        return Ok(lock);
    }
    let nearest = locks
        .iter()
        .map(|l| (strsim::jaro_winkler(&l.name, name), &l.name))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let guess = match nearest {
        Some((likeness, lock)) if likeness > 0.7 => format!("did you mean '{lock}'? "),
        _ => String::new(),
    };
    Err(
        Failure::new(format_args!("there is no lock called '{name}'"))
            .advice(format_args!("{guess}`flexguard list` shows them all")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posix_comes_first_and_comments_are_skipped() {
        let locks = parse("# name\tfile\n\na\tb\tspin\twith\ta tab\n").unwrap();
        assert_eq!(
            locks.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(),
            ["posix", "a"]
        );
        assert_eq!(locks[1].brief, "with\ta tab");
    }

    #[test]
    fn a_malformed_line_is_named() {
        assert_eq!(parse("a\tb\tspin\tx\nhalf\ta line\n"), Err(2));
    }

    #[test]
    fn an_unknown_lock_names_the_nearest() {
        let locks = parse("tatas\ttatas\tspin\tx\nmcs\tmcs\tspin\tx\n").unwrap();
        assert_eq!(find(&locks, "mcs").unwrap().name, "mcs");
        let text = find(&locks, "tata").unwrap_err().report().to_string();
        assert!(
            text.contains("'tatas'") && text.contains("flexguard list"),
            "{text}"
        );
        let text = find(&locks, "zzzzzz").unwrap_err().report().to_string();
        assert!(!text.contains("did you mean"), "{text}");
    }
}
