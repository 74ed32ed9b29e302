// SPDX-License-Identifier: MIT
//! `flexguard run`: a program with another lock in place of its mutexes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::args::{self, StatsFormat};
use crate::attach::{Attachment, SOCKET_ENV};
use crate::child::{self, Child, Status};
use crate::failure::{Context, Failure, Result};
use crate::locks::{self, POSIX};
use crate::output;
use crate::prefix::Prefix;
use crate::signals;
use crate::summary::{Counted, Summary};

const PRELOAD_ENV: &str = "LD_PRELOAD";

pub fn run(args: args::Run) -> Result<Status> {
    let preload = Preload::of(&Prefix::find()?, &args.lock)?;
    let mut command = child::command(&args.program);
    preload.apply(&mut command);

    let Some(summary) = SummarySink::open(&args)? else {
        return run_quietly(&args, command);
    };
    signals::hold();
    let monitor = Attachment::find(args.monitor.monitor)?;
    command.env(SOCKET_ENV, monitor.socket());
    let before = monitor.stats();
    let start = Instant::now();
    let end = Child::spawn(&mut command)?.stand_in()?;
    let elapsed = start.elapsed();
    let counted = before
        .zip(monitor.stats())
        .and_then(|(before, after)| Counted::between(&before, &after));
    summary.write(&Summary::new(&args.lock, &monitor, counted, &end, elapsed))?;
    Ok(end.status)
}

/// Nobody asked for a summary: stay only if the program needs a monitor of ours.
fn run_quietly(args: &args::Run, mut command: Command) -> Result<Status> {
    if let Some(monitor) = Attachment::find_without_loading(args.monitor.monitor)? {
        return Err(become_program(command, &monitor));
    }
    signals::hold();
    let monitor = Attachment::find(args.monitor.monitor)?;
    if !monitor.is_active() {
        return Err(become_program(command, &monitor));
    }
    command.env(SOCKET_ENV, monitor.socket());
    Ok(Child::spawn(&mut command)?.stand_in()?.status)
}

/// Returns only if that fails.
fn become_program(mut command: Command, monitor: &Attachment) -> Failure {
    let error = command.env(SOCKET_ENV, monitor.socket()).exec();
    child::cannot_start(&command, &error)
}

/// What LD_PRELOAD must be for a lock, and what else must be in the environment.
#[derive(Debug, Default, PartialEq, Eq)]
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
        if let Err(e) = File::open(&interposer) {
            return Err(Failure::new(format_args!(
                "cannot read the lock's library {}: {e}",
                interposer.display()
            ))
            .advice("the installation is incomplete: run `make`"));
        }
        let value = Self::prepended(&interposer, std::env::var_os(PRELOAD_ENV).as_deref())?;
        Ok(Self {
            value: Some(value),
            besides: found.environment(),
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

    pub fn apply(&self, command: &mut Command) {
        self.set(PRELOAD_ENV, command);
    }

    /// In another variable than the loader's.
    pub fn set(&self, variable: &str, command: &mut Command) {
        if let Some(value) = &self.value {
            command.env(variable, value);
        }
        command.envs(self.besides.clone());
    }
}

/// Where the summary goes. A file is opened before the program starts: better no run than a run whose summary is lost.
struct SummarySink {
    format: StatsFormat,
    file: Option<File>,
}

impl SummarySink {
    fn open(args: &args::Run) -> Result<Option<Self>> {
        if args.stats.is_none() && args.stats_file.is_none() {
            return Ok(None);
        }
        let open = |path: &std::path::PathBuf| {
            File::create(path).context(format_args!(
                "cannot write the summary to {}",
                path.display()
            ))
        };
        let file = args.stats_file.as_ref().map(open).transpose()?;
        Ok(Some(Self {
            format: args.stats.unwrap_or(StatsFormat::Text),
            file,
        }))
    }

    fn write(self, summary: &Summary) -> Result<()> {
        let text = summary.render(self.format)?;
        match self.file {
            Some(mut file) => file
                .write_all(text.as_bytes())
                .context("cannot write the summary"),
            None => {
                output::note(&text);
                Ok(())
            }
        }
    }
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
