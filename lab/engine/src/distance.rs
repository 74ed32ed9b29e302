// SPDX-License-Identifier: MIT
//! How far apart the CPUs are, as fg-handover measures it.
//!
//! The host of a virtual machine may put two CPUs on one core, or on two, and may change its mind: that makes two machines
//! of one, and rounds of either must not be compared with each other.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

/// Between what a cache line takes within a core (under 60 ns where this was measured) and between cores (over 200).
const NEAR_NS: f64 = 120.0;

/// A measurement may be disturbed; of three the middle one is hardly ever.
const TIMES: usize = 3;

/// Nanoseconds that a cache line takes from one CPU to the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Distance {
    pub before_ns: f64,
    /// None: the round was interrupted.
    pub after_ns: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Place {
    Near,
    Far,
}

impl Place {
    pub fn of(ns: f64) -> Self {
        if ns < NEAR_NS { Self::Near } else { Self::Far }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Near => "near",
            Self::Far => "far",
        })
    }
}

impl Distance {
    /// Where the CPUs were in the round; None: they were moved in it.
    pub fn place(&self) -> Option<Place> {
        let before = Place::of(self.before_ns);
        let after = self.after_ns.map_or(before, Place::of);
        (before == after).then_some(before)
    }
}

/// None: there is one CPU only, or no such program.
pub fn measure(handover: &Path) -> Option<f64> {
    let once = || -> Option<f64> {
        let told = Command::new(handover)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8(told.stdout).ok()?;
        text.trim().parse().ok().filter(|_| told.status.success())
    };
    let mut found = [once()?, 0.0, 0.0];
    for ns in &mut found[1..TIMES] {
        *ns = once()?;
    }
    found.sort_by(f64::total_cmp);
    Some(found[TIMES / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_near_far_or_moved() {
        let of = |before_ns, after_ns| {
            Distance {
                before_ns,
                after_ns,
            }
            .place()
        };
        assert_eq!(of(50.0, Some(60.0)), Some(Place::Near));
        assert_eq!(of(250.0, Some(240.0)), Some(Place::Far));
        assert_eq!(of(50.0, Some(250.0)), None);
        assert_eq!(of(250.0, None), Some(Place::Far));
        assert_eq!(measure(Path::new("/no/such/program")), None);
    }
}
