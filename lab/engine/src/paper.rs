// SPDX-License-Identifier: MIT
//! `flexguard bench paper`: the paper's figures on this machine. Which experiments stand for the paper's figures, scaled to this machine: the paper's had 104 and 512 hardware contexts.

use crate::catalogue::{self, Catalogue};
use crate::contention::Contention;
use crate::exec::Exec;
use crate::experiment::Experiment;
use crate::figure::{FigureSpec, Part, Shape};
use crate::machine;
use crate::micro::Micro;
use crate::options::{Plan, distinct};
use crate::overhead::Overhead;
use crate::presets::Preset;
use crate::scene::{self, Sizes};
use crate::suite::{self, Suite, Wanted};
use crate::worker;
use crate::workload::Workload;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use flexguard_launch::locks::Lock;
use flexguard_launch::prefix::Prefix;

/// The locks of the paper's figures (section 5.1), as far as this installation has them. glibc's is what is improved upon, and
/// so the first.
const PAPERS_LOCKS: [&str; 11] = [
    "posix",
    "futex",
    "mcs",
    "mcs-tp",
    "shuffle",
    "malthusian",
    "u-scl",
    "tas-slice",
    "flexguard-sosp25-slice",
    "flexguard-sosp25",
    "flexguard",
];

/// The installed files with the applications and with what the paper claims, and with what is said of each lock. The
/// short version has the first only.
const SCENES: [&str; 2] = ["papers", "published-locks"];

#[derive(Debug)]
pub struct Paper {
    /// Small: at most 15 minutes on two hardware contexts.
    pub quick: bool,
    pub wanted: Wanted,
    /// These locks instead of the paper's.
    pub locks: Vec<String>,
    /// Seconds of each run of a microbenchmark, instead of the plan's.
    pub seconds: Option<f64>,
    /// Rounds, instead of the plan's.
    pub rounds: Option<u32>,
}

pub fn run(args: Paper) -> Result<Status> {
    let prefix = Prefix::find()?;
    let known = worker::locks(&prefix, &worker::find(&prefix)?)?;
    let size = Size::here(args.quick, args.seconds, args.rounds);
    let (locks, mut left_out) = match &args.locks[..] {
        [] => papers_locks(&known),
        names => (worker::resolve(&known, names)?, Vec::new()),
    };
    let catalogue = Catalogue::read(&prefix)?;
    let (mut experiments, more) = experiments(&size, &locks, &catalogue)?;
    let mut claims = Vec::new();
    for name in &SCENES[..if args.quick { 1 } else { SCENES.len() }] {
        let path = scene::find(&prefix, name)?;
        let mut scenes = scene::read(&path, &catalogue, &size.of_scenes(&args.locks))?;
        left_out.extend(scenes.leave_out());
        experiments.extend(scenes.experiments);
        claims.extend(scenes.claims);
    }
    left_out.extend(more);
    let suite = Suite {
        title: "The figures of the paper".into(),
        experiments,
        claims,
        left_out,
    };
    suite::run(&prefix, suite, &args.wanted)
}

/// How large everything is.
pub struct Size {
    quick: bool,
    contexts: u32,
    seconds: f64,
    warmup: f64,
    rounds: u32,
    given_seconds: Option<f64>,
    given_rounds: Option<u32>,
}

impl Size {
    pub fn here(quick: bool, seconds: Option<f64>, rounds: Option<u32>) -> Self {
        let mut size = Self::of(quick, machine::contexts() as u32);
        size.rounds = rounds.unwrap_or(size.rounds);
        (size.given_seconds, size.given_rounds) = (seconds, rounds);
        if let Some(seconds) = seconds {
            (size.seconds, size.warmup) = (seconds, 0.0);
        }
        size
    }

    fn of(quick: bool, contexts: u32) -> Self {
        // What differs from one run to the next is the process (docs/results/statistics.md): runs of 0.05 s are as far apart
        // as runs of 0.2 s, and so many short rounds tell more than few long ones.
        let (seconds, warmup, rounds) = if quick {
            (0.05, 0.02, 20)
        } else {
            (0.4, 0.1, 7)
        };
        Self {
            quick,
            contexts,
            seconds,
            warmup,
            rounds,
            given_seconds: None,
            given_rounds: None,
        }
    }

    /// Of the scenes, whose file says how long and how often they run.
    fn of_scenes(&self, locks: &[String]) -> Sizes {
        Sizes {
            simulated: None,
            rounds: self.given_rounds,
            seconds: self.given_seconds,
            warmup: self.given_seconds.map(|_| 0.0),
            locks: locks.to_vec(),
            quick: self.quick,
        }
    }

    /// So many threads for each hardware context, at least one.
    fn threads(&self, factors: &[f64]) -> Vec<u32> {
        let counts = factors
            .iter()
            .map(|f| ((f64::from(self.contexts) * f).round() as u32).clamp(1, 4096));
        let mut counts: Vec<u32> = counts.collect();
        counts.sort_unstable();
        distinct(&counts)
    }

