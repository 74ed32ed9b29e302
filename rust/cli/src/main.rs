// SPDX-License-Identifier: MIT
//! The `flexguard` command.

mod args;
mod daemon;
mod doctor;
mod list;
mod log;
mod manual;
mod run;
mod sections;
mod summary;

use std::process::ExitCode;

use args::{Command, Request};
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use flexguard_launch::{output, signals};

fn main() -> ExitCode {
    let request = args::parse();
    log::start();
    let done = request.and_then(|request| match request {
        Request::Command(command) => dispatch(command),
        Request::Workload(measured) => measured.run(),
    });
    match done {
        Ok(Status::Exited(code)) => ExitCode::from(code),
        Ok(Status::Signaled(signal)) => signals::die_by(signal),
        Err(failure) => {
            output::note(&failure.report());
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
        Command::Bench(command) => command.run(),
        Command::Completions(args) => manual::completions(args),
        Command::Man(args) => manual::man_pages(args),
        Command::MemcachedLoad(load) => flexguard_bench::memcached::run(load.into()),
    }
}
