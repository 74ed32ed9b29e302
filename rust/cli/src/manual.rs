// SPDX-License-Identifier: MIT
//! `flexguard completions` and `flexguard man`: both written from the same definition as `--help`.

use std::fs;
use std::path::Path;

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use flexguard_bench::catalogue::Catalogue;
use flexguard_launch::prefix::Prefix;

use crate::args;
use crate::sections::{self, Section};
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Result};
use flexguard_launch::output;

pub fn completions(args: args::Completions) -> Result<Status> {
    let mut script = Vec::new();
    // Without a worker there is everything but its workloads.
    let catalogue = Prefix::find().and_then(|prefix| Catalogue::read(&prefix));
    let mut definition = args::definition(catalogue.as_ref().ok());
    clap_complete::generate(args.shell, &mut definition, "flexguard", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Status::Exited(0))
}

/// Every page: the words of its command line, and its sections.
const PAGES: [(&[&str], &[Section]); 14] = [
    (&[], sections::MAIN),
    (&["run"], sections::RUN),
    (&["list"], sections::LIST),
    (&["doctor"], sections::DOCTOR),
    (&["monitor"], sections::MONITOR),
    (&["bench"], sections::BENCH),
    (&["bench", "overhead"], sections::BENCH_OVERHEAD),
    (&["bench", "exec"], sections::BENCH_EXEC),
    (&["bench", "first"], sections::BENCH_FIRST),
    (&["bench", "paper"], sections::BENCH_PAPER),
    (&["bench", "scenes"], sections::BENCH_SCENES),
    (&["bench", "compare"], sections::BENCH_COMPARE),
    (&["bench", "report"], sections::BENCH_REPORT),
    (&["completions"], sections::COMPLETIONS),
];

/// As PAGES, with a page for each workload, if the worker is installed.
fn pages(catalogue: Option<&Catalogue>) -> Vec<(Vec<&str>, &'static [Section])> {
    let fixed = PAGES
        .iter()
        .map(|(words, sections)| (words.to_vec(), *sections));
    let workloads = catalogue.iter().flat_map(|c| &c.workloads);
    let names = workloads.map(|w| w.name.as_str());
    fixed
        .chain(names.map(|name| (vec!["bench", name], sections::BENCH_WORKLOAD)))
        .collect()
}

pub fn man_pages(args: args::Man) -> Result<Status> {
    let dir = &args.directory;
    fs::create_dir_all(dir).context(format_args!("cannot make {}", dir.display()))?;
    let catalogue = Prefix::find()
        .and_then(|prefix| Catalogue::read(&prefix))
        .ok();
    let definition = args::definition(catalogue.as_ref());
    for (words, sections) in pages(catalogue.as_ref()) {
        let (name, page) = page(&definition, &words, sections)?;
        let path = dir.join(format!("{name}.1"));
        write_if_changed(&path, &page).context(format_args!("cannot write {}", path.display()))?;
    }
    Ok(Status::Exited(0))
}

/// Leaves the page of an unchanged command alone, so that `make` sees nothing new.
fn write_if_changed(path: &Path, page: &[u8]) -> std::io::Result<()> {
    match fs::read(path) {
        Ok(old) if old == page => Ok(()),
        _ => fs::write(path, page),
    }
}

/// The page of one command: its name and its roff.
fn page(
    definition: &clap::Command,
    words: &[&str],
    sections: &[Section],
) -> Result<(String, Vec<u8>)> {
    let mut root = definition.clone();
    root.build();
    let mut command = &root;
    for word in words {
        command = command
            .find_subcommand(word)
            .expect("PAGES names existing subcommands (tested)");
    }
    let name = std::iter::once("flexguard")
        .chain(words.iter().copied())
        .collect::<Vec<_>>()
        .join("-");
    let spelled = name.replace('-', " ");
    // The page's own sections stand in for the help text that was made from them.
    let command = command
        .clone()
        .name(name.clone())
        .bin_name(spelled)
        .after_long_help("")
        .version(env!("CARGO_PKG_VERSION"));
    let has_subcommands = command.get_subcommands().any(|c| !c.is_hide_set());
    let synopsis = synopsis(command.clone());
    let man = Man::new(command)
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
        roff(sections).to_writer(&mut page)?;
        see_also(&name).to_writer(&mut page)
    })();
    rendered.context(format_args!("cannot write the page {name}"))?;
    Ok((name, page))
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

fn see_also(name: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let others = PAGES.iter().map(|(words, _)| {
        std::iter::once("flexguard")
            .chain(words.iter().copied())
            .collect::<Vec<_>>()
            .join("-")
    });
    let others: Vec<String> = others
        .filter(|other| other != name)
        .map(|other| format!("{other}(1)"))
        .collect();
    roff.text([roman(others.join(", "))]);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &[&str]) -> String {
        let sections = PAGES.iter().find(|(w, _)| *w == words).unwrap().1;
        String::from_utf8(page(&args::definition(None), words, sections).unwrap().1).unwrap()
    }

    #[test]
    fn every_visible_command_has_a_page() {
        fn visit(command: &clap::Command, words: &mut Vec<String>) {
            let found = PAGES
                .iter()
                .any(|(w, _)| w.iter().copied().eq(words.iter().map(String::as_str)));
            assert!(found, "no page for {words:?}");
            for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
                words.push(sub.get_name().into());
                visit(sub, words);
                words.pop();
            }
        }
        visit(&args::definition(None), &mut Vec::new());
    }

    #[test]
    fn pages_and_help_say_the_same() {
        for (words, sections) in PAGES {
            let page = text(words);
            let mut root = args::definition(None);
            root.build();
            let command = words
                .iter()
                .fold(&mut root, |c, w| c.find_subcommand_mut(w).unwrap());
            let help = command.render_long_help().to_string();
            for section in sections {
                assert!(
                    page.contains(&format!(".SH \"{}\"", section.title))
                        || page.contains(&format!(".SH {}", section.title))
                );
                assert!(help.contains(section.title), "{words:?} {}", section.title);
            }
            for option in command.get_opts().filter_map(|o| o.get_long()) {
                assert!(
                    page.contains(&option.replace('-', "\\-")),
                    "{words:?} --{option}"
                );
            }
        }
    }

    #[test]
    fn run_documents_its_exit_statuses() {
        let page = text(&["run"]);
        for code in ["125", "126", "127"] {
            assert!(page.contains(&format!("\\fB{code}\\fR")), "{page}");
        }
    }
}
