// SPDX-License-Identifier: MIT
//! `flexguard bench report`: results that were kept, as a page and as figures.

use std::path::PathBuf;

use super::document::Document;
use super::html;
use super::pipeline::write_plots;
use super::sink::{self, Sink};
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Failure, Result};

#[derive(Debug)]
pub struct Report {
    /// Results, as `-o` wrote them
    pub results: Vec<PathBuf>,

    /// The page
    pub html: Option<PathBuf>,

    /// Write every figure as SVG and PNG into DIR
    pub plots: Option<PathBuf>,
}

pub fn run(args: Report) -> Result<Status> {
    let mut documents = args
        .results
        .iter()
        .map(|path| Document::read(path))
        .collect::<Result<Vec<_>>>()?;
    let html = args.html.as_deref().map(Sink::open).transpose()?;
    if let Some(dir) = &args.plots {
        sink::directory(dir)?;
    }
    for (document, path) in documents.iter_mut().zip(&args.results) {
        document.analyse();
        if let Some(dir) = &args.plots {
            let stem = path
                .file_stem()
                .ok_or_else(|| Failure::new(format_args!("{} has no name", path.display())))?;
            write_plots(document, dir, &format!("{}-", stem.to_string_lossy()))?;
        }
    }
    if let Some(html) = html {
        html.write(&html::page(
            &documents.iter().collect::<Vec<_>>(),
            &[],
            None,
        )?)?;
    }
    Ok(Status::Exited(0))
}
