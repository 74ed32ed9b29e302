// SPDX-License-Identifier: MIT
//! What this kernel and these privileges allow.

use std::path::PathBuf;

use serde::Serialize;

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
    /// The active lockdown mode ("none", "integrity", "confidentiality"); None: the kernel has no lockdown.
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
        hint: Option<String>,
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
    todo!()
}

pub(crate) fn hint_for_errno(errno: i32) -> Option<&'static str> {
    let _ = errno;
    None
}
