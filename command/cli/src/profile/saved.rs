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
            let _ = Comparison::of(&profile, &profile).text(9);
        });
    }
}
