// SPDX-License-Identifier: MIT
//! One benchmark from its options to its results, whatever the workload.

use std::path::{Path, PathBuf};

use super::document::Document;
use super::options::{Output, Plan};
use super::progress::Progress;
use super::session::{self, Session};
use super::sink::{self, Sink};
use super::workload::Workload;
use super::{export, html, plot, prose, table};
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::names;
use flexguard_launch::output;
use flexguard_launch::prefix::Prefix;
use flexguard_launch::signals;

/// Measures `workload` as `plan` says, and puts the results where `output` says.
pub fn run(mut workload: impl Workload, plan: &Plan, output: &Output) -> Result<Status> {
    let prefix = Prefix::find()?;
    workload.prepare(&prefix)?;
    let results = Results::open(output, &workload)?;
    let following = Following {
        keep: &|document| results.keep(document),
        enough: &|_| false,
        budget: None,
    };
    let (mut document, interrupted) = measure(&workload, plan, &prefix, &following)?;
    results.write(&mut document)?;
    tell_failures(&document);
    Ok(status(&document, interrupted))
}

/// What follows a measurement.
pub struct Following<'a> {
    /// Called after every run.
    pub keep: &'a dyn Fn(&Document) -> Result<()>,
    /// Called before every round: none is needed any more.
    pub enough: &'a dyn Fn(&Document) -> bool,
    /// The rounds of the plan are a limit: this is how many seconds they may take, which is what the progress shows.
    pub budget: Option<f64>,
}

/// Runs a workload that is prepared; Some: the signal that interrupted it.
pub fn measure(
    workload: &dyn Workload,
    plan: &Plan,
    prefix: &Prefix,
    following: &Following,
) -> Result<(Document, Option<i32>)> {
    signals::hold()?;
    let monitor = session::monitor(workload)?;
    let mut document = session::begin(workload, plan, prefix, &monitor);
    let steps = Session::steps(workload, plan);
    let progress = match following.budget {
        Some(budget) => Progress::within(budget),
        None => Progress::new(steps.len(), steps.iter().map(|s| s.1).sum()),
    };
    let session = Session {
        workload,
        plan,
        monitor: &monitor,
        progress: &progress,
        handover: prefix.handover(),
        origin: session::origin(workload, prefix),
        keep: following.keep,
        enough: following.enough,
    };
    let interrupted = session.run(&mut document)?;
    drop(progress);
    document.load.end();
    document.analyse();
    Ok((document, interrupted))
}

/// By the signal that interrupted it, else by whether a run failed.
pub fn status(document: &Document, interrupted: Option<i32>) -> Status {
    match interrupted {
        Some(signal) => Status::Signaled(signal),
        None => Status::Exited(u8::from(!document.failures.is_empty())),
    }
}

/// Each reason once, with the first run that it stopped and how many others.
pub fn tell_failures(document: &Document) {
    let mut told: Vec<&str> = Vec::new();
    for failed in &document.failures {
        if told.contains(&failed.reason.as_str()) {
            continue;
        }
        told.push(&failed.reason);
        let others = document
            .failures
            .iter()
            .filter(|f| f.reason == failed.reason)
            .count()
            - 1;
        let at = if failed.point.0.is_empty() {
            String::new()
        } else {
            format!(", {}", failed.point)
        };
        let more = if others > 0 {
            format!(" (and {others} others)")
        } else {
            String::new()
        };
        output::note(&format!(
            "flexguard: round {}: {}{at}{more}: {}\n",
            failed.round + 1,
            failed.subject,
            failed.reason
        ));
    }
}

/// Where a benchmark's results go; all of it known to be writable.
struct Results {
    json: bool,
    columns: Vec<String>,
    file: Option<Sink>,
    html: Option<Sink>,
    export: Option<(export::Format, Sink)>,
    plots: Option<PathBuf>,
}

impl Results {
    fn open(output: &Output, workload: &dyn Workload) -> Result<Self> {
        if let Some(plots) = &output.plots {
            sink::directory(plots)?;
        }
        Ok(Self {
            json: output.json,
            columns: columns(&output.columns, workload)?,
            file: output.output.as_deref().map(Sink::open).transpose()?,
            html: output.html.as_deref().map(Sink::open).transpose()?,
            export: output.export.as_deref().map(exported).transpose()?,
            plots: output.plots.clone(),
        })
    }

