// SPDX-License-Identifier: MIT
//! Where the parts of this installation are.

use std::path::{Path, PathBuf};

use crate::failure::{Context, Failure, Result};

pub const PREFIX_ENV: &str = "FLEXGUARD_PREFIX";

/// The directory that `bin/flexguard`, `lib/flexguard` and `share/flexguard` are in.
#[derive(Debug, Clone)]
pub struct Prefix(PathBuf);

impl Prefix {
    /// FLEXGUARD_PREFIX, or two levels above the running executable.
    pub fn find() -> Result<Self> {
        if let Some(dir) = std::env::var_os(PREFIX_ENV).filter(|d| !d.is_empty()) {
            let dir = std::path::absolute(&dir)
                .context(format_args!("{PREFIX_ENV}={}", Path::new(&dir).display()))?;
            return Ok(Self(dir));
        }
        let exe = std::env::current_exe().context("cannot tell where this command is installed")?;
        match exe.parent().and_then(Path::parent) {
            Some(dir) => Ok(Self(dir.to_owned())),
            None => Err(Failure::new(format_args!(
                "{} is not inside an installation",
                exe.display()
            ))
            .advice(format_args!(
                "set {PREFIX_ENV} to the directory that holds lib/flexguard"
            ))),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.0
    }

    pub fn lock_index(&self) -> PathBuf {
        self.0.join("share/flexguard/LOCKS")
    }

    pub fn interposer(&self, lock: &str) -> PathBuf {
        self.0.join("lib/flexguard").join(format!("{lock}.so"))
    }

    /// What `flexguard profile` preloads.
    pub fn profiler(&self) -> PathBuf {
        self.0.join("lib/flexguard/profile/profile.so")
    }

    pub fn probe(&self) -> PathBuf {
        self.0.join("libexec/flexguard/fg-probe")
    }

    pub fn handover(&self) -> PathBuf {
        self.0.join("libexec/flexguard/fg-handover")
    }

    pub fn scenes(&self) -> PathBuf {
        self.0.join("share/flexguard/scenes")
    }

    /// The machines that `flexguard bench --machine` simulates, and what simulates a lock on them.
    pub fn machines(&self) -> PathBuf {
        self.0.join("share/flexguard/machines")
    }

    pub fn simulator(&self, lock: &str) -> PathBuf {
        self.0
            .join("libexec/flexguard")
            .join(format!("fg-sim-{lock}"))
    }

    pub fn worker(&self) -> PathBuf {
        self.0.join("libexec/flexguard/fg-bench")
    }
}
