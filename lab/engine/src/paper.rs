// SPDX-License-Identifier: MIT
//! `flexguard bench paper`: the scenes of three installed files, which are the paper's figures and its claims.

use crate::catalogue::Catalogue;
use crate::scene::{self, Sizes};
use crate::suite::{self, Suite, Wanted};
use crate::worker;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use flexguard_launch::prefix::Prefix;

/// The figures, the applications with what the paper claims, and what is said of each lock. The short version lacks the
/// last.
const SCENES: [&str; 3] = ["figures", "papers", "published-locks"];

#[derive(Debug)]
pub struct Paper {
    /// Small: at most 15 minutes on two hardware contexts.
    pub quick: bool,
    pub wanted: Wanted,
    /// These locks instead of the paper's.
    pub locks: Vec<String>,
    /// Seconds of each run of a microbenchmark, instead of the plan's.
    pub seconds: Option<f64>,
    /// Rounds, instead of the plan's.
    pub rounds: Option<u32>,
}

pub fn run(args: Paper) -> Result<Status> {
    let prefix = Prefix::find()?;
    let known = worker::locks(&prefix, &worker::find(&prefix)?)?;
    let locks = match &args.locks[..] {
        [] => Vec::new(), // those of the scenes
        names => worker::resolve(&known, names)?,
    };
    let sizes = Sizes {
        rounds: args.rounds,
        seconds: args.seconds,
        warmup: args.seconds.map(|_| 0.0),
        locks,
        quick: args.quick,
        simulated: None,
    };
    let catalogue = Catalogue::read(&prefix)?;
    let mut suite = Suite {
        title: "The figures of the paper".into(),
        experiments: Vec::new(),
        claims: Vec::new(),
        left_out: Vec::new(),
    };
    for name in &SCENES[..if args.quick { 2 } else { SCENES.len() }] {
        let mut scenes = scene::read(&scene::find(&prefix, name)?, &catalogue, &sizes)?;
        suite.left_out.extend(scenes.leave_out(&args.wanted.only)?);
        suite.experiments.extend(scenes.experiments);
        suite.claims.extend(scenes.claims);
    }
    suite::run(&prefix, suite, &args.wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Each experiment and each figure of `bench paper` has a file of its own.
    #[test]
    fn scenes_and_figures_have_names_of_their_own() {
        let mut names = Vec::new();
        for name in SCENES {
            let file = format!("../scenes/{name}.toml");
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            let file: toml::Table =
                toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            for scene in file["scene"].as_array().unwrap() {
                names.push(scene["name"].as_str().unwrap().to_owned());
                let figures = scene.get("figure").and_then(|f| f.as_array());
                let figures = figures.into_iter().flatten();
                names.extend(figures.map(|f| f["id"].as_str().unwrap().to_owned()));
            }
        }
        let distinct: HashSet<&String> = names.iter().collect();
        assert!(names.len() > 30 && distinct.len() == names.len());
    }
}
