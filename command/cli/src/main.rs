// SPDX-License-Identifier: MIT
//! The `flexguard` command.

mod args;
mod commands;
mod log;
mod manual;
mod monitor_choice;
#[cfg(feature = "full")]
mod openmetrics;
#[cfg(feature = "full")]
mod profile;
mod programs;
#[cfg(feature = "full")]
mod symbols;
#[cfg(feature = "full")]
mod top;

use std::process::ExitCode;

use args::Request;
use flexguard_launch::child::Status;
use flexguard_launch::{output, signals};

fn main() -> ExitCode {
    let request = args::parse();
    log::start();
    let done = request.and_then(|request| match request {
        Request::Command(command) => command.run(),
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
