// SPDX-License-Identifier: MIT
//! What the finished rounds say of a lock against glibc's locks, and whether more of them are needed.
//!
//! There is one rule. The interval of the lock's ratio to glibc's, round by round, decides: where it is within a tenth of 1,
//! the two are alike; where it is beyond a margin of 3 %, they differ; else more rounds are needed. The margins overlap, so
//! that enough rounds find an answer for every ratio. The interval is looked at after several rounds, and the best of
//! several equal locks is looked for: without the margin, one equal lock in twenty would be called better by chance. The
//! simulation below says how often the verdict is right.

use serde::Serialize;

use crate::stats::{Better, Rounds, against_at};

/// Of the interval.
const CONFIDENCE: f64 = 0.99;
/// Fewer rounds have no interval of CONFIDENCE.
pub const LEAST: usize = 8;
/// A difference that is smaller is none.
const DIFFERS: f64 = 1.03;
/// A difference that is smaller is not worth another lock.
pub const ALIKE: f64 = 1.10;
/// The ends of an interval that is narrow enough to name a factor. That of a large factor may be wider.
const NARROW: f64 = 1.5;

/// What may be said of a lock against glibc's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Better,
    Worse,
    /// It differs by less than a tenth.
    Alike,
    Unclear,
    TooFewRounds,
}

/// How many times as good as glibc's, round by round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
    pub confidence: f64,
    pub rounds: usize,
}

impl Ratio {
    /// None: the lock, or glibc's, was not measured in a common round.
    pub fn of(better: Better, ours: &Rounds, glibc: &Rounds) -> Option<Self> {
        let estimate = against_at(better, ours, glibc, CONFIDENCE)?;
        Some(Self {
            estimate: estimate.median,
            low: estimate.low,
            high: estimate.high,
            confidence: estimate.confidence,
            rounds: estimate.n,
        })
    }

    pub fn is_sound(&self) -> bool {
        self.confidence >= CONFIDENCE
    }

    pub fn verdict(&self) -> Verdict {
        match self {
            r if !r.is_sound() => Verdict::TooFewRounds,
            r if r.low > 1.0 / ALIKE && r.high < ALIKE => Verdict::Alike,
            r if r.low > DIFFERS => Verdict::Better,
            r if r.high < 1.0 / DIFFERS => Verdict::Worse,
            _ => Verdict::Unclear,
        }
    }

    fn is_known(&self) -> bool {
        !matches!(self.verdict(), Verdict::TooFewRounds | Verdict::Unclear)
    }

    fn is_narrow(&self) -> bool {
        let factor = self.estimate.max(1.0 / self.estimate);
        self.high / self.low <= factor.max(NARROW)
    }

    /// By what number of rounds the interval would probably exclude a difference of ALIKE.
    pub fn rounds_to_tell(&self) -> f64 {
        let width = (self.high / self.low).ln().clamp(0.0, 100.0);
        let wanted = 2.0 * ALIKE.ln();
        self.rounds as f64 * (width / wanted).powi(2).max(1.0)
    }
}

/// Whether FlexGuard helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Helps,
    /// No FlexGuard lock helps, and the first candidate of them makes it worse.
    Hurts,
    /// It differs by less than a tenth.
    NoDifference,
    /// The interval includes a difference that would matter, and none.
    CannotTell,
    TooFewRounds,
    /// It did not run to its end under glibc's locks, or under no lock of FlexGuard's.
    NotMeasured,
}

/// `ours`: the FlexGuard locks that were measured, in the order in which they were named.
pub fn outcome(ours: &[&Ratio]) -> Outcome {
    let Some(first) = ours.first() else {
        return Outcome::NotMeasured;
    };
    if ours.iter().any(|r| r.verdict() == Verdict::Better) {
        return Outcome::Helps;
    }
    match first.verdict() {
        Verdict::Worse => Outcome::Hurts,
        Verdict::Alike => Outcome::NoDifference,
        Verdict::TooFewRounds => Outcome::TooFewRounds,
        Verdict::Better | Verdict::Unclear => Outcome::CannotTell,
    }
}

/// Whether no more rounds are needed.
pub fn is_enough(ours: &[&Ratio]) -> bool {
    let rounds = ours.iter().map(|r| r.rounds).max();
    if !rounds.is_some_and(is_look) {
        return false;
    }
    let best = (ours.iter())
        .filter(|r| r.verdict() == Verdict::Better)
        .max_by(|a, b| a.estimate.total_cmp(&b.estimate));
    match best {
        Some(best) => best.is_narrow(),
        None => ours[0].is_narrow() && ours.iter().all(|r| r.is_known()),
    }
}

