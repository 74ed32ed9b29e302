// SPDX-License-Identifier: MIT
//! From values to pixels, and the values that an axis names.

/// An axis: values from `low` to `high` on pixels from `start` to `end` (which may run backwards, as the vertical one does).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub log: bool,
    pub low: f64,
    pub high: f64,
    pub start: f64,
    pub end: f64,
}

impl Scale {
    /// A scale that shows all of `values`, with a margin above. It begins at `base`, unless it is logarithmic.
    pub fn vertical(
        values: impl Iterator<Item = f64> + Clone,
        base: f64,
        log: bool,
        (start, end): (f64, f64),
    ) -> Self {
        let high = values.clone().fold(f64::MIN, f64::max);
        if log {
            let low = values.filter(|v| *v > 0.0).fold(f64::MAX, f64::min);
            // A margin for whiskers; and never less than a decade: small differences must not look large.
            let (low, high) = (low / 1.6, high * 1.6);
            let widen = (10.0 / (high / low)).max(1.0).sqrt();
            let (low, high) = (low / widen, high * widen);
            return Self {
                log,
                low,
                high,
                start,
                end,
            };
        }
        let high = if high > base {
            base + (high - base) * 1.1
        } else {
            base + 1.0
        };
        Self {
            log,
            low: base,
            high,
            start,
            end,
        }
    }

    /// A scale that shows `values` from edge to edge; logarithmic where they span a factor of 8.
    pub fn horizontal(values: &[f64], start: f64, end: f64) -> Self {
        let low = values.iter().copied().fold(f64::MAX, f64::min);
        let high = values.iter().copied().fold(f64::MIN, f64::max);
        let log = low > 0.0 && high / low >= 8.0;
        let (low, high) = if low < high {
            (low, high)
        } else {
            (low - 0.5, high + 0.5)
        };
        Self {
            log,
            low,
            high,
            start,
            end,
        }
    }

    pub fn pixel(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low * 1e-3) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// About `wanted` round values within the scale.
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        if self.log {
            self.log_ticks(wanted)
        } else {
            self.even_ticks(wanted)
        }
    }

    fn even_ticks(&self, wanted: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / wanted.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|f| f * power)
            .find(|s| *s >= rough)
            .unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }

    /// Powers of ten; if more fit, also their doubles and fivefolds.
    fn log_ticks(&self, wanted: usize) -> Vec<f64> {
        let (first, last) = (
            self.low.log10().floor() as i32,
            self.high.log10().ceil() as i32,
        );
        let within = |factors: &[f64]| -> Vec<f64> {
            (first..=last)
                .flat_map(|p| factors.iter().map(move |f| f * 10f64.powi(p)))
                .filter(|v| (self.low..=self.high).contains(v))
                .collect()
        };
        let fine = within(&[1.0, 2.0, 5.0]);
        if fine.len() <= wanted {
            return fine;
        }
        let decades = within(&[1.0]);
        let skip = decades.len().div_ceil(wanted.max(1)).max(1);
        decades.into_iter().step_by(skip).collect()
    }
}

/// A tick's label: short, thousands and beyond by their letter.
pub fn label(value: f64) -> String {
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
    use proptest::prelude::*;

    #[test]
    fn labels_are_short() {
        let labels = [0.0, 0.5, 2000.0, 20_000.0, 2.5e6, 1e9, 0.00001].map(label);
        assert_eq!(labels, ["0", "0.5", "2000", "20k", "2.5M", "1G", "1e-5"]);
    }

    #[test]
    fn threads_that_double_are_evenly_spaced() {
        let scale = Scale::horizontal(&[1.0, 2.0, 4.0, 8.0], 0.0, 300.0);
        let pixels: Vec<i32> = [1.0, 2.0, 4.0, 8.0]
            .iter()
            .map(|v| scale.pixel(*v).round() as i32)
            .collect();
        assert_eq!(pixels, [0, 100, 200, 300]);
    }

    proptest! {
        #[test]
        fn ticks_are_on_the_axis_and_not_too_many(values in prop::collection::vec(1e-3..1e9f64, 1..20), log in any::<bool>(), wanted in 2usize..9) {
            let scale = Scale::vertical(values.iter().copied(), 0.0, log, (400.0, 0.0));
            let ticks = scale.ticks(wanted);
            prop_assert!(!ticks.is_empty() && ticks.len() <= wanted + 2, "{ticks:?}");
            for tick in &ticks {
                prop_assert!((0.0..=400.0).contains(&scale.pixel(*tick)), "{tick}");
            }
            for value in &values {
                prop_assert!((-0.01..=400.01).contains(&scale.pixel(*value)), "{value}");
            }
        }

        #[test]
        fn larger_is_higher(a in 1e-3..1e6f64, b in 1e-3..1e6f64, log in any::<bool>()) {
            let scale = Scale::vertical([a, b].into_iter(), 0.0, log, (400.0, 0.0));
            prop_assert!(a <= b || scale.pixel(a) <= scale.pixel(b));
        }
    }
}
