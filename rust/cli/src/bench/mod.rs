// SPDX-License-Identifier: MIT
//! `flexguard bench`: locks measured one against another, in interleaved rounds.

pub mod exec;
mod progress;
mod report;
mod runner;
mod session;
pub mod shm;
mod spread;
mod table;
