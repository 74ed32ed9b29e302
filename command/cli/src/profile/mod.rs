// SPDX-License-Identifier: MIT
//! What `flexguard profile` makes of the files that profiled processes write (abi/flexguard_profile.h).

pub mod attached;
mod flame;
mod objects;
mod page;
mod preempted;
mod read;
mod reasons;
mod record;
mod spins;
mod table;

pub use flame::{Measure, flame_graph};
pub use page::page;
pub use preempted::{Seen, Watch};
pub use read::read;
pub use reasons::reasons;
pub use record::{Lock, Process, Profile, SCHEMA};
pub use spins::Spins;
pub use table::table;
