// SPDX-License-Identifier: MIT
//! Several experiments in one directory: the figures of the paper, or the scenes of a file.
//!
//! Every experiment keeps its record in a file of its own, written anew after every run. A later call with the same plan reads
//! them and runs what is missing, so an interruption, even a kill, costs one run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use flexguard_launch::attach::Attachment;
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::names;
use flexguard_launch::output;
use flexguard_launch::prefix::Prefix;
use flexguard_launch::signals;

use crate::claim::{self, Claim, Judged};
use crate::document::Document;
use crate::experiment::Experiment;
use crate::html;
use crate::pipeline::{self, write_plots};
use crate::plot;
use crate::progress::Progress;
use crate::session::{self, Session};
use crate::sink::{self, Sink};

mod origins;

/// What to do with the experiments.
#[derive(Debug)]
pub struct Wanted {
    /// Where everything goes.
    pub output: PathBuf,
    /// Start over instead of continuing what the directory has begun.
    pub fresh: bool,
    /// These experiments only.
    pub only: Vec<String>,
    /// Show what would run, and how long it takes.
    pub plan: bool,
}

pub struct Suite {
    pub title: String,
    pub experiments: Vec<Experiment>,
    pub claims: Vec<Claim>,
    /// Why something is not measured here.
    pub left_out: Vec<String>,
}

pub fn run(prefix: &Prefix, mut suite: Suite, wanted: &Wanted) -> Result<Status> {
    let others = choose(&mut suite.experiments, &wanted.only)?;
    for experiment in &mut suite.experiments {
        experiment.workload.prepare(prefix)?;
    }
    if wanted.plan {
        output::print(&show(&suite))?;
        return Ok(Status::Exited(0));
    }
    let dir = &wanted.output;
    sink::directory(dir)?;
    let _lock = lock(dir)?;
    if wanted.fresh {
        forget(dir, &suite.experiments)?;
    }
    signals::hold()?;
    let (recorded, mut unreadable) = recorded(dir, &others);
    let begun = begun(dir, &mut suite.experiments, &mut unreadable)?;
    for failure in &unreadable {
        output::note(&format!("flexguard: left out: {failure}\n"));
    }
    let told = |failure: &Failure| format!("{failure} (it stays; --fresh measures anew)");
    suite.left_out.extend(unreadable.iter().map(told));
    let ids = suite.experiments.iter().map(|e| e.id.as_str());
    let known = ids
        .zip(&begun)
        .filter_map(|(id, d)| Some((id, d.as_ref()?)));
    let known = known.chain(recorded.iter().map(|(id, d)| (id.as_str(), d)));
    let here = suite.experiments.first().map(|e| e.workload.as_ref());
    let here = here.map(|workload| session::origin(workload, prefix));
    let notes = here.map_or_else(Vec::new, |here| origins::notes(&here, dir, known));
    all_fit(dir, prefix, &suite.experiments, &begun)?;
    for note in notes {
        output::note(&format!("flexguard: {note}\n"));
    }
    let (documents, interrupted) = measure(dir, prefix, &suite.experiments, begun)?;
    let judged = judge(dir, &suite, &documents, &recorded)?;
    publish(dir, &documents, &judged, &suite.title)?;
    output::print(&conclusion(dir, &documents, &suite.left_out, &judged))?;
    documents.iter().for_each(pipeline::tell_failures);
    if interrupted.is_some() {
        output::note("flexguard: interrupted; run the same command again to continue\n");
    }
    let failed = !unreadable.is_empty() || documents.iter().any(|d| !d.failures.is_empty());
    Ok(match interrupted {
        Some(signal) => Status::Signaled(signal),
        None => Status::Exited(u8::from(failed)),
    })
}

/// The claims' verdicts, also as files: of what was asked for, and of what the directory has a record of.
fn judge(
    dir: &Path,
    suite: &Suite,
    documents: &[Document],
    recorded: &[(String, Document)],
) -> Result<Vec<Judged>> {
    let ids = suite.experiments.iter().map(|e| e.id.clone());
    let recorded = recorded.iter().map(|(id, document)| (id.clone(), document));
    let judgeable = |c: &&Claim| {
        let mut ids = suite.experiments.iter().map(|e| &e.id);
        ids.any(|id| c.is_of(id)) || recorded.clone().any(|(id, _)| c.is_of(&id))
    };
    let claims: Vec<Claim> = suite.claims.iter().filter(judgeable).cloned().collect();
    let measured: Vec<(String, &Document)> = ids.zip(documents).chain(recorded.clone()).collect();
    let judged = claim::judge(&claims, &measured);
    if let (Some(first), false) = (documents.first(), judged.is_empty()) {
        let table = claim::table(&suite.title, &first.machine, &judged);
        Sink::open(&dir.join("claims.md"))?.write(&table)?;
        Sink::open(&dir.join("claims.json"))?.write(&output::to_json(&judged)?)?;
    }
    Ok(judged)
}

