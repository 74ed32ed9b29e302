// SPDX-License-Identifier: MIT
//! A point of a benchmark: one value for each variable, such as 8 threads and 2 hogs.

use std::fmt::{self, Display};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// Variables and their values, in the order in which they are shown. In JSON an object.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Point(#[serde(serialize_with = "whole_if_whole")] pub IndexMap<String, f64>);

impl Point {
    pub fn get(&self, variable: &str) -> Option<f64> {
        self.0.get(variable).copied()
    }

    pub fn with(mut self, variable: &str, value: f64) -> Self {
        self.0.insert(variable.to_owned(), value);
        self
    }

    /// The variables that `keep` accepts, with their values.
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        let kept = self.0.iter().filter(|(name, _)| keep(name));
        Self(kept.map(|(name, x)| (name.clone(), *x)).collect())
    }

    /// The other variables.
    pub fn without(&self, variable: &str) -> Self {
        self.only(|name| name != variable)
    }

    /// Every combination of the variables' values; the first variable changes slowest.
    pub fn product(variables: &[(&str, Vec<f64>)]) -> Vec<Self> {
        variables
            .iter()
            .fold(vec![Self::default()], |points, (name, values)| {
                points
                    .iter()
                    .flat_map(|p| values.iter().map(|v| p.clone().with(name, *v)))
                    .collect()
            })
    }
}

/// A number as people write it: whole if it is.
pub fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        value.to_string()
    }
}

/// A variable's name as people write it.
pub fn spelled(variable: &str) -> String {
    match variable {
        "lock_count" => "locks".into(),
        "hold_sleep_us" => "µs asleep in the section".into(),
        "section_cycles" => "cycles more in the section".into(),
        other => other.replace('_', " "),
    }
}

/// A value with its variable: `8 threads`, `1 thread`.
fn counted(variable: &str, value: f64) -> String {
    let name = spelled(variable);
    let name = match name.strip_suffix('s') {
        Some(one) if value == 1.0 && !name.ends_with(" us") => one,
        _ => &name,
    };
    format!("{} {name}", number(value))
}

/// `8 threads, 2 hogs`
impl Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (variable, value)) in self.0.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{}", counted(variable, *value))?;
        }
        Ok(())
    }
}

/// A whole number without a decimal point.
fn whole_if_whole<S: Serializer>(
    values: &IndexMap<String, f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let value = |x: f64| match x.fract() == 0.0 && x.abs() < 1e15 {
        true => Value::from(x as i64),
        false => Value::from(x),
    };
    serializer.collect_map(values.iter().map(|(name, x)| (name, value(*x))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_once_in_order() {
        let points = Point::product(&[("threads", vec![1.0, 2.0]), ("hogs", vec![0.0, 4.0])]);
        let labels: Vec<String> = points.iter().map(ToString::to_string).collect();
        assert_eq!(
            labels,
            [
                "1 thread, 0 hogs",
                "1 thread, 4 hogs",
                "2 threads, 0 hogs",
                "2 threads, 4 hogs"
            ]
        );
        assert_eq!(Point::product(&[]), [Point::default()]);
    }

    #[test]
    fn a_unit_has_no_plural() {
        assert_eq!(counted("section_us", 1.0), "1 section us");
        assert_eq!(counted("locks", 1.0), "1 lock");
    }

    #[test]
    fn json_keeps_the_order_and_whole_numbers_whole() {
        let point = Point::default().with("threads", 8.0).with("cs", 0.5);
        let text = serde_json::to_string(&point).unwrap();
        assert_eq!(text, r#"{"threads":8,"cs":0.5}"#);
        assert_eq!(serde_json::from_str::<Point>(&text).unwrap(), point);
        assert_eq!(point.without("threads").to_string(), "0.5 cs");
    }
}
