// SPDX-License-Identifier: MIT
//! What a figure shows: what a workload asks for, and the same with its data. How it is drawn is in `plot`.

use serde::{Deserialize, Serialize};

/// A figure that a workload wants.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// What the paper prints of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub paper: String,
}

/// One of several measures that a figure sets side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Part {
    pub title: String,
    pub measure: String,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Over a variable, a line a subject.
    #[default]
    Lines,
    /// A group a point, a bar a subject.
    Bars,
    /// What was sampled during one run, over its time.
    Trace,
    /// The steps of a ramp: threads come at the left, and go at the right.
    Ramp,
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
    /// What a reader must know besides the axis titles.
    pub note: Option<String>,
    pub paper: String,
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

/// A median with its interval and the values of the rounds. Of bars, x is the number of the group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
    pub rounds: Vec<f64>,
}
