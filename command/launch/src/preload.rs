// SPDX-License-Identifier: MIT
//! The environment that puts a lock's interposer into a program.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::locks::{self, POSIX};
use crate::prefix::Prefix;

const PRELOAD_ENV: &str = "LD_PRELOAD";
/// runtime/sandbox.h
const FILTERS_ENV: &str = "FLEXGUARD_FILTERS";

/// What LD_PRELOAD must be for a lock, and what else must be in the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preload {
    value: Option<OsString>,
    besides: Option<(&'static str, OsString)>,
}

impl Preload {
    pub fn of(prefix: &Prefix, lock: &str) -> Result<Self> {
        let known = locks::read(prefix)?;
        let found = locks::find(&known, lock)?;
        found.demand()?;
        if lock == POSIX {
            return Ok(Self::default());
        }
        let interposer = prefix.interposer(lock);
        readable(&interposer, "the lock's library")?;
        let value = Self::prepended(&interposer, std::env::var_os(PRELOAD_ENV).as_deref())?;
        Ok(Self {
            value: Some(value),
            besides: found.environment(),
        })
    }

    /// With another object before it.
    pub fn behind(self, object: &Path) -> Result<Self> {
        readable(object, "the profiler")?;
        let after = self.value.or_else(|| std::env::var_os(PRELOAD_ENV));
        Ok(Self {
            value: Some(Self::prepended(object, after.as_deref())?),
            ..self
        })
    }

    fn prepended(interposer: &Path, existing: Option<&OsStr>) -> Result<OsString> {
        let mut value = interposer.as_os_str().to_owned();
        if value.as_bytes().iter().any(|b| matches!(b, b' ' | b':')) {
            return Err(Failure::new(format_args!(
                "{} cannot be preloaded: the loader splits {PRELOAD_ENV} at spaces and colons",
                interposer.display()
            ))
            .advice("install to a path without them, or make a symbolic link without them and set FLEXGUARD_PREFIX to it"));
        }
        if let Some(existing) = existing.filter(|e| !e.is_empty()) {
            value.push(":");
            value.push(existing);
        }
        Ok(value)
    }

    /// Does it replace anything?
    pub fn replaces(&self) -> bool {
        self.value.is_some()
    }

    pub fn apply(&self, command: &mut Command) {
        self.set(PRELOAD_ENV, command);
    }

    /// In another variable than the loader's.
    pub fn set(&self, variable: &str, command: &mut Command) {
        if let Some(value) = &self.value {
            command.env(variable, value);
            let expected =
                filters_expected(own_filters().unwrap_or(0), std::env::var(FILTERS_ENV).ok());
            command.env(FILTERS_ENV, expected.to_string());
        }
        command.envs(self.besides.clone());
    }
}

/// The user may expect more filters than `own`, as where the program is started in a container of its own.
fn filters_expected(own: u32, inherited: Option<String>) -> u32 {
    let inherited = inherited.and_then(|n| n.trim().parse().ok());
    inherited.map_or(own, |n: u32| n.max(own))
}

/// How many seccomp filters this process is under: a program below it that is under more was put into a sandbox.
fn own_filters() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    lines
        .find_map(|line| line.strip_prefix("Seccomp_filters:"))?
        .trim()
        .parse()
        .ok()
}

fn readable(object: &Path, what: &str) -> Result<()> {
    let opened = File::open(object).map_err(|e| {
        Failure::because(e, format_args!("cannot read {what} {}", object.display()))
            .advice("the installation is incomplete: run `make`")
    });
    opened.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepended(interposer: &str, existing: Option<&str>) -> Result<OsString> {
        Preload::prepended(Path::new(interposer), existing.map(OsStr::new))
    }

    #[test]
    fn the_lock_comes_before_what_is_preloaded_already() {
        assert_eq!(
            prepended("/l/a.so", None).unwrap(),
            OsString::from("/l/a.so")
        );
        assert_eq!(
            prepended("/l/a.so", Some("")).unwrap(),
            OsString::from("/l/a.so")
        );
        assert_eq!(
            prepended("/l/a.so", Some("x.so y.so")).unwrap(),
            OsString::from("/l/a.so:x.so y.so")
        );
    }

    #[test]
    fn more_filters_than_here_may_be_expected() {
        let expected = |own, inherited: &str| filters_expected(own, Some(inherited.to_owned()));
        assert_eq!(filters_expected(2, None), 2);
        assert_eq!(expected(2, "7"), 7);
        assert_eq!(expected(2, "1"), 2);
        assert_eq!(expected(2, "many"), 2);
    }

    #[test]
    fn a_path_that_the_loader_would_split_is_refused() {
        for path in ["/my locks/a.so", "/a:b/a.so"] {
            assert!(
                prepended(path, None)
                    .unwrap_err()
                    .report()
                    .to_string()
                    .contains("splits LD_PRELOAD")
            );
        }
    }
}
