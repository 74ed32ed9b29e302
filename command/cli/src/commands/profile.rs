// SPDX-License-Identifier: MIT
//! `flexguard profile`: which locks of a program cost time, and where it takes them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use flexguard_launch::attach::Attachment;
use flexguard_launch::child::{self, Child, End, Interruption, Status};
use flexguard_launch::failure::{Context, Result};
use flexguard_launch::prefix::Prefix;
use flexguard_launch::{Preload, locks, output, signals, unwatchable};
use tempfile::TempDir;

use super::{Subcommand, monitor};
use crate::manual::{
    FORCE_ITEM, LOG_ITEM, PREFIX_ITEM, PROGRAM_EXIT, SOCKET_ITEM, Section, examples,
};
use crate::monitor_choice::MonitorChoice;
use crate::profile::{self, Comparison, Process, Report, Samples, Spins, Watch, attached, saved};
use crate::symbols::Symbols;

/// The directory that the profiled processes write to.
const DIRECTORY_ENV: &str = match flexguard_abi::profile::FG_PROFILE_ENV.to_str() {
    Ok(name) => name,
    Err(_) => panic!("the name is ASCII"),
};

/// Show which locks of a program cost time: contended share, waits, holds, call sites
///
/// Mutexes, read-write locks, condition variables, semaphores and barriers are seen; C11's mtx_ functions are not. The
/// program keeps its input, output, exit status and signals. The profile is written to stderr when it has ended, by
/// whatever cause.
#[derive(Debug, Args)]
#[command(
    override_usage = "flexguard profile [OPTIONS] [--] PROGRAM [ARGUMENTS]...\n       flexguard profile --pid N [OPTIONS]\n       \
                      flexguard profile --open PROFILE [OPTIONS]\n       flexguard profile --compare BEFORE AFTER [OPTIONS]\n       flexguard profile --spins [OPTIONS] [--] PROGRAM [ARGUMENTS]..."
)]
pub struct Profile {
    /// The lock under which the program runs; `flexguard list` shows the locks
    #[arg(short, long, value_name = "NAME", default_value = locks::POSIX)]
    lock: String,

    #[command(flatten)]
    monitor: MonitorChoice,

    /// Watch the running process N instead: what its threads wait for, and, where the monitor watches it, who is preempted
    ///
    /// It needs root. Any program will do, also under glibc's locks. It ends with the process, by SIGINT, SIGTERM or
    /// SIGHUP, or after --seconds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
          conflicts_with_all = ["program", "lock", "monitor"])]
    pid: Option<u32>,

    /// Show CPU time in loops that wait instead, and whether another thread of the program waited for a CPU meanwhile
    ///
    /// For programs with locks, barriers and yields of their own. It needs root, and neither a monitor nor a lock of
    /// FlexGuard's: with --pid any process will do. The processes that come of the program belong to it.
    #[arg(long, conflicts_with_all = ["lock", "monitor", "output", "open", "compare"])]
    spins: bool,

    /// With --spins: functions that wait, besides those that are known; a * at the end of a name stands for any end
    #[arg(
        long,
        value_name = "NAME,...",
        requires = "spins",
        value_delimiter = ','
    )]
    spin_symbols: Vec<String>,

    /// With --pid: end after so many seconds
    #[arg(long, value_name = "SECONDS", requires = "pid", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,

    /// Show a profile that -o has saved: its directory, or profile.json in it. With -o its images and exports are made
    /// again
    #[arg(long, value_name = "PROFILE", value_hint = ValueHint::AnyPath,
          conflicts_with_all = ["program", "lock", "monitor", "pid"])]
    open: Option<PathBuf>,

    /// Show what has changed from one saved profile to another, lock by lock
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2, value_hint = ValueHint::AnyPath,
          conflicts_with_all = ["program", "lock", "monitor", "pid", "open", "output"])]
    compare: Vec<PathBuf>,

    /// Write profile.json, flame graphs (wait.svg, hold.svg), index.html, and files for other tools to DIR; with --pid
    /// without index.html, and with preempted.svg
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,

    /// Show so many locks of each process
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,

    /// The program and its arguments
    #[arg(required_unless_present_any = ["pid", "open", "compare"], trailing_var_arg = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,
}

