// SPDX-License-Identifier: MIT
//! Colours, typeface and sizes of figures.
//!
//! The inks below are also what a page's style sheet knows them by, to turn them for dark mode.

use std::sync::OnceLock;

use plotters::style::{FontStyle, RGBColor, register_font};

pub const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
pub const MUTED: RGBColor = RGBColor(0x65, 0x6d, 0x76);
pub const GRID: RGBColor = RGBColor(0xd9, 0xde, 0xe3);
pub const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);

/// Distinct on white and on near-black, also for most colour-blind readers: lightness differs from one to the next, and every
/// line has its own marker.
const PALETTE: [RGBColor; 11] = [
    RGBColor(0x3b, 0x7d, 0xd8),
    RGBColor(0xd9, 0x8e, 0x04),
    RGBColor(0x2f, 0x9e, 0x6e),
    RGBColor(0xa0, 0x5a, 0xc8),
    RGBColor(0x14, 0xa5, 0xb8),
    RGBColor(0xc2, 0x5e, 0x9c),
    RGBColor(0x8a, 0x95, 0x1f),
    RGBColor(0x9c, 0x6b, 0x4a),
    RGBColor(0x6a, 0x7b, 0xd6),
    RGBColor(0x4f, 0xa8, 0x3a),
    RGBColor(0xb8, 0x73, 0x33),
];

/// FlexGuard stands out in every figure and glibc recedes; a lock has the same colour in all figures.
const OURS: RGBColor = RGBColor(0xe0, 0x3e, 0x36);
const LIBC: RGBColor = RGBColor(0x7a, 0x82, 0x8c);

/// The colour of subject number `index`.
pub fn colour(name: &str, index: usize) -> RGBColor {
    match name {
        "flexguard" => OURS,
        "posix" => LIBC,
        _ => PALETTE[index % PALETTE.len()],
    }
}

/// The same as a web colour.
pub fn colour_of(name: &str, index: usize) -> String {
    let RGBColor(r, g, b) = colour(name, index);
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The one typeface. No font of the system is used.
pub const FONT: &str = "sans-serif";

/// Registers the typeface. False if it cannot be read, which the tests exclude.
pub fn ready() -> bool {
    static READY: OnceLock<bool> = OnceLock::new();
    *READY.get_or_init(|| {
        let regular = include_bytes!("../../fonts/Roboto-Regular-latin.ttf");
        let medium = include_bytes!("../../fonts/Roboto-Medium-latin.ttf");
        register_font(FONT, FontStyle::Normal, regular).is_ok()
            && register_font(FONT, FontStyle::Bold, medium).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_typeface_is_readable() {
        assert!(ready());
    }

    #[test]
    fn ours_and_glibcs_keep_their_colours() {
        assert_eq!(colour_of("flexguard", 3), colour_of("flexguard", 0));
        assert_ne!(colour_of("mcs", 3), colour_of("tas", 4));
    }
}
