// SPDX-License-Identifier: MIT
//! Drawing a figure with plotters' charts. The names of the series stand at the right; a line's name stands at its end,
//! so no legend is needed.

use anyhow::{Result, ensure};
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, EmptyElement, ErrorBar, PathElement, Polygon, Rectangle};
use plotters::prelude::DrawingBackend;
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontDesc, FontFamily, FontStyle, RGBColor, ShapeStyle, TRANSPARENT, TextStyle,
};

use super::axis::Axis;
use super::style::{self, GRID, INK, MUTED};
use crate::figure::{Dot, Figure, Series, Shape};

/// Pixels in a unit of the layout: lines stay sharp where a page shows the figure at half its size.
pub const PIXELS: u32 = 2;

/// Between the names of two series.
const GAP: f64 = 14.0;

/// How high a figure must be for the names of so many series.
pub fn height_of_names(series: usize) -> u32 {
    const ABOVE_AND_BELOW: u32 = 104;
    ABOVE_AND_BELOW + series as u32 * GAP as u32
}

type Root<B> = DrawingArea<B, Shift>;
type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<Axis, Axis>>;

fn px(units: f64) -> i32 {
    (units * f64::from(PIXELS)).round() as i32
}

fn text(size: f64, weight: FontStyle, colour: &'static RGBColor) -> TextStyle<'static> {
    // The size given here is the line's height; plotters takes that of the letters.
    let font = FontDesc::new(
        FontFamily::SansSerif,
        size * f64::from(PIXELS) * 1.24,
        weight,
    );
    let at_left = Pos::new(HPos::Left, VPos::Center);
    TextStyle::from(font).color(colour).pos(at_left)
}

fn note() -> TextStyle<'static> {
    text(11.5, FontStyle::Normal, &MUTED)
}

fn stroke(colour: impl Color, width: f64) -> ShapeStyle {
    ShapeStyle::from(colour.to_rgba()).stroke_width(px(width).max(1) as u32)
}

pub fn figure<B: DrawingBackend>(root: &Root<B>, figure: &Figure) -> Result<()>
where
    B::ErrorType: 'static,
{
    ensure!(style::ready(), "the typeface is unreadable");
    root.draw_text(
        &figure.title,
        &text(15.0, FontStyle::Bold, &INK),
        (px(16.0), px(20.0)),
    )?;
    let subtitle = match &figure.note {
        None => figure.y_title.clone(),
        Some(note) => format!("{} ({note})", figure.y_title),
    };
    root.draw_text(&subtitle, &note(), (px(16.0), px(42.0)))?;
    let mut names = 0;
    for series in &figure.series {
        names = names.max(root.estimate_text_size(&name(series), &note())?.0);
    }
    let (x, y) = axes(figure);
    let y_is_log = y.log;
    let mut chart = ChartBuilder::on(root)
        .margin_top(px(62.0))
        .margin_right(names as i32 + px(36.0))
        .margin_bottom(px(8.0)) // letters reach below their line
        .x_label_area_size(px(46.0))
        .y_label_area_size(px(60.0))
        .build_cartesian_2d(x, y)?;
    let group = |x: &f64| figure.groups.get(*x as usize).cloned().unwrap_or_default();
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh()
        .bold_line_style(stroke(GRID, 1.0))
        .light_line_style(TRANSPARENT)
        .axis_style(stroke(MUTED, 0.5))
        .set_all_tick_mark_size(px(3.0))
        .x_labels(8)
        .y_labels(6)
        .label_style(note())
        .axis_desc_style(note())
        .x_desc(&figure.x_title);
    if figure.shape == Shape::Bars {
        mesh.x_label_formatter(&group);
    }
    mesh.draw()?;
    hardware_contexts(&mut chart, figure)?;
    // What matters most is drawn last, on top.
    let mut order: Vec<(usize, &Series)> = figure.series.iter().enumerate().collect();
    order.sort_by_key(|(_, s)| (!s.again, s.name == "flexguard"));
    for (place, series) in order {
        match figure.shape {
            Shape::Trace => trace(&mut chart, series)?,
            Shape::Lines | Shape::Ramp => line(&mut chart, series, y_is_log)?,
            Shape::Bars => bars(&mut chart, series, figure, place)?,
        }
    }
    label_series(root, &chart, figure)?;
    Ok(root.present()?)
}

