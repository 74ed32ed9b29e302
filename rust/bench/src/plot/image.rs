// SPDX-License-Identifier: MIT
//! A figure as SVG or PNG.

use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::drawing::IntoDrawingArea;
use plotters::style::RGBColor;

use super::draw::{self, Canvas};
use super::{Figure, style};

/// In units of the layout; both formats have two pixels to the unit, and lines are still sharp where that is halved.
const SIZE: (u32, u32) = (760, 400);
const PIXELS: u32 = 2;

/// For a page that has a background of its own.
pub fn svg(figure: &Figure) -> Result<String, String> {
    vector(figure, None)
}

/// For a file: on white.
pub fn svg_file(figure: &Figure) -> Result<String, String> {
    vector(figure, Some(style::PAPER))
}

fn vector(figure: &Figure, background: Option<RGBColor>) -> Result<String, String> {
    let size = (SIZE.0 * PIXELS, SIZE.1 * PIXELS);
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    draw::figure(
        &Canvas::new(&area, f64::from(PIXELS)),
        figure,
        SIZE,
        background,
    )?;
    drop(area);
    // Shown at the layout's size, or whatever the page gives it.
    Ok(text.replacen(
        &format!("width=\"{}\" height=\"{}\"", size.0, size.1),
        &format!("width=\"{}\" height=\"{}\"", SIZE.0, SIZE.1),
        1,
    ))
}

pub fn png(figure: &Figure) -> Result<Vec<u8>, String> {
    let size = (SIZE.0 * PIXELS, SIZE.1 * PIXELS);
    let mut pixels = vec![0; (size.0 * size.1 * 3) as usize];
    let area = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
    draw::figure(
        &Canvas::new(&area, f64::from(PIXELS)),
        figure,
        SIZE,
        Some(style::PAPER),
    )?;
    drop(area);
    encode(size, &pixels).map_err(|e| format!("cannot encode a PNG: {e}"))
}

fn encode(size: (u32, u32), pixels: &[u8]) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}
