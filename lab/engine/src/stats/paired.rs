// SPDX-License-Identifier: MIT
//! Two things compared round by round.
//!
//! A round measures all things one after the other, so what slows a whole round down, or where the CPUs are in it, cancels
//! out of the ratio. Of two equal things either is as likely to be the better one in a round by any factor: the logarithms
//! of the ratios are symmetric about 0, whatever the distribution of the measurements. That is all that Wilcoxon's
//! signed-rank test needs, and its error is exact for seven rounds as for seventy: equal things are called different in at
//! most 5 % of comparisons. It is stronger than the sign test because a small ratio against counts less than a large one for,
//! and other than a t-test or a bootstrap it keeps its promise at seven rounds and with rounds that stand apart.
//!
//! The interval of the ratio is that of the same test: the middle of the means of all pairs of logarithms (Hodges and
//! Lehmann). The two are different iff it excludes 1.

use super::estimate::{CONFIDENCE, Estimate, median, outliers};

/// A ratio of 0 or of infinity is as far from 1 as this power of e: one of the two did nothing at all.
const MOST: f64 = 50.0;

/// From so many rounds on the distribution of the ranks' sum is as good as normal.
const MANY: usize = 60;

/// The ratio of two things from their ratios in each round. None without any.
pub fn ratio(ratios: impl IntoIterator<Item = (u32, f64)>) -> Option<Estimate> {
    ratio_at(ratios, CONFIDENCE)
}

/// The same, with the interval that has this confidence, or, of too few rounds, that of all.
pub fn ratio_at(ratios: impl IntoIterator<Item = (u32, f64)>, confidence: f64) -> Option<Estimate> {
    let ratios: Vec<(u32, f64)> = ratios.into_iter().filter(|r| !r.1.is_nan()).collect();
    let logs: Vec<f64> = ratios.iter().map(|r| r.1.ln().clamp(-MOST, MOST)).collect();
    let mut means = Vec::with_capacity(logs.len() * (logs.len() + 1) / 2);
    for (i, a) in logs.iter().enumerate() {
        means.extend(logs[..=i].iter().map(|b| (a + b) / 2.0));
    }
    means.sort_by(f64::total_cmp);
    let mut sorted = ratios.clone();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (rank, confidence) = interval(logs.len(), confidence);
    Some(Estimate {
        n: logs.len(),
        min: sorted.first()?.1,
        max: sorted.last()?.1,
        median: median(&means).exp(),
        low: means[rank].exp(),
        high: means[means.len() - 1 - rank].exp(),
        confidence,
        outliers: outliers(&sorted),
    })
}

