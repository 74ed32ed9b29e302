// SPDX-License-Identifier: MIT
//! A figure in a page: the drawing, and a table for readers who cannot see it or want the numbers.

use maud::{Markup, PreEscaped, html};

use crate::figure::{Dot, Figure, Shape};
use crate::plot;
use crate::point::number;
use flexguard_launch::failure::{Context, Result};

pub fn of(figure: &Figure, part: &str) -> Result<Markup> {
    let svg = plot::svg(figure).context(format_args!("cannot draw '{}'", figure.title))?;
    let names: Vec<&str> = figure.series.iter().map(|s| s.name.as_str()).collect();
    let label = format!(
        "{}: {} of {}",
        figure.title,
        figure.y_title,
        names.join(", ")
    );
    Ok(html! {
        figure id={ (part) "-" (figure.id) } {
            div role="img" aria-label=(label) { (PreEscaped(svg)) }
            @if !figure.paper.is_empty() { figcaption { "The paper prints: " (figure.paper) "." } }
            // A table of thousands of samples helps no reader.
            @if figure.shape != Shape::Trace { (numbers(figure)) }
        }
    })
}

fn numbers(figure: &Figure) -> Markup {
    let dots = figure.series.iter().flat_map(|s| &s.points);
    let mut places: Vec<f64> = dots.map(|p| p.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let heading = |x: f64| match figure.shape {
        Shape::Bars => figure.groups.get(x as usize).cloned().unwrap_or_default(),
        _ => format!("{} {}", number(x), figure.x_title),
    };
    let cell = |dot: Option<&Dot>| match dot {
        None => html! { td { "-" } },
        Some(p) => html! { td title={ (short(p.low)) " to " (short(p.high)) } { (short(p.y)) } },
    };
    html! {
        details {
            summary { "The numbers" }
            div.scroll tabindex="0" role="region" aria-label={ "The numbers of " (figure.title) } {
                table {
                    thead { tr { td {} @for x in &places { th scope="col" { (heading(*x)) } } } }
                    tbody {
                        @for series in &figure.series {
                            tr {
                                th.name scope="row" { (series.name) @if series.again { " again" } }
                                @for x in &places { (cell(series.points.iter().find(|p| p.x == *x))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn short(value: f64) -> String {
    format!("{value:.*}", crate::measure::digits(value))
}
