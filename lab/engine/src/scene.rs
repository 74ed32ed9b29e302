// SPDX-License-Identifier: MIT
//! Scenes: the experiments and claims that a file in TOML holds (its format: scene/file.rs), checked before anything runs.

mod file;
mod guests;
mod sizes;

use std::fs;
use std::path::{Path, PathBuf};

use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::names;
use flexguard_launch::prefix::Prefix;
use regex_lite::Regex;
use toml::{Spanned, Value};
use which::which;

use crate::catalogue::{Catalogue, Choice, Kind};
use crate::claim::Claim;
use crate::contention::Contention;
use crate::exec::Exec;
use crate::experiment::Experiment;
use crate::figure::FigureSpec;
use crate::micro::Micro;
use crate::options::{Count, Plan};
use crate::overhead::Overhead;
use crate::presets::Preset;
use crate::simulated::{self, Simulated};
use crate::subject::Subject;
use crate::suite::{self, Suite, Wanted};
use crate::workload::Workload;
use file::{Checked, File, Scene, Wrong, plain};
pub use sizes::Sizes;

/// The format of scene files that this crate understands.
const VERSION: i64 = 1;

/// The scenes of a file, ready to be measured.
pub struct Scenes {
    pub title: String,
    pub experiments: Vec<Experiment>,
    pub claims: Vec<Claim>,
    /// Scenes that cannot be measured here, and what is missing.
    pub missing: Vec<(String, String)>,
}

/// What `flexguard bench scenes` is asked for.
#[derive(Debug)]
pub struct Request {
    /// A path, or the name of an installed file.
    pub name: String,
    pub wanted: Wanted,
    /// Rounds and seconds of each run, instead of the file's.
    pub rounds: Option<u32>,
    pub seconds: Option<f64>,
    /// On a simulated machine of this name, or file.
    pub machine: Option<String>,
}

pub fn run(request: Request) -> Result<Status> {
    let prefix = Prefix::find()?;
    let path = find(&prefix, &request.name)?;
    let sizes = Sizes {
        rounds: request.rounds,
        seconds: request.seconds,
        simulated: request
            .machine
            .as_deref()
            .map(|name| Simulated::find(&prefix, name))
            .transpose()?,
        ..Sizes::default()
    };
    let mut scenes = read(&path, &Catalogue::read(&prefix)?, &sizes)?;
    let left_out = scenes.leave_out(&request.wanted.only)?;
    if scenes.experiments.is_empty() && !left_out.is_empty() && !request.wanted.plan {
        return Err(Failure::new("no scene can be measured").advice(left_out.join(", ")));
    }
    let suite = Suite {
        title: scenes.title,
        experiments: scenes.experiments,
        claims: scenes.claims,
        left_out,
    };
    suite::run(&prefix, suite, &request.wanted)
}

impl Scenes {
    /// Takes away the scenes whose program or kernels are missing, and says which. None may be one of `only`; if
    /// only some are asked for, the others are not spoken of.
    pub fn leave_out(&mut self, only: &[String]) -> Result<Vec<String>> {
        let missing = std::mem::take(&mut self.missing);
        self.experiments
            .retain(|e| !missing.iter().any(|(scene, _)| *scene == e.id));
        if let Some((scene, reason)) = missing.iter().find(|(scene, _)| only.contains(scene)) {
            let failure = format_args!("--only: '{scene}' cannot be measured here");
            return Err(Failure::new(failure).advice(reason));
        }
        let all = missing.into_iter().filter(|_| only.is_empty());
        Ok(all
            .map(|(scene, reason)| format!("{scene}: {reason}"))
            .collect())
    }
}

/// The file that `name` stands for: a path, or the name of a file of share/flexguard/scenes.
pub fn find(prefix: &Prefix, name: &str) -> Result<PathBuf> {
    if name.contains('/') || name.ends_with(".toml") {
        return Ok(PathBuf::from(name));
    }
    let installed = prefix.scenes().join(format!("{name}.toml"));
    if installed.is_file() {
        return Ok(installed);
    }
    let mut present: Vec<String> = fs::read_dir(prefix.scenes())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| {
            e.file_name()
                .to_str()?
                .strip_suffix(".toml")
                .map(Into::into)
        })
        .collect();
    present.sort();
    let known = match present.is_empty() {
        true => "none are installed (`make workers` does)".into(),
        false => names::advice(name, &present),
    };
    Err(
        Failure::new(format_args!("there are no scenes called '{name}'"))
            .advice(format_args!("{known}; or give the path of a file")),
    )
}

pub fn read(path: &Path, catalogue: &Catalogue, sizes: &Sizes) -> Result<Scenes> {
    let text = fs::read_to_string(path).context(format_args!("cannot read {}", path.display()))?;
    parse(&text, catalogue, sizes).map_err(|wrong| wrong.in_file(path, &text))
}

