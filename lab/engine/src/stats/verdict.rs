// SPDX-License-Identifier: MIT
//! Which of several things is better, if that can be said at all.
//!
//! Things that were measured in the same rounds are compared round by round: `paired.rs`. Things of different runs (before and
//! after a change) have no rounds in common: one is called better iff both medians are known with CONFIDENCE, their intervals
//! do not overlap, and the medians differ by more than the noise: what the same lock differed from itself in the same run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::estimate::Estimate;
use super::paired;
use crate::words::{list, times};

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

impl Difference {
    /// One word for a table's last column.
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Unclear => "unclear",
            Self::WithinNoise => "within noise",
            Self::TooFewRounds => "too few rounds",
        }
    }

    /// What may be said of the ratio of two things of the same rounds.
    pub fn of(ratio: &Estimate) -> Self {
        match ratio {
            r if !r.is_sound() => Self::TooFewRounds,
            r if r.low > 1.0 => Self::Better,
            r if r.high < 1.0 => Self::Worse,
            _ => Self::Unclear,
        }
    }
}

/// The best among several, and whether it wins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Leader {
    /// The one with the best median.
    pub leader: String,
    /// No other one may be as good.
    pub wins: bool,
    /// The others that may be as good, best first.
    pub level: Vec<String>,
    /// How many times as good as the next best, in the same rounds.
    pub lead: f64,
    /// Why none wins, where it is for want of rounds.
    pub too_few_rounds: bool,
}

/// How many subjects that cannot be told apart are named.
const NAMED: usize = 4;

impl Leader {
    /// Which one is best, or why none is.
    pub fn sentence(&self) -> String {
        let name = &self.leader;
        let lead = times(self.lead);
        if self.too_few_rounds && self.lead < 1.005 {
            // Equal, or the best of the medians is not the best of the rounds.
            return "no clear leader, and too few rounds to call a winner (6 or more)".into();
        }
        if self.too_few_rounds {
            return format!(
                "{name} leads by {lead}, but in too few rounds to call a winner (6 or more)"
            );
        }
        if !self.wins {
            let mut all: Vec<String> = std::iter::once(name).chain(&self.level).cloned().collect();
            if all.len() > NAMED {
                let more = all.len() - NAMED + 1;
                all.truncate(NAMED - 1);
                all.push(format!("{more} more"));
            }
            return format!("cannot be told apart: {}", list(&all));
        }
        format!("{name} wins: {lead} the next best")
    }
}

/// A thing's values by round.
pub type Rounds = BTreeMap<u32, f64>;

/// How many times as good `a` is as `b`, in the rounds that both have.
pub fn against(better: Better, a: &Rounds, b: &Rounds) -> Option<Estimate> {
    paired::ratio(pairs(better, a, b))
}

/// The same, with an interval of this confidence.
pub fn against_at(better: Better, a: &Rounds, b: &Rounds, confidence: f64) -> Option<Estimate> {
    paired::ratio_at(pairs(better, a, b), confidence)
}

fn pairs(better: Better, a: &Rounds, b: &Rounds) -> impl Iterator<Item = (u32, f64)> {
    a.iter()
        .filter_map(move |(round, a)| Some((*round, better.ratio(*a, *b.get(round)?))))
}

