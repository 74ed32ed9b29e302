// SPDX-License-Identifier: MIT
//! What a table of a benchmark shows.

use super::document::{Document, Entry};
use super::measure::{Measure, Unit};
use super::point::{number, spelled};
use super::prose;
use super::stats::Estimate;
use flexguard_launch::output;

/// The table of a benchmark: its points, its subjects, the measures it shows, and what they should not be read without.
pub fn of(document: &Document) -> String {
    let (titles, rows, names) = cells(document);
    output::table(&titles, rows, names..titles.len() - 1)
}

/// Titles, rows, and how many of the columns are names.
pub fn cells(document: &Document) -> (Vec<String>, Vec<Vec<String>>, usize) {
    let variables: Vec<String> = match document.results.first() {
        Some(entry) => entry.point.0.iter().map(|(name, _)| name.clone()).collect(),
        None => Vec::new(),
    };
    let shown: Vec<&str> = document
        .columns
        .iter()
        .map(String::as_str)
        .filter(|c| is_measured(document, c))
        .collect();
    let mut titles: Vec<String> = variables.iter().map(|v| spelled(v)).collect();
    titles.push(document.subject.clone());
    let names = titles.len();
    titles.extend(shown.iter().map(|c| title(document, c)));
    titles.push("against the first".into());
    let row = |entry: &Entry| {
        let mut row: Vec<String> = entry.point.0.iter().map(|(_, v)| number(*v)).collect();
        row.push(entry.label());
        row.extend(shown.iter().map(|column| cell(document, entry, column)));
        row.push(note(document, entry));
        row
    };
    (titles, document.results.iter().map(row).collect(), names)
}

/// Nothing was measured: then the column would be all dashes. The first column stays, so that this is seen.
fn is_measured(document: &Document, column: &str) -> bool {
    column == document.primary
        || document.results.iter().any(|e| match column {
            "ratio" => e.ratio.is_some(),
            column => e.measures.contains_key(column),
        })
}

fn title(document: &Document, column: &str) -> String {
    match document.measure(column) {
        None => column.to_owned(),
        Some(Measure { title, unit, .. }) => match unit {
            // These bring their unit along.
            Unit::Nanoseconds => title.clone(),
            unit if unit.symbol().is_empty() => title.clone(),
            Unit::PerSecond | Unit::PerOperation => format!("{title}{}", unit.symbol()),
            unit => format!("{title} {}", unit.symbol()),
        },
    }
}

/// The primary measure with its interval, the others as medians; of a longest time the longest.
fn cell(document: &Document, entry: &Entry, column: &str) -> String {
    if column == "ratio" {
        return entry
            .ratio
            .as_ref()
            .map_or("-".into(), |r| Unit::Plain.number(r.median));
    }
    let (Some(estimate), Some(measure)) = (entry.measures.get(column), document.measure(column))
    else {
        return "-".into();
    };
    if column == document.primary {
        interval(estimate, measure.unit)
    } else if column.starts_with("longest") || column.contains("_max_") {
        measure.unit.write(estimate.max)
    } else {
        measure.unit.write(estimate.median)
    }
}

/// `median (low-high)`, all with the digits of the median.
pub fn interval(estimate: &Estimate, unit: Unit) -> String {
    let Estimate {
        median, low, high, ..
    } = *estimate;
    if unit == Unit::Nanoseconds {
        return format!(
            "{} ({}-{})",
            unit.write(median),
            unit.write(low),
            unit.write(high)
        );
    }
    let digits = super::measure::digits(median);
    format!("{median:.digits$} ({low:.digits$}-{high:.digits$})")
}

fn note(document: &Document, entry: &Entry) -> String {
    let difference = match entry.against_first {
        _ if entry.again => Some("the noise".to_owned()),
        Some(d) => Some(d.word().to_owned()),
        None => None,
    };
    let caution = prose::entry_caution(document, entry);
    let notes: Vec<String> = difference.into_iter().chain(caution).collect();
    notes.join("; ")
}
