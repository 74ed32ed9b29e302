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
mod log;
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
    let command = Cli::parse().command;
    log::start();
    match dispatch(command) {
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
        Command::Bench(command) => measure(*command),
        Command::Completions(args) => manual::completions(args),
        Command::Man(args) => manual::man_pages(args),
        Command::MemcachedLoad(load) => bench::memcached::run(load),
    }
}

fn measure(command: Bench) -> Result<Status> {
    match command {
        Bench::Shm(args) => bench::run(args),
        Bench::Hashtable(args) => bench::run(args),
        Bench::Overhead(args) => bench::run(args),
        Bench::Exec(args) => bench::run(args),
        Bench::Paper(args) => bench::paper::run(args),
        Bench::Compare(args) => bench::compare::run(args),
        Bench::Report(args) => bench::report::run(args),
    }
}
