// SPDX-License-Identifier: MIT
//! Where a benchmark ran: what a reader must know before believing its numbers.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use procfs::{CpuInfo, Current, LoadAverage, Meminfo};
use serde::{Deserialize, Serialize};

use super::simulated::Simulated;
use flexguard_launch::attach::Attachment;
use flexguard_launch::prefix::Prefix;

/// What does not change while the benchmark runs. None: this kernel, or these privileges, do not tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Machine {
    pub cpu: Option<String>,
    pub hardware_contexts: usize,
    pub memory_kib: Option<u64>,
    pub virtual_machine: bool,
    pub numa_nodes: Option<usize>,
    pub kernel: Option<String>,
    pub libc: String,
    pub governor: Option<String>,
    /// The control group's CPU limit, `max` if there is none.
    pub cpu_quota: Option<String>,
    pub scheduler: Scheduler,
    /// It is simulated: this one, and not the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
}

/// Of /sys/kernel/debug/sched, which root can read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Scheduler {
    pub base_slice_ns: Option<u64>,
    pub preemption: Option<String>,
    pub features: Option<String>,
}

/// How busy the machine was: before the benchmark, and after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Load {
    pub before: Option<[f64; 3]>,
    pub after: Option<[f64; 3]>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MonitorState {
    pub active: bool,
    pub shared: bool,
    pub description: String,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Build {
    pub compiler: Option<String>,
    /// Changes with every byte of the workers and the interposers.
    pub fingerprint: String,
}

/// Where a row of a result comes from: rows of different origins do not belong together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Origin {
    pub commit: Option<String>,
    /// The working tree had changes that are in no commit.
    pub dirty: bool,
    /// The fingerprint of the build.
    pub build: String,
    pub machine: Option<String>,
    pub kernel: Option<String>,
}

impl Origin {
    pub fn of(commit: Option<&str>, build: &Build, machine: &Machine) -> Self {
        Self {
            commit: commit.map(|c| c.trim_end_matches("-dirty").to_owned()),
            dirty: commit.is_some_and(|c| c.ends_with("-dirty")),
            build: build.fingerprint.clone(),
            machine: match &machine.simulated {
                Some(s) => Some(format!("simulated {} {}", s.machine, s.fingerprint)),
                None => machine.cpu.clone(),
            },
            kernel: machine.kernel.clone(),
        }
    }

    /// The commit as git describes it, which `of` took apart.
    pub fn described(&self) -> String {
        let dirty = if self.dirty { "-dirty" } else { "" };
        format!("{}{dirty}", self.commit.as_deref().unwrap_or("unknown"))
    }

    /// Whether rows of both may be in one result: not of different builds, machines or kernels.
    pub fn fits(&self, other: &Self) -> bool {
        let rest = |o: &Self| (o.build.clone(), o.machine.clone(), o.kernel.clone());
        rest(self) == rest(other)
    }
}

impl Machine {
    pub fn here() -> Self {
        let cpus = CpuInfo::current().ok();
        let cpus = cpus.as_ref();
        Self {
            cpu: cpus.and_then(|c| c.model_name(0)).map(str::to_owned),
            hardware_contexts: contexts(),
            memory_kib: Meminfo::current().ok().map(|m| m.mem_total / 1024),
            virtual_machine: cpus
                .and_then(|c| c.flags(0))
                .is_some_and(|flags| flags.contains(&"hypervisor")),
            numa_nodes: fs::read_dir("/sys/devices/system/node").ok().map(|d| {
                let nodes = d.flatten().filter(|e| {
                    let name = e.file_name();
                    let number = name.to_str().and_then(|n| n.strip_prefix("node"));
                    number.is_some_and(|n| n.parse::<u32>().is_ok())
                });
                nodes.count()
            }),
            kernel: line("/proc/sys/kernel/osrelease"),
            libc: libc_version(),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            cpu_quota: line("/sys/fs/cgroup/cpu.max"),
            scheduler: Scheduler {
                base_slice_ns: line("/sys/kernel/debug/sched/base_slice_ns")
                    .or_else(|| line("/sys/kernel/debug/sched/min_granularity_ns"))
                    .and_then(|l| l.parse().ok()),
                preemption: line("/sys/kernel/debug/sched/preempt"),
                features: line("/sys/kernel/debug/sched/features"),
            },
            simulated: None,
        }
    }

