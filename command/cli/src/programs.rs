// SPDX-License-Identifier: MIT
//! The programs that the monitor watches, as far as it and /proc tell.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;
#[cfg(feature = "full")]
use std::time::Instant;

use flexguard_launch::filters::{self, FILTERS_ENV};
use flexguard_launch::{output, unwatchable};
use flexguard_monitor::{Counted, Listed};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Uid, User};
use serde::Serialize;

/// A process that is registered, as far as /proc tells.
#[derive(Debug, Clone, Serialize)]
pub struct Program {
    pub pid: u32,
    pub uid: Option<u32>,
    pub user: Option<String>,
    pub threads: Option<u64>,
    pub lock: Option<String>,
    pub cgroup: Option<String>,
    pub command: Option<String>,
    pub preempted_holders: u64,
    pub preempted_next_waiters: u64,
    pub preempted_ns: u64,
    /// By whose counter its locks go, and that counter now.
    pub domain: String,
    pub domain_counter: u32,
}

/// A process that runs without the monitor although it was to have a lock of FlexGuard's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unwatched {
    pub pid: u32,
    pub user: Option<String>,
    pub lock: String,
    pub command: Option<String>,
    pub why: String,
}

/// The lock that the process has loaded, or that it was to load: its environment says so. And why it is not watched.
fn lock_of_unwatched(pid: u32) -> Option<(String, String)> {
    let environment = read_bytes(pid, "environ").unwrap_or_default();
    if let Some(lock) = mapped_lock(pid)? {
        return Some((lock, why_not_registered(pid, &environment)));
    }
    let lock = lock_to_load(&environment)?;
    let file = Path::new("/proc").join(pid.to_string()).join("exe");
    let reason = unwatchable::of_file(&file);
    let why = reason.map_or_else(
        || "the lock could not be loaded".into(),
        |reason| reason.to_string(),
    );
    Some((lock, why))
}

/// As far as is seen from here (lib/runtime/sandbox.h).
fn why_not_registered(pid: u32, environment: &[u8]) -> String {
    let set = variables(environment).find_map(|(name, n)| (name == FILTERS_ENV).then(|| n.parse()));
    let expected = set.and_then(Result::ok).unwrap_or(filters::WITHOUT_ENV);
    match filters::of(pid) {
        Some(number) if number > expected => {
            format!("it is under {number} seccomp filters, and {FILTERS_ENV} is {expected}")
        }
        _ => "it is not registered".into(),
    }
}

fn variables(environment: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let texts = environment.split(|b| *b == 0);
    texts.filter_map(|variable| std::str::from_utf8(variable).ok()?.split_once('='))
}

/// By LD_PRELOAD, or what the interposer has made of it (lib/interpose/sanitized.c).
fn lock_to_load(environment: &[u8]) -> Option<String> {
    let names = ["LD_PRELOAD", "FLEXGUARD_LEFT_ALONE"];
    let values = variables(environment).filter(|(name, _)| names.contains(name));
    let mut objects = values.flat_map(|(_, value)| value.split([' ', ':']));
    objects.find_map(|object| {
        let (directory, file) = object.rsplit_once('/')?;
        let directory = directory.strip_suffix("/for/$LIB").unwrap_or(directory);
        let name = file.strip_suffix(".so")?;
        directory.ends_with("/flexguard").then(|| name.to_owned())
    })
}

/// Of those whose memory map and environment this user may read.
pub fn unwatched(watched: &[Program]) -> Vec<Unwatched> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<Unwatched> = pids
        .filter(|pid| watched.iter().all(|p| p.pid != *pid))
        .filter_map(|pid| {
            let (lock, why) = lock_of_unwatched(pid)?;
            let owner =
                std::os::unix::fs::MetadataExt::uid(&fs::metadata(format!("/proc/{pid}")).ok()?);
            let user = User::from_uid(Uid::from_raw(owner)).ok().flatten();
            Some(Unwatched {
                pid,
                user: user.map(|user| user.name),
                lock,
                command: command(pid),
                why,
            })
        })
        .collect();
    found.sort_by_key(|p| p.pid);
    found
}

/// How many they are, by a search that is not older than SEARCH.
#[derive(Debug, Default)]
#[cfg(feature = "full")]
pub struct UnwatchedNumber(Option<(Instant, usize)>);

/// Each search reads what /proc has of every process.
#[cfg(feature = "full")]
const SEARCH: Duration = Duration::from_secs(5);

#[cfg(feature = "full")]
impl UnwatchedNumber {
    pub const fn new() -> UnwatchedNumber {
        UnwatchedNumber(None)
    }

    pub fn of(&mut self, watched: &[Program]) -> usize {
        self.by(|| unwatched(watched).len())
    }

