// SPDX-License-Identifier: MIT
//! Two modes: a lock that runs well in some rounds and badly in others, and hardly ever in between.
//!
//! The rule. Sort the values, and split them at the widest gap that leaves at least two on either side (a lone value is an
//! outlier, not a mode). There are two modes iff that gap is wider than DISTINCT times the wider of the two groups, and their
//! medians differ by NOTABLE or more. Both tests are ratios, so units do not matter. Of values that have one mode (normal,
//! uniform, exponential, log-normal), seven at a time, fewer than 1 in 100 are taken for two (tested below).

use serde::{Deserialize, Serialize};

use super::estimate::median;

/// How much wider than either group the gap between them must be.
const DISTINCT: f64 = 4.0;

/// By how much the medians of the groups must differ: two modes 2 % apart do not matter.
const NOTABLE: f64 = 0.1;

/// Fewer values have no shape.
const FEWEST: usize = 6;

/// The two groups that the rounds fall into.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Modes {
    /// The medians of the lower and of the upper group.
    pub low: f64,
    pub high: f64,
    /// The rounds of either.
    pub low_rounds: Vec<u32>,
    pub high_rounds: Vec<u32>,
    /// One group came before the other: rather something that changed once than a lock with two modes.
    pub in_sequence: bool,
}

impl Modes {
    /// `sorted`: rounds and values, by value. None if there is one mode, or no telling.
    pub fn of(sorted: &[(u32, f64)]) -> Option<Self> {
        if sorted.len() < FEWEST {
            return None;
        }
        let value = |i: usize| sorted[i].1;
        let gap = |i: usize| value(i) - value(i - 1);
        let split = (2..=sorted.len() - 2).max_by(|&a, &b| gap(a).total_cmp(&gap(b)))?;
        let (lower, upper) = sorted.split_at(split);
        let width = |group: &[(u32, f64)]| group[group.len() - 1].1 - group[0].1;
        if gap(split) <= DISTINCT * width(lower).max(width(upper)) {
            return None;
        }
        let middle = |group: &[(u32, f64)]| median(&group.iter().map(|v| v.1).collect::<Vec<_>>());
        let (low, high) = (middle(lower), middle(upper));
        if high - low < NOTABLE * low.abs().max(high.abs()) {
            return None;
        }
        let rounds = |group: &[(u32, f64)]| {
            let mut rounds: Vec<u32> = group.iter().map(|v| v.0).collect();
            rounds.sort_unstable();
            rounds
        };
        let (low_rounds, high_rounds) = (rounds(lower), rounds(upper));
        let before = |a: &[u32], b: &[u32]| a.last() < b.first();
        Some(Self {
            low,
            high,
            in_sequence: before(&low_rounds, &high_rounds) || before(&high_rounds, &low_rounds),
            low_rounds,
            high_rounds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[f64]) -> Option<Modes> {
        let mut sorted: Vec<(u32, f64)> = (0..).zip(values.iter().copied()).collect();
        sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
        Modes::of(&sorted)
    }

    #[test]
    fn fast_rounds_and_slow_rounds_are_two_modes() {
        let modes = of(&[700.0, 410.0, 705.0, 712.0, 400.0, 405.0, 698.0]).unwrap();
        assert_eq!((modes.low, modes.high), (405.0, 702.5));
        assert_eq!(modes.low_rounds, [1, 4, 5]);
        assert!(!modes.in_sequence);
    }

    #[test]
    fn what_changed_once_is_said_to_have() {
        assert!(
            of(&[10.0, 11.0, 10.5, 50.0, 51.0, 52.0])
                .unwrap()
                .in_sequence
        );
        assert!(
            of(&[50.0, 51.0, 52.0, 10.0, 10.5, 11.0])
                .unwrap()
                .in_sequence
        );
    }

    #[test]
    fn one_outlier_a_slope_or_a_small_step_are_not() {
        assert_eq!(of(&[10.0, 11.0, 10.5, 2.0, 10.2, 10.8, 10.4]), None);
        assert_eq!(of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), None);
        assert_eq!(of(&[100.0, 100.1, 105.0, 105.1, 100.05, 105.05]), None);
        assert_eq!(of(&[1.0, 1.0, 9.0, 9.0]), None);
        assert_eq!(of(&[0.0; 7]), None);
    }

    struct Random(u64);

    impl Random {
        fn uniform(&mut self) -> f64 {
            self.0 = self
                .0
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
        }
    }

    #[test]
    fn one_mode_is_hardly_ever_taken_for_two() {
        type Draw = fn(&mut Random) -> f64;
        let kinds: [(&str, Draw); 4] = [
            ("normal", |r| 100.0 + 20.0 * r.normal()),
            ("uniform", |r| 50.0 + 100.0 * r.uniform()),
            ("exponential", |r| -r.uniform().ln()),
            ("log-normal", |r| (0.5 * r.normal()).exp()),
        ];
        let draws = 20_000;
        for (name, draw) in kinds {
            let mut random = Random(7);
            let wrong = (0..draws)
                .filter(|_| of(&std::array::from_fn::<f64, 7, _>(|_| draw(&mut random))).is_some())
                .count();
            assert!(wrong * 100 < draws, "{name}: {wrong} of {draws}");
        }
    }

    proptest! {
        /// Two groups, each narrower than a quarter of what is between them.
        #[test]
        fn two_groups_are_found_wherever_they_are(
            low in prop::collection::vec(0.0..1.0f64, 3..10), high in prop::collection::vec(0.0..1.0f64, 3..10),
            offset in 0.0..5.0f64, distance in 5.01..100.0f64, unit in 1e-6..1e6f64, seed in any::<u64>(),
        ) {
            let mut values: Vec<f64> = low.iter().copied().chain(high.iter().map(|v| v + distance)).map(|v| (v + offset) * unit).collect();
            let mut random = Random(seed);
            for i in (1..values.len()).rev() {
                values.swap(i, (random.uniform() * (i + 1) as f64) as usize);
            }
            let modes = of(&values).expect("two modes");
            prop_assert_eq!((modes.low_rounds.len(), modes.high_rounds.len()), (low.len(), high.len()));
            let both: std::collections::HashSet<u32> = modes.low_rounds.iter().chain(&modes.high_rounds).copied().collect();
            prop_assert_eq!(both.len(), values.len());
        }

        #[test]
        fn the_unit_does_not_matter(values in prop::collection::vec(1.0..100.0f64, 5..15), power in 0i32..20) {
            // Powers of two scale without rounding.
            let scaled: Vec<f64> = values.iter().map(|v| v * 2f64.powi(power)).collect();
            prop_assert_eq!(of(&values).map(|m| m.low_rounds), of(&scaled).map(|m| m.low_rounds));
        }
    }
}
