// SPDX-License-Identifier: MIT
//! `flexguard run`: a program with another lock in place of its mutexes.

mod summary;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use clap::{Args, ValueHint};
use flexguard_launch::attach::{Attachment, Loading, MonitorMode, may_load, why_absent};
use flexguard_launch::child::{self, Child, Status};
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::prefix::Prefix;
use flexguard_launch::runs::Lease;
use flexguard_launch::unwatchable::{self, Reason};
use flexguard_launch::{Preload, locks, output, signals, waits};

use super::Subcommand;
use crate::manual::{
    FILTERS_ITEM, FORCE_ITEM, LOG_ITEM, PREFIX_ITEM, PROGRAM_EXIT, RECONNECT_ITEM, REQUIRE_ITEM,
    SOCKET_FILE, SOCKET_ITEM, Section, YIELD_ITEM, examples,
};
use crate::monitor_choice::MonitorChoice;
use summary::{StatsFormat, Summary};

/// Run a program with its mutexes replaced
///
/// The program keeps its input, output, exit status and signals. The command itself writes one line to stderr if no
/// monitor could be had, one if the program can have no other locks than its own, and the summary that --stats asks for.
#[derive(Debug, Args)]
#[command(override_usage = "flexguard run [OPTIONS] [--] PROGRAM [ARGUMENTS]...")]
pub struct Run {
    /// The lock that replaces the program's mutexes; `flexguard list` shows the locks
    #[arg(short, long, value_name = "NAME", default_value = locks::DEFAULT)]
    lock: String,

    #[command(flatten)]
    monitor: MonitorChoice,

    /// Print a summary on stderr at the end: one `name: value` a line, or one JSON object
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    stats: Option<StatsFormat>,

    /// Write the summary to FILE instead of stderr
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    stats_file: Option<PathBuf>,

    /// Set how long threads of OpenMP and OpenBLAS spin, where the environment does not, and say on stderr what is set
    #[arg(long)]
    presets: bool,

    /// Do not say on stderr that the program runs without a monitor, or without the lock
    #[arg(short, long)]
    quiet: bool,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,
}