    /// The host's facts mean nothing for a simulation.
    pub fn simulated(simulated: &Simulated) -> Self {
        Self {
            cpu: Some(format!("simulated: {}", simulated.machine)),
            hardware_contexts: simulated.hardware_contexts,
            memory_kib: None,
            virtual_machine: false,
            numa_nodes: None,
            kernel: None,
            libc: "models of glibc's functions".into(),
            governor: None,
            cpu_quota: None,
            scheduler: Scheduler {
                base_slice_ns: None,
                preemption: None,
                features: None,
            },
            simulated: Some(simulated.clone()),
        }
    }

    /// In one line, for people.
    pub fn describe(&self) -> String {
        let contexts = self.hardware_contexts;
        match &self.simulated {
            Some(simulated) => format!("{}, {contexts} hardware contexts", simulated.describe()),
            None => format!(
                "{}, {contexts} hardware contexts, Linux {}",
                self.cpu.as_deref().unwrap_or("unknown CPU"),
                self.kernel.as_deref().unwrap_or("?")
            ),
        }
    }

    /// How this machine differs from `other`, as far as it matters to a benchmark: what, ours, its.
    pub fn differences(&self, other: &Self) -> Vec<(&'static str, String, String)> {
        let show = |value: &Option<String>| value.clone().unwrap_or("unknown".into());
        let file = |m: &Self| {
            let simulated = m.simulated.as_ref();
            simulated.map_or("none".into(), |s| format!("{} {}", s.file, s.fingerprint))
        };
        let whole = |value: Option<u64>| value.map_or("unknown".into(), |v| v.to_string());
        let pairs = [
            ("CPU", show(&self.cpu), show(&other.cpu)),
            ("simulated machine", file(self), file(other)),
            (
                "hardware contexts",
                self.hardware_contexts.to_string(),
                other.hardware_contexts.to_string(),
            ),
            (
                "memory (KiB)",
                whole(self.memory_kib),
                whole(other.memory_kib),
            ),
            ("kernel", show(&self.kernel), show(&other.kernel)),
            ("C library", self.libc.clone(), other.libc.clone()),
            ("governor", show(&self.governor), show(&other.governor)),
            ("CPU quota", show(&self.cpu_quota), show(&other.cpu_quota)),
            (
                "base slice (ns)",
                whole(self.scheduler.base_slice_ns),
                whole(other.scheduler.base_slice_ns),
            ),
            (
                "preemption",
                show(&self.scheduler.preemption),
                show(&other.scheduler.preemption),
            ),
            (
                "scheduler features",
                show(&self.scheduler.features),
                show(&other.scheduler.features),
            ),
        ];
        pairs.into_iter().filter(|(_, a, b)| a != b).collect()
    }

    /// Whether the hardware is the same, as far as this record tells.
    pub fn is_same_hardware(&self, other: &Self) -> bool {
        let facts = |m: &Self| (m.cpu.clone(), m.hardware_contexts, m.virtual_machine);
        let file = |m: &Self| m.simulated.as_ref().map(|s| s.fingerprint.clone());
        facts(self) == facts(other) && file(self) == file(other)
    }
}

/// The CPUs that this process may use.
pub fn contexts() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Load {
    /// Taken before the first run, so that it is not the benchmark's own load.
    pub fn now() -> Self {
        Self {
            before: load_average(),
            after: None,
        }
    }

    pub fn end(&mut self) {
        self.after = load_average();
    }

    /// Other work used a context or more before the benchmark began: its results are worth little.
    pub fn is_disturbed(&self) -> bool {
        self.before.is_some_and(|l| l[0] >= 0.5)
    }
}

