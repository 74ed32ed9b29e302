// SPDX-License-Identifier: MIT
//! Several measurements of one thing: the median, and how far they spread.

use serde::Serialize;

/// Median, minimum and maximum. Means say little on a shared machine: one disturbed round moves them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// None if nothing was measured.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self {
            median: low + (high - low) / 2.0,
            min,
            max,
        })
    }

    /// `median (min-max)`, with as many digits as the median deserves: a collapsed lock must not look like 0.
    fn show(&self) -> String {
        let digits = digits(self.median);
        format!(
            "{:.digits$} ({:.digits$}-{:.digits$})",
            self.median, self.min, self.max
        )
    }
}

/// Digits after the point that give three significant ones, none for whole counts.
fn digits(value: f64) -> usize {
    if value == 0.0 {
        return 0;
    }
    (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize
}

/// What a table shows for something that may not have been measured.
pub fn show(spread: Option<Spread>) -> String {
    spread.map_or("-".into(), |s| s.show())
}

/// The median alone.
pub fn show_median(spread: Option<Spread>) -> String {
    spread.map_or("-".into(), |s| format!("{:.*}", digits(s.median), s.median))
}

/// For counts of events: no fractions.
pub fn show_count(spread: Option<Spread>) -> String {
    spread.map_or("-".into(), |s| {
        format!("{:.0} ({:.0}-{:.0})", s.median, s.min, s.max)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn odd_even_and_nothing() {
        assert_eq!(
            Spread::of([3.0, 1.0, 2.0]),
            Some(Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            })
        );
        assert_eq!(
            Spread::of([4.0, 1.0]),
            Some(Spread {
                median: 2.5,
                min: 1.0,
                max: 4.0
            })
        );
        assert_eq!(
            Spread::of([7.0]),
            Some(Spread {
                median: 7.0,
                min: 7.0,
                max: 7.0
            })
        );
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN]), None);
    }

    #[test]
    fn three_digits_are_shown() {
        let shown = |values: &[f64]| show(Spread::of(values.iter().copied()));
        assert_eq!(shown(&[]), "-");
        assert_eq!(shown(&[1.0, 2.0]), "1.50 (1.00-2.00)");
        assert_eq!(shown(&[0.0123]), "0.0123 (0.0123-0.0123)");
        assert_eq!(shown(&[12345.6]), "12346 (12346-12346)");
        assert_eq!(shown(&[0.0]), "0 (0-0)");
        assert_eq!(show_count(Spread::of([1.0, 2.0])), "2 (1-2)");
    }

    proptest! {
        #[test]
        fn half_lies_on_either_side(values in prop::collection::vec(-1e12..1e12f64, 1..50)) {
            let spread = Spread::of(values.iter().copied()).unwrap();
            let half = values.len().div_ceil(2);
            prop_assert!(values.iter().filter(|v| **v <= spread.median).count() >= half);
            prop_assert!(values.iter().filter(|v| **v >= spread.median).count() >= half);
            prop_assert!(spread.min <= spread.median && spread.median <= spread.max);
            prop_assert!(values.iter().all(|v| (spread.min..=spread.max).contains(v)));
        }

        #[test]
        fn order_does_not_matter(mut values in prop::collection::vec(0.0..1e9f64, 1..20)) {
            let before = Spread::of(values.iter().copied());
            values.reverse();
            prop_assert_eq!(before, Spread::of(values));
        }
    }
}