fn parse(text: &str, catalogue: &Catalogue, sizes: &Sizes) -> Checked<Scenes> {
    let file: File = toml::from_str(text).map_err(|e| Wrong {
        at: e.span().map_or(0, |s| s.start),
        what: e.message().trim().to_owned(),
        allowed: String::new(),
    })?;
    if *file.version.get_ref() != VERSION {
        let what = format!("version {} of the format", file.version.get_ref());
        return Err(Wrong::at(
            &file.version,
            what,
            format!("this program reads version {VERSION}"),
        ));
    }
    let mut experiments: Vec<Experiment> = Vec::new();
    let (mut small, mut missing) = (Vec::new(), Vec::new());
    for scene in &file.scenes {
        let name = &scene.get_ref().name;
        check_name(name, &experiments)?;
        experiments.push(experiment(scene, catalogue, &sizes.of_file())?);
        if sizes.quick && scene.get_ref().full {
            continue;
        }
        let quick = scene.get_ref().quick.or(&file.quick);
        let wanted = sizes.applied(scene, &quick);
        small.push(experiment(&wanted, catalogue, &sizes.or(&quick))?);
        let reason = match &sizes.simulated {
            Some(_) => not_simulated(scene.get_ref()),
            None => absent(scene.get_ref()).or_else(|| guests::absent(scene.get_ref())),
        };
        missing.extend(reason.map(|reason| (name.get_ref().clone(), reason)));
    }
    let claims = claims_of(&file, &experiments)?;
    Ok(Scenes {
        title: file.title,
        claims: claims
            .into_iter()
            .filter_map(|c| c.narrowed(&small))
            .collect(),
        experiments: small,
        missing,
    })
}

/// It is the name of a file, too.
fn check_name(name: &Spanned<String>, experiments: &[Experiment]) -> Checked<()> {
    let letters = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let text = name.get_ref();
    if text.is_empty() || !text.chars().all(letters) {
        let what = format!("'{text}' cannot name a file");
        return Err(Wrong::at(name, what, "letters, digits, '-', '_' and '.'"));
    }
    if experiments.iter().any(|e| e.id == *text) {
        return Err(Wrong::at(name, format!("a second scene '{text}'"), ""));
    }
    Ok(())
}

fn claims_of(file: &File, experiments: &[Experiment]) -> Checked<Vec<Claim>> {
    let known: Vec<&str> = experiments.iter().map(|e| e.id.as_str()).collect();
    let mut claims = Vec::new();
    for claim in &file.claims {
        let mut explained = claim.get_ref().clone();
        explained
            .explain(file.reasons.iter())
            .map_err(|what| Wrong::at(claim, what, "the names of this file's [[reason]] tables"))?;
        for one in explained.each() {
            let told = || format!("scenes here: {}", known.join(", "));
            one.check(experiments)
                .map_err(|what| Wrong::at(claim, what, told()))?;
            claims.push(one);
        }
    }
    Ok(claims)
}

fn experiment(scene: &Spanned<Scene>, catalogue: &Catalogue, sizes: &Sizes) -> Checked<Experiment> {
    let s = scene.get_ref();
    let rounds = rounds_of(s)?;
    let mut subjects: Vec<Subject> = s.locks.iter().map(|l| Subject::of(l)).collect();
    subjects.extend(s.subjects.iter().cloned());
    if subjects.is_empty() && !s.overhead {
        return Err(Wrong::at(
            scene,
            "the scene names no lock",
            "locks = [\"posix\", ...] or [[scene.subject]]",
        ));
    }
    let workload: Box<dyn Workload> = match (&s.workload, &s.program, &s.preset, &s.guests) {
        (None, None, None, None) if s.overhead => Box::new(overhead(s, sizes)?),
        (Some(name), None, None, None) => Box::new(micro(s, name, subjects, catalogue, sizes)?),
        (None, Some(_), None, None) | (None, None, Some(_), None) => {
            Box::new(program(scene, subjects, catalogue, sizes)?)
        }
        (None, None, None, Some(load)) => Box::new(guests::guests(scene, load, subjects, sizes)?),
        _ => {
            let allowed = "exactly one of workload, program, preset and guests";
            return Err(Wrong::at(
                scene,
                "the scene does not say what runs",
                allowed,
            ));
        }
    };
    let known: Vec<String> = workload.measures().into_iter().map(|m| m.name).collect();
    let shown = s.figures.iter().map(|figure| &figure.measure);
    let parts = s.figures.iter().flat_map(|figure| &figure.parts);
    let mut named = s
        .primary
        .iter()
        .chain(shown)
        .chain(parts.map(|part| &part.measure));
    if let Some(name) = named.find(|name| !known.contains(name)) {
        let what = format!("primary: nothing called '{name}' is measured");
        return Err(Wrong::at(scene, what, names::advice(name, &known)));
    }
    let name = s.name.get_ref();
    Ok(Experiment {
        id: name.clone(),
        title: s.title.clone().unwrap_or_else(|| name.clone()),
        figures: figures(s, workload.as_ref()),
        workload,
        plan: Plan {
            rounds: sizes.rounds.unwrap_or(rounds),
            warmup_rounds: 0,
            noise: s.noise,
            tell: s.tell,
        },
        primary: s.primary.clone(),
    })
}

