// SPDX-License-Identifier: MIT
//! What the kernel's verifier has to follow: while it does, a program that `flexguard run` has started is not watched.

use super::*;

/// So many instructions on all paths together; 300,000 take 0.3 s.
const MOST: u32 = 100_000;

#[test]
fn the_programs_are_verified_soon() {
    let Ok(kernel) = Kernel::load(OBJECT, false, Keeper::Nobody, DomainKind::Machine) else {
        return; // no privilege
    };
    let programs = kernel.object.progs();
    let names: Vec<String> = programs
        .map(|program| program.name().to_string_lossy().into_owned())
        .collect();
    let followed = names.iter().map(|name| {
        let info = kernel.info_of(name).expect("it is loaded");
        (name, info.verified_insns)
    });
    let followed: Vec<_> = followed.collect();
    let all: u32 = followed.iter().map(|(_, instructions)| instructions).sum();
    assert!(all > 0 && all <= MOST, "{followed:?}");
}
