// SPDX-License-Identifier: MIT
//! What is said of the build before anything runs: that it is in no commit, or that other results are of other commits.

use std::collections::BTreeMap;
use std::path::Path;

use crate::document::Document;
use crate::machine::Origin;

/// A line for each. `records`: what the directory has, by the name of its scene.
pub(super) fn notes<'a>(
    here: &Origin,
    dir: &Path,
    records: impl Iterator<Item = (&'a str, &'a Document)>,
) -> Vec<String> {
    let ours = here.described();
    let mut notes = Vec::new();
    if here.dirty {
        notes.push(format!(
            "results of an uncommitted build: {ours} cannot be built again; commit the changes before measuring what \
             is to be kept"
        ));
    }
    let mut others: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (scene, document) in records {
        let rounds = document.results.iter().flat_map(|e| &e.rounds);
        for theirs in rounds.map(|r| r.origin.described()).filter(|c| *c != ours) {
            let scenes = others.entry(theirs).or_default();
            if !scenes.contains(&scene) {
                scenes.push(scene);
            }
        }
    }
    if !others.is_empty() {
        let each = others
            .iter()
            .map(|(c, s)| format!("{c} ({})", s.join(", ")));
        notes.push(format!(
            "{} has results of other commits than this build's, {ours}: {}. They are kept, and judged together with \
             the new ones; for results of one commit measure all with --fresh, or give another directory with -o",
            dir.display(),
            each.collect::<Vec<_>>().join(", ")
        ));
    }
    notes
}
