// SPDX-License-Identifier: MIT
//! A profile that was saved: the file profile.json, or the directory that it is in.

use std::fs;
use std::path::Path;

use flexguard_launch::failure::{Context, Failure, Result};
use serde::Deserialize;

use super::record::{Profile, SCHEMA};

const ADVICE: &str =
    "give the directory that `flexguard profile -o DIRECTORY` has written, or profile.json in it";

#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// The profile of a program's own run.
pub fn open(path: &Path) -> Result<Profile> {
    let inside = path.join("profile.json");
    let path = if path.is_dir() { &inside } else { path };
    let doing = format!("cannot open the profile {}", path.display());
    let text = fs::read_to_string(path)
        .context(&doing)
        .map_err(|failure| failure.advice(ADVICE))?;
    parse(&text).context(doing)
}

fn parse(text: &str) -> Result<Profile> {
    let advised = |failure: Failure| failure.advice(ADVICE);
    let head: Head = serde_json::from_str(text)
        .context("it is no result of flexguard profile")
        .map_err(advised)?;
    if head.schema != SCHEMA {
        let why = format!(
            "it is a {}, and this command opens {SCHEMA}",
            head.schema.escape_debug()
        );
        return Err(advised(Failure::new(why)));
    }
    let profile = serde_json::from_str(text);
    profile
        .context(format_args!("it is damaged, or no {SCHEMA}"))
        .map_err(advised)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::perfetto::perfetto;
    use crate::profile::pprof::pprof;
    use crate::profile::{self, Comparison, Samples};

    const SEED: &str = r#"{"schema": "flexguard-profile/1", "version": "0.9.0", "command": ["a"], "lock": "posix",
        "elapsed_seconds": 1.5, "preemptions_unknown": null, "processes": [{"pid": 7, "name": "a",
        "lost": {"acquisitions": 0, "call_sites": 0, "holds": 0}, "locks": [{"address": "0x10", "kind": "mutex",
        "name": null, "acquisitions": 9, "contended": 3, "contended_share": 0.3, "failed": 0, "cond_waits": 0,
        "wait": {"total_seconds": 0.5, "p50_us": 1, "p90_us": 2, "p99_us": 3, "max_us": 4}, "hold": null,
        "preempted": {"count": 1, "seconds": 0.1}, "sites": [{"acquisitions": 9, "wait_seconds": 0.5, "hold_seconds": 0.0,
        "stack": [{"address": "0x1234", "symbol": "f", "offset": 4, "file": "/a.c", "line": 3, "module": "/a",
        "module_address": "0x234"}]}]}]}]}"#;

    #[test]
    fn a_stack_of_any_depth_and_any_numbers_are_shown() {
        let mut profile = parse(SEED).unwrap();
        let process = &mut profile.processes[0];
        process.lost.acquisitions = u64::MAX;
        process.lost.holds = u64::MAX;
        let sites = &mut process.locks[0].sites;
        let place = sites[0].stack[0].clone();
        sites[0].stack = vec![place; 200_000];
        sites[0].wait_seconds = 1e300;
        sites.extend(
            parse(SEED)
                .unwrap()
                .processes
                .remove(0)
                .locks
                .remove(0)
                .sites,
        );
        let samples = Samples::of(&profile);
        assert!(perfetto(&samples).len() < 100_000);
        assert!(pprof(&samples).is_ok());
        assert!(profile::table(&profile, 9).contains("lost, because"));
        assert!(profile::page(&profile, &vec![]).contains("Lost, because"));
    }

    /// Whatever a file holds: it is refused with a reason, or shown, exported and compared.
    #[test]
    fn fuzz_saved_profiles() {
        parse(SEED).unwrap();
        flexguard_fuzz::fuzz("saved-profiles", &[SEED.as_bytes()], |input| {
            let Ok(profile) = parse(&String::from_utf8_lossy(input)) else {
                return;
            };
            let samples = Samples::of(&profile);
            let _ = (samples.folded(1), perfetto(&samples));
            let _ = (pprof(&samples), profile::table(&profile, 9));
            let _ = profile::page(&profile, &vec![]);
            let _ = Comparison::of(&profile, &profile).text(9);
        });
    }
}
