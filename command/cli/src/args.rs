// SPDX-License-Identifier: MIT
//! The command line: the whole definition, from the subcommands' own, and how it is parsed.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};
use flexguard_bench::catalogue::Catalogue;
use flexguard_launch::failure::Result;
use flexguard_launch::prefix::Prefix;

use crate::commands::bench::workload::{self, Measured};
use crate::commands::{self, Command, Page};
use crate::manual;

/// Run programs under locks that know when the scheduler has taken the lock holder away
///
/// The mutexes, condition variables and other locks of an unmodified pthread program are replaced as it starts. Waiters
/// spin while the holder of the lock runs. They block while a holder has lost its CPU, which the Preemption Monitor, an
/// eBPF program on the context switch, sees.
#[derive(Debug, Parser)]
#[command(name = "flexguard", version, propagate_version = true)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What the command line asks for.
pub enum Request {
    Command(Command),
    /// `bench WORKLOAD`
    Workload(Box<Measured>),
}

/// The whole definition: with a subcommand of `bench` for each workload that the worker knows.
pub fn definition(catalogue: Option<&Catalogue>) -> clap::Command {
    let command = Cli::command().after_long_help(manual::help(manual::MAIN));
    let command = with_manual(command, commands::PAGES);
    #[cfg(not(feature = "full"))]
    let command = command.before_help(
        "Built by `make run`. `make` adds advise, profile, metrics, top and trace, and the other locks.",
    );
    let Some(catalogue) = catalogue else {
        return command;
    };
    command.mut_subcommand("bench", |bench| {
        let workloads = catalogue.workloads.iter();
        bench.subcommands(workloads.map(|w| workload::command(catalogue, w)))
    })
}

/// `--help` ends as the manual page does.
fn with_manual(command: clap::Command, pages: &[Page]) -> clap::Command {
    command.mut_subcommands(|command| match Page::of(pages, command.get_name()) {
        Some(page) if !page.sections.is_empty() => {
            with_manual(command, page.pages).after_long_help(manual::help(page.sections))
        }
        _ => command,
    })
}

/// `flexguard help bench shm` is `flexguard bench shm --help`.
fn help_last(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// Parses the command line; ends the process, as `--help` and usage errors do, where there is nothing to run.
pub fn parse() -> Result<Request> {
    // Only these subcommands ask the worker, so that `flexguard run` starts at once.
    let first = help_last(std::env::args_os().collect()).into_iter().nth(1);
    let asked = first.filter(|word| ["bench", "completions"].iter().any(|name| word == name));
    let catalogue = asked.map(|_| Prefix::find().and_then(|prefix| Catalogue::read(&prefix)));
    let (known, failure) = match catalogue {
        Some(Ok(catalogue)) => (Some(catalogue), None),
        Some(Err(failure)) => (None, Some(failure)),
        None => (None, None),
    };
    let words = std::env::args_os().collect();
    let definition = definition(known.as_ref());
    let matches = match (definition.try_get_matches_from(help_last(words)), failure) {
        (Ok(matches), _) => matches,
        (Err(e), Some(failure)) if e.kind() == ErrorKind::InvalidSubcommand => return Err(failure),
        (Err(e), _) => e.exit(),
    };
    if let (Some(catalogue), Some(("bench", bench))) = (&known, matches.subcommand())
        && let Some((name, matches)) = bench.subcommand()
        && let Ok(workload) = catalogue.workload(name)
    {
        return Measured::of(workload, matches).map(|m| Request::Workload(Box::new(m)));
    }
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => Ok(Request::Command(cli.command)),
        Err(e) => e.exit(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_an_option_of_what_it_names() {
        let of = |words: &[&str]| help_last(words.iter().map(OsString::from).collect());
        assert_eq!(
            of(&["flexguard", "help", "run"]),
            ["flexguard", "run", "--help"]
        );
        assert_eq!(of(&["flexguard", "help"]), ["flexguard", "--help"]);
        assert_eq!(
            of(&["flexguard", "run", "help"]),
            ["flexguard", "run", "help"]
        );
    }

    #[test]
    fn definition_is_consistent() {
        definition(None).debug_assert();
    }
}