    /// The same where threads are to contend: at least two.
    fn contending(&self, factors: &[f64]) -> Vec<u32> {
        let counts: Vec<u32> = self.threads(factors).iter().map(|n| (*n).max(2)).collect();
        distinct(&counts)
    }

    /// From one thread far into oversubscription.
    fn subscriptions(&self) -> Vec<u32> {
        if self.quick {
            self.threads(&[0.0, 1.0, 2.0, 4.0, 8.0])
        } else {
            self.threads(&[0.0, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0])
        }
    }

    fn plan(&self) -> Plan {
        Plan {
            rounds: self.rounds,
            warmup_rounds: 0,
            noise: true,
            tell: None,
        }
    }

    fn contention(&self, locks: &[String], threads: Vec<u32>) -> Contention {
        Contention::of(locks, threads, self.seconds, self.warmup)
    }
}

/// Those that this machine has what they need for, and why the others are left out.
pub fn papers_locks(known: &[Lock]) -> (Vec<String>, Vec<String>) {
    let (mut usable, mut left_out) = (Vec::new(), Vec::new());
    let listed = |name: &&str| known.iter().find(|l| l.name == **name);
    for lock in PAPERS_LOCKS.iter().filter_map(listed) {
        match lock.demand() {
            Ok(()) => usable.push(lock.name.clone()),
            Err(refusal) => left_out.push(format!("{refusal:#}")),
        }
    }
    (usable, left_out)
}

/// All of them, and why some are left out here.
pub fn experiments(
    size: &Size,
    locks: &[String],
    workloads: &Catalogue,
) -> Result<(Vec<Experiment>, Vec<String>)> {
    let (shm, table) = (workloads.workload("shm")?, workloads.workload("hashtable")?);
    let mut experiments = vec![
        section_times(size, locks, shm),
        hash_table(size, locks, table),
        hash_table_beside_hogs(size, locks, table),
        runnable(size, locks, shm),
        fairness(size, locks, shm)?,
    ];
    let mut left_out = Vec::new();
    for preset in Preset::ALL {
        match preset.missing() {
            None => experiments.push(application(size, locks, *preset)),
            Some((program, package)) => left_out.push(format!(
                "{}: {program} is not installed (on Debian or Ubuntu: apt install {package})",
                preset.title()
            )),
        }
    }
    match Overhead::obstacle() {
        None => experiments.push(overhead(size)),
        Some(obstacle) => left_out.push(format!("the monitor's overhead: {obstacle}")),
    }
    Ok((experiments, left_out))
}

fn spec(id: &str, title: &str, measure: &str, shape: Shape) -> FigureSpec {
    FigureSpec {
        id: id.into(),
        title: title.into(),
        measure: measure.into(),
        shape,
        ..FigureSpec::default()
    }
}

fn section_times(size: &Size, locks: &[String], shm: &catalogue::Workload) -> Experiment {
    let workload = Micro::new(shm, size.contention(locks, size.subscriptions()));
    Experiment {
        primary: None,
        id: "shm".into(),
        title: "Figures 1, 2 and 5c: shared-memory access".into(),
        figures: vec![
            FigureSpec {
                normalise_to: vec!["futex".into()],
                log: true,
                paper: "FlexGuard's take up to 92 % (Intel) and 100 % (AMD) less; oversubscribed, mcs's take 30,000 \
                        times as long, and shuffle's at least 46 % longer"
                    .into(),
                ..spec(
                    "fig2-normalised",
                    "Fig. 2a: time of a critical section, against the blocking lock",
                    "cs_mean_ns",
                    Shape::Lines,
                )
            },
            FigureSpec {
                log: true,
                ..spec(
                    "fig2-raw",
                    "Fig. 2c: time of a critical section",
                    "cs_mean_ns",
                    Shape::Lines,
                )
            },
            spec(
                "shm-throughput",
                "The same as throughput",
                "throughput_ops_per_ms",
                Shape::Lines,
            ),
            FigureSpec {
                log: true,
                ..spec(
                    "fig5c-spins",
                    "Fig. 5c: busy-waiting",
                    "spins_per_s",
                    Shape::Lines,
                )
            },
        ],
        plan: size.plan(),
        workload: Box::new(workload),
    }
}

fn hash_table(size: &Size, locks: &[String], table: &catalogue::Workload) -> Experiment {
    let workload = Micro::new(table, size.contention(locks, size.subscriptions()));
    Experiment {
        primary: None,
        id: "hashtable".into(),
        title: "As figure 3a: another hash table, with Zipf's keys; more and more threads".into(),
        figures: vec![spec(
            "fig3a-hashtable",
            "As Fig. 3a: hash table, Zipf's keys",
            "throughput_ops_per_ms",
            Shape::Lines,
        )],
        plan: size.plan(),
        workload: Box::new(workload),
    }
}

