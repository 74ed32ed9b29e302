// SPDX-License-Identifier: MIT
//! What may be said of a handful of measurements, and what may not.

mod estimate;
mod modes;
mod verdict;

pub use estimate::Estimate;
pub use modes::Modes;
pub use verdict::{Better, Difference, Leader, Noise, differ, lead};
