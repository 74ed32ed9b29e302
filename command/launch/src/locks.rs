// SPDX-License-Identifier: MIT
//! The locks of this installation, as `share/flexguard/LOCKS` lists them.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::names;
use crate::prefix::Prefix;

pub const POSIX: &str = "posix";
pub const DEFAULT: &str = "flexguard";

/// Set to 1: use a lock although this machine lacks what it needs.
pub const FORCE_ENV: &str = "FLEXGUARD_FORCE";
const TUNABLES_ENV: &str = "GLIBC_TUNABLES";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Lock {
    pub name: String,
    /// `libc`, `spin`, `block` or `adaptive`.
    pub class: String,
    pub brief: String,
    /// `slice`: the kernel's time-slice extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// The program that knows whether this machine has it.
    #[serde(skip)]
    pub probe: PathBuf,
}

impl Lock {
    /// Refuses a lock that would not be what its name says on this machine, unless FLEXGUARD_FORCE=1.
    pub fn demand(&self) -> Result<()> {
        let Some(needs) = &self.needs else {
            return Ok(());
        };
        if std::env::var_os(FORCE_ENV).is_some_and(|force| force == "1") {
            return Ok(());
        }
        let lack = lack(&self.probe, needs).map_err(|e| {
            Failure::because(e, format_args!("cannot run {}", self.probe.display()))
                .advice("the installation is incomplete: run `make`")
        })?;
        let Some(why) = lack else {
            return Ok(());
        };
        Err(Failure::new(format_args!(
            "{} needs the kernel's time-slice extension: {why}",
            self.name
        ))
        .advice(format_args!(
            "choose another lock, or set {FORCE_ENV}=1 to use this one without the extension"
        )))
    }

    /// What a process under this lock needs in its environment.
    pub fn environment(&self) -> Option<(&'static str, OsString)> {
        self.needs.as_ref().map(|_| slice_environment())
    }
}

/// The C library's own area for restartable sequences is too short for a slice extension before glibc 2.41, and only
/// one can be registered: then the lock registers it.
fn slice_environment() -> (&'static str, OsString) {
    let mut tunables = std::env::var_os(TUNABLES_ENV).unwrap_or_default();
    if !tunables.is_empty() {
        tunables.push(":");
    }
    tunables.push("glibc.pthread.rseq=0");
    (TUNABLES_ENV, tunables)
}

/// What fg-probe says, in a process that is started as under a lock that needs something: what it has found, or why not.
pub fn ask(probe: &Path, what: &str) -> io::Result<Result<String, String>> {
    let (name, value) = slice_environment();
    let answer = Command::new(probe)
        .arg(what)
        .env(name, value)
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&answer.stdout).trim().to_string();
    Ok(if answer.status.success() {
        Ok(said)
    } else {
        Err(said)
    })
}

/// Why this machine lacks what a lock `needs`; None: it does not.
pub fn lack(probe: &Path, needs: &str) -> io::Result<Option<String>> {
    ask(probe, needs).map(Result::err)
}

/// posix, then every lock in the order of the index.
pub fn read(prefix: &Prefix) -> Result<Vec<Lock>> {
    let path = prefix.lock_index();
    let text = std::fs::read_to_string(&path).map_err(|e| {
        Failure::because(
            e,
            format_args!("cannot read the index of locks, {}", path.display()),
        )
        .advice(format_args!(
            "the installation is incomplete: run `make`, or set {} to a complete one",
            crate::prefix::PREFIX_ENV
        ))
    })?;
    let mut locks = parse(&text).map_err(|line| {
        Failure::new(format_args!(
            "{}:{line}: the line does not have three or four fields separated by tabs",
            path.display()
        ))
        .advice("the installation is damaged: run `make` again")
    })?;
    for lock in &mut locks {
        lock.probe = prefix.probe();
    }
    Ok(locks)
}

/// Err: the number of the first malformed line.
fn parse(text: &str) -> Result<Vec<Lock>, usize> {
    let mut locks = vec![Lock {
        name: POSIX.into(),
        class: "libc".into(),
        brief: "the C library's own mutexes, nothing interposed".into(),
        ..Lock::default()
    }];
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, class, brief, ref more @ ..] = fields[..] else {
            return Err(number + 1);
        };
        let needs = match more {
            [] => None,
            [field] => Some(field.strip_prefix("needs=").ok_or(number + 1)?.into()),
            _ => return Err(number + 1),
        };
        locks.push(Lock {
            name: name.into(),
            class: class.into(),
            brief: brief.into(),
            needs,
            ..Lock::default()
        });
    }
    Ok(locks)
}

/// The lock called `name`, or an error that names the nearest.
pub fn find<'a>(locks: &'a [Lock], name: &str) -> Result<&'a Lock> {
    if let Some(lock) = locks.iter().find(|l| l.name == name) {
        return Ok(lock);
    }
    let guess = names::guess(name, locks.iter().map(|l| l.name.as_str()));
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
        let locks = parse("# name\tclass\n\na\tspin\tx\n").unwrap();
        assert_eq!(
            locks.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(),
            ["posix", "a"]
        );
        assert_eq!((locks[1].brief.as_str(), &locks[1].needs), ("x", &None));
    }

    #[test]
    fn a_malformed_line_is_named() {
        assert_eq!(parse("a\tspin\tx\nhalf a\tline\n"), Err(2));
        assert_eq!(parse("a\tspin\tx\twants=slice\n"), Err(1));
        assert_eq!(parse("a\tspin\tx\tneeds=slice\tmore\n"), Err(1));
    }

    #[test]
    fn what_a_lock_needs_is_prepared_for() {
        let locks = parse("a\tspin\tx\tneeds=slice\nc\tspin\tx\n").unwrap();
        assert_eq!(locks[1].needs.as_deref(), Some("slice"));
        assert!(locks[1].environment().is_some() && locks[2].environment().is_none());
        assert!(locks[2].demand().is_ok());
    }

    #[test]
    fn an_unknown_lock_names_the_nearest() {
        let locks = parse("tatas\tspin\tx\nmcs\tspin\tx\n").unwrap();
        assert_eq!(find(&locks, "mcs").unwrap().name, "mcs");
        let text = find(&locks, "tata").unwrap_err().report();
        assert!(
            text.contains("'tatas'") && text.contains("flexguard list"),
            "{text}"
        );
    }
}
