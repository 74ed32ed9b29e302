// SPDX-License-Identifier: MIT
//! Several measurements of one thing: the median, how well it is known, and which measurements stand apart.
//!
//! The interval of the median is that of its order statistics: of n independent values, the k-th smallest and the k-th largest
//! enclose the true median with a probability that follows from coin tosses alone, whatever the distribution. Nothing is
//! assumed, nothing is drawn at random, and seven rounds suffice (98 %); the bootstrap, at such n, promises more than it keeps.

use serde::{Deserialize, Serialize};

/// What an interval must reach before anything is concluded from it: six rounds or more.
pub(super) const CONFIDENCE: f64 = 0.95;

/// An outlier is further than this from the median, in robust standard deviations (Iglewicz and Hoaglin's rule).
const OUTLYING: f64 = 3.5;

/// The median of some rounds, and what surrounds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Estimate {
    pub n: usize,
    pub median: f64,
    /// The interval that holds the true median with probability `confidence`.
    pub low: f64,
    pub high: f64,
    pub confidence: f64,
    pub min: f64,
    pub max: f64,
    /// The rounds whose value stands apart. They count like the others: the median can take it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outliers: Vec<u32>,
}

impl Estimate {
    /// `values`: round and value. None if nothing was measured.
    pub fn of(values: impl IntoIterator<Item = (u32, f64)>) -> Option<Self> {
        let mut values: Vec<(u32, f64)> =
            values.into_iter().filter(|(_, v)| v.is_finite()).collect();
        values.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let sorted: Vec<f64> = values.iter().map(|v| v.1).collect();
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (rank, confidence) = interval(sorted.len());
        Some(Self {
            n: sorted.len(),
            median: median(&sorted),
            low: sorted[rank],
            high: sorted[sorted.len() - 1 - rank],
            confidence,
            min,
            max,
            outliers: outliers(&values),
        })
    }

    /// Whether anything may be concluded from it.
    pub fn is_sound(&self) -> bool {
        self.confidence >= CONFIDENCE
    }
}

pub(super) fn median(sorted: &[f64]) -> f64 {
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    low + (high - low) / 2.0
}

/// The rank (from 0) of the lower end of the interval, and the confidence: the narrowest that reaches CONFIDENCE, or, of too few
/// values, everything.
fn interval(n: usize) -> (usize, f64) {
    // The median lies below the k-th smallest value iff fewer than k of n fair coins show heads.
    let mut term = 0.5f64.powi(n as i32);
    let mut below = term;
    let mut best = (0, 1.0 - 2.0 * below);
    for k in 1..n.div_ceil(2) {
        term *= (n - k + 1) as f64 / k as f64;
        below += term;
        if 1.0 - 2.0 * below < CONFIDENCE {
            break;
        }
        best = (k, 1.0 - 2.0 * below);
    }
    (best.0, best.1.max(0.0))
}

/// The rounds further from the median than robust deviations explain. Below five values "apart" means nothing.
pub(super) fn outliers(sorted: &[(u32, f64)]) -> Vec<u32> {
    if sorted.len() < 5 {
        return Vec::new();
    }
    let values: Vec<f64> = sorted.iter().map(|v| v.1).collect();
    let centre = median(&values);
    let mut distances: Vec<f64> = values.iter().map(|v| (v - centre).abs()).collect();
    distances.sort_by(f64::total_cmp);
    // Factors that make either a standard deviation, were the values normal. The second serves where most values are equal.
    let scale = match median(&distances) * 1.4826 {
        0.0 => distances.iter().sum::<f64>() / distances.len() as f64 * 1.2533,
        mad => mad,
    };
    let mut rounds: Vec<u32> = sorted
        .iter()
        .filter(|(_, v)| (v - centre).abs() > OUTLYING * scale)
        .map(|v| v.0)
        .collect();
    rounds.sort_unstable();
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[f64]) -> Option<Estimate> {
        Estimate::of((0..).zip(values.iter().copied()))
    }

    #[test]
    fn odd_even_and_nothing() {
        let median = |values: &[f64]| of(values).map(|e| (e.n, e.median, e.min, e.max));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some((3, 2.0, 1.0, 3.0)));
        assert_eq!(median(&[4.0, 1.0]), Some((2, 2.5, 1.0, 4.0)));
        assert_eq!(median(&[7.0]), Some((1, 7.0, 7.0, 7.0)));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN, f64::INFINITY]), None);
    }

    /// The textbook's table of the sign test's intervals.
    #[test]
    fn intervals_are_those_of_the_binomial() {
        for (n, rank, confidence) in [
            (1, 0, 0.0),
            (5, 0, 0.9375),
            (6, 0, 0.96875),
            (7, 0, 0.984375),
            (9, 1, 0.9609375),
            (12, 2, 0.961426),
            (20, 5, 0.958611),
        ] {
            let (r, c) = interval(n);
            assert_eq!(r, rank, "n = {n}");
            assert!((c - confidence).abs() < 1e-6, "n = {n}: {c}");
        }
        assert!(interval(1000).1 >= CONFIDENCE);
    }

    #[test]
    fn fewer_than_six_rounds_prove_nothing() {
        assert!(!of(&[1.0; 5]).unwrap().is_sound());
        assert!(of(&[1.0; 6]).unwrap().is_sound());
    }

    #[test]
    fn a_disturbed_round_is_marked_and_counts() {
        let e = of(&[10.0, 11.0, 10.5, 2.0, 10.2, 10.8, 10.4]).unwrap();
        assert_eq!(
            (e.outliers.as_slice(), e.median, e.min),
            (&[3][..], 10.4, 2.0)
        );
        assert_eq!(
            of(&[5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 50.0]).unwrap().outliers,
            [6]
        );
        assert!(of(&[5.0; 7]).unwrap().outliers.is_empty());
    }

    proptest! {
        #[test]
        fn everything_is_in_order(values in prop::collection::vec(-1e12..1e12f64, 1..50)) {
            let e = of(&values).unwrap();
            prop_assert!(e.min <= e.low && e.low <= e.median && e.median <= e.high && e.high <= e.max);
            let half = values.len().div_ceil(2);
            prop_assert!(values.iter().filter(|v| **v <= e.median).count() >= half);
            prop_assert!(values.iter().filter(|v| **v >= e.median).count() >= half);
            prop_assert!(e.outliers.len() < half);
        }

        #[test]
        fn the_order_of_the_rounds_does_not_matter(values in prop::collection::vec(0.0..1e9f64, 1..20)) {
            let forwards: Vec<(u32, f64)> = (0..).zip(values).collect();
            let backwards: Vec<(u32, f64)> = forwards.iter().rev().copied().collect();
            prop_assert_eq!(Estimate::of(forwards), Estimate::of(backwards));
        }

        #[test]
        fn more_confidence_never_narrows(n in 6usize..400) {
            let (rank, confidence) = interval(n);
            prop_assert!(confidence >= CONFIDENCE && rank < n.div_ceil(2));
        }
    }

    /// How often the interval really holds the true median, over many draws of seven.
    #[test]
    fn the_interval_keeps_its_promise() {
        let mut state = 1u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let draws = 20_000;
        let held = (0..draws)
            .filter(|_| {
                // Skewed as run times are: the median of exp(x) is exp(median of x).
                let e = of(&std::array::from_fn::<f64, 7, _>(|_| {
                    (3.0 * uniform()).exp()
                }))
                .unwrap();
                (e.low..=e.high).contains(&1.5f64.exp())
            })
            .count();
        let share = held as f64 / f64::from(draws);
        assert!((share - 0.984375).abs() < 0.005, "{share}");
    }
}
