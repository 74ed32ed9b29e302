// SPDX-License-Identifier: MIT
//! The tests of the command, a module a subject: one program, which is linked once and runs them side by side.

mod common;

mod advise;
mod bench;
mod exec;
mod foreign;
mod guests;
mod left_alone;
mod metrics;
mod monitor;
mod others;
mod profile;
mod profile_attached;
mod profile_saved;
mod profile_split;
mod restart;
mod run;
mod runs;
mod scenes;
mod service;
mod signals;
mod simulated;
mod spins;
mod status;
mod suite;
mod top;
mod trace;
