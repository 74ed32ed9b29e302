// SPDX-License-Identifier: MIT
//! The points that a claim speaks of.

use std::collections::BTreeMap;

use toml::Value;

use crate::options;
use crate::point::Point;

/// A number as it is, or, as `"4x"`, so many for each hardware context.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        Value::String(text) => options::count(text, 0, u32::MAX).ok().map(f64::from),
        _ => None,
    }
}

/// Is the point at these values? A point that lacks a variable which the claim names is not.
pub(super) fn is_at(point: &Point, at: &BTreeMap<String, Value>) -> bool {
    at.iter()
        .all(|(name, value)| point.get(name) == number(value) && number(value).is_some())
}

/// The value of a variable, as a reader has it.
pub(super) fn told(name: &str, value: &Value) -> String {
    let factor = value.as_str().and_then(|v| v.strip_suffix('x'));
    match (factor, number(value)) {
        (Some("1"), _) => format!("a {} a context", name.trim_end_matches('s')),
        (Some(factor), _) => format!("{factor} {name} a context"),
        (None, Some(n)) => Point::default().with(name, n).to_string(),
        (None, None) => format!("{name} {value:?}"),
    }
}
