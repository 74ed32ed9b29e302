// SPDX-License-Identifier: MIT
//! `flexguard list`

use crate::args;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use flexguard_launch::locks::{self, Lock};
use flexguard_launch::output;
use flexguard_launch::prefix::Prefix;

pub fn run(args: args::List) -> Result<Status> {
    let locks = locks::read(&Prefix::find()?)?;
    if args.json {
        output::print_json(&locks)?;
    } else {
        output::print(&table(&locks))?;
    }
    Ok(Status::Exited(0))
}

fn table(locks: &[Lock]) -> String {
    let rows = locks
        .iter()
        .map(|l| vec![&l.name, &l.class, &l.brief])
        .collect();
    output::table(&[""; 0], rows, 0..0)
}
