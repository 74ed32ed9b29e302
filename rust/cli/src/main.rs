// SPDX-License-Identifier: MIT
//! The `flexguard` command.

mod args;
mod attach;
mod bench;
mod child;
mod daemon;
mod doctor;
mod failure;
mod list;
mod locks;
mod manual;
mod output;
mod prefix;
mod run;
mod sections;
mod signals;
mod summary;

use std::process::ExitCode;

use args::{Bench, Cli, Command};
use child::Status;
use clap::Parser;
use failure::Result;

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(Status::Exited(code)) => ExitCode::from(code),
        Ok(Status::Signaled(signal)) => signals::die_by(signal),
        Err(failure) => {
            output::note(&failure.report().to_string());
            ExitCode::from(failure.code)
        }
    }
}

/// Runs the subcommand. What it holds is released when this returns; only then may the process end by a signal.
fn dispatch(command: Command) -> Result<Status> {
    match command {
        Command::Run(args) => run::run(args),
        Command::List(args) => list::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Monitor(args) => daemon::run(args),
        Command::Bench(Bench::Shm(args)) => bench::shm::run(args),
        Command::Bench(Bench::Exec(args)) => bench::exec::run(args),
        Command::Completions(args) => manual::completions(args),
        Command::Man(args) => manual::man_pages(args),
    }
}