/// What the directory has of experiments that were not asked for this time, and why some of it cannot be read.
fn recorded(dir: &Path, others: &[Experiment]) -> (Vec<(String, Document)>, Vec<Failure>) {
    let (mut documents, mut unreadable) = (Vec::new(), Vec::new());
    for experiment in others.iter().filter(|e| record(dir, e).is_file()) {
        match Document::read(&record(dir, experiment)) {
            Ok(document) => documents.push((experiment.id.clone(), document)),
            Err(failure) => unreadable.push(failure),
        }
    }
    (documents, unreadable)
}

/// Leaves those that are asked for; returns the others.
fn choose(experiments: &mut Vec<Experiment>, only: &[String]) -> Result<Vec<Experiment>> {
    let ids: Vec<&str> = experiments.iter().map(|e| e.id.as_str()).collect();
    if let Some(unknown) = only.iter().find(|o| !ids.contains(&o.as_str())) {
        return Err(Failure::new(format_args!(
            "--only: there is no experiment called '{unknown}'"
        ))
        .advice(names::advice(unknown, &ids)));
    }
    let all = std::mem::take(experiments).into_iter();
    let (chosen, others) = all.partition(|e| only.is_empty() || only.contains(&e.id));
    *experiments = chosen;
    Ok(others)
}

/// Two at once would disturb each other, and overwrite each other's results.
fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(".lock");
    let file = File::create(&path).context(format_args!("cannot write {}", path.display()))?;
    file.try_lock().map_err(|_| {
        Failure::new(format_args!(
            "another `flexguard bench` works in {}",
            dir.display()
        ))
        .advice("wait for it, or give another directory with -o")
    })?;
    Ok(file)
}

fn record(dir: &Path, experiment: &Experiment) -> PathBuf {
    dir.join(format!("{}.json", experiment.id))
}

fn forget(dir: &Path, experiments: &[Experiment]) -> Result<()> {
    for experiment in experiments {
        let path = record(dir, experiment);
        match fs::remove_file(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.context(format_args!("cannot remove {}", path.display()))?,
        }
    }
    Ok(())
}

/// What the directory has of the experiments. One whose record cannot be read is not measured, and the others are; an
/// error if no other is left.
fn begun(
    dir: &Path,
    experiments: &mut Vec<Experiment>,
    unreadable: &mut Vec<Failure>,
) -> Result<Vec<Option<Document>>> {
    let mut documents = Vec::new();
    for experiment in std::mem::take(experiments) {
        let path = record(dir, &experiment);
        match path.is_file().then(|| Document::read(&path)).transpose() {
            Ok(document) => {
                documents.push(document);
                experiments.push(experiment);
            }
            Err(failure) => unreadable.push(failure),
        }
    }
    match unreadable.pop() {
        Some(failure) if experiments.is_empty() => Err(failure),
        last => {
            unreadable.extend(last);
            Ok(documents)
        }
    }
}

/// What was begun must fit before hours are spent on the rest.
fn all_fit(
    dir: &Path,
    prefix: &Prefix,
    experiments: &[Experiment],
    begun: &[Option<Document>],
) -> Result<()> {
    let absent = Attachment::none("not yet");
    for (e, old) in experiments.iter().zip(begun) {
        if let Some(old) = old {
            let new = session::begin(e.workload.as_ref(), &e.plan, prefix, &absent);
            fits(old, &new, &record(dir, e))?;
        }
    }
    Ok(())
}

fn measure(
    dir: &Path,
    prefix: &Prefix,
    experiments: &[Experiment],
    begun: Vec<Option<Document>>,
) -> Result<(Vec<Document>, Option<i32>)> {
    let all = experiments
        .iter()
        .flat_map(|e| Session::steps(e.workload.as_ref(), &e.plan));
    let progress = Progress::new(all.clone().count(), all.map(|s| s.1).sum());
    let mut documents = Vec::new();
    for (experiment, begun) in experiments.iter().zip(begun) {
        let (document, interrupted) = one(dir, prefix, experiment, begun, &progress)?;
        documents.push(document);
        if interrupted.is_some() {
            return Ok((documents, interrupted));
        }
        progress.ended(&experiment.id);
    }
    Ok((documents, None))
}