    fn by(&mut self, search: impl FnOnce() -> usize) -> usize {
        match self.0.filter(|(at, _)| at.elapsed() < SEARCH) {
            Some((_, number)) => number,
            None => {
                let number = search();
                self.0 = Some((Instant::now(), number));
                number
            }
        }
    }
}

/// A thread that is preempted in a critical section.
#[derive(Debug, Clone, Serialize)]
pub struct Preempted {
    pub pid: u32,
    pub tid: u32,
    pub role: &'static str,
    /// The counter has forgotten it.
    pub aged: bool,
    pub for_ms: f64,
    pub command: Option<String>,
    pub preemptor: Preemptor,
}

pub const PREEMPTED_HEADINGS: [&str; 6] =
    ["pid", "tid", "for ms", "role", "command", "preempted by"];

/// The thread that has taken its CPU.
#[derive(Debug, Clone, Serialize)]
pub struct Preemptor {
    pub pid: u32,
    pub tid: u32,
    pub command: Option<String>,
}

pub fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

fn open(pid: u32, file: &str) -> Option<File> {
    File::open(format!("/proc/{pid}/{file}")).ok()
}

/// Of a file that is longer, so much is read: what a process says is its environment may have any length.
const MOST_BYTES: u64 = 8 << 20;

fn beginning(file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_bytes(pid: u32, file: &str) -> Option<Vec<u8>> {
    beginning(open(pid, file)?).ok()
}

fn read(pid: u32, file: &str) -> Option<String> {
    let bytes = read_bytes(pid, file)?;
    Some(String::from_utf8_lossy(&bytes).into_owned()) // names are bytes
}

fn command(pid: u32) -> Option<String> {
    Some(read(pid, "comm")?.trim_end().to_owned())
}

pub fn shown(value: &Option<impl ToString>) -> String {
    value.as_ref().map_or_else(
        || "?".to_owned(),
        |value| output::foreign(&value.to_string()).into_owned(),
    )
}

impl Program {
    pub fn of(listed: &Listed) -> Program {
        let pid = listed.pid;
        let status = read(pid, "status").unwrap_or_default();
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
        };
        let uid = field("Uid:").and_then(|uid| uid.parse().ok());
        let user = uid.and_then(|uid| User::from_uid(Uid::from_raw(uid)).ok()?);
        Program {
            pid,
            uid,
            user: user.map(|user| user.name),
            threads: field("Threads:").and_then(|n| n.parse().ok()),
            lock: mapped_lock(pid).flatten(),
            cgroup: read(pid, "cgroup").and_then(|groups| cgroup(&groups)),
            command: command(pid),
            preempted_holders: listed.preempted_holders,
            preempted_next_waiters: listed.preempted_next_waiters,
            preempted_ns: listed.preempted_ns,
            domain: listed.domain.to_string(),
            domain_counter: listed.counter,
        }
    }

    /// The name, or the number where the name is unknown.
    pub fn user(&self) -> String {
        let name = self.user.clone();
        shown(&name.or_else(|| self.uid.map(|uid| uid.to_string())))
    }

    /// Preempted critical sections, of either kind.
    #[cfg(feature = "full")]
    pub fn preempted(&self) -> u64 {
        self.preempted_holders + self.preempted_next_waiters
    }
}

/// None: the process's memory map may not be read; Some(None): it has mapped no lock.
fn mapped_lock(pid: u32) -> Option<Option<String>> {
    open(pid, "maps").map(lock_in)
}

/// Line by line: together they may have hundreds of megabytes.
fn lock_in(maps: impl Read) -> Option<String> {
    let mut lines = BufReader::new(maps).split(b'\n').map_while(Result::ok);
    lines.find_map(|line| lock(&String::from_utf8_lossy(&line)))
}

/// The lock whose interposer the process has mapped, or the library of the C API.
fn lock(maps: &str) -> Option<String> {
    let paths = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]));
    let mut files = paths.filter_map(|path| {
        let (directory, file) = path.rsplit_once('/')?;
        if file.starts_with("libflexguard.so") {
            return Some("the C API".to_owned());
        }
        let name = file.strip_suffix(".so")?;
        directory.ends_with("/flexguard").then(|| name.to_owned())
    });
    files.next()
}

/// The control group of version 2, or the deepest of those of version 1.
fn cgroup(groups: &str) -> Option<String> {
    let paths = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?))
    });
    let (_, path) = paths.max_by_key(|(controllers, path)| (controllers.is_empty(), path.len()))?;
    Some(path.to_owned())
}

impl Preempted {
    pub fn of(counted: &Counted) -> Preempted {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
        let since = Duration::from_nanos(counted.since_ns);
        Preempted {
            pid: counted.pid,
            tid: counted.tid,
            role: if counted.holder {
                "holder"
            } else {
                "next waiter"
            },
            aged: counted.aged,
            for_ms: now.saturating_sub(since).as_secs_f64() * 1e3,
            command: command(counted.pid),
            preemptor: Preemptor {
                pid: counted.by_pid,
                tid: counted.by_tid,
                command: command(counted.by_pid),
            },
        }
    }