/// The verdict is looked at after 8 rounds, and then whenever there are a fifth more.
pub fn is_look(rounds: usize) -> bool {
    let next = |n: &usize| Some(n + (n / 5).max(2));
    std::iter::successors(Some(LEAST), next)
        .take_while(|n| *n <= rounds)
        .any(|n| n == rounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::Random;

    impl Random {
        /// The time of a run: `spread` of chance, and one run of twelve takes up to twice as long.
        fn time(&mut self, spread: f64) -> f64 {
            let apart = match self.uniform() < 1.0 / 12.0 {
                true => 1.0 + self.uniform(),
                false => 1.0,
            };
            apart * (spread * self.normal()).exp()
        }
    }

    /// The outcome of a program that two FlexGuard locks make `speeds` times as fast, in at most 200 rounds.
    fn advised(random: &mut Random, speeds: [f64; 2], spread: f64) -> (Outcome, usize) {
        let mut glibc = Rounds::new();
        let mut ours = [Rounds::new(), Rounds::new()];
        let most = 200;
        for round in 0..most {
            let of_round = 1.0 + random.uniform();
            glibc.insert(round, of_round * random.time(spread));
            for (times, speed) in ours.iter_mut().zip(speeds) {
                times.insert(round, of_round * random.time(spread) / speed);
            }
            if !is_look(round as usize + 1) && round + 1 < most {
                continue;
            }
            let ratios = ours
                .each_ref()
                .map(|o| Ratio::of(Better::Lower, o, &glibc).unwrap());
            let ratios = [&ratios[0], &ratios[1]];
            if is_enough(&ratios) || round + 1 == most {
                return (outcome(&ratios), round as usize + 1);
            }
        }
        unreachable!("the last round ends it")
    }

    /// The share of 100 programs for which the outcome is that.
    fn share(speeds: [f64; 2], spread: f64, wanted: Outcome) -> f64 {
        let mut random = Random(1);
        let programs = 100;
        let right = (0..programs).filter(|_| advised(&mut random, speeds, spread).0 == wanted);
        right.count() as f64 / f64::from(programs)
    }

    /// Chance of 5 % and of 15 % a run: a quiet machine, and one that others disturb.
    #[test]
    fn at_least_98_of_100_programs_get_the_right_verdict() {
        for spread in [0.05, 0.15] {
            for (speeds, wanted) in [
                ([1.0, 1.0], Outcome::NoDifference),
                ([1.0, 0.5], Outcome::NoDifference),
                ([1.3, 1.0], Outcome::Helps),
                ([3.0, 1.1], Outcome::Helps),
                ([0.7, 0.5], Outcome::Hurts),
                ([0.7, 1.0], Outcome::Hurts),
            ] {
                let right = share(speeds, spread, wanted);
                assert!(right >= 0.98, "{speeds:?}, {spread}: {right}");
            }
        }
    }

    /// Where chance is too large to tell, that is said, and no lock is recommended or blamed.
    #[test]
    fn what_cannot_be_told_is_not_guessed() {
        let wrong = share([1.0, 1.0], 0.6, Outcome::Helps) + share([1.0, 1.0], 0.6, Outcome::Hurts);
        assert!(wrong < 0.05, "{wrong}");
        assert!(share([1.0, 1.0], 0.6, Outcome::CannotTell) > 0.5);
    }

    fn ratio(low: f64, estimate: f64, high: f64) -> Ratio {
        Ratio {
            estimate,
            low,
            high,
            confidence: CONFIDENCE,
            rounds: LEAST,
        }
    }

    #[test]
    fn only_a_difference_that_matters_is_one() {
        use Verdict::{Alike, Better, Unclear, Worse};
        for (low, estimate, high, verdict) in [
            (1.04, 1.08, 1.2, Better),
            (1.01, 1.06, 1.2, Unclear),
            (1.01, 1.05, 1.09, Alike),
            (0.93, 1.0, 1.08, Alike),
            (0.93, 2.72, 14.8, Unclear),
            (0.8, 0.9, 0.96, Worse),
        ] {
            assert_eq!(ratio(low, estimate, high).verdict(), verdict);
        }
        let mut few = ratio(2.0, 2.0, 2.0);
        few.confidence = 0.98;
        assert_eq!(few.verdict(), Verdict::TooFewRounds);
    }

    #[test]
    fn rounds_are_added_until_the_interval_is_narrow() {
        let (wide, narrow, open) = (
            ratio(1.3, 3.0, 9.0),
            ratio(2.5, 3.0, 3.5),
            ratio(0.9, 1.5, 2.5),
        );
        assert!(is_enough(&[&narrow, &open]));
        assert!(!is_enough(&[&wide]) && !is_enough(&[&open]) && !is_enough(&[]));
        // No budget is spent to know whether it is 5 or 90 times as fast.
        assert!(is_enough(&[&ratio(5.3, 38.0, 90.0)]) && is_enough(&[&ratio(0.02, 0.04, 0.2)]));
        assert!(open.rounds_to_tell() > 30.0);
    }

    #[test]
    fn the_looks_get_rarer() {
        let looks: Vec<usize> = (1..40).filter(|n| is_look(*n)).collect();
        assert_eq!(looks, [8, 10, 12, 14, 16, 19, 22, 26, 31, 37]);
    }
}
