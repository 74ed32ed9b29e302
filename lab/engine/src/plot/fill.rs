// SPDX-License-Identifier: MIT
//! The figures of a record: what is asked for, filled with its data.

use serde_json::Value;

use super::ramp;
use crate::document::{Document, Entry};
use crate::figure::{Dot, Figure, FigureSpec, Series, Shape};
use crate::measure::Unit;
use crate::point::{Point, number, spelled};

/// Every figure of a document for which there is something to show.
pub fn figures(document: &Document) -> Vec<Figure> {
    let specs = document.figures.iter();
    specs.flat_map(|spec| of(document, spec)).collect()
}

/// The titles of the figures for which there is nothing to show.
pub fn without_data(document: &Document) -> Vec<&str> {
    let specs = document.figures.iter();
    let empty = specs.filter(|spec| of(document, spec).is_empty());
    empty.map(|spec| spec.title.as_str()).collect()
}

fn of(document: &Document, spec: &FigureSpec) -> Vec<Figure> {
    let mut figures = match spec.shape {
        Shape::Trace => traces(document, spec),
        Shape::Ramp => each_point(document, spec, Shape::Ramp, |figure, point| {
            ramp::fill(figure, document, spec, point);
        }),
        Shape::Lines => lines(document, spec),
        Shape::Bars if !spec.parts.is_empty() => parts(document, spec),
        Shape::Bars => vec![bars(document, spec)],
    };
    figures.retain(|f| f.series.iter().any(|s| !s.points.is_empty()));
    figures
}

/// One figure for each combination of the variables that are not on the axis.
fn lines(document: &Document, spec: &FigureSpec) -> Vec<Figure> {
    let Some(axis) = axis(document) else {
        return vec![bars(document, spec)];
    };
    let mut facets: Vec<Point> = Vec::new();
    for point in document.points() {
        let rest = point.without(&axis);
        if !facets.contains(&rest) {
            facets.push(rest);
        }
    }
    let varying = document.variables();
    let several = facets.len() > 1;
    let facets = facets.iter().enumerate();
    facets
        .map(|(i, facet)| {
            let mut figure = blank(document, spec, Shape::Lines);
            figure.x_title = spelled(&axis);
            figure.contexts =
                (axis == "threads").then_some(document.machine.hardware_contexts as f64);
            if several {
                let told = facet.only(|name| varying.iter().any(|v| v == name));
                figure.id = format!("{}-{}", spec.id, i + 1);
                figure.title = format!("{} ({told})", spec.title);
            }
            figure.series = series(document, |entry| {
                let here = entry.point.without(&axis) == *facet;
                let x = entry.point.get(&axis).filter(|_| here)?;
                scaled(document, spec, entry, x)
            });
            noted(figure, document, spec)
        })
        .collect()
}

fn bars(document: &Document, spec: &FigureSpec) -> Figure {
    let mut figure = blank(document, spec, Shape::Bars);
    let varying = document.variables();
    let points = document.points();
    let varies = |name: &str| varying.iter().any(|v| v == name);
    figure.groups = points.iter().map(|p| p.only(varies).to_string()).collect();
    figure.series = series(document, |entry| {
        let group = points.iter().position(|p| **p == entry.point)?;
        scaled(document, spec, entry, group as f64)
    });
    noted(figure, document, spec)
}

/// One figure a point.
fn each_point(
    document: &Document,
    spec: &FigureSpec,
    shape: Shape,
    fill: impl Fn(&mut Figure, &Point),
) -> Vec<Figure> {
    let points = document.points();
    let several = points.len() > 1;
    let figure = |(i, point): (usize, &&Point)| {
        let mut figure = blank(document, spec, shape);
        if several {
            figure.id = format!("{}-{}", spec.id, i + 1);
            figure.title = format!("{} ({point})", spec.title);
        }
        fill(&mut figure, point);
        figure
    };
    points.iter().enumerate().map(figure).collect()
}

/// Drawn as bars; the parts need not be values of one variable.
fn parts(document: &Document, spec: &FigureSpec) -> Vec<Figure> {
    each_point(document, spec, Shape::Bars, |figure, point| {
        figure.y_title = "share".into();
        figure.groups = spec.parts.iter().map(|p| p.title.clone()).collect();
        for (group, part) in spec.parts.iter().enumerate() {
            let bars = series(document, |entry| {
                let here = entry.point == *point;
                dot(entry, &part.measure, group as f64, 1.0).filter(|_| here)
            });
            add(&mut figure.series, bars);
        }
    })
}

/// More points for the series that are there already, and the series that are not.
fn add(all: &mut Vec<Series>, more: Vec<Series>) {
    for new in more {
        let old = all
            .iter_mut()
            .find(|s| s.name == new.name && s.again == new.again);
        match old {
            Some(old) => old.points.extend(new.points),
            None => all.push(new),
        }
    }
}

/// From the first round that was traced.
fn traces(document: &Document, spec: &FigureSpec) -> Vec<Figure> {
    each_point(document, spec, Shape::Trace, |figure, point| {
        figure.x_title = "time (ms)".into();
        figure.y_title = "runnable threads".into();
        figure.contexts = None;
        let of = |entry: &Entry| Series {
            name: entry.subject.clone(),
            index: document.number_of(&entry.subject),
            again: false,
            points: entry
                .rounds
                .iter()
                .find_map(|s| trace(&s.detail))
                .unwrap_or_default(),
        };
        figure.series = document.at(point).filter(|e| !e.again).map(of).collect();
    })
}

