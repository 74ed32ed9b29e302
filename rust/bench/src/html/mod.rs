// SPDX-License-Identifier: MIT
//! One or more benchmarks as a self-contained page: no script, font or image is fetched.

mod figure;
mod machine;
mod text;

use super::document::{Document, Verdict};
use super::plot;
use super::point::Point;
use super::stats::Difference;
use super::{prose, table};
use flexguard_launch::failure::{Failure, Result};

use text::escape;

const STYLE: &str = include_str!("style.css");

/// The whole page. There is at least one document.
pub fn page(documents: &[&Document]) -> Result<String> {
    let first = documents
        .first()
        .ok_or_else(|| Failure::new("a report needs a result"))?;
    let title = match documents {
        [one] => one.title.clone(),
        _ => format!("{} benchmarks of locks", documents.len()),
    };
    let mut body = String::new();
    body.push_str(&header(first, &title, documents));
    if documents.len() > 1 {
        body.push_str(&contents(documents));
    }
    body.push_str("<main id=\"main\">\n");
    body.push_str(&summary(documents));
    for (i, document) in documents.iter().enumerate() {
        body.push_str(&section(document, i)?);
    }
    body.push_str(&machine::section(first));
    body.push_str(METHOD);
    body.push_str("</main>\n");
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{} - FlexGuard</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the results</a>\n{body}\
         <footer>Made by <code>flexguard bench</code> {} on {}.</footer>\n</body>\n</html>\n",
        escape(&title),
        escape(&first.version),
        escape(&first.date)
    ))
}

fn header(first: &Document, title: &str, documents: &[&Document]) -> String {
    let machine = &first.machine;
    let facts = format!(
        "{} · {} hardware contexts · Linux {} · {}",
        machine.cpu.as_deref().unwrap_or("unknown CPU"),
        machine.hardware_contexts,
        machine.kernel.as_deref().unwrap_or("?"),
        first.date.get(..10).unwrap_or(&first.date),
    );
    let mut notes = String::new();
    if let Some(busy) = documents.iter().find(|d| d.load.is_disturbed()) {
        let load = busy.load.before.map_or(0.0, |l| l[0]);
        notes.push_str(&note(&format!(
            "The machine was busy (load {load:.2}) before the benchmark began: read every number with caution."
        )));
    }
    if documents.iter().any(|d| !d.complete) {
        notes.push_str(&note(
            "Incomplete: not every round of everything is in. The sections say what is missing.",
        ));
    }
    if !first.monitor.active && first.subject == "lock" {
        notes.push_str(&note(&format!(
            "Measured without the Preemption Monitor: {}.",
            first.monitor.description
        )));
    }
    format!(
        "<header>\n<p class=\"brand\">FlexGuard benchmark</p>\n<h1>{}</h1>\n<p class=\"facts\">{}</p>\n{notes}</header>\n",
        escape(title),
        escape(&facts)
    )
}

fn note(text: &str) -> String {
    format!("<p class=\"note\" role=\"note\">{}</p>\n", escape(text))
}

fn contents(documents: &[&Document]) -> String {
    let items = documents.iter().enumerate().map(|(i, d)| {
        format!(
            "<li><a href=\"#part-{}\">{}</a></li>",
            i + 1,
            escape(&d.title)
        )
    });
    format!(
        "<nav aria-label=\"Contents\"><ol>{}<li><a href=\"#machine\">The machine</a></li>\
         <li><a href=\"#method\">How to read this</a></li></ol></nav>\n",
        items.collect::<String>()
    )
}

/// The winner at each point, benchmark by benchmark.
fn summary(documents: &[&Document]) -> String {
    let judged = documents
        .iter()
        .enumerate()
        .filter(|(_, d)| !d.verdicts.is_empty());
    let groups: String = judged
        .map(|(i, document)| {
            let heading = match documents.len() {
                1 => String::new(),
                _ => format!(
                    "<h3><a href=\"#part-{}\">{}</a></h3>\n",
                    i + 1,
                    escape(&document.title)
                ),
            };
            let items: String = document.verdicts.iter().map(verdict).collect();
            format!("{heading}<ul class=\"verdicts\">\n{items}</ul>\n")
        })
        .collect();
    if groups.is_empty() {
        return groups;
    }
    format!(
        "<section id=\"verdicts\" aria-labelledby=\"verdicts-title\">\n<h2 id=\"verdicts-title\">Verdicts</h2>\n\
         <p class=\"lead\">A winner is named only where the intervals do not overlap and the difference exceeds the noise.</p>\n\
         {groups}</section>\n"
    )
}

