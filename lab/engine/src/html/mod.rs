// SPDX-License-Identifier: MIT
//! One or more benchmarks as a self-contained page: no script, font or image is fetched.

mod figure;
mod machine;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::claim::{self, Judged};
use super::document::{Document, Entry, Verdict};
use super::plot;
use super::stats::Difference;
use super::{prose, table};
use flexguard_launch::failure::{Failure, Result};

const STYLE: &str = include_str!("style.css");

/// The head of a page that fetches nothing: the styles of all our pages, and `style` besides.
pub fn head(title: &str, style: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) }
            style { (PreEscaped(STYLE)) (PreEscaped(style)) }
        }
    }
}

/// The whole page. There is at least one document. `title`: of several together.
pub fn page(documents: &[&Document], judged: &[Judged], title: Option<&str>) -> Result<String> {
    let first = documents
        .first()
        .ok_or_else(|| Failure::new("a report needs a result"))?;
    let title = match (documents, title) {
        ([one], _) => one.title.clone(),
        (_, Some(title)) => title.to_owned(),
        _ => format!("{} benchmarks of locks", documents.len()),
    };
    let parts = documents
        .iter()
        .enumerate()
        .map(|(i, d)| section(d, i, judged));
    let parts = parts.collect::<Result<Vec<Markup>>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("{title} - FlexGuard"), ""))
            body {
                a.skip href="#main" { "Skip to the results" }
                (header(first, &title, documents))
                @if documents.len() > 1 { (contents(documents, judged)) }
                main #main {
                    (summary(documents))
                    (claims(judged))
                    @for part in &parts { (part) }
                    (machine::section(first))
                    (method())
                }
                footer { "Made by " code { "flexguard bench" } " " (first.version) " on " (first.date) "." }
            }
        }
    };
    Ok(page.into_string())
}

fn header(first: &Document, title: &str, documents: &[&Document]) -> Markup {
    let machine = &first.machine;
    let busy = documents.iter().find(|d| d.load.is_disturbed());
    let load = busy.and_then(|d| d.load.before).map_or(0.0, |l| l[0]);
    html! {
        header {
            p.brand { "FlexGuard benchmark" }
            h1 { (title) }
            p.facts {
                (machine.describe().replace(", ", " · ")) " · "
                (first.date.get(..10).unwrap_or(&first.date))
            }
            @if let Some(simulated) = &machine.simulated {
                (note(&format!(
                    "Simulated, not measured: machine file {}; a round is a seed. Compare locks with one another; absolute \
                     speeds, turbo frequencies, other tenants and the capacity of caches are not in the model.",
                    simulated.file
                )))
            } @else if busy.is_some() {
                (note(&format!(
                    "The machine was busy (load {load:.2}) before the benchmark began: read every number with caution."
                )))
            }
            @if documents.iter().any(|d| !d.complete) {
                (note("Incomplete: some rounds are missing. The sections say which."))
            }
            @if !first.monitor.active && first.subject == "lock" {
                (note(&format!("Measured without the Preemption Monitor: {}.", first.monitor.description)))
            }
        }
    }
}

fn note(text: &str) -> Markup {
    html! { p.note role="note" { (text) } }
}

fn contents(documents: &[&Document], judged: &[Judged]) -> Markup {
    html! {
        nav aria-label="Contents" {
            ol {
                @if !judged.is_empty() { li { a href="#claims" { "What the papers claim" } } }
                @for (i, document) in documents.iter().enumerate() {
                    li { a href={ "#part-" (i + 1) } { (document.title) } }
                }
                li { a href="#machine" { "The machine" } }
                li { a href="#method" { "How to read this" } }
            }
        }
    }
}

/// Which subject won where, benchmark by benchmark.
fn summary(documents: &[&Document]) -> Markup {
    let all = documents.iter().enumerate();
    let judged: Vec<_> = all.filter(|(_, d)| !d.verdicts.is_empty()).collect();
    html! {
        @if !judged.is_empty() {
            section #verdicts aria-labelledby="verdicts-title" {
                h2 #verdicts-title { "Verdicts" }
                p.lead {
                    "A winner is named only where it is better than each other one in the same rounds: the interval of every ratio excludes 1."
                }
                @for (i, document) in judged {
                    @if documents.len() > 1 { h3 { a href={ "#part-" (i + 1) } { (document.title) } } }
                    ul.verdicts { @for verdict in &document.verdicts { (line(verdict)) } }
                }
            }
        }
    }
}

