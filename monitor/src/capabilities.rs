// SPDX-License-Identifier: MIT
//! The capabilities of this process.

use caps::{CapSet, Capability};

pub(crate) fn holds(capability: Capability) -> bool {
    caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false)
}

/// The names of the capabilities that loading needs and this process lacks.
pub(crate) fn missing_capabilities() -> Option<String> {
    if holds(Capability::CAP_SYS_ADMIN) {
        return None;
    }
    let needed = [Capability::CAP_BPF, Capability::CAP_PERFMON].into_iter();
    let missing: Vec<_> = needed
        .filter(|c| !holds(*c))
        .map(|c| c.to_string())
        .collect();
    (!missing.is_empty()).then(|| missing.join(" and "))
}