impl Subcommand for Profile {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "WHAT IT SHOWS",
            items: &[
                (
                    "lock",
                    "The variable, by the file's symbols, and with debug information the member in it; of what is in allocated \
                     memory the address, and where it was used first.",
                ),
                (
                    "acquired",
                    "Acquisitions, all of them counted, of barriers and condition variables all waits. Those of a mutex at the \
                     end of a wait on a condition variable are counted apart.",
                ),
                (
                    "contended",
                    "The share of the acquisitions that found the lock held. The profiler tries before it locks.",
                ),
                (
                    "waited, held",
                    "Sums, percentiles and maxima of times: waits of contended acquisitions, and holds. Of a thread and a \
                     mutex the first 64 waits and 32 holds are timed, then one of 32 and one of 256, at random. \
                     Percentiles are right within 12 %.",
                ),
                (
                    "preempted",
                    "How often, and for how long, a holder lost its CPU. It takes root, a monitor, and a lock that \
                     publishes its holder, such as flexguard; otherwise it is unknown.",
                ),
                (
                    "call sites",
                    "Call stacks follow frame pointers (cc -fno-omit-frame-pointer), up to 16 frames. Without frame \
                     pointers the caller of the lock function is shown.",
                ),
                (
                    "lost",
                    "Of a process 8192 mutexes and 8192 call sites are kept. A mutex that is initialised where another \
                     one was destroyed is counted with it.",
                ),
            ],
        },
        Section {
            title: "A RUNNING PROCESS (--PID)",
            items: &[
                (
                    "waits",
                    "What threads sleep for in futex(2), whatever their locks are: glibc's are seen, too. All waits are \
                     counted. Call stacks are samples: each stands for 10 ms of waiting, or for the whole of a longer wait. \
                     Waiting counts the threads that wait still. Nothing need be preloaded.",
                ),
                (
                    "preempted",
                    "If the machine's monitor watches the process: by lock, how often and for how long threads that held it, \
                     and heads of its queue, were off CPU, and in which call stacks they lost it.",
                ),
                (
                    "not seen",
                    "Acquisitions, uncontended ones above all, holds, and waiters that spin. Which lock it was that a \
                     preempted thread held, where the lock does not publish it.",
                ),
                (
                    "cost",
                    "While it watches, each system call of the machine takes some 130 ns longer, and each wait of the \
                     process one or two microseconds.",
                ),
            ],
        },
        Section {
            title: "LOOPS THAT WAIT (--SPINS)",
            items: &[
                (
                    "spun",
                    "CPU time, by samples of each CPU's clock, 997 a second, in a function that is known to wait (s_lock, \
                     ggml_barrier, gomp_barrier_wait*, __kmp_wait* and the like, --spin-symbols), within 16 bytes of a \
                     spin hint (pause), or in sched_yield, which counts for its caller.",
                ),
                (
                    "a sibling waited",
                    "The part of it during which another thread of the program was runnable and had no CPU: spinning \
                     while a sibling waits for a CPU. Whether it is the thread that was waited for, only the program \
                     knows.",
                ),
                (
                    "none waited",
                    "The part during which all other threads of the program ran or slept.",
                ),
                (
                    "unknown",
                    "The part before all threads had been looked at, and all of it if there are more than 65536 threads.",
                ),
            ],
        },
        Section {
            title: "FILES OF -O",
            items: &[
                (
                    "profile.json",
                    "All of it: what --json prints, --open shows and --compare compares.",
                ),
                (
                    "wait.folded, hold.folded",
                    "Folded stacks, a line each with its nanoseconds, for flame graph tools; wait.svg and hold.svg are made of \
                     them.",
                ),
                (
                    "profile.pb.gz",
                    "For pprof: acquisitions, waits and holds of each call stack. The lock is the innermost function and a \
                     label (pprof -tagfocus).",
                ),
                (
                    "perfetto.json",
                    "For ui.perfetto.dev: on a track for each lock the call stacks stand side by side, as long as they waited \
                     or held. These are sums, not a timeline.",
                ),
                ("index.html", "Tables and flame graphs; it fetches nothing."),
            ],
        },
        Section {
            title: "COMPARING",
            items: &[(
                "--compare",
                "The lock whose waiting time has changed most comes first. Locks are the same if the process's name, the \
                 kind and the variable are, or the place of first use of a lock that has no name; several that are alike are \
                 added up. A run differs from the next by chance: compare several before a small change is believed.",
            )],
        },
        Section {
            title: "WHAT IT COSTS",
            items: &[
                (
                    "overhead",
                    "About 70 instructions an acquisition: kccachetest order runs 4 % more instructions (callgrind). A \
                     contended acquisition tries once more.",
                ),
                (
                    "sandboxes",
                    "Call stacks are read by process_vm_readv: a program that puts itself into a seccomp sandbox must allow it.",
                ),
            ],
        },
        Section {
            title: "JSON",
            items: &[(
                "schema",
                "flexguard-profile/1, with --pid flexguard-profile-attached/1, with --compare flexguard-profile-comparison/1, \
                  with --spins flexguard-profile-spins/1; docs/design/schemas of the source tree describes them.",
            )],
        },
        PROGRAM_EXIT,
        Section {
            title: "ENVIRONMENT",
            items: &[
                (
                    "LD_PRELOAD",
                    "The profiler, then the lock's library, are put before what the variable holds.",
                ),
                SOCKET_ITEM,
                PREFIX_ITEM,
                FORCE_ITEM,
                LOG_ITEM,
            ],
        },
        examples(&[
            (
                "flexguard profile -o report -- ./job",
                "Profile the program as it is, under glibc's mutexes; report/index.html shows all.",
            ),
            (
                "flexguard profile --compare before after",
                "What has changed between two runs that were saved with -o before and -o after.",
            ),
            (
                "go tool pprof -http : report/profile.pb.gz",
                "Look at the report with another tool.",
            ),
            (
                "flexguard profile --pid 1234 --seconds 30",
                "As root: half a minute of a running process.",
            ),
            (
                "flexguard profile --spins --pid 1234 --seconds 10",
                "As root: does the process burn CPU time that its own threads wait for?",
            ),
            (
                "flexguard profile --lock flexguard -- ./job",
                "Under FlexGuard. As root: with the time that holders were preempted.",
            ),
        ]),
    ];

    fn run(self) -> Result<Status> {
        if self.spins {
            return self.spins();
        }
        if let Some(pid) = self.pid {
            let time = self.seconds.map(Duration::from_secs);
            let watch = attached::Watch {
                pid,
                time,
                most: self.top,
                json: self.json,
                output: self.output.as_deref(),
            };
            return watch.run(&monitor::socket(None)?);
        }
        if let [before, after] = &self.compare[..] {
            return self.compare(before, after);
        }
        if let Some(saved) = &self.open {
            return self.show(saved);
        }
        let prefix = Prefix::find()?;
        let preload = Preload::of(&prefix, &self.lock)?;
        let replaces = preload.replaces();
        let preload = preload.behind(&prefix, &prefix.profiler())?;
        unwatchable::refuse(&self.program)?;
        let report = self.output.as_deref().map(Report::open).transpose()?;
        let files = directory()?;
        let mut command = child::command(&self.program);
        preload.apply(&mut command);
        command.env(DIRECTORY_ENV, files.path());
        signals::hold()?;
        let monitor = match replaces {
            true => Attachment::find(self.monitor.mode())?,
            false => Attachment::none("glibc's locks do not publish their holders"),
        };
        if replaces {
            monitor.tell(&mut command);
        }
        let start = Instant::now();
        let (end, seen) = watched(&monitor, &mut command)?;
        let mut profile = gathered(&self.program, self.lock, start, files.path())?;
        profile.preemptions_unknown = seen.as_ref().err().cloned();
        if let Ok(seen) = seen {
            profile.processes.iter_mut().for_each(|p| seen.tell(p));
        }
        let samples = Samples::of(&profile); // before it is shortened
        profile.shorten();
        if let Some(report) = report {
            write(report, &profile, &samples)?;
        }
        output::note(&text(&profile, self.json, self.top)?);
        Ok(end.status)
    }
}