    /// As people read it, under `PREEMPTED_HEADINGS`.
    pub fn row(&self) -> [String; PREEMPTED_HEADINGS.len()] {
        [
            self.pid.to_string(),
            self.tid.to_string(),
            format!("{:.1}", self.for_ms),
            format!("{}{}", self.role, if self.aged { ", aged" } else { "" }),
            shown(&self.command),
            self.preemptor.text(),
        ]
    }
}

impl Preemptor {
    pub fn text(&self) -> String {
        format!("{} [{}]", shown(&self.command), self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_the_interposer_that_is_mapped() {
        let line = |path: &str| format!("7f00-7f10 r-xp 00000000 08:01 42    {path}\n");
        let of = |paths: &[&str]| lock(&paths.iter().map(|p| line(p)).collect::<String>());
        assert_eq!(
            of(&["/bin/true", "/usr/lib/flexguard/mcs.so"]).as_deref(),
            Some("mcs")
        );
        assert_eq!(
            of(&["/usr/lib/libflexguard.so.0"]).as_deref(),
            Some("the C API")
        );
        assert_eq!(of(&["/usr/lib/libc.so.6", "[stack]"]), None);
    }

    /// Or a process could make a command of root's, or the metrics, run out of memory.
    #[test]
    fn of_what_has_no_end_as_much_is_read_as_is_needed() {
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                panic!("it reads on");
            }
        }
        let line: &[u8] = b"7f00-7f10 r-xp 00000000 08:01 42    /usr/lib/flexguard/mcs.so\n";
        assert_eq!(lock_in(line.chain(Endless)).as_deref(), Some("mcs"));
        let much = io::repeat(b'x').take(2 * MOST_BYTES);
        assert_eq!(beginning(much).unwrap().len() as u64, MOST_BYTES);
    }

    #[test]
    fn the_lock_to_load_is_what_the_environment_names() {
        let of = |environment: &[u8]| lock_to_load(environment);
        let preloaded = b"A=1\0LD_PRELOAD=/x/y.so:/usr/lib/flexguard/for/$LIB/mcs.so\0B=2\0";
        assert_eq!(of(preloaded).as_deref(), Some("mcs"));
        let left = b"LD_PRELOAD=\0FLEXGUARD_LEFT_ALONE=/usr/lib/flexguard/futex.so\0";
        assert_eq!(of(left).as_deref(), Some("futex"));
        assert_eq!(of(b"LD_PRELOAD=/usr/lib/libfaketime.so\0"), None);
    }

    #[test]
    fn fuzz_what_proc_says() {
        let read = |file| fs::read(format!("/proc/self/{file}")).unwrap();
        let (maps, groups) = (read("maps"), b"4:memory:/a/b/c\n0::/x\n");
        let environment =
            b"A=1\0LD_PRELOAD=/usr/lib/flexguard/for/$LIB/mcs.so\0FLEXGUARD_FILTERS=3\0";
        let lines: &[u8] = b"7f00-7f10 r-xp 00000000 08:01 42    /usr/lib/flexguard/mcs.so\n";
        let corpus = [&maps[..maps.len().min(2000)], lines, groups, environment];
        flexguard_fuzz::fuzz("proc", &corpus, |input| {
            let text = String::from_utf8_lossy(input);
            let _ = (lock(&text), cgroup(&text), lock_to_load(input));
            let _ = why_not_registered(std::process::id(), input);
        });
    }

    #[test]
    fn the_control_group_is_that_of_version_2_if_there_is_one() {
        assert_eq!(cgroup("4:memory:/a/b/c\n0::/x\n").as_deref(), Some("/x"));
        assert_eq!(cgroup("4:memory:/a/b\n3:cpu:/a\n").as_deref(), Some("/a/b"));
        assert_eq!(cgroup(""), None);
    }

    #[test]
    #[cfg(feature = "full")]
    fn who_asks_again_and_again_has_nothing_searched() {
        let mut number = UnwatchedNumber::new();
        assert_eq!(number.by(|| 3), 3);
        assert_eq!(number.by(|| panic!("it is known")), 3);
        number.0 = Instant::now().checked_sub(SEARCH).map(|at| (at, 3));
        assert_eq!(number.by(|| 4), 4);
    }

    #[test]
    fn durations_are_told_in_two_units() {
        for (seconds, told) in [
            (5.9, "5 s"),
            (65.0, "1 min 5 s"),
            (7260.0, "2 h 1 min"),
            (90000.0, "1 d 1 h"),
        ] {
            assert_eq!(duration(seconds), told);
        }
    }
}
