// SPDX-License-Identifier: MIT
//! Drawing a figure on any backend for lines and text. A line's name stands at its right end, so no legend is needed; bars
//! get one.

use plotters::coord::Shift;
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, PathElement, Polygon, Rectangle};
use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontDesc, FontFamily, FontStyle, FontTransform, RGBAColor, RGBColor, ShapeStyle,
    TextStyle,
};

use super::scale::{Scale, label};
use super::style::{self, GRID, INK, MUTED};
use super::{Dot, Figure, Series, Shape};

type Done = Result<(), String>;

/// Where a figure is drawn; takes units of the layout.
pub struct Canvas<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    pixels: f64,
}

impl<'a, B: DrawingBackend> Canvas<'a, B> {
    pub fn new(area: &'a DrawingArea<B, Shift>, pixels: f64) -> Self {
        Self { area, pixels }
    }

    fn at(&self, (x, y): (f64, f64)) -> (i32, i32) {
        (
            (x * self.pixels).round() as i32,
            (y * self.pixels).round() as i32,
        )
    }

    fn path(
        &self,
        points: impl IntoIterator<Item = (f64, f64)>,
        colour: RGBAColor,
        width: f64,
    ) -> Done {
        let points: Vec<_> = points.into_iter().map(|p| self.at(p)).collect();
        let style = ShapeStyle {
            color: colour,
            filled: false,
            stroke_width: (width * self.pixels).round().max(1.0) as u32,
        };
        self.area
            .draw(&PathElement::new(points, style))
            .map_err(|e| e.to_string())
    }

    fn area_between(&self, points: Vec<(f64, f64)>, colour: RGBAColor) -> Done {
        let points: Vec<_> = points.into_iter().map(|p| self.at(p)).collect();
        self.area
            .draw(&Polygon::new(points, colour.filled()))
            .map_err(|e| e.to_string())
    }

    fn rectangle(&self, from: (f64, f64), to: (f64, f64), colour: RGBAColor) -> Done {
        let corners = [self.at(from), self.at(to)];
        self.area
            .draw(&Rectangle::new(corners, colour.filled()))
            .map_err(|e| e.to_string())
    }

    /// One of a few shapes, so that lines are told apart without colour.
    fn marker(&self, (x, y): (f64, f64), kind: usize, colour: RGBColor) -> Done {
        let r = 3.6;
        let corners: &[(f64, f64)] = match kind % 5 {
            0 => {
                let circle =
                    Circle::new(self.at((x, y)), (r * self.pixels) as i32, colour.filled());
                return self.area.draw(&circle).map_err(|e| e.to_string());
            }
            1 => &[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
            2 => &[(0.0, -1.3), (1.2, 1.0), (-1.2, 1.0)],
            3 => &[(0.0, -1.4), (1.4, 0.0), (0.0, 1.4), (-1.4, 0.0)],
            _ => &[(0.0, 1.3), (1.2, -1.0), (-1.2, -1.0)],
        };
        let r = r * 0.92;
        self.area_between(
            corners
                .iter()
                .map(|(dx, dy)| (x + dx * r, y + dy * r))
                .collect(),
            colour.mix(1.0),
        )
    }

    fn font(&self, size: f64, bold: bool) -> FontDesc<'static> {
        let weight = if bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        };
        // The size given here is the line's height; plotters takes that of the letters.
        FontDesc::new(FontFamily::SansSerif, size * self.pixels * 1.24, weight)
    }

    fn text(&self, text: &str, at: (f64, f64), look: Look) -> Done {
        let mut font = self.font(look.size, look.bold);
        if look.upwards {
            font = font.transform(FontTransform::Rotate270);
        }
        let style = TextStyle::from(font)
            .color(&look.colour)
            .pos(Pos::new(look.from, VPos::Center));
        self.area
            .draw_text(text, &style, self.at(at))
            .map_err(|e| e.to_string())
    }

    fn width_of(&self, text: &str, size: f64) -> f64 {
        let style = TextStyle::from(self.font(size, false));
        let width = self
            .area
            .estimate_text_size(text, &style)
            .map_or(0, |s| s.0);
        f64::from(width) / self.pixels
    }
}

