// SPDX-License-Identifier: MIT
//! `flexguard man`: the pages, written from the same definition as `--help`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use clap_mangen::roff::{Roff, bold, roman};
use flexguard_bench::catalogue::Catalogue;
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Result};
use flexguard_launch::prefix::Prefix;

use super::bench::workload;
use super::{PAGES, Page, Subcommand};
use crate::args;
use crate::manual::{self, Section};

/// Write the man pages into a directory
#[derive(Debug, Args)]
#[command(hide = true)]
pub struct Man {
    #[arg(value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

impl Subcommand for Man {
    const MANUAL: &'static [Section] = &[];

    fn run(self) -> Result<Status> {
        let dir = &self.directory;
        fs::create_dir_all(dir).context(format_args!("cannot make {}", dir.display()))?;
        // Without a worker there is everything but its workloads.
        let catalogue = Prefix::find().and_then(|prefix| Catalogue::read(&prefix));
        let root = built(catalogue.as_ref().ok());
        for entry in entries(&root) {
            let path = dir.join(format!("{}.1", entry.name));
            write_if_changed(&path, &entry.page()?)
                .context(format_args!("cannot write {}", path.display()))?;
        }
        Ok(Status::Exited(0))
    }
}

fn built(catalogue: Option<&Catalogue>) -> clap::Command {
    let mut root = args::definition(catalogue);
    root.build();
    root
}

/// A page: of `flexguard` or of one of its visible subcommands.
struct Entry<'a> {
    /// As `flexguard-bench-exec`.
    name: String,
    command: &'a clap::Command,
    sections: &'static [Section],
}

fn entries(root: &clap::Command) -> Vec<Entry<'_>> {
    let mut all = vec![Entry {
        name: "flexguard".into(),
        command: root,
        sections: manual::MAIN,
    }];
    collect("flexguard", root, PAGES, &mut all);
    all
}

fn collect<'a>(parent: &str, command: &'a clap::Command, pages: &[Page], all: &mut Vec<Entry<'a>>) {
    for command in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        let name = format!("{parent}-{}", command.get_name());
        let page = Page::of(pages, command.get_name());
        all.push(Entry {
            name: name.clone(),
            command,
            // Only a workload has no module of its own.
            sections: page.map_or(workload::MANUAL, |p| p.sections),
        });
        collect(&name, command, page.map_or(&[], |p| p.pages), all);
    }
}

/// Leaves the page of an unchanged command alone, so that `make` sees nothing new.
fn write_if_changed(path: &Path, page: &[u8]) -> std::io::Result<()> {
    match fs::read(path) {
        Ok(old) if old == page => Ok(()),
        _ => fs::write(path, page),
    }
}

impl Entry<'_> {
    fn page(&self) -> Result<Vec<u8>> {
        // The page's own sections stand in for the help text that was made from them.
        let command = self
            .command
            .clone()
            .name(self.name.clone())
            .bin_name(self.name.replace('-', " "))
            .after_long_help("")
            .version(env!("CARGO_PKG_VERSION"));
        let has_subcommands = command.get_subcommands().any(|c| !c.is_hide_set());
        let synopsis = synopsis(command.clone());
        let man = clap_mangen::Man::new(command)
            .source(concat!("FlexGuard ", env!("CARGO_PKG_VERSION")))
            .manual("FlexGuard Manual");

        let mut page = Vec::new();
        let rendered = (|| {
            man.render_title(&mut page)?;
            man.render_name_section(&mut page)?;
            synopsis.to_writer(&mut page)?;
            man.render_description_section(&mut page)?;
            man.render_options_section(&mut page)?;
            if has_subcommands {
                man.render_subcommands_section(&mut page)?;
            }
            roff(self.sections).to_writer(&mut page)?;
            see_also(&self.name).to_writer(&mut page)
        })();
        rendered.context(format_args!("cannot write the page {}", self.name))?;
        Ok(page)
    }
}

/// As `--help` has it.
fn synopsis(mut command: clap::Command) -> Roff {
    let usage = command.render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([roman(usage.trim_start_matches("Usage:").trim())]);
    roff
}

fn roff(sections: &[Section]) -> Roff {
    let mut roff = Roff::new();
    for section in sections {
        roff.control("SH", [section.title]);
        for (term, explanation) in section.items {
            roff.control("TP", []);
            roff.text([bold(*term)]);
            roff.text([roman(*explanation)]);
        }
    }
    roff
}

/// The workloads' pages are left out: they are many, and `flexguard-bench` lists them.
fn see_also(name: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let root = built(None);
    let others: Vec<String> = entries(&root)
        .iter()
        .filter(|other| other.name != name)
        .map(|other| format!("{}(1)", other.name))
        .collect();
    roff.text([roman(others.join(", "))]);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_help_say_the_same() {
        let root = built(None);
        for entry in entries(&root) {
            let page = String::from_utf8(entry.page().unwrap()).unwrap();
            let help = entry.command.clone().render_long_help().to_string();
            assert!(!entry.sections.is_empty(), "{}: no page", entry.name);
            for section in entry.sections {
                let (name, title) = (&entry.name, section.title);
                let quoted = page.contains(&format!(".SH \"{title}\""));
                assert!(
                    quoted || page.contains(&format!(".SH {title}")),
                    "{name} {title}"
                );
                assert!(help.contains(title), "{name} {title}");
            }
            for option in entry.command.get_opts().filter_map(|o| o.get_long()) {
                let option = option.replace('-', "\\-");
                assert!(page.contains(&option), "{} --{option}", entry.name);
            }
        }
    }

    #[test]
    fn run_documents_its_exit_statuses() {
        let root = built(None);
        let run = entries(&root)
            .into_iter()
            .find(|e| e.name == "flexguard-run");
        let page = String::from_utf8(run.unwrap().page().unwrap()).unwrap();
        for code in ["125", "126", "127"] {
            assert!(page.contains(&format!("\\fB{code}\\fR")), "{page}");
        }
    }
}
