// SPDX-License-Identifier: MIT
//! `flexguard run`: a program with another lock in place of its mutexes.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use flexguard_launch::attach::{Attachment, SOCKET_ENV};
use flexguard_launch::child::{self, Child, Status};
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::prefix::Prefix;
use flexguard_launch::{Preload, output, signals};

use crate::args::{self, StatsFormat};
use crate::summary::Summary;

pub fn run(args: args::Run) -> Result<Status> {
    let preload = Preload::of(&Prefix::find()?, &args.lock)?;
    let mut command = child::command(&args.program);
    preload.apply(&mut command);

    let Some(summary) = SummarySink::open(&args)? else {
        return run_quietly(&args, command);
    };
    signals::hold()?;
    let monitor = Attachment::find(args.monitor.mode())?;
    command.env(SOCKET_ENV, monitor.socket());
    let before = monitor.stats();
    let start = Instant::now();
    let end = Child::spawn(&mut command)?.stand_in()?;
    let elapsed = start.elapsed();
    let counted = before
        .zip(monitor.stats())
        .and_then(|(before, after)| after.since(&before));
    summary.write(&Summary::new(&args.lock, &monitor, counted, &end, elapsed))?;
    Ok(end.status)
}

/// Without a summary the command stays only if it has to serve a monitor for the program.
fn run_quietly(args: &args::Run, mut command: Command) -> Result<Status> {
    if let Some(monitor) = Attachment::find_without_loading(args.monitor.mode())? {
        return Err(become_program(command, &monitor));
    }
    signals::hold()?;
    let monitor = Attachment::find(args.monitor.mode())?;
    if !monitor.is_active() {
        return Err(become_program(command, &monitor));
    }
    command.env(SOCKET_ENV, monitor.socket());
    Ok(Child::spawn(&mut command)?.stand_in()?.status)
}

/// Returns only if that fails.
fn become_program(mut command: Command, monitor: &Attachment) -> Failure {
    let error = command.env(SOCKET_ENV, monitor.socket()).exec();
    child::cannot_start(&command, error)
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
