// SPDX-License-Identifier: MIT
//! The ABI between user space and the Preemption Monitor's kernel half, generated from `abi/flexguard_abi.h`;
//! that header documents every type and constant here.

#![allow(non_camel_case_types)]
// Generated code cannot explain itself: bindgen constructs unions and zeroed values.
#![allow(clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/abi.rs"));

/// What a profiled process writes, generated from `abi/flexguard_profile.h`.
pub mod profile {
    include!(concat!(env!("OUT_DIR"), "/profile.rs"));
}
