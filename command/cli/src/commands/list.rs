// SPDX-License-Identifier: MIT
//! `flexguard list`

use clap::Args;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use flexguard_launch::locks::{self, Lock};
use flexguard_launch::output;
use flexguard_launch::prefix::Prefix;

use super::Subcommand;
use crate::manual::{OWN_EXIT, PREFIX_ITEM, Section};

/// List the locks: name, class, and what each one is
#[derive(Debug, Args)]
pub struct List {
    /// Print a JSON array of objects: name, class, brief, and `needs` for a lock that not every machine can run
    #[arg(long)]
    json: bool,
}

impl Subcommand for List {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "EXIT STATUS",
            items: &[("0", "The locks were listed."), OWN_EXIT[0], OWN_EXIT[1]],
        },
        Section {
            title: "ENVIRONMENT",
            items: &[PREFIX_ITEM],
        },
        Section {
            title: "FILES",
            items: &[("PREFIX/share/flexguard/LOCKS", "The index of locks.")],
        },
    ];

    fn run(self) -> Result<Status> {
        let locks = locks::read(&Prefix::find()?)?;
        if self.json {
            output::print_json(&locks)?;
        } else {
            output::print(&table(&locks))?;
        }
        Ok(Status::Exited(0))
    }
}

fn table(locks: &[Lock]) -> String {
    let rows = locks
        .iter()
        .map(|l| vec![&l.name, &l.class, &l.brief])
        .collect();
    output::table(&[""; 0], rows, 0..0)
}