fn one(
    dir: &Path,
    prefix: &Prefix,
    experiment: &Experiment,
    begun: Option<Document>,
    progress: &Progress,
) -> Result<(Document, Option<i32>)> {
    let workload = experiment.workload.as_ref();
    let sink = Sink::open(&record(dir, experiment))?;
    let monitor = session::monitor(workload)?;
    let mut document = match begun {
        None => {
            let mut document = session::begin(workload, &experiment.plan, prefix, &monitor);
            document.title = experiment.title.clone();
            document.figures = experiment.figures.clone();
            if let Some(simulated) = workload.simulated() {
                document.mark(simulated);
            }
            if let Some(primary) = &experiment.primary {
                document.columns.retain(|c| c != primary);
                document.columns.insert(0, primary.clone());
                document.primary = primary.clone();
            }
            document
        }
        Some(mut document) => {
            // What failed may have been the machine's fault: it gets another chance.
            document.failures.clear();
            document.unavailable.clear();
            document.complete = false;
            document
        }
    };
    let interrupted = Session {
        workload,
        plan: &experiment.plan,
        monitor: &monitor,
        progress,
        handover: prefix.handover(),
        origin: session::origin(workload, prefix),
        keep: &|document| sink.keep(&document.to_line()?),
        enough: &|_| false,
    }
    .run(&mut document)?;
    document.load.end();
    document.analyse();
    sink.write(&output::to_json(&document)?)?;
    Ok((document, interrupted))
}

/// Rounds of different plans, builds or machines must not end up in one median.
fn fits(old: &Document, new: &Document, path: &Path) -> Result<()> {
    let entries = |d: &Document| -> Vec<(String, String, bool)> {
        let key = |e: &crate::document::Entry| (e.point.to_string(), e.subject.clone(), e.again);
        d.results.iter().map(key).collect()
    };
    let reasons = [
        ("it measured other settings", old.settings != new.settings),
        (
            "it measured other locks or points",
            entries(old) != entries(new),
        ),
        ("it had another number of rounds", old.rounds != new.rounds),
        (
            "the locks have been rebuilt since",
            old.build.fingerprint != new.build.fingerprint,
        ),
        (
            "it ran on another machine",
            !old.machine.is_same_hardware(&new.machine),
        ),
        (
            "it has rows of different builds, machines or kernels",
            !old.is_of_one_origin(),
        ),
        (
            "it ran on another kernel",
            old.machine.kernel != new.machine.kernel,
        ),
    ];
    match reasons.iter().find(|(_, differs)| *differs) {
        None => Ok(()),
        Some((reason, _)) => Err(Failure::new(format_args!(
            "cannot continue {}: {reason}",
            path.display()
        ))
        .advice("start over with --fresh, or give another directory with -o")),
    }
}

fn publish(dir: &Path, documents: &[Document], judged: &[Judged], title: &str) -> Result<()> {
    let plots = dir.join("plots");
    sink::directory(&plots)?;
    for document in documents {
        write_plots(document, &plots, "")?;
    }
    let all: Vec<&Document> = documents.iter().collect();
    Sink::open(&dir.join("report.html"))?.write(&html::page(&all, judged, Some(title))?)
}

fn conclusion(
    dir: &Path,
    documents: &[Document],
    left_out: &[String],
    judged: &[Judged],
) -> String {
    let mut text = String::new();
    for document in documents {
        text.push_str(&format!("{}\n", document.title));
        for verdict in &document.verdicts {
            let at = if verdict.point.0.is_empty() {
                String::new()
            } else {
                format!("{}: ", verdict.point)
            };
            text.push_str(&format!("  {at}{}\n", verdict.text));
        }
        for missing in &document.unavailable {
            text.push_str(&format!(
                "  cannot run here: {}: {}\n",
                missing.subject, missing.reason
            ));
        }
        for title in plot::without_data(document) {
            text.push_str(&format!("  no data for the figure: {title}\n"));
        }
        if !document.complete {
            text.push_str("  INCOMPLETE\n");
        }
    }
    for claim in judged {
        text.push_str(&format!("{claim}\n"));
    }
    for reason in left_out {
        text.push_str(&format!("left out: {reason}\n"));
    }
    text.push_str(&format!(
        "\n{0}/report.html has everything; {0}/plots the figures, {0}/*.json the data\n",
        dir.display()
    ));
    text
}

fn show(suite: &Suite) -> String {
    let mut text = String::new();
    let mut total = 0.0;
    for experiment in &suite.experiments {
        let (runs, seconds) = experiment.runs();
        total += seconds;
        text.push_str(&format!(
            "{:18} {runs:5} runs {:>6}  {}\n",
            experiment.id,
            span(seconds),
            experiment.title
        ));
    }
    text.push_str(&format!("in all about {}\n", span(total)));
    for reason in &suite.left_out {
        text.push_str(&format!("left out: {reason}\n"));
    }
    text
}

fn span(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
