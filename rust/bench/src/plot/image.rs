// SPDX-License-Identifier: MIT
//! A figure as SVG or PNG.

use anyhow::Result;
use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::drawing::IntoDrawingArea;

use super::draw::{self, PIXELS};
use super::{Figure, style};

/// In units of the layout.
const SIZE: (u32, u32) = (760, 400);
const IN_PIXELS: (u32, u32) = (SIZE.0 * PIXELS, SIZE.1 * PIXELS);

/// For a page that has a background of its own.
pub fn svg(figure: &Figure) -> Result<String> {
    vector(figure, false)
}

/// For a file: on white.
pub fn svg_file(figure: &Figure) -> Result<String> {
    vector(figure, true)
}

fn vector(figure: &Figure, on_white: bool) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, IN_PIXELS).into_drawing_area();
        if on_white {
            area.fill(&style::PAPER)?;
        }
        draw::figure(&area, figure)?;
    }
    // Shown at the layout's size, or whatever the page gives it.
    let size = |(width, height)| format!("width=\"{width}\" height=\"{height}\"");
    Ok(text.replacen(&size(IN_PIXELS), &size(SIZE), 1))
}

pub fn png(figure: &Figure) -> Result<Vec<u8>> {
    let mut pixels = vec![0; (IN_PIXELS.0 * IN_PIXELS.1 * 3) as usize];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, IN_PIXELS).into_drawing_area();
        area.fill(&style::PAPER)?;
        draw::figure(&area, figure)?;
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, IN_PIXELS.0, IN_PIXELS.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(bytes)
}
