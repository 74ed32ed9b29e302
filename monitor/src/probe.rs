// SPDX-License-Identifier: MIT
//! What this kernel and these privileges allow.

use std::fs;
use std::path::PathBuf;

use caps::Capability;
use nix::sys::utsname::uname;
use serde::Serialize;

use crate::capabilities::holds;
use crate::domain::DomainKind;
use crate::keep::Keeper;
use crate::kernel::{Kernel, OBJECT, btf_path};

/// The facts that decide whether the monitor can run here.
#[derive(Debug, Clone, Serialize)]
pub struct Probe {
    /// As uname -r says it.
    pub kernel_release: String,
    /// Where BTF was looked for, and whether it was there.
    pub btf_path: PathBuf,
    pub btf: bool,
    /// Effective capabilities. CAP_SYS_ADMIN stands in for both.
    pub cap_bpf: bool,
    pub cap_perfmon: bool,
    pub cap_sys_admin: bool,
    /// The active lockdown mode ("none", "integrity", "confidentiality"); None: the kernel has no lockdown, or does
    /// not show it.
    pub lockdown: Option<String>,
    /// net.core.bpf_jit_enable; None: not readable.
    pub bpf_jit: Option<bool>,
    /// kernel.bpf_stats_enabled; None: not readable.
    pub bpf_stats: Option<bool>,
    /// Whether the monitor's own program loads and attaches, tried for real.
    pub hook: Hook,
}

/// The outcome of loading and attaching the monitor's program.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    Loads,
    Fails {
        why: String,
        errno: Option<i32>,
        advice: Option<String>,
    },
}

impl Probe {
    /// The monitor can run here.
    pub fn usable(&self) -> bool {
        matches!(self.hook, Hook::Loads)
    }
}

/// Looks at everything, changes nothing: the program is loaded, attached and taken away again.
pub fn probe() -> Probe {
    let btf_path = btf_path();
    Probe {
        kernel_release: uname().map_or_else(
            |_| String::new(),
            |names| names.release().to_string_lossy().into(),
        ),
        btf: fs::File::open(&btf_path).is_ok(),
        btf_path,
        cap_bpf: holds(Capability::CAP_BPF),
        cap_perfmon: holds(Capability::CAP_PERFMON),
        cap_sys_admin: holds(Capability::CAP_SYS_ADMIN),
        lockdown: read("/sys/kernel/security/lockdown").and_then(|modes| selected(&modes)),
        bpf_jit: flag("/proc/sys/net/core/bpf_jit_enable"),
        bpf_stats: flag("/proc/sys/kernel/bpf_stats_enabled"),
        hook: try_hook(),
    }
}

fn try_hook() -> Hook {
    match Kernel::load(OBJECT, false, Keeper::Nobody, DomainKind::Machine) {
        Ok(_) => Hook::Loads,
        Err(error) => Hook::Fails {
            why: error.told(),
            errno: error.errno(),
            advice: error.advice(),
        },
    }
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn flag(path: &str) -> Option<bool> {
    read(path).map(|value| value != "0")
}

/// The bracketed word of a line like "none [integrity] confidentiality".
fn selected(modes: &str) -> Option<String> {
    Some(modes.split_once('[')?.1.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_active_lockdown_mode_is_the_bracketed_one() {
        assert_eq!(
            selected("none [integrity] confidentiality").as_deref(),
            Some("integrity")
        );
        assert_eq!(selected("[none] integrity").as_deref(), Some("none"));
        assert_eq!(selected(""), None);
    }
}
