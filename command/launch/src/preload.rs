// SPDX-License-Identifier: MIT
//! The environment that puts a lock's interposer into a program.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::filters::{self, FILTERS_ENV};
use crate::locks::{self, POSIX};
use crate::prefix::Prefix;

const PRELOAD_ENV: &str = "LD_PRELOAD";
const ASAN_ENV: &str = "ASAN_OPTIONS";
/// AddressSanitizer ends a program whose first library is not its own. It needs to be before libc only, and is.
const ASAN_ORDER: &str = "verify_asan_link_order=0";

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
        let interposer = prefix.for_each_loader(&interposer);
        let value = Self::prepended(&interposer, std::env::var_os(PRELOAD_ENV).as_deref())?;
        Ok(Self {
            value: Some(value),
            besides: found.environment(),
        })
    }

    /// With another object before it.
    pub fn behind(self, prefix: &Prefix, object: &Path) -> Result<Self> {
        readable(object, "the profiler")?;
        let object = &prefix.for_each_loader(object);
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
            let own = filters::of("self").unwrap_or(0);
            let expected = filters::expected(own, std::env::var(FILTERS_ENV).ok());
            command.env(FILTERS_ENV, expected.to_string());
            command.env(ASAN_ENV, asan_options(std::env::var_os(ASAN_ENV)));
        }
        command.envs(self.besides.clone());
    }
}

/// Of two values the last counts, which is the user's.
fn asan_options(inherited: Option<OsString>) -> OsString {
    let mut options = OsString::from(ASAN_ORDER);
    if let Some(inherited) = inherited.filter(|options| !options.is_empty()) {
        options.push(":");
        options.push(inherited);
    }
    options
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
    fn the_users_options_for_address_sanitizer_stay() {
        let options = |inherited: &str| asan_options(Some(inherited.into()));
        assert_eq!(asan_options(None), ASAN_ORDER);
        assert_eq!(options(""), ASAN_ORDER);
        assert_eq!(
            options("a=1:b=2"),
            OsString::from("verify_asan_link_order=0:a=1:b=2")
        );
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
