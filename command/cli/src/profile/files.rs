// SPDX-License-Identifier: MIT
//! The files of -o: the profile, images of it, and what other tools read.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use flexguard_launch::failure::{Context, Result};

use super::flame::flame_graph;
use super::perfetto::perfetto;
use super::pprof::pprof;
use super::samples::{COLUMNS, Column, Samples};

const PAGE: &str = "index.html";

/// The first file is opened before the program starts: better no run than a run whose profile is lost.
pub struct Report {
    directory: PathBuf,
    json: File,
}

/// The flame graphs that there are, in words and as SVG.
pub type Graphs = Vec<(&'static Column, String)>;

impl Report {
    pub fn open(directory: &Path) -> Result<Report> {
        let doing = || format!("cannot write the profile to {}", directory.display());
        fs::create_dir_all(directory).context(doing())?;
        let json = File::create(directory.join("profile.json")).context(doing())?;
        let directory = directory.to_owned();
        Ok(Report { directory, json })
    }

    /// `json` is the profile, `samples` all that is known of its call stacks. `page` makes a page, if there is to be one.
    pub fn write(
        mut self,
        json: &str,
        samples: &Samples,
        page: impl FnOnce(&Graphs) -> Option<String>,
    ) -> Result<()> {
        let doing = format!("cannot write the profile to {}", self.directory.display());
        let path = |name: &str| self.directory.join(name);
        // First: it may have been read from here (--open), and the others can be made of it.
        self.json.write_all(json.as_bytes()).context(&doing)?;
        // Those of an earlier run must not remain.
        for column in &COLUMNS {
            for kind in ["svg", "folded"] {
                let _ = fs::remove_file(path(&format!("{}.{kind}", column.name)));
            }
        }
        let _ = fs::remove_file(path(PAGE));
        let mut graphs = Vec::new();
        for (index, column) in samples.times() {
            let lines = samples.folded(index);
            let Some(svg) = flame_graph(&lines, column.title)? else {
                continue;
            };
            let folded = lines.join("\n") + "\n";
            fs::write(path(&format!("{}.folded", column.name)), folded).context(&doing)?;
            fs::write(path(&format!("{}.svg", column.name)), &svg).context(&doing)?;
            graphs.push((column, svg));
        }
        fs::write(path("profile.pb.gz"), pprof(samples)?).context(&doing)?;
        fs::write(path("perfetto.json"), perfetto(samples)).context(&doing)?;
        if let Some(page) = page(&graphs) {
            fs::write(path(PAGE), page).context(doing)?;
        }
        Ok(())
    }
}
