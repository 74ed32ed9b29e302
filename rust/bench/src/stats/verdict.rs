// SPDX-License-Identifier: MIT
//! Which subject is better, if the rounds can tell.
//!
//! One thing is called better than another iff both medians are known with CONFIDENCE, their intervals do not overlap, and the
//! medians differ by more than the noise: what the same lock differed from itself when it was measured as two.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Estimate;

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Higher,
    Lower,
}

impl Better {
    /// How many times as good `a` is as `b`.
    pub fn ratio(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Higher => a / b,
            Self::Lower => b / a,
        }
    }
}

/// What may be said of one thing against another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    Better,
    Worse,
    /// The intervals overlap.
    Unclear,
    /// The intervals do not overlap, but the noise is as large.
    WithinNoise,
    /// Too few rounds to say anything.
    TooFewRounds,
}

/// What may be said of `a` against `b`; `noise`: the relative difference that means nothing.
pub fn differ(better: Better, a: &Estimate, b: &Estimate, noise: f64) -> Difference {
    if !(a.is_sound() && b.is_sound()) {
        return Difference::TooFewRounds;
    }
    if a.low <= b.high && b.low <= a.high {
        return Difference::Unclear;
    }
    let ratio = better.ratio(a.median, b.median);
    if ratio.max(1.0 / ratio) <= 1.0 + noise {
        return Difference::WithinNoise;
    }
    if ratio > 1.0 {
        Difference::Better
    } else {
        Difference::Worse
    }
}

/// Which of several subjects leads, and whether that makes it the winner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Leader {
    /// The one with the best median.
    pub leader: String,
    /// No other subject may be as good.
    pub wins: bool,
    /// The subjects that may be as good, best first.
    pub level: Vec<String>,
    /// How many times as good as the next best median.
    pub lead: f64,
    /// No subject wins because there are too few rounds.
    pub too_few_rounds: bool,
}

/// None unless two or more were measured.
pub fn lead(better: Better, candidates: &[(&str, &Estimate)], noise: f64) -> Option<Leader> {
    let mut order = candidates.to_vec();
    order.sort_by(|a, b| {
        let best_first = a.1.median.total_cmp(&b.1.median);
        match better {
            Better::Higher => best_first.reverse(),
            Better::Lower => best_first,
        }
    });
    let [first, rest @ ..] = &order[..] else {
        return None;
    };
    let next = rest.first()?;
    let against: Vec<(&str, Difference)> = rest
        .iter()
        .map(|c| (c.0, differ(better, first.1, c.1, noise)))
        .collect();
    let level: Vec<String> = against
        .iter()
        .filter(|(_, d)| *d != Difference::Better)
        .map(|(name, _)| (*name).to_owned())
        .collect();
    Some(Leader {
        leader: first.0.to_owned(),
        wins: level.is_empty(),
        level,
        lead: better.ratio(first.1.median, next.1.median),
        too_few_rounds: against.iter().any(|(_, d)| *d == Difference::TooFewRounds),
    })
}

/// What the first lock differed from itself, point by point.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Noise {
    /// The lock that was measured twice.
    pub lock: String,
    /// By point (its label): the relative difference of the two medians.
    pub differences: BTreeMap<String, f64>,
    /// The median of the differences.
    pub typical: f64,
}

impl Noise {
    /// `medians`: the point's label, and the medians of the same lock as itself and again. None if nothing was measured twice.
    pub fn of(lock: &str, medians: impl IntoIterator<Item = (String, f64, f64)>) -> Option<Self> {
        let differences: BTreeMap<String, f64> = medians
            .into_iter()
            .map(|(point, a, b)| (point, (a / b).max(b / a) - 1.0))
            .filter(|(_, d)| d.is_finite())
            .collect();
        let mut sorted: Vec<f64> = differences.values().copied().collect();
        sorted.sort_by(f64::total_cmp);
        if sorted.is_empty() {
            return None;
        }
        Some(Self {
            lock: lock.to_owned(),
            differences,
            typical: super::estimate::median(&sorted),
        })
    }