/// The samples of a run: regular ones, or with their own times.
fn trace(detail: &Value) -> Option<Vec<Dot>> {
    let runnable = detail.get("runnable")?;
    let numbers = |key: &str| -> Option<Vec<f64>> {
        runnable
            .get(key)?
            .as_array()?
            .iter()
            .map(Value::as_f64)
            .collect()
    };
    let samples = numbers("samples")?;
    let times = match numbers("times_us") {
        Some(times) => times,
        None => {
            let step = runnable.get("interval_us")?.as_f64()?;
            (0..samples.len()).map(|i| i as f64 * step).collect()
        }
    };
    let dot = |(time, y): (f64, f64)| Dot {
        x: time / 1e3,
        y,
        ..Dot::default()
    };
    Some(times.into_iter().zip(samples).map(dot).collect())
}

fn blank(document: &Document, spec: &FigureSpec, shape: Shape) -> Figure {
    let y_title = match document.measure(&spec.measure) {
        None => spec.measure.clone(),
        Some(measure) => match reference(document, spec) {
            Some(name) => format!("{} / that of {name}", measure.title),
            None if measure.unit.symbol().is_empty() => measure.title.clone(),
            None if measure.unit == Unit::PerSecond => format!("{} per second", measure.title),
            None => format!("{} ({})", measure.title, measure.unit.symbol()),
        },
    };
    Figure {
        id: spec.id.clone(),
        title: spec.title.clone(),
        x_title: String::new(),
        y_title,
        log: spec.log,
        base: spec.base,
        shape,
        groups: Vec::new(),
        contexts: None,
        series: Vec::new(),
        note: None,
        paper: spec.paper.clone(),
    }
}

fn reference<'a>(document: &Document, spec: &'a FigureSpec) -> Option<&'a str> {
    let measured = |name: &&String| {
        document
            .results
            .iter()
            .any(|e| e.subject == **name && e.measures.contains_key(&spec.measure))
    };
    spec.normalise_to.iter().find(measured).map(String::as_str)
}

/// An entry's values divided by the reference's median at the same point. None: not measured, or no number.
fn scaled(document: &Document, spec: &FigureSpec, entry: &Entry, x: f64) -> Option<Dot> {
    let by = match reference(document, spec) {
        None => 1.0,
        Some(name) => {
            let its = document.entry(&entry.point, name)?;
            its.measures.get(&spec.measure)?.median
        }
    };
    dot(entry, &spec.measure, x, by).filter(|d| d.y.is_finite())
}

fn dot(entry: &Entry, measure: &str, x: f64, by: f64) -> Option<Dot> {
    let estimate = entry.measures.get(measure)?;
    let rounds = entry.rounds.iter().filter_map(|r| r.values.get(measure));
    Some(Dot {
        x,
        y: estimate.median / by,
        low: estimate.low / by,
        high: estimate.high / by,
        rounds: rounds.map(|v| v / by).collect(),
    })
}

/// The figure with a note on every value that it cannot show in its place.
fn noted(mut figure: Figure, document: &Document, spec: &FigureSpec) -> Figure {
    let mut notes = Vec::new();
    let at_zero = |s: &Series| s.points.iter().any(|p| p.y <= 0.0);
    if figure.log && figure.series.iter().any(at_zero) {
        notes.push("open markers at the bottom: 0".to_owned());
    }
    let is_zero = |name: &&str| {
        let mut its = document
            .results
            .iter()
            .filter(|e| e.subject == *name && !e.again);
        its.any(|e| {
            e.measures
                .get(&spec.measure)
                .is_some_and(|m| m.median == 0.0)
        })
    };
    if let Some(name) = reference(document, spec).filter(is_zero) {
        notes.push(format!("nothing is shown where {name} is 0"));
    }
    figure.note = (!notes.is_empty()).then(|| notes.join("; "));
    figure
}

/// A series a subject, the second go of the first one last.
fn series(document: &Document, dot: impl Fn(&Entry) -> Option<Dot>) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    let subjects = document.subjects.iter().map(|s| (s, false));
    for (subject, again) in subjects.chain(document.subjects.first().map(|s| (s, true))) {
        let mine = |e: &&Entry| e.subject == *subject && e.again == again;
        let mut points: Vec<Dot> = document
            .results
            .iter()
            .filter(mine)
            .filter_map(&dot)
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        if !points.is_empty() {
            all.push(Series {
                name: subject.clone(),
                index: document.number_of(subject),
                again,
                points,
            });
        }
    }
    all
}

/// The variable with the most values; None if nothing varies.
fn axis(document: &Document) -> Option<String> {
    let values = |name: &str| {
        let mut values: Vec<String> = document
            .results
            .iter()
            .filter_map(|e| e.point.get(name).map(number))
            .collect();
        values.sort();
        values.dedup();
        values.len()
    };
    // Of equals the first: max_by_key would take the last.
    let variables = document.variables();
    variables.into_iter().rev().max_by_key(|v| values(v))
}