impl Profile {
    fn spins(&self) -> Result<Status> {
        let spins = Spins {
            symbols: &self.spin_symbols,
            most: self.top,
            json: self.json,
        };
        match self.pid {
            Some(pid) => spins.watch(pid, self.seconds.map(Duration::from_secs)),
            None => spins.run(&self.program),
        }
    }

    /// A profile of an earlier run.
    fn show(&self, saved: &Path) -> Result<Status> {
        let profile = saved::open(saved)?;
        if let Some(directory) = self.output.as_deref() {
            let report = Report::open(directory)?;
            write(report, &profile, &Samples::of(&profile))?;
        }
        output::print(&text(&profile, self.json, self.top)?)?;
        Ok(Status::Exited(0))
    }

    fn compare(&self, before: &Path, after: &Path) -> Result<Status> {
        let comparison = Comparison::of(&saved::open(before)?, &saved::open(after)?);
        match self.json {
            true => output::print_json(&comparison)?,
            false => output::print(&comparison.text(self.top))?,
        }
        Ok(Status::Exited(0))
    }
}

fn write(report: Report, profile: &profile::Profile, samples: &Samples) -> Result<()> {
    let page = |graphs: &_| Some(profile::page(profile, graphs));
    report.write(&output::to_json(profile)?, samples, page)
}