impl From<&Attachment> for MonitorState {
    fn from(monitor: &Attachment) -> Self {
        Self {
            active: monitor.is_active(),
            shared: monitor.is_shared(),
            description: monitor.describe(),
        }
    }
}

impl Build {
    pub fn of(prefix: &Prefix) -> Self {
        let worker = fs::read(prefix.dir().join("libexec/flexguard/fg-bench-posix"))
            .or_else(|_| fs::read(prefix.interposer("flexguard")));
        Self {
            compiler: worker.ok().and_then(|bytes| compiler(&bytes)),
            fingerprint: fingerprint(&[
                prefix.dir().join("libexec/flexguard"),
                prefix.dir().join("lib/flexguard"),
            ]),
        }
    }
}

/// The commit of the working tree that the installation is in, with `-dirty` if it was changed. None if installed elsewhere.
pub fn commit(prefix: &Path) -> Option<String> {
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
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if !Path::new(&top).join("abi/flexguard_abi.h").is_file() {
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

/// The variables that change what locks do, here and in the C library.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.to_string_lossy().into_owned())))
        .filter(|(k, _)| {
            k.starts_with("FLEXGUARD_")
                || k.starts_with("FG_")
                || matches!(
                    k.as_str(),
                    "LD_PRELOAD" | "GLIBC_TUNABLES" | "MALLOC_ARENA_MAX"
                )
        })
        .collect()
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|t| !t.is_empty())
}

fn load_average() -> Option<[f64; 3]> {
    let load = LoadAverage::current().ok()?;
    // The kernel tells hundredths.
    Some([load.one, load.five, load.fifteen].map(|l| (f64::from(l) * 100.0).round() / 100.0))
}

fn libc_version() -> String {
    // SAFETY: returns a static string.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", version.to_string_lossy())
}

/// What the compiler left in the .comment section.
fn compiler(elf: &[u8]) -> Option<String> {
    let marks: [&[u8]; 2] = [b"GCC: (", b"clang version "];
    let start = marks
        .iter()
        .find_map(|mark| elf.windows(mark.len()).rposition(|window| window == *mark))?;
    let text = elf[start..].split(|b| *b == 0).next()?;
    Some(String::from_utf8_lossy(text).trim().to_owned())
}

fn fingerprint(dirs: &[std::path::PathBuf]) -> String {
    let mut files: Vec<_> = dirs
        .iter()
        .filter_map(|d| fs::read_dir(d).ok())
        .flat_map(|d| d.flatten().map(|e| e.path()))
        .collect();
    files.sort();
    let mut hasher = blake3::Hasher::new();
    for file in files {
        hasher.update(file.file_name().unwrap_or_default().as_encoded_bytes());
        hasher.update(&fs::read(file).unwrap_or_default());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_is_found_in_its_own_words() {
        assert_eq!(
            compiler(b"..GCC: (Debian 12.2.0-14) 12.2.0\0rest").as_deref(),
            Some("GCC: (Debian 12.2.0-14) 12.2.0")
        );
        assert_eq!(compiler(b"nothing"), None);
    }

    #[test]
    fn the_fingerprint_changes_with_a_byte() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        fs::write(&file, "1").unwrap();
        let before = fingerprint(&[dir.path().to_owned()]);
        assert_eq!(before, fingerprint(&[dir.path().to_owned()]));
        fs::write(&file, "2").unwrap();
        assert_ne!(before, fingerprint(&[dir.path().to_owned()]));
    }

    #[test]
    fn a_machine_is_like_itself_and_says_how_it_differs() {
        let here = Machine::here();
        assert!(here.differences(&here).is_empty() && here.is_same_hardware(&here));
        let mut other = here.clone();
        other.kernel = Some("9.9".into());
        other.hardware_contexts += 1;
        let named: Vec<_> = here.differences(&other).iter().map(|d| d.0).collect();
        assert_eq!(named, ["hardware contexts", "kernel"]);
        assert!(!here.is_same_hardware(&other));
    }
}
