// SPDX-License-Identifier: MIT
//! A run in which threads come and go: each step of the ramp, over all rounds.

use serde_json::Value;

use crate::document::{Document, Entry};
use crate::figure::{Dot, Figure, FigureSpec, Series};
use crate::point::Point;
use crate::stats::Estimate;
use crate::worker;

/// Fills the figure of a point.
pub fn fill(figure: &mut Figure, document: &Document, spec: &FigureSpec, point: &Point) {
    let peak = point.get("threads").unwrap_or(0.0);
    figure.x_title =
        format!("threads short of {peak}: negative while they come, positive while they go");
    figure.series = of_point(document, spec, point);
    let names = |name: &&String| figure.series.iter().any(|s| s.name == **name);
    if let (Some(measure), Some(name)) = (
        document.measure(&spec.measure),
        spec.normalise_to.iter().find(names),
    ) {
        figure.y_title = format!("{} / that of {name}", measure.title);
    }
}

fn of_point(document: &Document, spec: &FigureSpec, point: &Point) -> Vec<Series> {
    let series = |entry: &Entry| Series {
        name: entry.subject.clone(),
        index: document.number_of(&entry.subject),
        again: false,
        points: steps(entry, &spec.measure),
    };
    let entries = document.at(point).filter(|e| !e.again);
    let mut all: Vec<Series> = entries.map(series).collect();
    let measured = |name: &&String| all.iter().any(|s| s.name == **name && !s.points.is_empty());
    let reference = spec.normalise_to.iter().find(measured);
    if let Some(by) = reference.and_then(|name| all.iter().find(|s| s.name == *name)) {
        let by = by.points.clone();
        all.iter_mut().for_each(|s| divide(s, &by));
    }
    all
}

/// The medians of each step over the rounds; what is no number (no operation in a step) is left out.
fn steps(entry: &Entry, measure: &str) -> Vec<Dot> {
    let ramps: Vec<&Vec<Value>> = entry
        .rounds
        .iter()
        .filter_map(|r| r.detail.get("ramp")?.as_array())
        .collect();
    let count = ramps.first().map_or(0, |r| r.len());
    let dot = |i: usize| {
        let values: Vec<f64> = ramps
            .iter()
            .filter_map(|r| value(r.get(i)?, measure))
            .collect();
        let estimate = Estimate::of((0..).zip(values.iter().copied()))?;
        Some(Dot {
            x: place(ramps[0], i)?,
            y: estimate.median,
            low: estimate.low,
            high: estimate.high,
            rounds: values,
        })
    };
    (0..count).filter_map(dot).collect()
}

/// How many threads short of the peak: negative while threads come.
fn place(ramp: &[Value], i: usize) -> Option<f64> {
    let threads = |i: usize| ramp.get(i)?["threads"].as_f64();
    let peak = ramp.len() / 2;
    let short = threads(peak)? - threads(i)?;
    Some(if i < peak { -short } else { short })
}

fn value(step: &Value, measure: &str) -> Option<f64> {
    let [threads, seconds, ops, transitions] =
        ["threads", "seconds", "ops", "transitions"].map(|key| step[key].as_f64());
    let value = match measure {
        worker::THROUGHPUT => ops? / seconds? / 1e3,
        worker::OPERATION_NS => threads? * seconds? / ops? * 1e9,
        "transitions_per_s" => transitions? / seconds?,
        _ => return None,
    };
    value.is_finite().then_some(value)
}

fn divide(series: &mut Series, by: &[Dot]) {
    let its = |x: f64| by.iter().find(|d| d.x == x).map(|d| d.y);
    series.points.retain_mut(|dot| {
        let Some(by) = its(dot.x).filter(|by| *by > 0.0) else {
            return false;
        };
        (dot.y, dot.low, dot.high) = (dot.y / by, dot.low / by, dot.high / by);
        dot.rounds.iter_mut().for_each(|r| *r /= by);
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Shape;
    use serde_json::json;

    /// In each round posix is as fast as ever, and mcs collapses with the second thread.
    fn recorded() -> Document {
        let mut document = crate::document::testing::document();
        document
            .results
            .retain(|e| e.point.get("threads") == Some(2.0) && !e.again);
        for entry in &mut document.results {
            for sample in &mut entry.rounds {
                let step = |threads: u32, ops: u32| json!({"threads": threads, "seconds": 0.5, "ops": ops, "transitions": 3});
                let there = if entry.subject == "mcs" { 0 } else { 1000 };
                sample.detail = json!({"ramp": [step(1, 2000), step(2, there), step(1, 500)]});
            }
        }
        document
    }

    fn spec(measure: &str) -> FigureSpec {
        FigureSpec {
            id: "r".into(),
            measure: measure.into(),
            shape: Shape::Ramp,
            ..FigureSpec::default()
        }
    }

    fn figures(document: &Document, spec: FigureSpec) -> Vec<Figure> {
        super::super::figures(&Document {
            figures: vec![spec],
            ..document.clone()
        })
    }

    fn dots(figure: &Figure, name: &str) -> Vec<(f64, f64)> {
        let mut series = figure.series.iter();
        let series = series.find(|s| s.name == name).unwrap();
        series.points.iter().map(|p| (p.x, p.y)).collect()
    }

    #[test]
    fn threads_come_at_the_left_and_go_at_the_right() {
        let figures = figures(&recorded(), spec(worker::THROUGHPUT));
        assert_eq!(figures.len(), 1);
        assert_eq!(
            dots(&figures[0], "posix"),
            [(-1.0, 4.0), (0.0, 2.0), (1.0, 1.0)]
        );
        assert_eq!(dots(&figures[0], "mcs")[1], (0.0, 0.0));
        assert!(super::super::svg(&figures[0]).unwrap().contains("<svg"));
    }

    #[test]
    fn a_step_without_an_operation_has_no_time_of_one() {
        let document = recorded();
        let figure = &figures(&document, spec(worker::OPERATION_NS))[0];
        assert_eq!(
            dots(figure, "posix"),
            [(-1.0, 250e3), (0.0, 1e6), (1.0, 1e6)]
        );
        assert_eq!(dots(figure, "mcs"), [(-1.0, 250e3), (1.0, 1e6)]);
        let figure = &figures(&document, spec("transitions_per_s"))[0];
        assert_eq!(dots(figure, "mcs"), [(-1.0, 6.0), (0.0, 6.0), (1.0, 6.0)]);
    }

    #[test]
    fn a_normalised_ramp_is_divided_step_by_step() {
        let spec = FigureSpec {
            normalise_to: vec!["futex".into(), "posix".into()],
            ..spec(worker::THROUGHPUT)
        };
        let figure = &figures(&recorded(), spec)[0];
        assert_eq!(dots(figure, "posix"), [(-1.0, 1.0), (0.0, 1.0), (1.0, 1.0)]);
        assert_eq!(dots(figure, "mcs"), [(-1.0, 1.0), (0.0, 0.0), (1.0, 1.0)]);
        assert_eq!(figure.y_title, "throughput / that of posix");
    }
}