fn verdict(verdict: &Verdict) -> String {
    let class = if verdict.leader.wins { "won" } else { "level" };
    format!(
        "<li class=\"{class}\"><span class=\"where\">{}</span><span>{}</span></li>\n",
        match verdict.point.0.is_empty() {
            true => "overall".to_owned(),
            false => escape(&verdict.point.to_string()),
        },
        escape(&verdict.text)
    )
}

fn section(document: &Document, index: usize) -> Result<String> {
    let id = format!("part-{}", index + 1);
    let mut text = format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{}</h2>\n",
        escape(&document.title)
    );
    text.push_str(&format!(
        "<p class=\"lead\">{}; {}.</p>\n",
        match document.rounds {
            1 => "1 round".to_owned(),
            n => format!("{n} rounds, interleaved"),
        },
        escape(&prose::noise(document))
    ));
    for figure in plot::figures(document) {
        text.push_str(&figure::of(&figure, &id)?);
    }
    text.push_str(&results(document));
    for failed in &document.failures {
        text.push_str(&note(&format!(
            "Failed: {} {} in round {}: {}",
            failed.subject,
            failed.point,
            failed.round + 1,
            failed.reason.lines().next().unwrap_or("")
        )));
    }
    for missing in &document.unavailable {
        text.push_str(&note(&format!(
            "Not on this machine: {}: {}",
            missing.subject, missing.reason
        )));
    }
    text.push_str(&format!(
        "<details><summary>How to reproduce</summary>\n<pre><code>{}</code></pre>\n<p>Commit {}, build {}, {}.</p></details>\n",
        escape(&command(document)),
        escape(document.commit.as_deref().unwrap_or("unknown")),
        escape(&document.build.fingerprint),
        escape(document.build.compiler.as_deref().unwrap_or("compiler unknown"))
    ));
    text.push_str("</section>\n");
    Ok(text)
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

fn results(document: &Document) -> String {
    let (titles, rows, names) = table::cells(document);
    let variables = names - 1;
    let mut text = String::from(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Results\"><table>\n<thead><tr>",
    );
    for (i, title) in titles.iter().enumerate() {
        let class = if i < names || i + 1 == titles.len() {
            " class=\"name\""
        } else {
            ""
        };
        text.push_str(&format!("<th scope=\"col\"{class}>{}</th>", escape(title)));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    let mut before: Option<&Point> = None;
    for (entry, row) in document.results.iter().zip(&rows) {
        let first = before.is_some_and(|p| *p != entry.point);
        before = Some(&entry.point);
        let mut class = match entry.against_first {
            Some(Difference::Better) => "better",
            Some(Difference::Worse) => "worse",
            _ => "",
        }
        .to_owned();
        if first {
            class.push_str(" group");
        }
        text.push_str(&format!("<tr class=\"{}\">", class.trim()));
        for (i, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            text.push_str(&match i {
                i if i == variables => {
                    let index = document.subjects.iter().position(|s| *s == entry.subject).unwrap_or(0);
                    let colour = plot::colour_of(&entry.subject, index);
                    format!("<th scope=\"row\" class=\"name\"><i style=\"background:{colour}\"></i>{cell}</th>")
                }
                i if i + 1 == row.len() => format!("<td class=\"name verdict\">{cell}</td>"),
                _ => format!("<td>{cell}</td>"),
            });
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
    text
}

const METHOD: &str = "<section id=\"method\" aria-labelledby=\"method-title\">\n\
<h2 id=\"method-title\">How to read this</h2>\n<ul class=\"method\">\n\
<li>Every round runs everything once, in an order that rotates, so that what disturbs the machine hits all alike.</li>\n\
<li>Values are medians. The interval beside them holds the true median with at least 95&nbsp;% confidence (from six rounds on); \
it comes from order statistics and assumes nothing about the distribution.</li>\n\
<li>Ratios are taken within a round, to the first lock: above 1 is better.</li>\n\
<li>The noise is what the first lock differs from itself when it runs twice in every round (&ldquo;again&rdquo;).</li>\n\
<li>&ldquo;Two modes&rdquo;: the rounds fall into two groups far apart; then no single number describes the lock.</li>\n\
</ul>\n</section>\n";

#[cfg(test)]
mod tests;
