// SPDX-License-Identifier: MIT
//! `flexguard bench paper`: the paper's figures on this machine.
//!
//! Every experiment keeps its record in a file of its own, written anew after every run. A later call with the same plan reads
//! them and runs what is missing, so an interruption, even a kill, costs one run.

mod plan;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::document::Document;
use super::html;
use super::pipeline::{self, write_plots};
use super::progress::Progress;
use super::session::{self, Session};
use super::sink::{self, Sink};
use super::worker;
use flexguard_launch::attach::Attachment;
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::output;
use flexguard_launch::prefix::Prefix;
use flexguard_launch::signals;

use plan::{Experiment, Size};

#[derive(Debug)]
pub struct Paper {
    /// Small: at most ten minutes on two hardware contexts
    pub quick: bool,

    /// Where everything goes
    pub output: PathBuf,

    /// Start over instead of continuing what DIR has begun
    pub fresh: bool,

    /// These locks instead of the paper's
    pub locks: Vec<String>,

    /// These experiments only; --plan lists them
    pub only: Vec<String>,

    /// Show what would run, and how long it takes
    pub plan: bool,

    /// Seconds of each run of a microbenchmark, instead of the plan's
    pub seconds: Option<f64>,

    /// Rounds, instead of the plan's
    pub rounds: Option<u32>,
}

pub fn run(args: Paper) -> Result<Status> {
    let prefix = Prefix::find()?;
    let known = worker::locks(&prefix, &worker::find(&prefix)?)?;
    let size = Size::here(args.quick, args.seconds, args.rounds);
    let (locks, mut left_out) = match &args.locks[..] {
        [] => plan::papers_locks(&known),
        names => (worker::resolve(&known, names)?, Vec::new()),
    };
    let (mut experiments, more) = plan::experiments(&size, &locks);
    left_out.extend(more);
    choose(&mut experiments, &args.only)?;
    for experiment in &mut experiments {
        experiment.workload.prepare(&prefix)?;
    }
    if args.plan {
        output::print(&plan::show(&experiments, &left_out))?;
        return Ok(Status::Exited(0));
    }
    sink::directory(&args.output)?;
    let _lock = lock(&args.output)?;
    if args.fresh {
        forget(&args.output, &experiments)?;
    }
    signals::hold()?;
    let (documents, interrupted) = measure(&args.output, &prefix, &experiments)?;
    publish(&args.output, &documents)?;
    output::print(&conclusion(&args.output, &documents, &left_out))?;
    documents.iter().for_each(pipeline::tell_failures);
    if interrupted.is_some() {
        output::note("flexguard: interrupted; run the same command again to continue\n");
    }
    let failed = documents.iter().any(|d| !d.failures.is_empty());
    Ok(match interrupted {
        Some(signal) => Status::Signaled(signal),
        None => Status::Exited(u8::from(failed)),
    })
}

fn choose(experiments: &mut Vec<Experiment>, only: &[String]) -> Result<()> {
    let ids: Vec<&str> = experiments.iter().map(|e| e.id).collect();
    if let Some(unknown) = only.iter().find(|o| !ids.contains(&o.as_str())) {
        return Err(Failure::new(format_args!(
            "--only: there is no experiment called '{unknown}'"
        ))
        .advice(format_args!("there are: {}", ids.join(", "))));
    }
    experiments.retain(|e| only.is_empty() || only.iter().any(|o| o == e.id));
    Ok(())
}

/// Two at once would disturb each other, and overwrite each other's results.
fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(".lock");
    let file = File::create(&path).context(format_args!("cannot write {}", path.display()))?;
    file.try_lock().map_err(|_| {
        Failure::new(format_args!(
            "another `flexguard bench paper` is running in {}",
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

fn measure(
    dir: &Path,
    prefix: &Prefix,
    experiments: &[Experiment],
) -> Result<(Vec<Document>, Option<i32>)> {
    // What was begun must fit before hours are spent on the rest.
    let absent = Attachment::none("not yet");
    let begun = experiments
        .iter()
        .map(|e| {
            let path = record(dir, e);
            let old = path.is_file().then(|| Document::read(&path)).transpose()?;
            if let Some(old) = &old {
                let new = session::begin(e.workload.as_ref(), &e.plan, prefix, &absent);
                fits(old, &new, &path)?;
            }
            Ok(old)
        })
        .collect::<Result<Vec<_>>>()?;
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
            if let Some(primary) = experiment.primary {
                document.columns.retain(|c| c != primary);
                document.columns.insert(0, primary.into());
                document.primary = primary.into();
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
        keep: &|document| sink.keep(&document.to_line()?),
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
        let key = |e: &super::document::Entry| (e.point.to_string(), e.subject.clone(), e.again);
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

fn publish(dir: &Path, documents: &[Document]) -> Result<()> {
    let plots = dir.join("plots");
    sink::directory(&plots)?;
    for document in documents {
        write_plots(document, &plots, "")?;
    }
    let all: Vec<&Document> = documents.iter().collect();
    Sink::open(&dir.join("report.html"))?.write(&html::page(&all)?)
}

fn conclusion(dir: &Path, documents: &[Document], left_out: &[String]) -> String {
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
        if !document.complete {
            text.push_str("  INCOMPLETE\n");
        }
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
