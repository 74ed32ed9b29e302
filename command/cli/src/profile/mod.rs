// SPDX-License-Identifier: MIT
//! What `flexguard profile` makes of the files that profiled processes write (abi/flexguard_profile.h).

pub mod attached;
mod compare;
pub mod copies;
mod files;
mod flame;
pub mod maps;
mod objects;
mod page;
mod perfetto;
mod pprof;
mod preempted;
mod read;
mod reasons;
mod record;
mod samples;
pub mod saved;
mod spins;
mod table;
mod target;
mod unwind;
mod waits;

pub use compare::Comparison;
pub use files::Report;
pub use page::page;
pub use preempted::{Seen, Watch};
pub use read::read;
pub use reasons::reasons;
pub use record::{Process, Profile, SCHEMA};
pub use samples::Samples;
pub use spins::Spins;
pub use table::table;
