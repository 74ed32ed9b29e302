// SPDX-License-Identifier: MIT
//! The table of a result for a spreadsheet (CSV, RFC 4180) and for a page (Markdown).

use std::path::Path;

use super::document::{Document, Entry};
use super::point::number;
use super::table;
use flexguard_launch::failure::{Failure, Result};

/// How a file is written, by the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Csv,
    Markdown,
}

impl Format {
    pub fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("md") => Ok(Self::Markdown),
            _ => Err(Failure::new(format_args!(
                "--export: {} is neither CSV nor Markdown",
                path.display()
            ))
            .advice("let its name end in .csv or .md")),
        }
    }

    pub fn write(self, document: &Document) -> String {
        match self {
            Self::Csv => csv(document),
            Self::Markdown => markdown(document),
        }
    }
}

/// A line for each point, subject and measure, with all digits, in the units that the measures have in the JSON.
fn csv(document: &Document) -> String {
    let first = document.results.first();
    let variables: Vec<&String> = first
        .iter()
        .flat_map(|e| e.point.0.iter())
        .map(|v| v.0)
        .collect();
    let mut header: Vec<String> = variables.iter().map(|v| quoted(v)).collect();
    let fixed = [
        "subject",
        "again",
        "measure",
        "rounds",
        "median",
        "low",
        "high",
        "confidence",
        "min",
        "max",
    ];
    header.extend(fixed.map(String::from));
    let simulated = document.machine.simulated.as_ref();
    header.extend(simulated.map(|_| "simulated".into()));
    let mut text = header.join(",") + "\r\n";
    for entry in &document.results {
        for mut line in lines(entry) {
            line.extend(simulated.map(|s| quoted(&s.file)));
            text += &(line.join(",") + "\r\n");
        }
    }
    text
}

fn lines(entry: &Entry) -> Vec<Vec<String>> {
    let ratio = entry.ratio.iter().map(|ratio| ("ratio", ratio));
    let measures = entry.measures.iter().map(|(name, of)| (name.as_str(), of));
    let line = |(name, of): (&str, &super::stats::Estimate)| {
        let mut line: Vec<String> = entry.point.0.iter().map(|(_, v)| number(*v)).collect();
        line.extend([
            quoted(&entry.subject),
            entry.again.to_string(),
            quoted(name),
        ]);
        line.push(of.n.to_string());
        line.extend(
            [of.median, of.low, of.high, of.confidence, of.min, of.max].map(|v| v.to_string()),
        );
        line
    };
    ratio.chain(measures).map(line).collect()
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// The table as it is shown.
fn markdown(document: &Document) -> String {
    let (titles, rows, names) = table::cells(document);
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let numbers = names..titles.len() - 1;
    let rule: Vec<String> = (0..titles.len())
        .map(|i| if numbers.contains(&i) { "---:" } else { "---" }.to_owned())
        .collect();
    let mut text = format!("### {}\n\n", document.title) + &line(&titles) + &line(&rule);
    rows.iter().for_each(|row| text += &line(row));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let mut document = crate::document::testing::document();
        document.analyse();
        document
    }

    #[test]
    fn every_value_has_a_line_of_csv_with_all_its_digits() {
        let document = document();
        let text = Format::Csv.write(&document);
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap().split(',').collect();
        let at = |name| header.iter().position(|h| *h == name).unwrap();
        let (subject, measure, median) = (at("subject"), at("measure"), at("median"));
        let lines: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
        assert!(lines.iter().all(|line| line.len() == header.len()));
        for entry in &document.results {
            for (name, of) in &entry.measures {
                let is_it = |line: &&Vec<&str>| {
                    line[subject] == entry.subject
                        && line[measure] == name
                        && line[median].parse() == Ok(of.median)
                };
                assert!(lines.iter().any(|line| is_it(&line)), "{name}");
            }
        }
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }

    #[test]
    fn the_markdown_is_a_table_with_as_many_cells_in_each_line() {
        let document = document();
        let text = Format::Markdown.write(&document);
        let lines: Vec<&str> = text.lines().filter(|l| l.starts_with('|')).collect();
        assert_eq!(lines.len(), document.results.len() + 2);
        let cells = |line: &str| line.matches(" | ").count();
        assert!(
            lines.iter().all(|line| cells(line) == cells(lines[0])),
            "{text}"
        );
        assert!(lines[1].contains("---:"));
    }

    #[test]
    fn the_name_of_the_file_says_how_it_is_written() {
        assert_eq!(Format::of(Path::new("a.csv")).unwrap(), Format::Csv);
        assert_eq!(Format::of(Path::new("a.md")).unwrap(), Format::Markdown);
        assert!(Format::of(Path::new("a.txt")).is_err());
    }
}
