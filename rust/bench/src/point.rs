// SPDX-License-Identifier: MIT
//! A point of a benchmark: one value for each variable, such as 8 threads and 2 hogs.

use std::fmt::{self, Display};

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Variables and their values, in the order in which they are shown. In JSON an object.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point(pub Vec<(String, f64)>);

impl Point {
    pub fn get(&self, variable: &str) -> Option<f64> {
        self.0.iter().find(|(v, _)| v == variable).map(|(_, x)| *x)
    }

    pub fn with(mut self, variable: &str, value: f64) -> Self {
        self.0.push((variable.to_owned(), value));
        self
    }

    /// The other variables.
    pub fn without(&self, variable: &str) -> Self {
        Self(
            self.0
                .iter()
                .filter(|(v, _)| v != variable)
                .cloned()
                .collect(),
        )
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
        Some(one) if value == 1.0 => one,
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

impl Serialize for Point {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (variable, value) in &self.0 {
            if value.fract() == 0.0 && value.abs() < 1e15 {
                map.serialize_entry(variable, &(*value as i64))?;
            } else {
                map.serialize_entry(variable, value)?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Point {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Point;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of numbers")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Point, M::Error> {
                let mut point = Point::default();
                while let Some(entry) = map.next_entry()? {
                    point.0.push(entry);
                }
                Ok(point)
            }
        }
        deserializer.deserialize_map(InOrder)
    }
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
    fn json_keeps_the_order_and_whole_numbers_whole() {
        let point = Point::default().with("threads", 8.0).with("cs", 0.5);
        let text = serde_json::to_string(&point).unwrap();
        assert_eq!(text, r#"{"threads":8,"cs":0.5}"#);
        assert_eq!(serde_json::from_str::<Point>(&text).unwrap(), point);
        assert_eq!(point.without("threads").to_string(), "0.5 cs");
    }
}
