// SPDX-License-Identifier: MIT
//! `flexguard bench compare`: two results of the same benchmark, before and after a change.

use std::path::PathBuf;

use serde::Serialize;

use super::document::{Document, Entry};
use super::measure::{Measure, Unit};
use super::point::{Point, number, spelled};
use super::stats::{Better, Difference, differ};
use super::table;
use super::words::percent;
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Failure, Result};
use flexguard_launch::names;
use flexguard_launch::output;

#[derive(Debug)]
pub struct Compare {
    /// The result to compare with
    pub before: PathBuf,

    /// The result to judge
    pub after: PathBuf,

    /// Compare this measure instead of the benchmark's own
    pub measure: Option<String>,

    /// Judge although the machines differ
    pub across_machines: bool,

    /// End with 1 if anything got worse
    pub check: bool,

    /// Print JSON
    pub json: bool,
}

const SCHEMA: &str = "flexguard-bench-compare/1";

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Comparison {
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: &'static str,
    workload: String,
    measure: String,
    /// Of the machines: what, before, after.
    differences: Vec<(&'static str, String, String)>,
    same_hardware: bool,
    results: Vec<Row>,
    /// Points or subjects that only one of the two has.
    unmatched: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    point: Point,
    subject: String,
    before: f64,
    after: f64,
    /// How many times as good it is after.
    ratio: f64,
    /// None: neither of the two results has measured it.
    noise: Option<f64>,
    /// None: on different hardware nothing is said.
    verdict: Option<Difference>,
    #[serde(skip)]
    shown: (String, String),
}

pub fn run(args: Compare) -> Result<Status> {
    let (mut before, mut after) = (Document::read(&args.before)?, Document::read(&args.after)?);
    before.analyse();
    after.analyse();
    let comparison = compare(&before, &after, &args)?;
    if args.json {
        output::print_json(&comparison)?;
    } else {
        output::print(&show(&comparison, &before))?;
    }
    let worse = comparison
        .results
        .iter()
        .any(|r| r.verdict == Some(Difference::Worse));
    Ok(Status::Exited(u8::from(args.check && worse)))
}

fn compare(before: &Document, after: &Document, args: &Compare) -> Result<Comparison> {
    if before.workload != after.workload {
        return Err(Failure::new(format_args!(
            "{} is a result of bench {}, {} one of bench {}: they cannot be compared",
            args.before.display(),
            before.workload,
            args.after.display(),
            after.workload
        )));
    }
    let (measure, better) = judged(after, args.measure.as_deref())?;
    let name = &measure.name;
    let floor = |d: &Document, point: &Point| {
        d.noise_of(name)
            .map(|noise| noise.floor(&point.to_string()))
    };
    let same_hardware = before.machine.is_same_hardware(&after.machine);
    let judge = same_hardware || args.across_machines;
    let row = |b: &Entry, a: &Entry| -> Option<Row> {
        let (old, new) = (b.measures.get(name)?, a.measures.get(name)?);
        let noises = [floor(before, &b.point), floor(after, &a.point)];
        let noise = noises.into_iter().flatten().reduce(f64::max);
        Some(Row {
            point: a.point.clone(),
            subject: a.subject.clone(),
            before: old.median,
            after: new.median,
            ratio: better.ratio(new.median, old.median),
            noise,
            verdict: judge.then(|| differ(better, new, old, noise.unwrap_or(0.0))),
            shown: (
                table::interval(old, measure.unit),
                table::interval(new, measure.unit),
            ),
        })
    };
    let ours = after.results.iter().filter(|e| !e.again);
    let results: Vec<Row> = ours
        .clone()
        .filter_map(|a| row(before.entry(&a.point, &a.subject)?, a))
        .collect();
    if results.is_empty() {
        return Err(Failure::new(
            "the two results have no point and subject in common",
        ));
    }
    let theirs = before.results.iter().filter(|e| !e.again).count();
    Ok(Comparison {
        schema: SCHEMA,
        workload: after.workload.clone(),
        measure: name.clone(),
        differences: before.machine.differences(&after.machine),
        same_hardware,
        unmatched: ours.count() + theirs - 2 * results.len(),
        results,
    })
}

/// The measure that is compared, and which way it is better.
fn judged<'a>(document: &'a Document, asked: Option<&str>) -> Result<(&'a Measure, Better)> {
    let name = asked.unwrap_or(&document.primary);
    let Some(measure) = document.measure(name) else {
        let known: Vec<&str> = document.measures.iter().map(|m| m.name.as_str()).collect();
        return Err(Failure::new(format_args!(
            "--measure: there is no '{name}' in these results"
        ))
        .advice(names::advice(name, &known)));
    };
    match measure.better {
        Some(better) => Ok((measure, better)),
        None => Err(Failure::new(format_args!(
            "--measure: '{name}' cannot be judged: neither more nor less of it is better"
        ))),
    }
}

fn show(comparison: &Comparison, before: &Document) -> String {
    let mut text = String::new();
    if !comparison.same_hardware {
        text.push_str("DIFFERENT MACHINES: they may be the cause of a difference. --across-machines gives verdicts nevertheless.\n");
    }
    for (what, old, new) in &comparison.differences {
        text.push_str(&format!("{what} differs: {old}, then {new}\n"));
    }
    let first = &comparison.results[0];
    let mut titles: Vec<String> = first.point.0.keys().map(|v| spelled(v)).collect();
    titles.push(before.subject.clone());
    let names = titles.len();
    let measure = before.measure(&comparison.measure);
    let title = measure.map_or(comparison.measure.as_str(), |m| m.title.as_str());
    titles.extend([
        format!("{title} before"),
        "after".into(),
        "ratio".into(),
        "noise".into(),
        "verdict".into(),
    ]);
    let cells = |row: &Row| {
        let mut cells: Vec<String> = row.point.0.values().map(|v| number(*v)).collect();
        cells.push(row.subject.clone());
        cells.extend([row.shown.0.clone(), row.shown.1.clone()]);
        cells.push(Unit::Plain.number(row.ratio));
        cells.push(row.noise.map_or("-".into(), percent));
        cells.push(row.verdict.map_or("-".into(), |d| d.word().to_owned()));
        cells
    };
    let rows = comparison.results.iter().map(cells).collect();
    text.push_str(&output::table(&titles, rows, names..titles.len() - 1));
    if comparison.unmatched > 0 {
        text.push_str(&format!(
            "{} entries are in one of the two results only\n",
            comparison.unmatched
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::document::{schema, testing};
    use super::*;

    #[test]
    fn a_comparison_keeps_to_its_published_schema() {
        let published = schema::published::<Comparison>("bench-comparison.schema.json");
        let args = Compare {
            before: "before.json".into(),
            after: "after.json".into(),
            measure: None,
            across_machines: false,
            check: false,
            json: true,
        };
        let document = testing::document();
        let comparison = compare(&document, &document, &args).unwrap();
        schema::check(&published, &serde_json::to_value(&comparison).unwrap()).unwrap();
    }
}