impl Subcommand for Run {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "SUMMARY",
            items: &[
                ("lock", "The lock that was used."),
                (
                    "monitor",
                    "active: loaded for this run, as --stats does. active (shared daemon): its counters cover the whole machine. absent: with the reason.",
                ),
                (
                    "preempted-critical-sections",
                    "How often a thread lost its CPU inside a critical section: the sum of the next two.",
                ),
                ("preempted-holders", "... while it held a lock."),
                (
                    "preempted-next-waiters",
                    "... while it was first in a lock's queue.",
                ),
                (
                    "mode-transitions",
                    "How often the locks turned from spinning to blocking.",
                ),
                (
                    "missed",
                    "Preemptions in a critical section that could not be counted.",
                ),
                ("switches", "Context switches that the monitor looked at."),
                (
                    "registered-processes",
                    "Processes whose locks registered with the monitor. 0: no lock was replaced.",
                ),
                (
                    "refused-clients",
                    "Only where the monitor has refused clients: how many, for which reasons.",
                ),
                ("note", "Only where no process registered: why."),
                (
                    "left-to-glibc",
                    "Only where the program has some: objects whose layout is not known, and which stay glibc's.",
                ),
                (
                    "watched-after-seconds",
                    "Only where a monitor was loaded for this run: how long after the begin of the run it watched.",
                ),
                (
                    "elapsed-seconds, user-seconds, system-seconds",
                    "Wall time and CPU time.",
                ),
                ("max-rss-kib", "The largest resident set."),
                (
                    "voluntary-switches, involuntary-switches",
                    "Context switches of the program.",
                ),
                (
                    "unknown",
                    "The value of a count that needs a monitor, where there was none.",
                ),
            ],
        },
        Section {
            title: "SIGNALS",
            items: &[
                (
                    "sent to the command",
                    "The command passes them on to the program.",
                ),
                (
                    "sent by the terminal",
                    "They reach the program directly. The command waits for the program and prints the summary.",
                ),
                (
                    "SIGKILL",
                    "It ends the command alone. The program continues, without the monitor that the command loaded.",
                ),
            ],
        },
        PROGRAM_EXIT,
        Section {
            title: "ENVIRONMENT",
            items: &[
                (
                    "LD_PRELOAD",
                    "The lock's library is put before what the variable holds.",
                ),
                SOCKET_ITEM,
                REQUIRE_ITEM,
                PREFIX_ITEM,
                RECONNECT_ITEM,
                FILTERS_ITEM,
                FORCE_ITEM,
                YIELD_ITEM,
                LOG_ITEM,
            ],
        },
        Section {
            title: "FILES",
            items: &[
                SOCKET_FILE,
                (
                    "PREFIX/lib/flexguard/NAME.so",
                    "The lock called NAME, as the program loads it.",
                ),
            ],
        },
        examples(&[
            (
                "flexguard run --stats -- pbzip2 -k file",
                "Run pbzip2 and end with the summary.",
            ),
            (
                "flexguard run --stats=json --stats-file s.json -- ./job",
                "Keep the summary for a script.",
            ),
            (
                "flexguard run --lock posix --stats -- ./job",
                "The same program with glibc's own mutexes.",
            ),
            (
                "flexguard run --lock posix --presets -- ./solver",
                "glibc's mutexes, and OpenMP threads that sleep sooner. `flexguard advise` says which variables.",
            ),
            (
                "flexguard run --monitor require -- ./job",
                "Fail rather than run without a monitor.",
            ),
        ]),
    ];

    fn run(self) -> Result<Status> {
        let prefix = Prefix::find()?;
        let mut preload = Preload::of(&prefix, &self.lock)?;
        let left_alone = preload
            .replaces()
            .then(|| unwatchable::reason(&self.program))
            .flatten();
        if let Some(reason) = &left_alone {
            if !self.quiet {
                tell_left_alone(&self.program[0], reason);
            }
            if reason.is_of_what_it_starts() {
                preload = Preload::default();
            }
        }
        let mut command = child::command(&self.program);
        preload.apply(&mut command);
        if self.presets {
            set_presets(&self.program[0], &mut command);
        }

        let Some(summary) = SummarySink::open(&self)? else {
            return run_quietly(&self, command, preload.replaces());
        };
        signals::hold()?;
        let (told, end) = match start_of_monitor(&self, &preload)? {
            Start::Found(monitor) => {
                monitor.tell(&mut command);
                let before = monitor.stats();
                let start = Instant::now();
                let end = Child::spawn(&mut command)?.stand_in()?;
                let elapsed = start.elapsed();
                let counted = before
                    .zip(monitor.stats())
                    .and_then(|(before, after)| after.since(&before));
                (
                    Summary::new(&self.lock, &monitor, counted, &end, elapsed),
                    end,
                )
            }
            Start::Loading(loading) => {
                loading.tell(&mut command);
                let start = Instant::now();
                let end = Child::spawn(&mut command)?.stand_in()?;
                let elapsed = start.elapsed();
                let (monitor, watched_after) = loading.end();
                let told = Summary::new(&self.lock, &monitor, monitor.stats(), &end, elapsed);
                (told.with_watched_after(watched_after), end)
            }
        };
        summary.write(&told.with_what_glibc_keeps(left_to_glibc(&prefix, &preload)))?;
        Ok(end.status)
    }
}

/// No lock of ours reaches the loops of these runtimes.
fn set_presets(program: &OsStr, command: &mut Command) {
    let presets = waits::one_each(waits::presets_of(program));
    command.envs(waits::environment(&presets));
    if presets.is_empty() {
        output::note(
            "flexguard: --presets: the program is linked to no runtime of which a variable is known and not set\n",
        );
    }
    for preset in presets {
        output::note(&format!("flexguard: sets {preset}\n"));
    }
}

/// How a run with a summary gets its monitor.
enum Start {
    Found(Attachment),
    Loading(Loading),
}

/// A monitor is loaded while the program runs already, unless the run shall fail without one.
fn start_of_monitor(args: &Run, preload: &Preload) -> Result<Start> {
    let mode = args.monitor.mode();
    if keeps_glibc(preload.replaces(), mode) {
        return Ok(Start::Found(unwatched()));
    }
    Ok(match Attachment::find_without_loading(mode)? {
        Some(found) => Start::Found(found),
        None if mode == MonitorMode::Auto && may_load() => Start::Loading(Loading::begin(|_| ())?),
        None => Start::Found(Attachment::find(mode)?),
    })
}

/// Without locks of ours the program needs no monitor; but it may carry some itself, and the user then requires one.
fn keeps_glibc(replaces: bool, mode: MonitorMode) -> bool {
    !replaces && mode != MonitorMode::Require
}

/// The monitor of a program that keeps glibc's locks.
fn unwatched() -> Attachment {
    Attachment::none("glibc's locks do not publish their holders")
}