/// The rank (from 0) of the interval's lower end among the means of pairs, and its confidence: the narrowest that reaches
/// `wanted`, or, of too few rounds, everything.
fn interval(n: usize, wanted: f64) -> (usize, f64) {
    if n >= MANY {
        let (n, z) = (n as f64, normal_quantile(wanted));
        let sum = n * (n + 1.0) / 4.0 - z * (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        return (sum.floor() as usize, wanted);
    }
    // Every rank is positive or negative with one half: so many of the 2^n ways have this sum of the positive ones.
    let most = n * (n + 1) / 2;
    let mut ways = vec![0.0f64; most + 1];
    ways[0] = 1.0;
    for rank in 1..=n {
        for sum in (rank..=most).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    let all = 2f64.powi(n as i32);
    let mut below = ways[0] / all;
    let mut best = (0, (1.0 - 2.0 * below).max(0.0));
    for (sum, ways) in ways.iter().enumerate().take(most / 2).skip(1) {
        below += ways / all;
        if 1.0 - 2.0 * below < wanted {
            break;
        }
        best = (sum, 1.0 - 2.0 * below);
    }
    best
}

/// How many standard deviations around the middle hold this share of normal values, within 0.0005 (Abramowitz and Stegun,
/// 26.2.23).
fn normal_quantile(share: f64) -> f64 {
    let t = (-2.0 * ((1.0 - share) / 2.0).ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - above / below
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::Random;
    use proptest::prelude::*;

    fn of(ratios: &[f64]) -> Estimate {
        ratio((0..).zip(ratios.iter().copied())).unwrap()
    }

    /// The textbook's table of the signed-rank test: the largest sum that is still significant at 5 %, two-sided.
    #[test]
    fn critical_sums_are_those_of_the_tables() {
        for (n, sum) in [
            (6, 0),
            (7, 2),
            (8, 3),
            (9, 5),
            (10, 8),
            (12, 13),
            (15, 25),
            (20, 52),
            (25, 89),
        ] {
            assert_eq!(interval(n, CONFIDENCE).0, sum, "n = {n}");
            assert!(interval(n, CONFIDENCE).1 >= CONFIDENCE);
        }
        assert!(interval(5, CONFIDENCE).1 < CONFIDENCE);
        // At 1 %.
        for (n, sum) in [(8, 0), (9, 1), (10, 3), (15, 15), (20, 37)] {
            assert_eq!(interval(n, 0.99).0, sum, "n = {n}");
        }
        assert!((normal_quantile(0.95) - 1.96).abs() < 1e-3);
        assert!((normal_quantile(0.99) - 2.576).abs() < 1e-3);
        // The approximation agrees where it takes over.
        let exact = interval(MANY - 1, CONFIDENCE).0 as f64;
        assert!((interval(MANY, CONFIDENCE).0 as f64 / exact - 1.0).abs() < 0.06);
    }

    #[test]
    fn the_ratio_is_the_middle_and_a_round_apart_does_not_move_it_far() {
        let even = of(&[1.3; 7]);
        assert!((even.median - 1.3).abs() < 1e-12 && even.low > 1.29 && even.high < 1.31);
        let disturbed = of(&[1.28, 1.31, 1.3, 1.33, 1.27, 1.3, 40.0]);
        assert!((1.25..1.35).contains(&disturbed.median) && disturbed.low > 1.0);
        assert_eq!(disturbed.outliers, [6]);
        // A round against, but the smallest of all.
        assert!(of(&[1.2, 1.3, 0.97, 1.4, 1.2, 1.3, 1.25]).low > 1.0);
        assert!(of(&[1.2, 1.3, 0.5, 1.4, 1.2, 1.3, 1.25]).low < 1.0);
    }

    #[test]
    fn nothing_done_at_all_is_far_apart_and_no_error() {
        let e = of(&[
            f64::INFINITY,
            f64::INFINITY,
            1e6,
            1e5,
            f64::INFINITY,
            1e6,
            1e6,
        ]);
        assert!(e.low > 1e4 && e.median.is_finite());
        assert!(of(&[0.0; 7]).high < 1e-9);
        assert!(ratio([(0, f64::NAN)]).is_none() && ratio([]).is_none());
    }

    impl Random {
        /// What a lock does in a round, as a logarithm: normal, and in one round of twelve far off. `spread` is what is seen of
        /// futex at 8 threads on two hardware contexts in rounds of 0.15 s.
        fn measured(&mut self, spread: f64) -> f64 {
            let apart = if self.uniform() < 1.0 / 12.0 {
                3.0
            } else {
                1.0
            };
            apart * spread * self.normal()
        }
    }

    /// How often `rounds` rounds tell a true `factor`, of 4,000 runs.
    fn told(rounds: usize, factor: f64, spread: f64) -> f64 {
        let mut random = Random(1);
        let runs = 4000;
        let told = (0..runs)
            .filter(|_| {
                let ratios: Vec<f64> = (0..rounds)
                    .map(|_| factor * (random.measured(spread) - random.measured(spread)).exp())
                    .collect();
                let e = of(&ratios);
                e.low > 1.0 || e.high < 1.0
            })
            .count();
        told as f64 / f64::from(runs)
    }

    #[test]
    fn equal_things_are_called_different_in_less_than_one_run_of_twenty() {
        for spread in [0.02, 0.2] {
            for rounds in [6, 7, 9, 14, 20] {
                let wrong = told(rounds, 1.0, spread);
                assert!(wrong < 0.05 + 0.007, "{rounds} rounds, {spread}: {wrong}");
            }
        }
    }

    proptest! {
        #[test]
        fn everything_is_in_order_and_the_other_way_round_it_is_the_inverse(
            logs in prop::collection::vec(-20.0..20.0f64, 1..30),
        ) {
            let ratios: Vec<f64> = logs.iter().map(|l| l.exp()).collect();
            let inverse: Vec<f64> = ratios.iter().map(|r| 1.0 / r).collect();
            let (e, i) = (of(&ratios), of(&inverse));
            prop_assert!(e.low <= e.median && e.median <= e.high);
            prop_assert!((e.low * i.high - 1.0).abs() < 1e-6 && (e.median * i.median - 1.0).abs() < 1e-6);
        }
    }
}