    fn keep(&self, document: &Document) -> Result<()> {
        match &self.file {
            Some(file) => file.keep(&document.to_line()?),
            None => Ok(()),
        }
    }

    /// The files come first: a closed stdout must not cost the results.
    fn write(&self, document: &mut Document) -> Result<()> {
        document.analyse();
        document.columns = self.columns.clone();
        if let Some(file) = &self.file {
            file.write(&output::to_json(document)?)?;
        }
        if let Some(html) = &self.html {
            html.write(&html::page(&[document], &[], None)?)?;
        }
        if let Some((format, file)) = &self.export {
            file.write(&format.write(document))?;
        }
        if let Some(dir) = &self.plots {
            write_plots(document, dir, "")?;
        }
        if self.json {
            output::print_json(document)
        } else {
            output::print(&show(document))
        }
    }
}

pub fn exported(path: &Path) -> Result<(export::Format, Sink)> {
    Ok((export::Format::of(path)?, Sink::open(path)?))
}

/// Every figure as SVG and PNG; their names begin with `prefix`.
pub fn write_plots(document: &Document, dir: &Path, prefix: &str) -> Result<()> {
    for figure in plot::figures(document) {
        let drawing = format!("cannot draw '{}'", figure.title);
        let path = |kind: &str| dir.join(format!("{prefix}{}.{kind}", figure.id));
        let svg = plot::svg_file(&figure).context(&drawing)?;
        Sink::open(&path("svg"))?.write(&svg)?;
        let png = plot::png(&figure).context(&drawing)?;
        Sink::open(&path("png"))?.write_bytes(&png)?;
    }
    Ok(())
}

/// The measures of `--columns`, or the workload's own choice.
fn columns(names: &[String], workload: &dyn Workload) -> Result<Vec<String>> {
    let mut known: Vec<String> = workload.measures().into_iter().map(|m| m.name).collect();
    known.insert(0, "ratio".into());
    if names.is_empty() {
        return Ok(workload.columns());
    }
    if names == ["all"] {
        return Ok(known);
    }
    match names.iter().find(|n| !known.contains(n)) {
        None => Ok(names.to_vec()),
        Some(name) => Err(Failure::new(format_args!(
            "--columns: this benchmark has no measure called '{name}'"
        ))
        .advice(format_args!(
            "{}its measures are: all, {}",
            names::guess(name, known.iter().map(String::as_str)),
            known.join(", ")
        ))),
    }
}

/// Everything that goes to the terminal.
fn show(document: &Document) -> String {
    let mut text = format!("{}\n\n{}", heading(document), table::of(document));
    if !document.verdicts.is_empty() {
        text.push('\n');
    }
    for verdict in &document.verdicts {
        if verdict.point.0.is_empty() {
            text.push_str(&format!("{}\n", verdict.text));
        } else {
            text.push_str(&format!("{}: {}\n", verdict.point, verdict.text));
        }
    }
    if document.subjects.len() > 1 || document.noise.is_some() {
        text.push_str(&format!("{}\n", prose::noise(document)));
    }
    for line in prose::places(document) {
        text.push_str(&format!("{line}\n"));
    }
    for missing in &document.unavailable {
        text.push_str(&format!(
            "cannot run here: {}: {}\n",
            missing.subject, missing.reason
        ));
    }
    if !document.complete {
        text.push_str("INCOMPLETE: some rounds are missing.\n");
    }
    text
}

fn heading(document: &Document) -> String {
    if let Some(simulated) = &document.machine.simulated {
        return format!(
            "{} | {} hardware contexts | simulated, not measured: a round is a seed | monitor {}",
            simulated.describe(),
            simulated.hardware_contexts,
            document.monitor.description,
        );
    }
    let machine = &document.machine;
    let load = document
        .load
        .before
        .map_or("?".into(), |l| format!("{:.2}", l[0]));
    let busy = if document.load.is_disturbed() {
        " (busy: other work disturbs the measurement)"
    } else {
        ""
    };
    format!(
        "{} | {} hardware contexts | Linux {} | load {load}{busy} | monitor {}",
        machine.cpu.as_deref().unwrap_or("unknown CPU"),
        machine.hardware_contexts,
        machine.kernel.as_deref().unwrap_or("?"),
        document.monitor.description,
    )
}