/// None unless two or more were measured in the same rounds.
pub fn lead(better: Better, candidates: &[(&str, Rounds)]) -> Option<Leader> {
    let middle = |rounds: &Rounds| {
        let estimate = Estimate::of(rounds.iter().map(|(r, v)| (*r, *v)));
        estimate.map_or(f64::NAN, |e| e.median)
    };
    let mut order: Vec<(&str, &Rounds)> = candidates.iter().map(|(n, r)| (*n, r)).collect();
    order.sort_by(|a, b| {
        let least_first = middle(a.1).total_cmp(&middle(b.1));
        match better {
            Better::Higher => least_first.reverse(),
            Better::Lower => least_first,
        }
    });
    let [first, rest @ ..] = &order[..] else {
        return None;
    };
    let ratios: Vec<(&str, Estimate)> = rest
        .iter()
        .filter_map(|c| Some((c.0, against(better, first.1, c.1)?)))
        .collect();
    let level: Vec<String> = ratios
        .iter()
        .filter(|r| Difference::of(&r.1) != Difference::Better)
        .map(|r| r.0.to_owned())
        .collect();
    Some(Leader {
        leader: first.0.to_owned(),
        wins: level.is_empty(),
        level,
        lead: ratios.first()?.1.median,
        too_few_rounds: ratios
            .iter()
            .any(|r| Difference::of(&r.1) == Difference::TooFewRounds),
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

    fn rounds(values: &[f64]) -> Rounds {
        (0..).zip(values.iter().copied()).collect()
    }

    /// Rounds that differ by a factor of two among themselves, all by the same one.
    fn drifting(centre: f64) -> Rounds {
        rounds(&[0.7, 1.4, 0.9, 1.0, 1.2, 0.8, 1.1].map(|f| f * centre))
    }

    #[test]
    fn a_winner_beats_all_others_round_by_round() {
        let (a, b, c) = (drifting(130.0), drifting(100.0), rounds(&[120.0; 7]));
        let leader = lead(Better::Higher, &[("b", b.clone()), ("a", a.clone())]).unwrap();
        assert!(leader.wins && leader.leader == "a" && (leader.lead - 1.3).abs() < 1e-9);
        let candidates = [("a", a.clone()), ("b", b.clone()), ("c", c)];
        let leader = lead(Better::Higher, &candidates).unwrap();
        assert_eq!(
            (leader.wins, leader.level.as_slice()),
            (false, &["c".to_owned()][..])
        );
        let leader = lead(Better::Lower, &[("a", a.clone()), ("b", b)]).unwrap();
        assert_eq!((leader.leader.as_str(), leader.wins), ("b", true));
        assert!(lead(Better::Higher, &[("a", a)]).is_none());
    }

    #[test]
    fn three_rounds_have_a_leader_but_no_winner() {
        let candidates = [("a", rounds(&[9.0; 3])), ("b", rounds(&[1.0; 3]))];
        let leader = lead(Better::Higher, &candidates).unwrap();
        assert!(leader.leader == "a" && !leader.wins && leader.too_few_rounds);
    }

    #[test]
    fn only_rounds_that_both_have_are_compared() {
        let (a, mut b) = (drifting(130.0), drifting(100.0));
        b.remove(&3);
        let ratio = against(Better::Higher, &a, &b).unwrap();
        assert_eq!((ratio.n, Difference::of(&ratio)), (6, Difference::Better));
        assert!(against(Better::Higher, &a, &Rounds::new()).is_none());
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

    fn leader(wins: bool, level: &[&str], too_few_rounds: bool) -> Leader {
        Leader {
            leader: "a".into(),
            wins,
            level: level.iter().map(ToString::to_string).collect(),
            lead: 1.5,
            too_few_rounds,
        }
    }

    #[test]
    fn sentences_say_no_more_than_is_known() {
        assert_eq!(
            leader(true, &[], false).sentence(),
            "a wins: 1.50× the next best"
        );
        assert_eq!(
            leader(false, &["b", "c"], false).sentence(),
            "cannot be told apart: a, b and c"
        );
        assert_eq!(
            leader(false, &["b", "c", "d", "e"], false).sentence(),
            "cannot be told apart: a, b, c and 2 more"
        );
        let few = leader(false, &["b"], true);
        assert!(
            few.sentence()
                .starts_with("a leads by 1.50×, but in too few rounds")
        );
        let few = Leader { lead: 0.93, ..few };
        assert!(
            few.sentence()
                .starts_with("no clear leader, and too few rounds")
        );
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
    }
}
