// SPDX-License-Identifier: MIT
//! The monitor as its clients meet it. Every test loads a monitor of its own on an abstract socket of its own, so they
//! disturb neither each other nor a monitor that serves this machine.
//!
//! They need BPF. Where it does not load they say `SKIPPED` on stderr and pass, unless FLEXGUARD_REQUIRE_BPF=1.

mod census;
mod counting;
mod domains;
mod edited;
mod facts;
mod fair;
mod fuzz;
mod harness;
mod hostile;
mod keeping;
mod lifecycle;
mod logged;
mod mutants;
mod notes;
mod off_line;
mod privileges;
mod protocol;
mod scale;
mod sleepers;
mod slices;
mod stays;
mod uptr;
mod victim;

/// Not a test: the helper process of the others. They run this executable again, asking for this function and
/// telling it its role in the environment.
#[test]
#[ignore = "the helper process of the other tests"]
fn helper() {
    if let Ok(role) = std::env::var(harness::ROLE_ENV) {
        victim::play_alone(&role);
    }
}
