// SPDX-License-Identifier: MIT
//! `flexguard bench report`: results that were kept, as a page and as figures.

use std::path::PathBuf;

use super::document::Document;
use super::html;
use super::pipeline::{exported, write_plots};
use super::sink::{self, Sink};
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Failure, Result};

#[derive(Debug)]
pub struct Report {
    /// Results, as `-o` wrote them
    pub results: Vec<PathBuf>,

    /// The page
    pub html: Option<PathBuf>,

    /// All of them as CSV or Markdown
    pub export: Option<PathBuf>,

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
    let export = args.export.as_deref().map(exported).transpose()?;
    if let Some(dir) = &args.plots {
        sink::directory(dir)?;
    }
    name_apart(&mut documents, &args.results);
    for (document, path) in documents.iter_mut().zip(&args.results) {
        document.analyse();
        if let Some(dir) = &args.plots {
            let stem = path
                .file_stem()
                .ok_or_else(|| Failure::new(format_args!("{} has no name", path.display())))?;
            write_plots(document, dir, &format!("{}-", stem.to_string_lossy()))?;
        }
    }
    if let Some((format, file)) = export {
        let texts: Vec<String> = documents.iter().map(|d| format.write(d)).collect();
        file.write(&texts.join("\n"))?;
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

/// Results of the same benchmark have its title and their file's name.
fn name_apart(documents: &mut [Document], paths: &[PathBuf]) {
    let titles: Vec<String> = documents.iter().map(|d| d.title.clone()).collect();
    for (document, path) in documents.iter_mut().zip(paths) {
        let same = titles.iter().filter(|title| **title == document.title);
        if let (2.., Some(stem)) = (same.count(), path.file_stem()) {
            document.title = format!("{} ({})", document.title, stem.to_string_lossy());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_the_same_benchmark_have_titles_of_their_own() {
        let mut documents = [(); 3].map(|()| crate::document::testing::document());
        documents[1].title = "another".into();
        let paths = ["before.json", "other.json", "after.json"].map(PathBuf::from);
        let title = documents[0].title.clone();
        name_apart(&mut documents, &paths);
        assert_eq!(documents[0].title, format!("{title} (before)"));
        assert_eq!(documents[1].title, "another");
        assert_eq!(documents[2].title, format!("{title} (after)"));
    }
}
