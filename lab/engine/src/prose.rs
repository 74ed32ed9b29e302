// SPDX-License-Identifier: MIT
//! What the numbers mean, in sentences.

use super::distance::Place;
use super::document::{Document, Entry};
use super::stats::{Difference, Estimate, Leader};

/// How many subjects that cannot be told apart are named.
const NAMED: usize = 4;

/// Which subject is best at a point, or why none is.
pub fn verdict(leader: &Leader) -> String {
    let name = &leader.leader;
    let lead = times(leader.lead);
    if leader.too_few_rounds && leader.lead < 1.005 {
        // Equal, or the best of the medians is not the best of the rounds.
        return "no clear leader, and too few rounds to call a winner (6 or more)".into();
    }
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
    format!("{name} wins: {lead} the next best")
}

/// `a`, `a and b`, `a, b and c`
pub fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// A ratio: `1.25×`; `∞×` where the other did nothing.
pub fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 1e12 => "∞×".into(),
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

/// What an estimate should not be read without.
pub fn caution(estimate: &Estimate) -> Option<String> {
    match estimate.outliers.len() {
        0 => None,
        1 => Some(format!("round {} stands apart", estimate.outliers[0] + 1)),
        n => Some(format!("{n} rounds stand apart")),
    }
}

/// What the entry's primary measure should not be read without.
pub fn entry_caution(document: &Document, entry: &Entry) -> Option<String> {
    let measure = document.measure(&document.primary)?;
    caution(entry.measures.get(&measure.name)?)
}

/// Where the CPUs were; where they were near and far, the ratios of either; and how many rounds were thrown away.
pub fn places(document: &Document) -> Vec<String> {
    let of_round = |s: &super::document::Sample| s.distance.as_ref()?.place();
    let rounds = document.results.iter().flat_map(|e| &e.rounds);
    let places: Vec<Place> = rounds.filter_map(of_round).collect();
    let mut lines = Vec::new();
    let count = |place| places.iter().filter(|p| **p == place).count();
    let (near, far) = (count(Place::Near), count(Place::Far));
    if near + far > 0 {
        lines.push(match (near, far) {
            (_, 0) => "CPUs: near each other in every run".into(),
            (0, _) => "CPUs: far from each other in every run".into(),
            _ => format!("CPUs: near each other in {near} runs, far in {far}"),
        });
    }
    for entry in document
        .results
        .iter()
        .filter(|e| e.against_first.is_some())
    {
        let ratios = entry.ratio_by_place.iter();
        let ratios =
            ratios.map(|(place, r)| format!("{place} {} in {} rounds", times(r.median), r.n));
        let ratios: Vec<String> = ratios.collect();
        if !ratios.is_empty() {
            let at = if entry.point.0.is_empty() {
                String::new()
            } else {
                format!("{}, ", entry.point)
            };
            lines.push(format!("{at}{}: {}", entry.label(), ratios.join(", ")));
        }
    }
    if document.moved_rounds > 0 {
        lines.push(format!(
            "{} rounds were thrown away and measured again: the CPUs were moved in them",
            document.moved_rounds
        ));
    }
    lines
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
            verdict(&leader(true, &[], false)),
            "a wins: 1.50× the next best"
        );
        assert_eq!(
            verdict(&leader(false, &["b", "c"], false)),
            "cannot be told apart: a, b and c"
        );
        assert_eq!(
            verdict(&leader(false, &["b", "c", "d", "e"], false)),
            "cannot be told apart: a, b, c and 2 more"
        );
        let few = leader(false, &["b"], true);
        assert!(verdict(&few).starts_with("a leads by 1.50×, but in too few rounds"));
        let few = Leader { lead: 0.93, ..few };
        assert!(verdict(&few).starts_with("no clear leader, and too few rounds"));
    }

    #[test]
    fn shares_and_ratios_are_short() {
        assert_eq!(
            [0.0004, 0.0123, 0.25].map(percent),
            ["0.04 %", "1.2 %", "25 %"]
        );
        assert_eq!([1.234, 12.34, 123.4].map(times), ["1.23×", "12.3×", "123×"]);
        assert_eq!(times(50.0f64.exp()), "∞×");
    }
}