/// What is claimed of the locks, beside what was measured: a group of rows for each claim.
fn claims(judged: &[Judged]) -> Markup {
    let groups: Vec<&[Judged]> = judged
        .chunk_by(|a, b| (&a.claim, &a.place) == (&b.claim, &b.place))
        .collect();
    html! {
        @if !judged.is_empty() {
            section #claims aria-labelledby="claims-title" {
                h2 #claims-title { "What the papers claim" }
                p.lead {
                    "Medians of this run, with their intervals. A claim holds within the noise if it is true of the medians, "
                    "but not over the whole interval. "
                    (claim::summary(judged))
                }
                div.scroll tabindex="0" role="region" aria-label="Claims" {
                    table.claims {
                        thead {
                            tr {
                                @for title in ["claim", "lock", "at", "published", "measured", "verdict"] {
                                    th.name scope="col" { (title) }
                                }
                            }
                        }
                        @for group in groups { tbody { @for i in 0..group.len() { (row(group, i)) } } }
                    }
                }
                (experiments(judged))
            }
        }
    }
}

/// One verdict. The first of a claim says what is claimed, and where.
fn row(group: &[Judged], i: usize) -> Markup {
    let j = &group[i];
    html! {
        tr .better[j.verdict == claim::Verdict::Holds] .worse[j.verdict == claim::Verdict::Fails] {
            @if i == 0 {
                th.name scope="rowgroup" rowspan=(group.len()) { (j.claim) span.where { (j.place) @if !j.quote.is_empty() { ": \"" (j.quote) "\"" } } }
            }
            @for cell in [&j.lock, &j.at, &j.published, &j.measured] { td.name { (cell) } }
            td.name.verdict {
                (j.verdict.text().replace('*', ""))
                @if !j.reason.is_empty() { ": " (j.reason) }
            }
        }
    }
}

fn experiments(judged: &[Judged]) -> Markup {
    let all = claim::experiments(judged);
    html! {
        @if !all.is_empty() {
            h3 { "The experiments behind the reasons" }
            ul.method { @for (reason, experiment) in all { li { (reason) ": " (experiment) } } }
        }
    }
}

fn line(verdict: &Verdict) -> Markup {
    let place = match verdict.point.0.is_empty() {
        true => "overall".to_owned(),
        false => verdict.point.to_string(),
    };
    html! {
        li class=(if verdict.leader.wins { "won" } else { "level" }) {
            span.where { (place) }
            span { (verdict.text) }
        }
    }
}

/// What the papers print of what a section shows, and behind it what was measured here.
fn printed(judged: &[Judged]) -> Markup {
    let printed = |a: &Judged, b: &Judged| (&a.place, &a.published) == (&b.place, &b.published);
    let groups = || judged.chunk_by(|a, b| (&a.claim, &a.place) == (&b.claim, &b.place));
    html! {
        @if !judged.is_empty() {
            details.printed {
                summary {
                    "The papers print "
                    @for (i, group) in judged.chunk_by(printed).enumerate() {
                        @if i > 0 { "; " }
                        (group[0].published) " (" (group[0].place) ")"
                    }
                    ". Here:"
                }
                div.scroll tabindex="0" role="region" aria-label="What the papers print" {
                    table.claims {
                        @for group in groups() { tbody { @for i in 0..group.len() { (row(group, i)) } } }
                    }
                }
            }
        }
    }
}

