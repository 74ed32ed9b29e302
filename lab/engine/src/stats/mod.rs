// SPDX-License-Identifier: MIT
//! What may be said of a handful of measurements, and what may not.

mod estimate;
mod paired;
mod verdict;

pub use estimate::Estimate;
pub use verdict::{Better, Difference, Leader, Noise, Rounds, against, against_at, differ, lead};
#[cfg(test)]
pub mod testing;