/// Their names are those of files, which all scenes share a directory for.
fn figures(scene: &Scene, workload: &dyn Workload) -> Vec<FigureSpec> {
    if !scene.figures.is_empty() {
        return scene.figures.clone();
    }
    let named = |f: FigureSpec| FigureSpec {
        id: format!("{}-{}", scene.name.get_ref(), f.id),
        ..f
    };
    workload.figures().into_iter().map(named).collect()
}

fn overhead(scene: &Scene, sizes: &Sizes) -> Checked<Overhead> {
    let given = scene.seconds.as_ref().map(plain).transpose()?;
    let seconds = sizes.seconds.or(given.map(|values| values[0]));
    Ok(Overhead::of((1000.0 * seconds.unwrap_or(1.0)) as u32))
}

fn rounds_of(scene: &Scene) -> Checked<u32> {
    let Some(given) = &scene.rounds else {
        return Ok(7);
    };
    let rounds = u32::try_from(*given.get_ref()).ok();
    rounds.filter(|n| (1..=1000).contains(n)).ok_or_else(|| {
        Wrong::at(
            given,
            "rounds is out of range",
            "a whole number from 1 to 1000",
        )
    })
}

fn micro(
    s: &Scene,
    name: &Spanned<String>,
    subjects: Vec<Subject>,
    catalogue: &Catalogue,
    sizes: &Sizes,
) -> Checked<Micro> {
    let workload = catalogue
        .workload(name.get_ref())
        .map_err(|e| Wrong::at(name, e.to_string(), e.find_advice().unwrap_or_default()))?;
    let of_round = |name: &str, value: &Option<Spanned<Value>>, usual: f64| {
        let choice = catalogue.of_round(name);
        match (value, choice) {
            (Some(value), Some(choice)) => numbers(value.get_ref(), choice, sizes.contexts())
                .map_err(|what| Wrong::at(value, format!("{name}: {what}"), allowed(choice))),
            _ => Ok(vec![usual]),
        }
    };
    let whole = |values: Vec<f64>| values.into_iter().map(|v| v as u32).collect();
    let threads = of_round("threads", &s.threads, sizes.contexts() as f64)?;
    let threads = threads.into_iter().map(|n| n.max(s.least_threads.into()));
    let mut contention = Contention::of(&[], whole(threads.collect()), 1.0, 0.1);
    contention.subjects = subjects;
    contention.demanding = false;
    contention.interposed = s.interposed;
    contention.seconds = of_round("seconds", &s.seconds, 1.0)?;
    contention.warmup = match sizes.warmup {
        Some(warmup) => warmup,
        None => of_round("warmup", &s.warmup, 0.1)?[0],
    };
    if sizes.simulated.is_some() {
        contention.seconds = vec![simulated::SECONDS];
        contention.warmup = sizes.warmup.unwrap_or(simulated::WARMUP);
        contention.simulated = sizes.simulated.clone();
    }
    if let Some(seconds) = sizes.seconds {
        contention.seconds = vec![seconds];
    }
    contention.preparation = s.preparation.max(0.0);
    contention.hogs = whole(of_round("hogs", &s.hogs, 0.0)?);
    contention.trace_us = of_round("trace-us", &s.trace_us, 0.0)?[0] as u64;
    if s.nice.is_some() {
        let levels = of_round("nice", &s.nice, 0.0)?;
        contention.nice = levels.into_iter().map(|l| l as i32).collect();
    }
    let mut micro = Micro::new(workload, contention);
    for (key, value) in &s.options {
        let Some(choice) = workload.options.iter().find(|c| c.name == *key) else {
            let names: Vec<&str> = workload.options.iter().map(|c| c.name.as_str()).collect();
            let what = format!("{} has no option '{key}'", workload.name);
            return Err(Wrong::at(value, what, names::advice(key, &names)));
        };
        let values = numbers(value.get_ref(), choice, sizes.contexts())
            .map_err(|what| Wrong::at(value, format!("{key}: {what}"), allowed(choice)))?;
        micro = micro
            .set(&choice.variable(), values)
            .map_err(|e| Wrong::at(value, e.to_string(), ""))?;
    }
    Ok(micro)
}