fn section(document: &Document, index: usize, judged: &[Judged]) -> Result<Markup> {
    let has_number = |j: &&Judged| j.result == document.title && !j.published.is_empty();
    let beside: Vec<Judged> = judged.iter().filter(has_number).cloned().collect();
    let id = format!("part-{}", index + 1);
    let most = document.results.iter().map(|e| e.rounds.len()).max();
    let rounds = match most.unwrap_or(0) {
        1 => "1 round".to_owned(),
        n => format!("{n} rounds, interleaved"),
    };
    let figures = plot::figures(document);
    let figures = figures
        .iter()
        .map(|f| figure::of(f, &id))
        .collect::<Result<Vec<Markup>>>()?;
    let unknown = |text: &Option<String>, what: &str| text.clone().unwrap_or(what.to_owned());
    Ok(html! {
        section id=(id) aria-labelledby={ (id) "-title" } {
            h2 id={ (id) "-title" } { (document.title) }
            p.lead { (rounds) "; " (prose::noise(document)) "." }
            @for figure in &figures { (figure) }
            @for title in plot::without_data(document) {
                (note(&format!("No figure without data: {title}.")))
            }
            (printed(&beside))
            (results(document))
            @for failed in &document.failures {
                (note(&format!(
                    "Failed: {} {} in round {}: {}",
                    failed.subject,
                    failed.point,
                    failed.round + 1,
                    failed.reason.lines().next().unwrap_or("")
                )))
            }
            @for missing in &document.unavailable {
                (note(&format!("Not on this machine: {}: {}", missing.subject, missing.reason)))
            }
            details {
                summary { "How to reproduce" }
                pre { code { (command(document)) } }
                p {
                    "Commit " (unknown(&document.commit, "unknown"))
                    ", build " (document.build.fingerprint)
                    ", " (unknown(&document.build.compiler, "compiler unknown")) "."
                }
            }
        }
    })
}

/// The command line as a shell takes it.
fn command(document: &Document) -> String {
    let quoted = document.command.iter().enumerate().map(|(i, word)| {
        let plain = !word.is_empty()
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_./,=:+@%".contains(c));
        match (i, plain) {
            // Without the directory it was started from.
            (0, _) => "flexguard".to_owned(),
            (_, true) => word.clone(),
            (_, false) => format!("'{}'", word.replace('\'', "'\\''")),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn results(document: &Document) -> Markup {
    let (titles, rows, names) = table::cells(document);
    let is_name = |i: usize| i < names || i + 1 == titles.len();
    let entries: Vec<(&Entry, &Vec<String>)> = document.results.iter().zip(&rows).collect();
    let begins_group = |i: usize| i > 0 && entries[i].0.point != entries[i - 1].0.point;
    html! {
        div.scroll tabindex="0" role="region" aria-label="Results" {
            table {
                thead {
                    tr { @for (i, title) in titles.iter().enumerate() { th.name[is_name(i)] scope="col" { (title) } } }
                }
                tbody {
                    @for (i, (entry, row)) in entries.iter().enumerate() {
                        tr .better[entry.against_first == Some(Difference::Better)]
                           .worse[entry.against_first == Some(Difference::Worse)]
                           .group[begins_group(i)] {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column + 1 == names {
                                    th.name scope="row" {
                                        i style={ "background:" (colour(document, entry)) } {}
                                        (cell)
                                    }
                                } @else if column + 1 == row.len() {
                                    td.name.verdict { (cell) }
                                } @else {
                                    td { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn colour(document: &Document, entry: &Entry) -> String {
    let mut subjects = document.subjects.iter();
    plot::colour_of(
        &entry.subject,
        subjects.position(|s| *s == entry.subject).unwrap_or(0),
    )
}

fn method() -> Markup {
    html! {
        section #method aria-labelledby="method-title" {
            h2 #method-title { "How to read this" }
            ul.method {
                li {
                    "Every round runs everything once, in an order that rotates, so that what disturbs the machine \
                     hits all alike."
                }
                li {
                    "Values are medians. The interval beside them holds the true median with at least 95 % confidence \
                     (from six rounds on); it comes from order statistics and assumes nothing about the distribution. \
                     The faint points in the figures are the single rounds."
                }
                li {
                    "Ratios are taken within a round, to the first lock: above 1 is better. Their interval is that of the \
                     signed-rank test, which calls equal locks different in at most 5 % of comparisons."
                }
                li {
                    "The noise is how much the first lock differs from itself when it runs twice in every round \
                     (“again”)."
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
