// SPDX-License-Identifier: MIT
//! What is measured: names, units, which way is better, how values are written.

use serde::{Deserialize, Serialize};

use super::stats::Better;

/// One thing that a benchmark measures in every run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measure {
    /// Its name in the JSON and for `--columns`.
    pub name: String,
    /// Its title above a column and beside an axis.
    pub title: String,
    pub unit: Unit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better: Option<Better>,
}

/// What kind of value it is, which decides how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Unit {
    #[serde(rename = "ops/ms")]
    OpsPerMs,
    #[serde(rename = "ns")]
    Nanoseconds,
    #[serde(rename = "us")]
    Microseconds,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "1/s")]
    PerSecond,
    #[serde(rename = "1/op")]
    PerOperation,
    #[serde(rename = "bytes")]
    Bytes,
    /// A factor, a share, a score that a program prints.
    #[serde(rename = "1")]
    Plain,
    #[serde(rename = "count")]
    Count,
}

impl Unit {
    pub fn symbol(self) -> &'static str {
        match self {
            Self::OpsPerMs => "ops/ms",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "µs",
            Self::Seconds => "s",
            Self::PerSecond => "/s",
            Self::PerOperation => "/op",
            Self::Bytes => "B",
            Self::Plain | Self::Count => "",
        }
    }

    /// A value outside a table: times in the unit that fits, everything else as in its column.
    pub fn write(self, value: f64) -> String {
        match self {
            Self::Nanoseconds => duration(value),
            unit => unit.number(value),
        }
    }

    /// A value in a column that names the unit.
    pub fn number(self, value: f64) -> String {
        self.number_to(value, 0)
    }

    /// The same with so many digits more.
    pub fn number_to(self, value: f64, more: usize) -> String {
        match self {
            Self::Count | Self::Bytes => format!("{value:.more$}"),
            _ => format!("{value:.*}", digits(value) + more),
        }
    }
}

/// Digits after the point that give three significant ones, none for large numbers: a collapsed lock must not look like 0.
pub fn digits(value: f64) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize
}

/// Nanoseconds in the unit that fits.
pub fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// A line of a catalogue of measures.
pub fn measure(name: &str, title: &str, unit: Unit, better: impl Into<Option<Better>>) -> Measure {
    Measure {
        name: name.into(),
        title: title.into(),
        unit,
        better: better.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_fits() {
        assert_eq!(
            [1.0, 1.5e3, 2.0e6, 3.25e9].map(duration),
            ["1 ns", "1.5 µs", "2.0 ms", "3.25 s"]
        );
    }

    #[test]
    fn three_digits_are_shown() {
        assert_eq!(
            [1.5, 0.0123, 12345.6, 0.0].map(|v| Unit::Plain.number(v)),
            ["1.50", "0.0123", "12346", "0"]
        );
        assert_eq!(Unit::Count.number(2.5e3), "2500");
    }
}
