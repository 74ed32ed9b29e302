// SPDX-License-Identifier: MIT
//! `flexguard list`

use std::fmt::Write;

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
    let name = locks.iter().map(|l| l.name.len()).max().unwrap_or(0);
    let class = locks.iter().map(|l| l.class.len()).max().unwrap_or(0);
    locks.iter().fold(String::new(), |mut text, l| {
        let _ = writeln!(text, "{:name$}  {:class$}  {}", l.name, l.class, l.brief);
        text
    })
}