/// The benchmark's threads take half of the machine, at least two contexts; others take more and more of it.
fn hash_table_beside_hogs(
    size: &Size,
    locks: &[String],
    table: &catalogue::Workload,
) -> Experiment {
    let mut contention = size.contention(locks, size.contending(&[0.5]));
    let factors: &[f64] = if size.quick {
        &[1.0, 2.0]
    } else {
        &[0.5, 1.0, 2.0, 4.0]
    };
    contention.hogs = std::iter::once(0).chain(size.threads(factors)).collect();
    Experiment {
        primary: None,
        id: "hashtable-hogs".into(),
        title: "As figure 3b: the same hash table beside busy processes".into(),
        figures: vec![spec(
            "fig3b-hogs",
            "As Fig. 3b: hash table, Zipf's keys, beside busy processes",
            "throughput_ops_per_ms",
            Shape::Lines,
        )],
        plan: size.plan(),
        workload: Box::new(Micro::new(table, contention)),
    }
}

/// The paper's 140 threads on 104 contexts.
fn runnable(size: &Size, locks: &[String], shm: &catalogue::Workload) -> Experiment {
    let shown: Vec<String> = locks
        .iter()
        .filter(|l| ["futex", "mcs", "flexguard-sosp25", "flexguard"].contains(&l.as_str()))
        .cloned()
        .collect();
    let shown = if shown.is_empty() {
        locks.to_vec()
    } else {
        shown
    };
    let threads = size
        .threads(&[140.0 / 104.0])
        .into_iter()
        .map(|t| t.max(size.contexts + 1))
        .collect();
    let mut contention = size.contention(&shown, threads);
    contention.trace_us = 1000;
    Experiment {
        primary: Some("runnable_mean".into()),
        id: "runnable".into(),
        title: "Figure 5a: runnable threads over time".into(),
        figures: vec![
            spec(
                "fig5a-runnable",
                "Fig. 5a: runnable threads over time",
                "runnable_mean",
                Shape::Trace,
            ),
            FigureSpec {
                parts: worker::RUNNABLE
                    .iter()
                    .zip(["none", "one", "two", "three or more"])
                    .map(|(measure, title)| Part {
                        title: title.into(),
                        measure: (*measure).into(),
                    })
                    .collect(),
                paper: "the blocking lock has one runnable thread for 49 % of the time; all 140 are under mcs"
                    .into(),
                ..spec(
                    "fig5a-histogram",
                    "Fig. 5a: share of the time with so many runnable threads",
                    "runnable_one",
                    Shape::Bars,
                )
            },
        ],
        plan: Plan {
            rounds: size.rounds.min(3),
            warmup_rounds: 0,
            noise: false,
            tell: None,
        },
        workload: Box::new(Micro::new(shm, contention)),
    }
}

fn fairness(size: &Size, locks: &[String], shm: &catalogue::Workload) -> Result<Experiment> {
    let mut contention = size.contention(locks, size.contending(&[0.5, 1.0, 2.0]));
    // Fairness is a matter of the run's length: this one is never shortened, unless everything is.
    if size.seconds >= 0.1 {
        contention.seconds = vec![1.0];
    }
    let mut workload = Micro::new(shm, contention);
    if !size.quick {
        workload = workload.set("cycles_between", vec![100.0, 1000.0, 10_000.0])?;
    }
    let rounds = if size.quick { 3 } else { 7 };
    let title = "Fig. 5b: fairness over 1 s (0.5 fair, 1 unfair)";
    Ok(Experiment {
        primary: Some("fairness_normalised".into()),
        id: "fairness".into(),
        title: title.replace("Fig.", "Figure"),
        figures: vec![FigureSpec {
            base: 0.5,
            paper: "FlexGuard stays below 0.58 over 10 s; shuffle 0.77, malthusian 0.90".into(),
            ..spec("fig5b-fairness", title, "fairness_normalised", Shape::Bars)
        }],
        plan: Plan {
            rounds: rounds.min(size.rounds),
            warmup_rounds: 0,
            noise: false,
            tell: None,
        },
        workload: Box::new(workload),
    })
}