/// How text looks.
#[derive(Clone, Copy)]
struct Look {
    size: f64,
    bold: bool,
    colour: RGBColor,
    from: HPos,
    upwards: bool,
}

const TITLE: Look = Look {
    size: 15.0,
    bold: true,
    colour: INK,
    from: HPos::Left,
    upwards: false,
};
const NOTE: Look = Look {
    size: 11.5,
    bold: false,
    colour: MUTED,
    from: HPos::Left,
    upwards: false,
};
const TICK_X: Look = Look {
    from: HPos::Center,
    ..NOTE
};
const TICK_Y: Look = Look {
    from: HPos::Right,
    ..NOTE
};

/// The rectangle of the data.
#[derive(Clone, Copy)]
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

pub fn figure<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    size: (u32, u32),
    background: Option<RGBColor>,
) -> Done {
    if !style::ready() {
        return Err("the typeface is unreadable".into());
    }
    let (width, height) = (f64::from(size.0), f64::from(size.1));
    if let Some(colour) = background {
        canvas.area.fill(&colour).map_err(|e| e.to_string())?;
    }
    canvas.text(&figure.title, (16.0, 20.0), TITLE)?;
    canvas.text(&figure.y_title, (16.0, 42.0), NOTE)?;
    let labels = figure
        .series
        .iter()
        .map(|s| canvas.width_of(&name(s), NOTE.size))
        .fold(0.0, f64::max);
    let right = if figure.shape == Shape::Bars {
        width - 20.0
    } else {
        width - labels - 36.0
    };
    let mut frame = Frame {
        left: 60.0,
        right,
        top: 62.0,
        bottom: height - 46.0,
    };
    if figure.shape == Shape::Bars {
        frame.top += legend(canvas, figure, frame)?;
    }
    // The range is that of the medians: one wide interval must not flatten everything else. It is cut at the edge.
    let values = figure
        .series
        .iter()
        .flat_map(|s| s.points.iter().map(|p| p.y));
    let y = Scale::vertical(values, figure.base, figure.log, (frame.bottom, frame.top));
    for tick in y.ticks(6) {
        let at = y.pixel(tick);
        canvas.path([(frame.left, at), (frame.right, at)], GRID.mix(1.0), 1.0)?;
        canvas.text(&label(tick), (frame.left - 8.0, at), TICK_Y)?;
    }
    match figure.shape {
        Shape::Bars => bars(canvas, figure, frame, y)?,
        Shape::Lines | Shape::Trace => lines(canvas, figure, frame, y)?,
    }
    canvas.area.present().map_err(|e| e.to_string())
}

fn name(series: &Series) -> String {
    if series.again {
        format!("{} again", series.name)
    } else {
        series.name.clone()
    }
}

fn lines<B: DrawingBackend>(canvas: &Canvas<B>, figure: &Figure, frame: Frame, y: Scale) -> Done {
    let mut values: Vec<f64> = figure
        .series
        .iter()
        .flat_map(|s| s.points.iter().map(|p| p.x))
        .collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let x = Scale::horizontal(&values, frame.left + 10.0, frame.right - 6.0);
    let ticks = if figure.shape == Shape::Lines && values.len() <= 12 {
        values
    } else {
        x.ticks(8)
    };
    for tick in ticks {
        canvas.text(&label(tick), (x.pixel(tick), frame.bottom + 14.0), TICK_X)?;
    }
    canvas.text(
        &figure.x_title,
        ((frame.left + frame.right) / 2.0, frame.bottom + 33.0),
        TICK_X,
    )?;
    if let Some(contexts) = figure.contexts.filter(|c| (x.low..=x.high).contains(c)) {
        let at = x.pixel(contexts);
        dashes(canvas, at, frame)?;
        canvas.text(
            "hardware contexts",
            (at + 5.0, frame.top + 2.0),
            Look { size: 10.5, ..NOTE },
        )?;
    }
    let order = figure.series.iter();
    // What matters most is drawn last, on top.
    let mut order: Vec<&Series> = order.collect();
    order.sort_by_key(|s| (!s.again, s.name == "flexguard"));
    for series in order {
        if figure.shape == Shape::Trace {
            trace(canvas, series, (x, y))?;
        } else {
            line(canvas, series, (x, y))?;
        }
    }
    names(canvas, figure, frame, y)
}

