// SPDX-License-Identifier: MIT
//! Flame graphs: where threads waited for locks, and where they held them.

use flexguard_launch::failure::{Context, Result};
use inferno::flamegraph::{self, Options};

/// The image of folded stacks. None: there is nothing to show.
pub fn flame_graph(lines: &[String], title: &str) -> Result<Option<String>> {
    if lines.is_empty() {
        return Ok(None);
    }
    let mut options = Options::default();
    options.title = title.into();
    options.count_name = "ns".into();
    options.deterministic = true;
    // A letter of DejaVu Sans Mono takes 0.602 of its height. So three letters and the margin before them fit their box.
    options.font_width = 0.69;
    let mut svg = Vec::new();
    let lines = lines.iter().map(String::as_str);
    flamegraph::from_lines(&mut options, lines, &mut svg).context("cannot draw a flame graph")?;
    Ok(Some(String::from_utf8_lossy(&svg).into_owned()))
}
