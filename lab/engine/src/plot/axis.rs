// SPDX-License-Identifier: MIT
//! An axis: plotters' linear or logarithmic one, chosen at run time, with the ticks and the labels of our figures.

use std::ops::Range;

use plotters::coord::combinators::{IntoLogRange, LogCoord};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub log: bool,
    range: Range<f64>,
    /// Empty: round numbers.
    ticks: Vec<f64>,
}

impl Axis {
    /// Shows all of `values`, with a margin above. Begins at `base`, unless logarithmic.
    pub fn vertical(values: impl Iterator<Item = f64> + Clone, base: f64, log: bool) -> Self {
        let high = values.clone().fold(f64::MIN, f64::max);
        let least = values.filter(|v| *v > 0.0).fold(f64::MAX, f64::min);
        if !log || least > high {
            let high = if high > base {
                base + (high - base) * 1.1
            } else {
                base + 1.0
            };
            return Self::new(false, base..high, Vec::new());
        }
        // Intervals need a margin; and an axis of less than a decade would make small differences look large.
        let (low, high) = (least / 1.6, high * 1.6);
        let widen = (10.0 / (high / low)).max(1.0).sqrt();
        let range = low / widen..high * widen;
        let ticks = decades(&range, 6);
        Self::new(true, range, ticks)
    }

    /// Shows `values`, which are sorted, from edge to edge; logarithmic where they span a factor of 8. The ticks are
    /// the values themselves if there are few and `name_values` is set.
    pub fn horizontal(values: &[f64], name_values: bool) -> Self {
        let (low, high) = match values {
            [low, .., high] => (*low, *high),
            [only] => (only - 0.5, only + 0.5),
            [] => (0.0, 1.0),
        };
        let log = low > 0.0 && high / low >= 8.0;
        let range = if log {
            let margin = (high / low).powf(0.02);
            low / margin..high * margin
        } else {
            let margin = (high - low) * 0.02;
            low - margin..high + margin
        };
        let ticks = match log {
            _ if name_values && values.len() <= 12 => values.to_vec(),
            true => decades(&range, 8),
            false => Vec::new(),
        };
        Self::new(log, range, ticks)
    }

    /// Groups side by side; group i has the values from i to i + 1, and its name in the middle.
    pub fn groups(count: usize) -> Self {
        let ticks = (0..count).map(|i| i as f64 + 0.5).collect();
        Self::new(false, 0.0..count.max(1) as f64, ticks)
    }

    fn new(log: bool, range: Range<f64>, ticks: Vec<f64>) -> Self {
        Self { log, range, ticks }
    }
}

/// What lies outside is drawn at the edge: of a logarithmic axis, 0 and less at its beginning.
impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let value = value.clamp(self.range.start, self.range.end);
        match self.log {
            true => LogCoord::from(self.range.clone().log_scale()).map(&value, limit),
            false => RangedCoordf64::from(self.range.clone()).map(&value, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self.ticks.is_empty() {
            true => RangedCoordf64::from(self.range.clone()).key_points(hint),
            false => self.ticks.clone(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        label(*value)
    }
}

/// Powers of ten; as far as `wanted` allows, also their doubles and fivefolds.
fn decades(range: &Range<f64>, wanted: usize) -> Vec<f64> {
    let (first, last) = (
        range.start.log10().floor() as i32,
        range.end.log10().ceil() as i32,
    );
    let within = |factors: &[f64]| -> Vec<f64> {
        let powers = (first..=last).map(|p| 10f64.powi(p));
        let all = powers.flat_map(|power| factors.iter().map(move |f| f * power));
        all.filter(|v| range.contains(v)).collect()
    };
    let fine = within(&[1.0, 2.0, 5.0]);
    if fine.len() <= wanted {
        return fine;
    }
    let coarse = within(&[1.0]);
    let skip = coarse.len().div_ceil(wanted);
    coarse.into_iter().step_by(skip).collect()
}

/// A tick's label: short, thousands and beyond by their letter.
fn label(value: f64) -> String {
    let (value, letter) = match value.abs() {
        v if v >= 1e12 => return format!("{value:.0e}"),
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        v if v != 0.0 && v < 1e-3 => return format!("{value:.0e}"),
        _ => (value, ""),
    };
    let text = format!("{value:.3}");
    format!(
        "{}{letter}",
        text.trim_end_matches('0').trim_end_matches('.')
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::coord::ranged1d::BoldPoints;
    use proptest::prelude::*;

    #[test]
    fn labels_are_short() {
        let labels = [0.0, 0.5, 2000.0, 20_000.0, 2.5e6, 1e9, 0.00001].map(label);
        assert_eq!(labels, ["0", "0.5", "2000", "20k", "2.5M", "1G", "1e-5"]);
    }

    #[test]
    fn threads_that_double_are_evenly_spaced() {
        let threads = [1.0, 2.0, 4.0, 8.0];
        let axis = Axis::horizontal(&threads, true);
        let pixels = threads.map(|v| axis.map(&v, (0, 1000)));
        let steps: Vec<i32> = pixels.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(
            steps.iter().all(|s| (s - steps[0]).abs() <= 1),
            "{pixels:?}"
        );
    }

    #[test]
    fn zero_is_at_the_bottom_of_a_logarithmic_axis() {
        let axis = Axis::vertical([0.0, 3.0, 40.0].into_iter(), 0.0, true);
        assert_eq!(axis.map(&0.0, (400, 0)), 400);
        assert!(
            axis.map(&3.0, (400, 0)) < 390,
            "apart from the smallest value"
        );
        assert!(!Axis::vertical([0.0; 3].into_iter(), 0.0, true).log);
    }

    proptest! {
        #[test]
        fn ticks_are_on_the_axis_and_not_too_many(values in prop::collection::vec(1e-3..1e9f64, 1..20), log in any::<bool>()) {
            let axis = Axis::vertical(values.iter().copied(), 0.0, log);
            let ticks = axis.key_points(BoldPoints(6));
            prop_assert!(!ticks.is_empty() && ticks.len() <= 12, "{ticks:?}");
            prop_assert!(ticks.iter().all(|t| axis.range().contains(t)), "{ticks:?}");
            prop_assert!(values.iter().all(|v| axis.range().contains(v)), "{values:?}");
        }

        #[test]
        fn larger_is_higher(a in 1e-3..1e6f64, b in 1e-3..1e6f64, log in any::<bool>()) {
            let axis = Axis::vertical([a, b].into_iter(), 0.0, log);
            prop_assert!(a <= b || axis.map(&a, (400, 0)) <= axis.map(&b, (400, 0)));
        }
    }
}
