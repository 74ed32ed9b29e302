// SPDX-License-Identifier: MIT
//! Whether a claim holds: the verdict on two numbers and their intervals.

use serde::Serialize;

use crate::stats::Estimate;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    #[serde(rename = "holds")]
    Holds,
    #[serde(rename = "holds within the noise")]
    WithinNoise,
    #[serde(rename = "fails within the noise")]
    FailsWithinNoise,
    #[serde(rename = "does not hold")]
    Fails,
    /// The numbers are against what a paper says, and no experiment says why.
    #[serde(rename = "not seen")]
    Unexplained,
    /// Of so few that nothing may be concluded, or of those only that have a result.
    #[serde(rename = "too few rounds")]
    TooFewRounds,
    #[serde(rename = "not measured")]
    NotMeasured,
    /// It says nothing that could fail.
    #[serde(rename = "shown")]
    Shown,
}

impl Verdict {
    pub fn text(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::WithinNoise => "holds within the noise",
            Self::FailsWithinNoise => "fails within the noise",
            Self::Fails => "**does not hold**",
            Self::Unexplained => "not seen",
            Self::TooFewRounds => "too few rounds",
            Self::NotMeasured => "not measured",
            Self::Shown => "shown",
        }
    }

    /// Of `a` against `factor` times `b`.
    pub(super) fn of(a: &Estimate, b: &Estimate, least: bool, factor: f64) -> Self {
        let holds = |a: f64, b: f64| {
            if least {
                a >= factor * b
            } else {
                a <= factor * b
            }
        };
        let (worst, best) = if least {
            (holds(a.low, b.high), holds(a.high, b.low))
        } else {
            (holds(a.high, b.low), holds(a.low, b.high))
        };
        match (holds(a.median, b.median), worst, best) {
            (true, true, _) => Self::Holds,
            (true, false, _) => Self::WithinNoise,
            (false, _, true) => Self::FailsWithinNoise,
            (false, _, false) => Self::Fails,
        }
    }
}
