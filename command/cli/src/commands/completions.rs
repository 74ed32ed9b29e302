// SPDX-License-Identifier: MIT
//! `flexguard completions`: written from the same definition as `--help`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use flexguard_bench::catalogue::Catalogue;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use flexguard_launch::prefix::Prefix;
use flexguard_launch::{locks, output};

use super::Subcommand;
use crate::args;
use crate::manual::Section;

/// Print a shell's completion script
#[derive(Debug, Args)]
pub struct Completions {
    shell: clap_complete::Shell,
}

impl Subcommand for Completions {
    const MANUAL: &'static [Section] = &[Section {
        title: "EXAMPLES",
        items: &[(
            "flexguard completions bash > ~/.local/share/bash-completion/completions/flexguard",
            "Install them for bash.",
        )],
    }];

    fn run(self) -> Result<Status> {
        let mut script = Vec::new();
        // Without a worker there is everything but its workloads.
        let catalogue = Prefix::find().and_then(|prefix| Catalogue::read(&prefix));
        let definition = args::definition(catalogue.as_ref().ok());
        let locks = Prefix::find().and_then(|prefix| locks::read(&prefix));
        let names: Vec<String> = locks
            .unwrap_or_default()
            .into_iter()
            .map(|lock| lock.name)
            .collect();
        let mut definition = with_locks(definition, &names);
        clap_complete::generate(self.shell, &mut definition, "flexguard", &mut script);
        output::print(&String::from_utf8_lossy(&script))?;
        Ok(Status::Exited(0))
    }
}

/// Each option that names locks completes those that there are.
fn with_locks(command: clap::Command, names: &[String]) -> clap::Command {
    let command = command.mut_args(|arg| match arg.get_id().as_str() {
        "lock" | "locks" if !names.is_empty() => {
            arg.value_parser(PossibleValuesParser::new(names.to_vec()))
        }
        _ => arg,
    });
    command.mut_subcommands(|command| with_locks(command, names))
}
