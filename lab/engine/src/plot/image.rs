// SPDX-License-Identifier: MIT
//! A figure as SVG or PNG.

use anyhow::Result;
use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::drawing::IntoDrawingArea;

use super::draw::{self, PIXELS};
use super::style;
use crate::figure::Figure;

/// In units of the layout.
const WIDTH: u32 = 760;
const HEIGHT: u32 = 400;

/// In units of the layout: higher where the names of the series need it.
fn size(figure: &Figure) -> (u32, u32) {
    (
        WIDTH,
        HEIGHT.max(draw::height_of_names(figure.series.len())),
    )
}

fn in_pixels(figure: &Figure) -> (u32, u32) {
    let (width, height) = size(figure);
    (width * PIXELS, height * PIXELS)
}

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
    let pixels = in_pixels(figure);
    {
        let area = SVGBackend::with_string(&mut text, pixels).into_drawing_area();
        if on_white {
            area.fill(&style::PAPER)?;
        }
        draw::figure(&area, figure)?;
    }
    // Shown at the layout's size, or whatever the page gives it.
    let told = |(width, height)| format!("width=\"{width}\" height=\"{height}\"");
    Ok(text.replacen(&told(pixels), &told(size(figure)), 1))
}

pub fn png(figure: &Figure) -> Result<Vec<u8>> {
    let (width, height) = in_pixels(figure);
    let mut pixels = vec![0; (width * height * 3) as usize];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        area.fill(&style::PAPER)?;
        draw::figure(&area, figure)?;
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(bytes)
}
