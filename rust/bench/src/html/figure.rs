// SPDX-License-Identifier: MIT
//! A figure in a page: the drawing, and a table for readers who cannot see it or want the numbers.

use super::text::escape;
use crate::plot::{self, Figure, Shape};
use crate::point::number;
use flexguard_launch::failure::{Failure, Result};

pub fn of(figure: &Figure, part: &str) -> Result<String> {
    let svg = plot::svg(figure)
        .map_err(|e| Failure::new(format_args!("cannot draw '{}': {e}", figure.title)))?;
    let names: Vec<&str> = figure.series.iter().map(|s| s.name.as_str()).collect();
    let label = format!(
        "{}: {} of {}",
        figure.title,
        figure.y_title,
        names.join(", ")
    );
    let svg = svg.replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-label=\"{}\" ", escape(&label)),
        1,
    );
    let numbers = match figure.shape {
        // A table of thousands of samples helps no reader.
        Shape::Trace => String::new(),
        Shape::Lines | Shape::Bars => numbers(figure),
    };
    Ok(format!(
        "<figure id=\"{part}-{}\">\n{svg}{numbers}</figure>\n",
        escape(&figure.id)
    ))
}

fn numbers(figure: &Figure) -> String {
    let mut places: Vec<f64> = figure
        .series
        .iter()
        .flat_map(|s| s.points.iter().map(|p| p.x))
        .collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let heading = |x: f64| match figure.shape {
        Shape::Bars => figure.groups.get(x as usize).cloned().unwrap_or_default(),
        _ => format!("{} {}", number(x), figure.x_title),
    };
    let heads: String = places
        .iter()
        .map(|x| format!("<th scope=\"col\">{}</th>", escape(&heading(*x))))
        .collect();
    let rows: String = figure
        .series
        .iter()
        .map(|series| {
            let cells: String = places
                .iter()
                .map(|x| match series.points.iter().find(|p| p.x == *x) {
                    None => "<td>-</td>".to_owned(),
                    Some(p) => format!(
                        "<td title=\"{} to {}\">{}</td>",
                        short(p.low),
                        short(p.high),
                        short(p.y)
                    ),
                })
                .collect();
            let again = if series.again { " again" } else { "" };
            let name = escape(&series.name);
            format!("<tr><th scope=\"row\" class=\"name\">{name}{again}</th>{cells}</tr>\n")
        })
        .collect();
    let title = escape(&figure.title);
    format!(
        "<details><summary>The numbers</summary>\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"The numbers of {title}\"><table>\n<thead><tr><td></td>{heads}</tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div></details>\n"
    )
}

fn short(value: f64) -> String {
    format!("{value:.*}", crate::measure::digits(value))
}
