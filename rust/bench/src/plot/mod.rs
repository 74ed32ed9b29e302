// SPDX-License-Identifier: MIT
//! Figures in the manner of the papers': what they show, and how they are drawn.

mod draw;
mod image;
mod scale;
mod style;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::{Document, Entry};
use super::measure::Unit;
use super::point::{Point, number, spelled};

pub use image::{png, svg, svg_file};
pub use style::colour_of;

/// A figure that a workload wants.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FigureSpec {
    /// Names its files.
    pub id: String,
    pub title: String,
    pub measure: String,
    pub shape: Shape,
    /// Divide by the first of these subjects that was measured; empty: absolute values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub normalise_to: Vec<String>,
    #[serde(default)]
    pub log: bool,
    /// Where the values begin, other than at 0: a share of half is none at all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub base: f64,
    /// Bars of several measures instead of one: a group a part, and one figure a point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// One of several measures that a figure sets side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub title: String,
    pub measure: String,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Over a variable, a line a subject.
    #[default]
    Lines,
    /// A group a point, a bar a subject.
    Bars,
    /// What was sampled during one run, over its time.
    Trace,
}

/// A figure with its data.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    pub id: String,
    pub title: String,
    pub x_title: String,
    pub y_title: String,
    pub log: bool,
    pub base: f64,
    pub shape: Shape,
    /// Of bars: the groups' names.
    pub groups: Vec<String>,
    /// Of lines over threads: where the machine's hardware contexts are used up.
    pub contexts: Option<f64>,
    pub series: Vec<Series>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub name: String,
    /// The subject's number, and so its colour and marker, whatever else is in the figure.
    pub index: usize,
    /// The second go of the first subject: drawn faintly.
    pub again: bool,
    pub points: Vec<Dot>,
}

/// A value with the interval that it is known to. Of bars, x is the number of the group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
}

/// Every figure of a document for which there is something to show.
pub fn figures(document: &Document) -> Vec<Figure> {
    let mut figures: Vec<Figure> = document
        .figures
        .iter()
        .flat_map(|spec| match spec.shape {
            Shape::Trace => traces(document, spec),
            Shape::Lines => lines(document, spec),
            Shape::Bars if !spec.parts.is_empty() => parts(document, spec),
            Shape::Bars => vec![bars(document, spec)],
        })
        .collect();
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
                let told = Point(
                    facet
                        .0
                        .iter()
                        .filter(|(v, _)| varying.contains(v))
                        .cloned()
                        .collect(),
                );
                figure.id = format!("{}-{}", spec.id, i + 1);
                figure.title = format!("{} ({told})", spec.title);
            }
            let reference = reference(document, spec);
            figure.series = series(document, |entry| {
                (entry.point.without(&axis) == *facet)
                    .then(|| {
                        Some((
                            entry.point.get(&axis)?,
                            scaled(document, spec, reference, entry)?,
                        ))
                    })
                    .flatten()
            });
            figure
        })
        .collect()
}

fn bars(document: &Document, spec: &FigureSpec) -> Figure {
    let mut figure = blank(document, spec, Shape::Bars);
    let varying = document.variables();
    let points = document.points();
    figure.groups = points
        .iter()
        .map(|p| {
            Point(
                p.0.iter()
                    .filter(|(v, _)| varying.contains(v))
                    .cloned()
                    .collect(),
            )
            .to_string()
        })
        .collect();
    let reference = reference(document, spec);
    figure.series = series(document, |entry| {
        let group = points.iter().position(|p| **p == entry.point)?;
        Some((group as f64, scaled(document, spec, reference, entry)?))
    });
    figure
}

/// Drawn as bars; the parts need not be values of one variable.
fn parts(document: &Document, spec: &FigureSpec) -> Vec<Figure> {
    let points = document.points();
    let several = points.len() > 1;
    let values = |entry: &Entry, part: &Part| {
        let estimate = entry.measures.get(&part.measure)?;
        Some([estimate.median, estimate.low, estimate.high])
    };
    let figure = |(i, point): (usize, &&Point)| {
        let mut figure = blank(document, spec, Shape::Bars);
        figure.y_title = "share".into();
        if several {
            figure.id = format!("{}-{}", spec.id, i + 1);
            figure.title = format!("{} ({point})", spec.title);
        }
        figure.groups = spec.parts.iter().map(|p| p.title.clone()).collect();
        for (group, part) in spec.parts.iter().enumerate() {
            let bars = series(document, |entry| {
                (entry.point == **point).then(|| Some((group as f64, values(entry, part)?)))?
            });
            add(&mut figure.series, bars);
        }
        figure
    };
    points.iter().enumerate().map(figure).collect()
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

/// One figure a point, from the first round that was traced.
fn traces(document: &Document, spec: &FigureSpec) -> Vec<Figure> {
    let points = document.points();
    let several = points.len() > 1;
    let figure = |(i, point): (usize, &&Point)| {
        let mut figure = blank(document, spec, Shape::Trace);
        figure.x_title = "time (ms)".into();
        figure.y_title = "runnable threads".into();
        if several {
            figure.id = format!("{}-{}", spec.id, i + 1);
            figure.title = format!("{} ({point})", spec.title);
        }
        figure.contexts = None;
        figure.series = document
            .at(point)
            .filter(|e| !e.again)
            .map(|entry| Series {
                name: entry.subject.clone(),
                index: number_of(document, &entry.subject),
                again: false,
                points: entry
                    .rounds
                    .iter()
                    .find_map(|s| trace(&s.detail))
                    .unwrap_or_default(),
            })
            .collect();
        figure
    };
    points.iter().enumerate().map(figure).collect()
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
        low: y,
        high: y,
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

/// An entry's value, low and high, divided by the reference's median at the same point.
fn scaled(
    document: &Document,
    spec: &FigureSpec,
    reference: Option<&str>,
    entry: &Entry,
) -> Option<[f64; 3]> {
    let estimate = entry.measures.get(&spec.measure)?;
    let by = match reference {
        None => 1.0,
        Some(name) => {
            document
                .entry(&entry.point, name)?
                .measures
                .get(&spec.measure)?
                .median
        }
    };
    let values = [estimate.median, estimate.low, estimate.high].map(|v| v / by);
    // A logarithm needs something to take: nought spins are no point.
    (values.iter().all(|v| v.is_finite()) && (!spec.log || values[0] > 0.0)).then_some(values)
}

/// A series a subject, the second go of the first one last.
fn series(document: &Document, value: impl Fn(&Entry) -> Option<(f64, [f64; 3])>) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    let subjects = document.subjects.iter().map(|s| (s, false));
    for (subject, again) in subjects.chain(document.subjects.first().map(|s| (s, true))) {
        let mine = |e: &&Entry| e.subject == *subject && e.again == again;
        let mut points: Vec<Dot> = document
            .results
            .iter()
            .filter(mine)
            .filter_map(|entry| {
                let (x, [y, low, high]) = value(entry)?;
                Some(Dot { x, y, low, high })
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        if !points.is_empty() {
            all.push(Series {
                name: subject.clone(),
                index: number_of(document, subject),
                again,
                points,
            });
        }
    }
    all
}

fn number_of(document: &Document, subject: &str) -> usize {
    let mut subjects = document.subjects.iter();
    subjects.position(|s| s == subject).unwrap_or(0)
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