fn name(series: &Series) -> String {
    format!(
        "{}{}",
        series.name,
        if series.again { " again" } else { "" }
    )
}

fn axes(figure: &Figure) -> (Axis, Axis) {
    let dots = figure.series.iter().flat_map(|s| &s.points);
    // The range is that of the medians: one wide interval must not flatten everything else. It is cut at the edge.
    let y = Axis::vertical(dots.clone().map(|p| p.y), figure.base, figure.log);
    if figure.shape == Shape::Bars {
        return (Axis::groups(figure.groups.len()), y);
    }
    let mut values: Vec<f64> = dots.map(|p| p.x).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    (Axis::horizontal(&values, figure.shape == Shape::Lines), y)
}

/// An upright dashed line where the machine's hardware contexts are used up.
fn hardware_contexts<B: DrawingBackend>(chart: &mut Chart<B>, figure: &Figure) -> Result<()>
where
    B::ErrorType: 'static,
{
    let (x, y) = (chart.x_range(), chart.y_range());
    let Some(contexts) = figure.contexts.filter(|c| x.contains(c)) else {
        return Ok(());
    };
    let ends = [(contexts, y.start), (contexts, y.end)];
    chart.draw_series(DashedLineSeries::new(
        ends,
        px(4.0),
        px(4.0),
        stroke(MUTED.mix(0.7), 1.0),
    ))?;
    let at = chart.backend_coord(&(contexts, y.end));
    let told = text(10.5, FontStyle::Normal, &MUTED);
    let root = chart.plotting_area().strip_coord_spec();
    let (left, top) = root.get_base_pixel();
    root.draw_text(
        "hardware contexts",
        &told,
        (at.0 - left + px(5.0), at.1 - top + px(6.0)),
    )?;
    Ok(())
}

fn line<B: DrawingBackend>(chart: &mut Chart<B>, series: &Series, y_is_log: bool) -> Result<()>
where
    B::ErrorType: 'static,
{
    let colour = style::colour(&series.name, series.index);
    let (opacity, width) = match (series.again, series.name.as_str()) {
        (true, _) => (0.45, 1.2),
        (_, "flexguard") => (1.0, 2.6),
        _ => (1.0, 1.8),
    };
    rounds(chart, series.points.iter().map(|p| (p.x, p)), colour)?;
    chart.draw_series(series.points.iter().map(|p| {
        ErrorBar::new_vertical(
            p.x,
            p.low,
            p.y,
            p.high,
            stroke(colour.mix(opacity * 0.5), 1.2),
            6,
        )
    }))?;
    let path = series.points.iter().map(|p| (p.x, p.y));
    chart.draw_series(LineSeries::new(path, stroke(colour.mix(opacity), width)))?;
    let (zeros, others): (Vec<_>, Vec<_>) = series
        .points
        .iter()
        .filter(|_| !series.again)
        .partition(|p| y_is_log && p.y <= 0.0);
    let corners = marker(series.index);
    chart.draw_series(
        others
            .iter()
            .map(|p| EmptyElement::at((p.x, p.y)) + Polygon::new(corners.clone(), colour.filled())),
    )?;
    // Open: a logarithmic axis has no place for 0, so the marker stands at its bottom.
    let outline: Vec<_> = corners.iter().chain(&corners[..1]).copied().collect();
    chart.draw_series(zeros.iter().map(|p| {
        EmptyElement::at((p.x, p.y)) + PathElement::new(outline.clone(), stroke(colour, 1.2))
    }))?;
    Ok(())
}

