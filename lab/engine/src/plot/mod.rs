// SPDX-License-Identifier: MIT
//! Figures in the manner of the papers': made from a record, and drawn.

mod axis;
mod draw;
mod fill;
mod image;
mod ramp;
mod style;

pub use fill::{figures, without_data};
pub use image::{png, svg, svg_file};
pub use style::colour_of;
