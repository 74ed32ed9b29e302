// SPDX-License-Identifier: MIT
//! What every benchmark says about itself besides its results, and where the JSON goes.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::attach::Attachment;
use crate::failure::{Context, Result};
use crate::prefix::Prefix;

/// The part of the JSON that is alike in all benchmarks.
#[derive(Debug, Serialize)]
pub struct Header {
    pub schema: &'static str,
    pub complete: bool,
    pub command: Vec<String>,
    pub date: String,
    pub version: &'static str,
    pub commit: Option<String>,
    pub machine: Machine,
    pub monitor: MonitorState,
}

#[derive(Debug, Serialize)]
pub struct Machine {
    pub cpu: Option<String>,
    pub hardware_contexts: usize,
    pub memory_kib: Option<u64>,
    pub kernel: Option<String>,
    pub load_average: Option<[f64; 3]>,
}

#[derive(Debug, Serialize)]
pub struct MonitorState {
    pub active: bool,
    pub shared: bool,
    pub description: String,
}

impl Header {
    /// Call before the first run: the load average must not be ours.
    pub fn new(schema: &'static str, prefix: &Prefix, monitor: &Attachment) -> Self {
        Self {
            schema,
            complete: false,
            command: std::env::args_os()
                .map(|a| a.to_string_lossy().into_owned())
                .collect(),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            version: env!("CARGO_PKG_VERSION"),
            commit: commit(prefix.dir()),
            machine: Machine::here(),
            monitor: MonitorState {
                active: monitor.is_active(),
                shared: monitor.is_shared(),
                description: monitor.describe(),
            },
        }
    }

    /// The lines above a table.
    pub fn show(&self) -> String {
        let machine = &self.machine;
        let load = machine
            .load_average
            .map_or("?".into(), |l| format!("{:.2}", l[0]));
        format!(
            "{} | {} hardware contexts | Linux {} | load {load} | monitor {}\n",
            machine.cpu.as_deref().unwrap_or("unknown CPU"),
            machine.hardware_contexts,
            machine.kernel.as_deref().unwrap_or("?"),
            self.monitor.description,
        )
    }
}

impl Machine {
    fn here() -> Self {
        let field = |path: &str, key: &str| {
            let text = fs::read_to_string(path).ok()?;
            let line = text.lines().find(|l| l.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        Self {
            cpu: field("/proc/cpuinfo", "model name"),
            hardware_contexts: std::thread::available_parallelism().map_or(1, usize::from),
            memory_kib: field("/proc/meminfo", "MemTotal")
                .and_then(|m| m.split(' ').next()?.parse().ok()),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .ok()
                .map(|r| r.trim().to_owned()),
            load_average: fs::read_to_string("/proc/loadavg")
                .ok()
                .and_then(|text| load_average(&text)),
        }
    }
}

fn load_average(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split(' ').map_while(|n| n.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

/// The commit of the working tree that the installation is in, with `-dirty` if it was changed. None if installed elsewhere.
fn commit(prefix: &Path) -> Option<String> {
    let git = |args: &[&str]| {
        let out = Command::new("git")
            .arg("-C")
            .arg(prefix)
            .args(args)
            .stderr(Stdio::null())
            .output()
            .ok()?;
        out.status
            .success()
            .then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    let top = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
    if !top.join("abi/flexguard_abi.h").is_file() {
        return None;
    }
    git(&[
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ])
}

/// The file of `-o`, made sure of before the first run.
pub struct Sink {
    target: PathBuf,
    kind: Kind,
}

enum Kind {
    /// Written beside the target, then renamed onto it.
    Renamed(NamedTempFile),
    /// A device or a pipe: there is nothing to rename onto.
    Direct(File),
}

impl Sink {
    pub fn open(path: &Path) -> Result<Self> {
        let doing = format!("cannot write to {}", path.display());
        // A symbolic link stays one: its target is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let special = fs::metadata(&target).is_ok_and(|m| !m.is_file());
        let kind = if special {
            Kind::Direct(File::options().write(true).open(&target).context(&doing)?)
        } else {
            let dir = target
                .parent()
                .filter(|d| !d.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            Kind::Renamed(named_with_usual_mode(dir).context(&doing)?)
        };
        Ok(Self { target, kind })
    }

    pub fn write(self, text: &str) -> Result<()> {
        let doing = format!("cannot write to {}", self.target.display());
        match self.kind {
            Kind::Direct(mut file) => file.write_all(text.as_bytes()).context(doing),
            Kind::Renamed(mut file) => {
                file.write_all(text.as_bytes())
                    .and_then(|()| file.as_file().sync_all())
                    .context(&doing)?;
                file.persist(&self.target).map(|_| ()).context(doing)
            }
        }
    }
}

/// A temporary file is private by default; a result is not.
fn named_with_usual_mode(dir: &Path) -> std::io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new()
        .prefix(".flexguard-")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_replaces_the_old_one_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        fs::write(&path, "old").unwrap();
        let sink = Sink::open(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        sink.write("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_device_is_written_not_replaced() {
        Sink::open(Path::new("/dev/null"))
            .unwrap()
            .write("x")
            .unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn a_missing_directory_is_found_out_at_once() {
        assert!(Sink::open(Path::new("/no/such/dir/r.json")).is_err());
    }

    #[test]
    fn load_average_is_read() {
        assert_eq!(
            load_average("0.50 1.25 2.00 1/85 4490\n"),
            Some([0.5, 1.25, 2.0])
        );
        assert_eq!(load_average("x"), None);
    }
}
