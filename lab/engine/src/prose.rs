// SPDX-License-Identifier: MIT
//! What a reader of a record should know besides its numbers, in sentences.

use super::distance::Place;
use super::document::{Document, Entry};
use super::stats::Estimate;
use super::words::{percent, times};

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
