// SPDX-License-Identifier: MIT
//! What the numbers mean, in sentences.

use super::document::{Document, Entry};
use super::stats::{Difference, Estimate, Leader, Modes};

/// How many subjects that cannot be told apart are named.
const NAMED: usize = 4;

/// Which subject is best at a point, or why none is.
pub fn verdict(leader: &Leader, noise_known: bool) -> String {
    let name = &leader.leader;
    let lead = times(leader.lead);
    if leader.too_few_rounds {
        return format!(
            "{name} leads by {lead}, but in too few rounds to call a winner (6 or more)"
        );
    }
    if !leader.wins {
        let mut all: Vec<String> = std::iter::once(name)
            .chain(&leader.level)
            .cloned()
            .collect();
        if all.len() > NAMED {
            let more = all.len() - NAMED + 1;
            all.truncate(NAMED - 1);
            all.push(format!("{more} more"));
        }
        return format!("cannot be told apart: {}", list(&all));
    }
    let caution = if noise_known {
        ""
    } else {
        " (noise not measured)"
    };
    format!("{name} wins: {lead} the next best{caution}")
}

/// `a`, `a and b`, `a, b and c`
pub fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// A ratio: `1.25×`
pub fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 100.0 => format!("{r:.0}×"),
        r if r >= 10.0 => format!("{r:.1}×"),
        r => format!("{r:.2}×"),
    }
}

pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p < 0.1 => format!("{p:.2} %"),
        p if p < 10.0 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// One word for a table's last column.
pub fn difference(difference: Difference) -> &'static str {
    match difference {
        Difference::Better => "better",
        Difference::Worse => "worse",
        Difference::Unclear => "unclear",
        Difference::WithinNoise => "within noise",
        Difference::TooFewRounds => "too few rounds",
    }
}

pub fn modes(modes: &Modes, write: impl Fn(f64) -> String) -> String {
    let (few, many) = (modes.low_rounds.len(), modes.high_rounds.len());
    let note = if modes.in_sequence {
        "; it changed once, so the cause is probably the machine"
    } else {
        ""
    };
    format!(
        "two modes: {} in {few} rounds, {} in {many}{note}",
        write(modes.low),
        write(modes.high)
    )
}

/// What an estimate should not be read without.
pub fn caution(estimate: &Estimate, write: impl Fn(f64) -> String) -> Option<String> {
    if let Some(m) = &estimate.modes {
        return Some(modes(m, write));
    }
    match estimate.outliers.len() {
        0 => None,
        1 => Some(format!("round {} stands apart", estimate.outliers[0] + 1)),
        n => Some(format!("{n} rounds stand apart")),
    }
}

/// What the entry's primary measure should not be read without.
pub fn entry_caution(document: &Document, entry: &Entry) -> Option<String> {
    let measure = document.measure(&document.primary)?;
    caution(entry.measures.get(&measure.name)?, |v| {
        measure.unit.write(v)
    })
}

/// How far the same thing differed from itself.
pub fn noise(document: &Document) -> String {
    match &document.noise {
        None => "noise: not measured (--noise measures it)".into(),
        Some(noise) => {
            let most = noise.differences.values().copied().fold(0.0, f64::max);
            format!(
                "noise: {} differed from itself by {} (typical), {} (most)",
                noise.lock,
                percent(noise.typical),
                percent(most)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn verdicts_say_no_more_than_is_known() {
        assert_eq!(
            verdict(&leader(true, &[], false), true),
            "a wins: 1.50× the next best"
        );
        assert!(verdict(&leader(true, &[], false), false).contains("noise not measured"));
        assert_eq!(
            verdict(&leader(false, &["b", "c"], false), true),
            "cannot be told apart: a, b and c"
        );
        assert_eq!(
            verdict(&leader(false, &["b", "c", "d", "e"], false), true),
            "cannot be told apart: a, b, c and 2 more"
        );
        assert!(verdict(&leader(false, &["b"], true), true).contains("too few rounds"));
    }

    #[test]
    fn shares_and_ratios_are_short() {
        assert_eq!(
            [0.0004, 0.0123, 0.25].map(percent),
            ["0.04 %", "1.2 %", "25 %"]
        );
        assert_eq!([1.234, 12.34, 123.4].map(times), ["1.23×", "12.3×", "123×"]);
    }
}
