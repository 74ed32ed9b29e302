// SPDX-License-Identifier: MIT
//! Well-known programs whose mutexes matter, as `flexguard bench exec --preset` runs them.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;

use flexguard_launch::child::cannot_start;
use flexguard_launch::failure::{Context, Failure, NOT_FOUND, Result};
use regex_lite::Regex;
use which::which;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    Rocksdb,
    Kyoto,
    SysbenchMutex,
    SysbenchThreads,
    Memcached,
}

/// The command, with `{threads}` and `{scratch}` as in `Exec::program`, and what is read from its output.
pub struct Prepared {
    pub argv: Vec<String>,
    /// None: the time it takes is what counts.
    pub score: Option<Regex>,
}

impl Preset {
    pub const ALL: &[Self] = &[
        Self::Rocksdb,
        Self::Kyoto,
        Self::SysbenchMutex,
        Self::SysbenchThreads,
        Self::Memcached,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Rocksdb => "rocksdb",
            Self::Kyoto => "kyoto",
            Self::SysbenchMutex => "sysbench-mutex",
            Self::SysbenchThreads => "sysbench-threads",
            Self::Memcached => "memcached",
        }
    }

    /// What it does, and what is compared.
    pub fn brief(self) -> &'static str {
        match self {
            Self::Rocksdb => {
                "RocksDB's db_bench, random reads of what it has written before; operations per second"
            }
            Self::Kyoto => "Kyoto Cabinet's cache test with mixed operations; time",
            Self::SysbenchMutex => "sysbench: threads that take one of four mutexes; time",
            Self::SysbenchThreads => {
                "sysbench: threads that take mutexes and yield; events in 2 seconds"
            }
            Self::Memcached => "memcached under the load of memcaslap; operations per second",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Rocksdb => "RocksDB, db_bench readrandom",
            Self::Kyoto => "Kyoto Cabinet, kccachetest wicked",
            Self::SysbenchMutex => "sysbench mutex",
            Self::SysbenchThreads => "sysbench threads",
            Self::Memcached => "memcached under memcaslap",
        }
    }

    /// What has to be installed: programs, and Debian's package of each.
    fn needs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Rocksdb => &[("db_bench", "rocksdb-tools")],
            Self::Kyoto => &[("kccachetest", "kyotocabinet-utils")],
            Self::SysbenchMutex | Self::SysbenchThreads => &[("sysbench", "sysbench")],
            Self::Memcached => &[
                ("memcached", "memcached"),
                ("memcaslap", "libmemcached-tools"),
            ],
        }
    }

    /// The first of them that is not installed.
    pub fn missing(self) -> Option<&'static (&'static str, &'static str)> {
        self.needs()
            .iter()
            .find(|(program, _)| which(program).is_err())
    }

    /// How many threads those that do a given work each need 2 seconds with, on two contexts.
    pub const USUAL_THREADS: f64 = 4.0;

    /// About how long a run takes. Busy processes take their share of two CPUs from a given work.
    pub fn seconds(self, scale: f64, threads: f64, hogs: f64) -> f64 {
        match self {
            Self::SysbenchThreads | Self::Memcached => (2.0 * scale).ceil() + 0.5,
            _ => 2.0 * scale * threads / Self::USUAL_THREADS * (1.0 + hogs / 2.0),
        }
    }

    /// How the score is found in its output; None: the time it takes is what counts.
    fn score(self) -> Option<&'static str> {
        match self {
            Self::Rocksdb => Some(r"(?m)^readrandom .* ([0-9.]+) ops/sec"),
            Self::SysbenchThreads => Some(r"total number of events: +([0-9]+)"),
            Self::Memcached => Some(r"TPS: ([0-9]+)"),
            Self::Kyoto | Self::SysbenchMutex => None,
        }
    }

    pub fn is_scored(self) -> bool {
        self.score().is_some()
    }

    pub fn prepare(self, scale: f64) -> Result<Prepared> {
        if let Some((program, package)) = self.missing() {
            return Err(Failure::new(format_args!(
                "--preset {} needs {program}, which is not installed",
                self.name()
            ))
            .code(NOT_FOUND)
            .advice(format_args!("on Debian or Ubuntu: apt install {package}")));
        }
        let times = |n: f64| (n * scale).ceil() as u64;
        let mut argv: Vec<String> = Vec::new();
        let command = match self {
            Self::Rocksdb => format!(
                "db_bench --benchmarks=fillrandom,readrandom --num={n} --reads={n} --threads={{threads}} --db={{scratch}}",
                n = times(150_000.0)
            ),
            Self::Kyoto => format!(
                "kccachetest wicked -th {{threads}} -it 2 {}",
                times(1_000_000.0)
            ),
            Self::SysbenchMutex => format!(
                "sysbench mutex --threads={{threads}} --mutex-num=4 --mutex-locks={} --mutex-loops=100 run",
                times(5_000_000.0)
            ),
            Self::SysbenchThreads => format!(
                "sysbench threads --threads={{threads}} --thread-locks=2 --time={} run",
                times(2.0)
            ),
            Self::Memcached => {
                let own = std::env::current_exe().context("cannot tell where this command is")?;
                argv.push(own.to_string_lossy().into_owned());
                format!(
                    "memcached-load --threads {{threads}} --seconds {}",
                    times(2.0)
                )
            }
        };
        argv.extend(command.split(' ').map(Into::into));
        Ok(Prepared {
            argv,
            score: self
                .score()
                .map(Regex::new)
                .transpose()
                .context("a preset's score")?,
        })
    }
}

/// Fails, with the message that starting it would give, if the program cannot be started.
pub fn executable(program: &OsStr) -> Result<()> {
    if which(program).is_ok() {
        return Ok(());
    }
    let names_a_file = program.as_encoded_bytes().contains(&b'/') && Path::new(program).exists();
    let errno = if names_a_file {
        libc::EACCES
    } else {
        libc::ENOENT
    };
    Err(cannot_start(
        &Command::new(program),
        io::Error::from_raw_os_error(errno),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flexguard_launch::failure::NOT_EXECUTABLE;

    #[test]
    fn every_preset_can_be_prepared_or_says_what_to_install() {
        for preset in Preset::ALL {
            match (preset.prepare(0.01), preset.missing()) {
                (Ok(prepared), None) => {
                    assert!(prepared.score.is_none_or(|s| s.captures_len() == 2));
                    assert!(prepared.argv.len() > 1);
                }
                (Err(failure), Some((_, package))) => {
                    assert!(failure.report().contains(package), "{preset:?}");
                }
                (prepared, missing) => panic!("{preset:?}: {missing:?}, {}", prepared.is_ok()),
            }
        }
    }

    #[test]
    fn a_given_work_takes_longer_beside_busy_processes_and_a_given_time_does_not() {
        let at = |preset: Preset, hogs: f64| preset.seconds(0.25, 16.0, hogs);
        assert_eq!(at(Preset::Rocksdb, 4.0), 3.0 * at(Preset::Rocksdb, 0.0));
        assert_eq!(at(Preset::Memcached, 4.0), at(Preset::Memcached, 0.0));
    }

    #[test]
    fn what_cannot_run_is_known_before() {
        assert!(executable("sh".as_ref()).is_ok() && executable("/bin/sh".as_ref()).is_ok());
        let code = |program: &str| executable(program.as_ref()).unwrap_err().code;
        assert_eq!(
            (code("no-such-program"), code("/no/such")),
            (NOT_FOUND, NOT_FOUND)
        );
        assert_eq!(code("/etc/passwd"), NOT_EXECUTABLE);
    }
}