fn text(profile: &profile::Profile, json: bool, most: usize) -> Result<String> {
    match json {
        true => output::to_json(profile),
        false => Ok(profile::table(profile, most)),
    }
}

/// Runs the program under glibc's locks, without input and output, for at most `limit`. Err(Some): a signal has ended it;
/// Err(None): it took longer.
pub fn quietly(
    program: &[OsString],
    limit: Duration,
) -> Result<Result<profile::Profile, Option<i32>>> {
    let prefix = Prefix::find()?;
    let preload = Preload::of(&prefix, locks::POSIX)?.behind(&prefix, &prefix.profiler())?;
    let files = directory()?;
    let mut command = child::command(program);
    preload.apply(&mut command);
    command.env(DIRECTORY_ENV, files.path()).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null());
    signals::hold()?;
    let start = Instant::now();
    let child = Child::spawn(&mut command)?;
    match child.wait(limit)? {
        Ok(_) => {
            let mut profile = gathered(program, locks::POSIX.into(), start, files.path())?;
            profile.shorten();
            Ok(Ok(profile))
        }
        Err(interruption) => {
            child.end_group()?;
            Ok(Err(match interruption {
                Interruption::Signal(number) => Some(number),
                Interruption::TimedOut => None,
            }))
        }
    }
}

/// What the processes have written since `start`.
fn gathered(
    program: &[OsString],
    lock: String,
    start: Instant,
    files: &Path,
) -> Result<profile::Profile> {
    Ok(profile::Profile {
        schema: profile::SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        command: program.iter().map(|w| w.to_string_lossy().into()).collect(),
        lock,
        elapsed_seconds: start.elapsed().as_secs_f64(),
        preemptions_unknown: None,
        processes: processes(files)?,
    })
}

/// Memory, where there is a file system of it: writing back a mapped file would disturb the program.
fn directory() -> Result<TempDir> {
    let named = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("flexguard-profile.");
        builder
    };
    named()
        .tempdir_in("/dev/shm")
        .or_else(|_| named().tempdir())
        .context("cannot make a temporary directory")
}

/// Runs the program. What was seen of preempted holders, or why nothing was.
fn watched(
    monitor: &Attachment,
    command: &mut Command,
) -> Result<(End, Result<profile::Seen, String>)> {
    let run = |command: &mut Command| Child::spawn(command)?.stand_in();
    let watch = match monitor {
        Attachment::Own(own) => Watch::attach(own.monitor.socket()),
        Attachment::Shared(socket) => Watch::attach(socket),
        Attachment::Absent(why) => return Ok((run(command)?, Err(format!("{why:#}")))),
    };
    match watch {
        Err(why) => Ok((run(command)?, Err(format!("{why:#}")))),
        Ok(watch) => {
            let (end, seen) = watch.during(|| run(command));
            Ok((end?, seen.map_err(|why| format!("{why:#}"))))
        }
    }
}

fn processes(files: &Path) -> Result<Vec<Process>> {
    let doing = "cannot read the profiles";
    let symbols = Symbols::new();
    let mut processes = Vec::new();
    for entry in fs::read_dir(files).context(doing)? {
        processes.extend(profile::read(&entry.context(doing)?.path(), &symbols)?);
    }
    processes.sort_by_key(|process| process.pid);
    Ok(processes)
}