fn allowed(choice: &Choice) -> String {
    format!("{}, or a list of such: {}", choice.allowed(), choice.brief)
}

/// A value, or a list of values; threads and hogs also as `"2x"`.
fn numbers(
    value: &Value,
    choice: &Choice,
    contexts: usize,
) -> std::result::Result<Vec<f64>, String> {
    let one = |value: &Value| match value {
        Value::Integer(n) => choice.check(*n as f64),
        Value::Float(x) => choice.check(*x),
        Value::Boolean(on) if choice.kind == Kind::Flag => Ok(f64::from(u8::from(*on))),
        Value::String(text) if ["threads", "hogs"].contains(&choice.name.as_str()) => {
            Count::parse(text, choice.min as u32, choice.max as u32)?
                .on(contexts)
                .map(f64::from)
        }
        _ => Err(format!("not {}", choice.allowed())),
    };
    match value {
        Value::Array(values) if values.is_empty() => Err("an empty list".into()),
        Value::Array(values) => values.iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}

/// Why a scene needs hardware.
fn not_simulated(scene: &Scene) -> Option<String> {
    let program = scene.program.is_some() || scene.preset.is_some() || scene.overhead;
    match (program, scene.guests.is_some()) {
        (true, _) => Some("a program does not run on a simulated machine".into()),
        (_, true) => Some("guest kernels do not run on a simulated machine".into()),
        _ => None,
    }
}

/// That the program of a scene is not installed, or that the monitor's cost cannot be measured.
fn absent(scene: &Scene) -> Option<String> {
    if scene.overhead {
        return Overhead::obstacle().map(|obstacle| obstacle.to_string());
    }
    let program = scene.program.iter().flatten().next();
    let preset = scene.preset.as_ref().and_then(|name| {
        let named = |p: &&Preset| p.name() == name.get_ref();
        Preset::ALL.iter().find(named)?.missing()
    });
    let absent = program.filter(|program| which(program).is_err());
    let absent = absent.map(|program| format!("{program} is not installed"));
    absent.or_else(|| {
        let (program, package) = preset?;
        let apt = format!("on Debian or Ubuntu: apt install {package}");
        Some(format!("{program} is not installed ({apt})"))
    })
}

/// A program under each lock's interposer.
fn program(
    scene: &Spanned<Scene>,
    subjects: Vec<Subject>,
    catalogue: &Catalogue,
    sizes: &Sizes,
) -> Checked<Exec> {
    let s = scene.get_ref();
    if let Some(subject) = subjects.iter().find(|s| s.name != s.lock) {
        let what = format!("'{}': a program takes locks as they are", subject.name);
        return Err(Wrong::at(scene, what, "locks = [...]"));
    }
    let preset = match &s.preset {
        None => None,
        Some(name) => Some(
            *Preset::ALL
                .iter()
                .find(|p| p.name() == name.get_ref())
                .ok_or_else(|| {
                    let names: Vec<&str> = Preset::ALL.iter().map(|p| p.name()).collect();
                    let what = format!("there is no preset '{}'", name.get_ref());
                    Wrong::at(name, what, names::advice(name.get_ref(), &names))
                })?,
        ),
    };
    let argv = s.program.iter().flatten().map(Into::into).collect();
    let locks = subjects.into_iter().map(|s| s.lock).collect();
    let mut exec = Exec::new(locks, argv, preset);
    exec.scale = s.scale.unwrap_or(1.0);
    exec.timeout = s.timeout.unwrap_or(exec.timeout);
    exec.longest = s.longest;
    let of_round =
        |name: &str, value: &Option<Spanned<Value>>| match (value, catalogue.of_round(name)) {
            (Some(value), Some(choice)) => numbers(value.get_ref(), choice, sizes.contexts())
                .map_err(|what| Wrong::at(value, format!("{name}: {what}"), allowed(choice))),
            _ => Ok(Vec::new()),
        };
    let whole = |values: Vec<f64>| values.into_iter().map(|v| v as u32).collect();
    exec.threads = whole(of_round("threads", &s.threads)?);
    let hogs: Vec<u32> = whole(of_round("hogs", &s.hogs)?);
    if !hogs.is_empty() {
        exec.hogs = hogs;
    }
    let seconds = of_round("seconds", &s.seconds)?;
    exec.seconds = sizes.seconds.or(seconds.first().copied());
    for (name, value) in &s.options {
        exec.variables.insert(name.clone(), plain(value)?);
    }
    if let Some(score) = &s.score {
        let regex = Regex::new(score.get_ref())
            .map_err(|e| Wrong::at(score, e.to_string(), "a regular expression with a group"))?;
        exec.score = Some(regex);
        exec.lower = s.lower;
    }
    Ok(exec)
}

#[cfg(test)]
mod tests;