/// The objects of this glibc that the interposers do not know.
fn left_to_glibc(prefix: &Prefix, preload: &Preload) -> Option<String> {
    let answer = preload
        .replaces()
        .then(|| locks::ask(&prefix.probe(), "glibc"))?;
    answer.ok()?.err()
}

/// Without a summary the command stays only if the program's monitor depends on it.
fn run_quietly(args: &Run, mut command: Command, replaces: bool) -> Result<Status> {
    let mode = args.monitor.mode();
    if keeps_glibc(replaces, mode) {
        return Err(become_program(command, &unwatched()));
    }
    if let Some(monitor) = Attachment::find_without_loading(mode)? {
        return Err(become_program(command, &monitor));
    }
    signals::hold()?;
    if mode == MonitorMode::Auto
        && may_load()
        && let Some(lease) = Lease::take()
    {
        lease.tell(&mut command);
        let quiet = args.quiet;
        lease.hold(move |_| tell_why_not_loaded(quiet))?;
        return Ok(Child::spawn(&mut command)?.stand_in()?.status);
    }
    if mode == MonitorMode::Auto && may_load() {
        let quiet = args.quiet;
        let loading = Loading::begin(move |why| tell_absent(quiet, &why_absent(why)))?;
        loading.tell(&mut command);
        let end = Child::spawn(&mut command)?.stand_in()?;
        loading.end();
        return Ok(end.status);
    }
    let monitor = Attachment::find(mode)?;
    if !monitor.is_active() {
        tell_absent(args.quiet, &monitor.why_absent());
        return Err(become_program(command, &monitor));
    }
    monitor.tell(&mut command);
    Ok(Child::spawn(&mut command)?.stand_in()?.status)
}

/// Its children may have the lock.
fn tell_left_alone(program: &OsStr, reason: &Reason) {
    let program = program.to_string_lossy();
    output::note(&format!(
        "flexguard: {} keeps its own locks and is not watched: {} (-q: do not say so)\n",
        output::foreign(&program),
        output::foreign(&reason.to_string())
    ));
}

fn tell_absent(quiet: bool, why: &str) {
    if !quiet {
        output::note(&format!(
            "flexguard: no monitor: {why} (-q: do not say so)\n"
        ));
    }
}

/// The program runs already. A second attempt says why the first one failed.
fn tell_why_not_loaded(quiet: bool) {
    if let Ok(monitor) = Attachment::find(MonitorMode::Auto)
        && !monitor.is_active()
    {
        tell_absent(quiet, &monitor.why_absent());
    }
}

/// Returns only if that fails.
fn become_program(mut command: Command, monitor: &Attachment) -> Failure {
    monitor.tell(&mut command);
    let error = command.exec();
    child::cannot_start(&command, error)
}

/// Where the summary goes. A file is opened before the program starts: better no run than a run whose summary is lost.
struct SummarySink {
    format: StatsFormat,
    file: Option<File>,
}

impl SummarySink {
    fn open(args: &Run) -> Result<Option<Self>> {
        if args.stats.is_none() && args.stats_file.is_none() {
            return Ok(None);
        }
        let open = |path: &std::path::PathBuf| {
            File::create(path).context(format_args!(
                "cannot write the summary to {}",
                path.display()
            ))
        };
        let file = args.stats_file.as_ref().map(open).transpose()?;
        Ok(Some(Self {
            format: args.stats.unwrap_or(StatsFormat::Text),
            file,
        }))
    }

    fn write(self, summary: &Summary) -> Result<()> {
        let text = summary.render(self.format)?;
        match self.file {
            Some(mut file) => file
                .write_all(text.as_bytes())
                .context("cannot write the summary"),
            None => {
                output::note(&text);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    fn parse(arguments: &[&str]) -> Result<Run, clap::Error> {
        let command = Run::augment_args(clap::Command::new("run").no_binary_name(true));
        Run::from_arg_matches(&command.try_get_matches_from(arguments)?)
    }

    #[test]
    fn options_after_the_program_are_the_programs() {
        let run = parse(&["--lock", "mcs", "prog", "--lock", "x", "--", "-y"]).unwrap();
        assert_eq!(run.lock, "mcs");
        assert_eq!(run.program, ["prog", "--lock", "x", "--", "-y"]);
    }

    #[test]
    fn stats_does_not_swallow_the_program() {
        let run = parse(&["--stats", "true"]).unwrap();
        assert_eq!(run.stats, Some(StatsFormat::Text));
        assert_eq!(run.program, ["true"]);
    }

    #[test]
    fn an_unknown_option_before_the_program_is_refused() {
        assert!(parse(&["--bogus", "true"]).is_err());
    }
}
