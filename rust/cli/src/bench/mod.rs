// SPDX-License-Identifier: MIT
//! `flexguard bench`: locks measured one against another, in interleaved rounds.

pub mod compare;
mod contention;
mod document;
pub mod exec;
mod front;
pub mod hashtable;
mod html;
mod machine;
mod measure;
pub mod memcached;
pub mod options;
pub mod overhead;
pub mod paper;
mod plot;
mod point;
mod presets;
mod progress;
pub mod report;
mod runner;
mod session;
pub mod shm;
mod sink;
mod stats;
mod table;
mod words;
mod worker;
mod workload;

pub use front::run;