fn line<B: DrawingBackend>(canvas: &Canvas<B>, series: &Series, (x, y): (Scale, Scale)) -> Done {
    let colour = style::colour(&series.name, series.index);
    let at = |p: &Dot, v: f64| (x.pixel(p.x), y.pixel(v));
    let (opacity, width) = match (series.again, series.name.as_str()) {
        (true, _) => (0.45, 1.2),
        (_, "flexguard") => (1.0, 2.6),
        _ => (1.0, 1.8),
    };
    canvas.path(
        series.points.iter().map(|p| at(p, p.y)),
        colour.mix(opacity),
        width,
    )?;
    for p in &series.points {
        let whisker = [at(p, p.low), at(p, p.high)];
        canvas.path(whisker, colour.mix(opacity * 0.5), 1.2)?;
        if !series.again {
            canvas.marker(at(p, p.y), series.index, colour)?;
        }
    }
    Ok(())
}

/// Many samples: steps, faint enough to see the other series through them.
fn trace<B: DrawingBackend>(canvas: &Canvas<B>, series: &Series, (x, y): (Scale, Scale)) -> Done {
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for p in &series.points {
        let (px, py) = (x.pixel(p.x), y.pixel(p.y));
        if let Some(&(_, before)) = steps.last() {
            steps.push((px, before));
        }
        steps.push((px, py));
    }
    canvas.path(
        steps,
        style::colour(&series.name, series.index).mix(0.75),
        1.2,
    )
}

/// The names at the lines' right ends, moved apart where they would overlap.
fn names<B: DrawingBackend>(canvas: &Canvas<B>, figure: &Figure, frame: Frame, y: Scale) -> Done {
    let mut ends: Vec<(f64, usize)> = Vec::new();
    for (i, series) in figure.series.iter().enumerate() {
        if let Some(last) = series.points.last() {
            ends.push((y.pixel(last.y), i));
        }
    }
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let places = spread(
        &ends.iter().map(|e| e.0).collect::<Vec<_>>(),
        14.0,
        frame.top,
        frame.bottom + 20.0,
    );
    for ((end, i), place) in ends.iter().zip(places) {
        let series = &figure.series[*i];
        let colour = style::colour(&series.name, series.index);
        let leader = [(frame.right - 1.0, *end), (frame.right + 8.0, place)];
        canvas.path(leader, colour.mix(0.6), 1.0)?;
        // The text itself is not coloured: not every colour can be read.
        canvas.marker((frame.right + 12.0, place), series.index, colour)?;
        let look = if series.name == "flexguard" && !series.again {
            Look {
                colour: INK,
                bold: true,
                ..NOTE
            }
        } else {
            NOTE
        };
        canvas.text(&name(series), (frame.right + 20.0, place), look)?;
    }
    Ok(())
}