    /// The floor at a point: its own difference, or the typical one if that is larger. One small difference may be luck.
    pub fn floor(&self, point: &str) -> f64 {
        self.differences
            .get(point)
            .copied()
            .unwrap_or(0.0)
            .max(self.typical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn estimate(values: &[f64]) -> Estimate {
        Estimate::of((0..).zip(values.iter().copied())).unwrap()
    }

    fn around(centre: f64) -> Estimate {
        estimate(&[0.97, 0.98, 0.99, 1.0, 1.01, 1.02, 1.03].map(|f| f * centre))
    }

    #[test]
    fn apart_and_beyond_the_noise_is_different() {
        let (a, b) = (around(110.0), around(100.0));
        assert_eq!(differ(Better::Higher, &a, &b, 0.05), Difference::Better);
        assert_eq!(differ(Better::Higher, &b, &a, 0.05), Difference::Worse);
        assert_eq!(differ(Better::Lower, &a, &b, 0.05), Difference::Worse);
        assert_eq!(
            differ(Better::Higher, &a, &b, 0.11),
            Difference::WithinNoise
        );
        assert_eq!(
            differ(Better::Higher, &around(103.0), &b, 0.0),
            Difference::Unclear
        );
        let few = estimate(&[1e6; 3]);
        assert_eq!(
            differ(Better::Higher, &few, &b, 0.0),
            Difference::TooFewRounds
        );
    }

    #[test]
    fn a_winner_beats_everybody() {
        let (a, b, c) = (around(150.0), around(100.0), around(148.0));
        let leader = lead(Better::Higher, &[("b", &b), ("a", &a)], 0.02).unwrap();
        assert!(leader.wins && leader.leader == "a" && (leader.lead - 1.5).abs() < 1e-9);
        let leader = lead(Better::Higher, &[("a", &a), ("b", &b), ("c", &c)], 0.02).unwrap();
        assert_eq!(
            (leader.wins, leader.level.as_slice()),
            (false, &["c".to_owned()][..])
        );
        let leader = lead(Better::Lower, &[("a", &a), ("b", &b)], 0.02).unwrap();
        assert_eq!((leader.leader.as_str(), leader.wins), ("b", true));
        assert!(lead(Better::Higher, &[("a", &a)], 0.0).is_none());
    }

    #[test]
    fn three_rounds_have_a_leader_but_no_winner() {
        let (a, b) = (estimate(&[9.0; 3]), estimate(&[1.0; 3]));
        let leader = lead(Better::Higher, &[("a", &a), ("b", &b)], 0.0).unwrap();
        assert!(leader.leader == "a" && !leader.wins && leader.too_few_rounds);
    }

    #[test]
    fn the_floor_is_the_points_own_noise_or_the_usual_one() {
        let points = [("1", 100.0, 101.0), ("2", 100.0, 90.0), ("4", 100.0, 100.0)];
        let noise = Noise::of("posix", points.map(|(p, a, b)| (p.to_owned(), a, b))).unwrap();
        assert!((noise.typical - 0.01).abs() < 1e-9);
        assert!((noise.floor("2") - 1.0 / 9.0).abs() < 1e-9);
        assert!((noise.floor("4") - 0.01).abs() < 1e-9);
        assert_eq!(Noise::of("posix", []), None);
    }

    proptest! {
        /// Whatever was measured, a lock is not better than itself, and of two at most one is better.
        #[test]
        fn differences_are_antisymmetric(a in prop::collection::vec(1.0..1e6f64, 6..12), b in prop::collection::vec(1.0..1e6f64, 6..12), noise in 0.0..0.5f64) {
            let (a, b) = (estimate(&a), estimate(&b));
            let opposite = |d| match d { Difference::Better => Difference::Worse, Difference::Worse => Difference::Better, d => d };
            for better in [Better::Higher, Better::Lower] {
                prop_assert_eq!(differ(better, &a, &b, noise), opposite(differ(better, &b, &a, noise)));
                prop_assert_eq!(differ(better, &a, &a, noise), Difference::Unclear);
            }
        }

        #[test]
        fn a_winner_stands_apart_from_all(values in prop::collection::vec(prop::collection::vec(1.0..1e3f64, 6..9), 2..5), noise in 0.0..0.3f64) {
            let estimates: Vec<Estimate> = values.iter().map(|v| estimate(v)).collect();
            let names: Vec<String> = (0..estimates.len()).map(|i| i.to_string()).collect();
            let candidates: Vec<(&str, &Estimate)> = names.iter().map(String::as_str).zip(&estimates).collect();
            let leader = lead(Better::Higher, &candidates, noise).unwrap();
            if leader.wins {
                let winner = &estimates[leader.leader.parse::<usize>().unwrap()];
                for (name, other) in &candidates {
                    prop_assert!(*name == leader.leader || (winner.low > other.high && winner.median > other.median * (1.0 + noise)));
                }
            }
        }
    }
}
