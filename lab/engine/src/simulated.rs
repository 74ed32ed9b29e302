// SPDX-License-Identifier: MIT
//! Runs on a machine that is simulated: `fg-sim-LOCK` (lab/simulator) in place of fg-bench. A round is a seed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::locks;
use flexguard_launch::names;
use flexguard_launch::prefix::Prefix;

use crate::launch::Launch;
use crate::worker;

/// Virtual seconds of a run that is not asked for others, and those before it that are not measured.
pub const SECONDS: f64 = 0.02;
pub const WARMUP: f64 = 0.006;

/// A run that takes longer on the host is ended by the simulator, with a message.
const HOST_LIMIT: u64 = 300;
/// In virtual time a run that goes on for so many times as long, and so many seconds more, does not end.
const OVERTIME: f64 = 50.0;
const CALIBRATION: f64 = 1.0;

/// Host seconds for a virtual second of each CPU that works: for the progress.
const SLOWER: f64 = 0.5;

const BUILD: &str = "`make simulators` builds the simulators, on x86-64";

/// The machine that stands for the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Simulated {
    /// As the simulator calls it.
    pub machine: String,
    /// Of the machine, as it was found; and what tells its contents from others.
    pub file: String,
    pub fingerprint: String,
    pub hardware_contexts: usize,
}

impl Simulated {
    /// `name`: of an installed machine file, or a path. The simulator reads it, and says what is wrong in it.
    pub fn find(prefix: &Prefix, name: &str) -> Result<Self> {
        let file = file(prefix, name)?;
        let simulator = simulator(prefix, locks::POSIX)?;
        let failure = || format!("cannot execute {}", simulator.display());
        let described = Command::new(&simulator)
            .args(["--describe", "--machine"])
            .arg(&file)
            .output()
            .context(failure())?;
        let text = fs::read(&file).context(format_args!("cannot read {}", file.display()));
        let stderr = String::from_utf8_lossy(&described.stderr);
        if !described.status.success() {
            let said = stderr.trim().trim_start_matches("fg-sim: ");
            return Err(Failure::new(format_args!("--machine: {said}")).advice(
                "lab/simulator/machine.h of the source tree lists the keys of a machine file",
            ));
        }
        let facts: Value = serde_json::from_slice(&described.stdout).context(failure())?;
        let contexts = facts["cpus"].as_u64().unwrap_or(0);
        Ok(Self {
            machine: facts["machine"].as_str().unwrap_or_default().to_owned(),
            file: file.display().to_string(),
            fingerprint: blake3::hash(&text?).to_hex()[..16].to_owned(),
            hardware_contexts: contexts as usize,
        })
    }

    /// In one line, for people.
    pub fn describe(&self) -> String {
        format!("simulated machine {} ({})", self.machine, self.file)
    }

    /// For titles.
    pub fn mark(&self) -> String {
        format!(" (simulated: {})", self.machine)
    }

    /// Makes a run of the worker one of the simulator.
    pub fn launch(
        &self,
        prefix: &Prefix,
        workload: &str,
        lock: &str,
        options: &[(String, Option<String>)],
        seconds: f64,
        monitored: bool,
    ) -> Launch {
        let simulator = prefix.simulator(lock);
        let mut launch = worker::launch(&simulator, workload, lock, options, seconds);
        launch.limit = Duration::from_secs(HOST_LIMIT + 30);
        launch.seeded = true;
        let virtual_limit = OVERTIME * seconds + CALIBRATION;
        launch
            .command
            .args(["--machine", &self.file])
            .args(["--host-limit", &HOST_LIMIT.to_string()])
            .args(["--virtual-limit", &virtual_limit.to_string()]);
        if !monitored {
            launch.command.arg("--unmonitored");
        }
        launch
    }

    /// About how long a run of so many virtual seconds takes here.
    pub fn run_seconds(&self, seconds: f64, threads: f64) -> f64 {
        let busy = threads.min(self.hardware_contexts as f64);
        worker::START_SECONDS + seconds * busy * SLOWER
    }
}

/// The simulator of a lock.
pub fn simulator(prefix: &Prefix, lock: &str) -> Result<PathBuf> {
    let path = prefix.simulator(lock);
    if path.is_file() {
        return Ok(path);
    }
    let failure = match prefix.simulator(locks::POSIX).is_file() {
        true => Failure::new(format_args!(
            "--machine: '{lock}' has no simulator: there is no {}",
            path.display()
        )),
        false => Failure::new("--machine: the simulators are not built"),
    };
    Err(failure.advice(BUILD))
}

fn file(prefix: &Prefix, name: &str) -> Result<PathBuf> {
    if name.contains('/') || name.ends_with(".toml") {
        return Ok(PathBuf::from(name));
    }
    let dir = prefix.machines();
    let installed = dir.join(format!("{name}.toml"));
    if installed.is_file() {
        return Ok(installed);
    }
    let known = match in_dir(&dir) {
        none if none.is_empty() => "none are installed".into(),
        known => names::advice(name, &known),
    };
    Err(Failure::new(format_args!(
        "--machine: there is no machine called '{name}'"
    ))
    .advice(format_args!("{known}; or give the path of a file")))
}

/// The machines whose files are there.
fn in_dir(dir: &Path) -> Vec<String> {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    let stem = |name: &str| name.strip_suffix(".toml").map(str::to_owned);
    let mut names: Vec<String> = files
        .filter_map(|e| stem(e.file_name().to_str()?))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
pub mod testing {
    use super::*;

    pub fn simulated() -> Simulated {
        Simulated {
            machine: "large".into(),
            file: "large.toml".into(),
            fingerprint: "0".into(),
            hardware_contexts: 104,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::simulated;
    use super::*;

    #[test]
    fn a_run_takes_as_long_as_the_cpus_that_work() {
        let of = |threads| simulated().run_seconds(1.0, threads) - worker::START_SECONDS;
        assert_eq!((of(2.0), of(104.0), of(208.0)), (1.0, 52.0, 52.0));
    }

    #[test]
    fn machines_are_listed_by_name() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.toml", "a.toml", "README"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(in_dir(dir.path()), ["a", "b"]);
    }
}
