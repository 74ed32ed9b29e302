// SPDX-License-Identifier: MIT
//! `flexguard completions`: written from the same definition as `--help`.

use clap::Args;
use flexguard_bench::catalogue::Catalogue;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use flexguard_launch::output;
use flexguard_launch::prefix::Prefix;

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
        let mut definition = args::definition(catalogue.as_ref().ok());
        clap_complete::generate(self.shell, &mut definition, "flexguard", &mut script);
        output::print(&String::from_utf8_lossy(&script))?;
        Ok(Status::Exited(0))
    }
}