/// glibc's lock, and ours as published and as it is: a program is no microbenchmark.
fn application(size: &Size, locks: &[String], preset: Preset) -> Experiment {
    let few = ["posix", "futex", "flexguard-sosp25", "flexguard"];
    let chosen: Vec<String> = locks
        .iter()
        .filter(|l| {
            !size.quick && few.contains(&l.as_str()) || ["posix", "flexguard"].contains(&l.as_str())
        })
        .cloned()
        .collect();
    let chosen = if chosen.is_empty() {
        locks[..1].to_vec()
    } else {
        chosen
    };
    let scale = if size.seconds < 0.1 { 0.01 } else { 0.25 };
    let (threads, hogs) = if size.quick {
        (size.threads(&[2.0]), vec![0])
    } else {
        let beside = if preset.yields() {
            Vec::new()
        } else {
            size.threads(&[2.0])
        };
        let hogs = std::iter::once(0).chain(beside).collect();
        (size.threads(&[0.0, 1.0, 2.0, 8.0]), hogs)
    };
    let workload = Exec::of(preset, &chosen, threads, hogs, scale);
    let id = preset.name();
    let title = format!("Applications (as Figure 4): {}", preset.title());
    Experiment {
        primary: None,
        id: id.into(),
        figures: vec![spec(
            &format!("app-{id}"),
            preset.title(),
            workload.primary(),
            Shape::Bars,
        )],
        title,
        plan: Plan {
            rounds: size.rounds.min(if size.quick { 8 } else { 6 }),
            ..size.plan()
        },
        workload: Box::new(workload),
    }
}

/// The paper says of the monitor's overhead that it is less than 1 %: as many rounds as that takes, at most so many.
const TOLD: f64 = 0.01;
const MOST_TO_TELL: u32 = 100;

fn overhead(size: &Size) -> Experiment {
    let loops = if size.given_seconds.is_some_and(|s| s < 0.1) {
        10
    } else if size.quick {
        200
    } else {
        1000
    };
    let workload = Overhead::of(loops);
    Experiment {
        primary: None,
        id: "overhead".into(),
        title: "Section 5.4: what the Preemption Monitor costs".into(),
        figures: workload
            .figures()
            .into_iter()
            .map(|figure| FigureSpec {
                paper: "hackbench is less than 1 % slower".into(),
                ..figure
            })
            .collect(),
        plan: Plan {
            rounds: match size.given_rounds {
                None if !size.quick => MOST_TO_TELL,
                _ => size.rounds,
            },
            tell: Some(TOLD),
            ..size.plan()
        },
        workload: Box::new(workload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::testing::catalogue;

    fn locks() -> Vec<String> {
        PAPERS_LOCKS.map(Into::into).to_vec()
    }

    /// With a margin for what the estimates leave out: locks that collapse, and the drawing.
    #[test]
    fn quick_is_quick_on_two_contexts() {
        let (experiments, _) = experiments(&Size::of(true, 2), &locks(), &catalogue()).unwrap();
        let seconds: f64 = experiments.iter().map(|e| e.runs().1).sum();
        assert!((60.0..540.0).contains(&seconds), "{seconds}");
    }

    #[test]
    fn every_machine_gets_from_one_thread_to_oversubscription() {
        for contexts in [1, 2, 3, 8, 104, 512] {
            for quick in [false, true] {
                let threads = Size::of(quick, contexts).subscriptions();
                assert_eq!(threads[0], 1);
                assert!(threads.is_sorted() && *threads.last().unwrap() >= 8 * contexts.min(512));
                assert!(threads.contains(&contexts) && threads.iter().all(|t| *t <= 4096));
            }
        }
    }

    #[test]
    fn files_have_names_of_their_own() {
        let (experiments, _) = experiments(&Size::of(false, 2), &locks(), &catalogue()).unwrap();
        let mut names: Vec<String> = experiments
            .iter()
            .flat_map(|e| e.figures.iter().map(|f| f.id.clone()))
            .collect();
        names.extend(experiments.iter().map(|e| e.id.clone()));
        let distinct: std::collections::HashSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    /// Each experiment of `bench paper` has a file of its own.
    #[test]
    fn the_scenes_have_names_of_their_own() {
        let (experiments, _) = experiments(&Size::of(false, 2), &locks(), &catalogue()).unwrap();
        let mut names: Vec<String> = experiments.into_iter().map(|e| e.id).collect();
        for name in SCENES {
            let file = format!("../scenes/{name}.toml");
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            let text = std::fs::read_to_string(path).unwrap();
            let file: toml::Table = toml::from_str(&text).unwrap();
            let scenes = file["scene"].as_array().unwrap().iter();
            names.extend(scenes.map(|s| s["name"].as_str().unwrap().to_owned()));
        }
        let distinct: std::collections::HashSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn what_a_figure_shows_is_measured() {
        let (experiments, _) = experiments(&Size::of(true, 2), &locks(), &catalogue()).unwrap();
        for experiment in &experiments {
            let measures = experiment.workload.measures();
            let primary = experiment
                .primary
                .as_deref()
                .unwrap_or(experiment.workload.primary());
            assert!(measures.iter().any(|m| m.name == primary), "{primary}");
            for figure in &experiment.figures {
                assert!(
                    measures.iter().any(|m| m.name == figure.measure),
                    "{}",
                    figure.id
                );
            }
        }
    }
}
