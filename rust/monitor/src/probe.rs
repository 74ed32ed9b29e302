// SPDX-License-Identifier: MIT
//! What this kernel and these privileges allow.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;

use crate::kernel::{Kernel, btf_path};

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
    let caps = Capabilities::effective();
    let btf_path = btf_path();
    Probe {
        kernel_release: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        btf: fs::File::open(&btf_path).is_ok(),
        btf_path,
        cap_bpf: caps.has(CAP_BPF),
        cap_perfmon: caps.has(CAP_PERFMON),
        cap_sys_admin: caps.has(CAP_SYS_ADMIN),
        lockdown: read("/sys/kernel/security/lockdown").and_then(|modes| selected(&modes)),
        bpf_jit: flag("/proc/sys/net/core/bpf_jit_enable"),
        bpf_stats: flag("/proc/sys/kernel/bpf_stats_enabled"),
        hook: try_hook(),
    }
}

fn try_hook() -> Hook {
    match Kernel::load(false) {
        Ok(_) => Hook::Loads,
        Err(error) => Hook::Fails {
            why: error.to_string(),
            errno: error.errno(),
            hint: error.hint(),
        },
    }
}

/// What usually is behind an errno of loading or attaching.
pub(crate) fn hint_for_errno(errno: i32) -> Option<&'static str> {
    Some(match errno {
        libc::EPERM => {
            "something above the capabilities forbids it: kernel lockdown in confidentiality mode \
             (/sys/kernel/security/lockdown), a container's seccomp profile, or a user namespace"
        }
        libc::EACCES | libc::EINVAL | libc::E2BIG => {
            "the kernel's verifier did not accept the program: Linux 6.1 or newer on x86-64 is needed; \
             RUST_LOG=libbpf=info shows why"
        }
        libc::ENOENT | libc::ESRCH => {
            "the kernel lacks the sched_switch tracepoint or its type: Linux 6.1 or newer is needed"
        }
        libc::ENOMEM => "the kernel or this control group is out of memory",
        libc::ENOSYS => "the kernel was built without CONFIG_BPF_SYSCALL",
        _ => return None,
    })
}

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

struct Capabilities(u64);

impl Capabilities {
    fn effective() -> Capabilities {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        Capabilities(
            line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
                .unwrap_or(0),
        )
    }

    fn has(&self, capability: u32) -> bool {
        self.0 & (1 << capability) != 0
    }
}

/// The names of the capabilities that loading needs and this process lacks.
pub(crate) fn missing_capabilities() -> Option<String> {
    let caps = Capabilities::effective();
    if caps.has(CAP_SYS_ADMIN) {
        return None;
    }
    let needed = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")];
    let missing: Vec<_> = needed
        .iter()
        .filter(|(bit, _)| !caps.has(*bit))
        .map(|(_, name)| *name)
        .collect();
    (!missing.is_empty()).then(|| missing.join(" and "))
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
