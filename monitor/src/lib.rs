// SPDX-License-Identifier: MIT
//! The Preemption Monitor's user half: loads the BPF object, serves registrations, publishes the shared page.
//!
//! ```no_run
//! # fn main() -> Result<(), flexguard_monitor::Error> {
//! use flexguard_monitor::{Monitor, Options, Stop};
//!
//! let monitor = Monitor::start(Options { run_time_stats: true, ..Options::default() })?;
//! let stop = Stop::new()?; // set by a signal handler or another thread
//! monitor.serve(&stop)?;
//! println!("{:?}", monitor.stats()?);
//! # Ok(())
//! # }
//! ```

mod accounts;
mod capabilities;
mod census;
mod clients;
mod domain;
mod door;
mod error;
mod futex;
mod heart;
mod keep;
mod kernel;
mod lists;
mod message;
mod monitor;
mod peer;
mod probe;
mod records;
mod refused;
mod ring;
mod server;
mod socket;
mod spins;
mod stats;
mod stop;
mod stream;
mod tally;
mod trace;
mod turns;
mod unread;
mod version;

pub use domain::{Domain, DomainKind};
pub use error::Error;
pub use futex::{LostWaits, Registers, Wait, WaitWatch, Word};
pub use keep::Keeper;
pub use monitor::{Monitor, Options, Registered};
pub use probe::{Hook, Probe, probe};
pub use refused::Refused;
pub use socket::{SocketName, bound_backlog, open_to_all};
pub use spins::{SpinProgram, SpinSample, SpinSampler};
pub use stats::{Counted, Listed, Listing, Stats};
pub use stop::Stop;
pub use stream::{end_listening, hang_up};
pub use trace::{Event, Tracer};
pub use version::Version;

/// The version of the ABI that this monitor speaks.
pub const ABI_VERSION: u32 = flexguard_abi::FG_ABI_VERSION;