/// The single rounds, lightly.
fn rounds<'a, B: DrawingBackend>(
    chart: &mut Chart<B>,
    dots: impl Iterator<Item = (f64, &'a Dot)>,
    colour: RGBColor,
) -> Result<()>
where
    B::ErrorType: 'static,
{
    let points = dots.flat_map(|(x, dot)| dot.rounds.iter().map(move |y| (x, *y)));
    // Beside the interval, which would hide them.
    let dot = || Circle::new((px(4.0), 0), px(1.5), colour.mix(0.4).filled());
    chart.draw_series(points.map(|at| EmptyElement::at(at) + dot()))?;
    Ok(())
}

/// The corners of one of a few shapes, so that lines are told apart without colour.
fn marker(kind: usize) -> Vec<(i32, i32)> {
    const ROUND: [(f64, f64); 8] = [
        (1.1, 0.0),
        (0.78, 0.78),
        (0.0, 1.1),
        (-0.78, 0.78),
        (-1.1, 0.0),
        (-0.78, -0.78),
        (0.0, -1.1),
        (0.78, -0.78),
    ];
    let corners: &[(f64, f64)] = match kind % 5 {
        0 => &ROUND,
        1 => &[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
        2 => &[(0.0, -1.3), (1.2, 1.0), (-1.2, 1.0)],
        3 => &[(0.0, -1.4), (1.4, 0.0), (0.0, 1.4), (-1.4, 0.0)],
        _ => &[(0.0, 1.3), (1.2, -1.0), (-1.2, -1.0)],
    };
    corners
        .iter()
        .map(|(x, y)| (px(x * 3.3), px(y * 3.3)))
        .collect()
}

/// Many samples: steps, faint enough to see the other series through them.
fn trace<B: DrawingBackend>(chart: &mut Chart<B>, series: &Series) -> Result<()>
where
    B::ErrorType: 'static,
{
    let ends = series.points.windows(2).map(|w| (w[1].x, w[0].y));
    let begins = series.points.iter().map(|p| (p.x, p.y));
    let mut ends = ends;
    let steps = begins
        .flat_map(|begin| [Some(begin), ends.next()])
        .flatten();
    let colour = style::colour(&series.name, series.index);
    chart.draw_series(LineSeries::new(steps, stroke(colour.mix(0.75), 1.2)))?;
    Ok(())
}

/// The bars of one series, number `place` in each group.
fn bars<B: DrawingBackend>(
    chart: &mut Chart<B>,
    series: &Series,
    figure: &Figure,
    place: usize,
) -> Result<()>
where
    B::ErrorType: 'static,
{
    let count = figure.series.len().max(1) as f64;
    let width = (0.8 / count).min(0.25);
    let left = |group: f64| group + 0.5 + width * (place as f64 - count / 2.0);
    let colour = style::colour(&series.name, series.index);
    let fill = colour.mix(if series.again { 0.45 } else { 0.92 }).filled();
    let bottom = chart.y_range().start;
    chart.draw_series(series.points.iter().map(|p| {
        let mut bar = Rectangle::new([(left(p.x), p.y), (left(p.x) + width, bottom)], fill);
        bar.set_margin(0, 0, 1, 1);
        bar
    }))?;
    let middle = |p: &Dot| left(p.x) + width / 2.0;
    rounds(chart, series.points.iter().map(|p| (middle(p), p)), INK)?;
    chart.draw_series(series.points.iter().map(|p| {
        ErrorBar::new_vertical(middle(p), p.low, p.y, p.high, stroke(INK.mix(0.75), 1.2), 6)
    }))?;
    Ok(())
}

/// The names of the series at the right: of lines at their ends, moved apart where they would overlap.
fn label_series<B: DrawingBackend>(root: &Root<B>, chart: &Chart<B>, figure: &Figure) -> Result<()>
where
    B::ErrorType: 'static,
{
    let (across, down) = chart.plotting_area().get_pixel_range();
    let mut ends: Vec<(f64, &Series)> = Vec::new();
    for (i, series) in figure.series.iter().enumerate() {
        let end = match (figure.shape, series.points.last()) {
            (Shape::Bars, _) => down.start + px(i as f64 * GAP),
            (_, Some(last)) => chart.backend_coord(&(last.x, last.y)).1,
            (_, None) => continue,
        };
        ends.push((f64::from(end), series));
    }
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted: Vec<f64> = ends.iter().map(|e| e.0).collect();
    let bounds = (f64::from(down.start), f64::from(down.end + px(20.0)));
    let places = spread(&wanted, f64::from(px(GAP)), bounds);
    for ((end, series), place) in ends.into_iter().zip(places) {
        let colour = style::colour(&series.name, series.index);
        let faint = colour.mix(if series.again { 0.45 } else { 0.92 });
        let place = place as i32;
        let at = |right: f64| (across.end + px(right), place);
        if figure.shape == Shape::Bars {
            let corners = [(at(8.0).0, place - px(5.0)), (at(18.0).0, place + px(5.0))];
            root.draw(&Rectangle::new(corners, faint.filled()))?;
        } else {
            let leader = vec![(across.end, end as i32), at(8.0)];
            root.draw(&PathElement::new(leader, stroke(colour.mix(0.6), 1.0)))?;
            root.draw(
                &(EmptyElement::at(at(12.0)) + Polygon::new(marker(series.index), colour.filled())),
            )?;
        }
        // The text itself is not coloured: not every colour can be read.
        let ours = series.name == "flexguard" && !series.again;
        let look = if ours {
            text(11.5, FontStyle::Bold, &INK)
        } else {
            note()
        };
        root.draw_text(&name(series), &look, at(22.0))?;
    }
    Ok(())
}

/// Places that are at least `gap` apart, within the bounds as far as they fit, and as near as possible to `wanted`,
/// which is sorted. Names that overlap form a group, and a group is centred on the ends of its lines.
fn spread(wanted: &[f64], gap: f64, (top, bottom): (f64, f64)) -> Vec<f64> {
    // Groups: the sum of where the members would place the first one, and the number of members.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    let mean = |group: &(f64, usize)| group.0 / group.1 as f64;
    for (i, want) in wanted.iter().enumerate() {
        let mut group = (want - i as f64 * gap, 1);
        while let Some(before) = groups.pop_if(|before| mean(before) > mean(&group)) {
            group = (group.0 + before.0, group.1 + before.1);
        }
        groups.push(group);
    }
    let span = gap * wanted.len().saturating_sub(1) as f64;
    let firsts = groups
        .iter()
        .flat_map(|c| std::iter::repeat_n(mean(c), c.1));
    firsts
        .enumerate()
        .map(|(i, first)| first.clamp(top, (bottom - span).max(top)) + i as f64 * gap)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The title takes 62 units above the names, and 34 are below them.
    #[test]
    fn every_name_has_a_place_in_the_figure() {
        for series in [1, 21, 28, 60] {
            let height = f64::from(height_of_names(series).max(400));
            let places = spread(&vec![height; series], GAP, (62.0, height - 34.0));
            assert!(places[0] >= 62.0 && places[series - 1] <= height - 34.0);
        }
    }

    proptest! {
        #[test]
        fn names_do_not_overlap_and_keep_their_order(mut wanted in prop::collection::vec(0.0..400.0f64, 1..20)) {
            wanted.sort_by(f64::total_cmp);
            let places = spread(&wanted, 14.0, (0.0, 400.0));
            prop_assert!(places.windows(2).all(|w| w[1] - w[0] >= 14.0 - 1e-9), "{places:?}");
            prop_assert!(places.iter().all(|p| (-1e-9..=400.0 + 1e-9).contains(p)));
        }
    }
}