/// Places that are at least `gap` apart, within the bounds as far as they fit, and as near as possible to `wanted`, which is
/// sorted. Names that overlap form a group, and a group is centred on the ends of its lines.
fn spread(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    // Groups: the sum of where the members would place the first one, and the number of members.
    let mut crowds: Vec<(f64, usize)> = Vec::new();
    let mean = |crowd: &(f64, usize)| crowd.0 / crowd.1 as f64;
    for (i, want) in wanted.iter().enumerate() {
        let mut crowd = (want - i as f64 * gap, 1);
        while let Some(before) = crowds.pop_if(|before| mean(before) > mean(&crowd)) {
            crowd = (crowd.0 + before.0, crowd.1 + before.1);
        }
        crowds.push(crowd);
    }
    let span = gap * wanted.len().saturating_sub(1) as f64;
    let firsts = crowds
        .iter()
        .flat_map(|c| std::iter::repeat_n(mean(c), c.1));
    firsts
        .enumerate()
        .map(|(i, first)| first.clamp(top, (bottom - span).max(top)) + i as f64 * gap)
        .collect()
}

fn dashes<B: DrawingBackend>(canvas: &Canvas<B>, x: f64, frame: Frame) -> Done {
    let mut y = frame.top - 4.0;
    while y < frame.bottom {
        canvas.path(
            [(x, y), (x, (y + 4.0).min(frame.bottom))],
            MUTED.mix(0.7),
            1.0,
        )?;
        y += 8.0;
    }
    Ok(())
}

fn bars<B: DrawingBackend>(canvas: &Canvas<B>, figure: &Figure, frame: Frame, y: Scale) -> Done {
    let group = (frame.right - frame.left) / figure.groups.len().max(1) as f64;
    let wanted = group * 0.8 / figure.series.len().max(1) as f64;
    let bar = wanted.min(56.0);
    for (i, title) in figure.groups.iter().enumerate() {
        let centre = frame.left + group * (i as f64 + 0.5);
        canvas.text(title, (centre, frame.bottom + 16.0), TICK_X)?;
    }
    for (i, series) in figure.series.iter().enumerate() {
        let colour = style::colour(&series.name, series.index);
        for p in &series.points {
            let centre = frame.left + group * (p.x + 0.5);
            let left = centre + bar * (i as f64 - figure.series.len() as f64 / 2.0);
            let opacity = if series.again { 0.45 } else { 0.92 };
            canvas.rectangle(
                (left + 1.0, y.pixel(p.y)),
                (left + bar - 1.0, frame.bottom),
                colour.mix(opacity),
            )?;
            let middle = left + bar / 2.0;
            canvas.path(
                [(middle, y.pixel(p.low)), (middle, y.pixel(p.high))],
                INK.mix(0.75),
                1.2,
            )?;
        }
    }
    canvas.path(
        [(frame.left, frame.bottom), (frame.right, frame.bottom)],
        MUTED.mix(1.0),
        1.0,
    )
}

/// Returns its height.
fn legend<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    frame: Frame,
) -> Result<f64, String> {
    let (mut x, mut y) = (frame.left, frame.top);
    for series in &figure.series {
        let name = name(series);
        let width = canvas.width_of(&name, NOTE.size) + 34.0;
        if x + width > frame.right && x > frame.left {
            (x, y) = (frame.left, y + 18.0);
        }
        let opacity = if series.again { 0.45 } else { 0.92 };
        canvas.rectangle(
            (x, y - 5.0),
            (x + 10.0, y + 5.0),
            style::colour(&series.name, series.index).mix(opacity),
        )?;
        canvas.text(&name, (x + 16.0, y), NOTE)?;
        x += width;
    }
    Ok(y - frame.top + 18.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_do_not_overlap_and_keep_their_order(mut wanted in prop::collection::vec(0.0..400.0f64, 1..20)) {
            wanted.sort_by(f64::total_cmp);
            let places = spread(&wanted, 14.0, 0.0, 400.0);
            prop_assert!(places.windows(2).all(|w| w[1] - w[0] >= 14.0 - 1e-9), "{places:?}");
            prop_assert!(places.iter().all(|p| (-1e-9..=400.0 + 1e-9).contains(p)));
        }
    }
}
