// SPDX-License-Identifier: MIT
//! `flexguard bench guests`: the spinlocks of lab/guest/ in guest kernels that share this machine's CPUs.
//!
//! The papers on Preemptable Ticket Spinlocks (VEE'13) and I-Spinlock (EuroSys'17) measure them so.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::figure::{FigureSpec, Shape};
use super::machine;
use super::measure::{Measure, Unit, measure};
use super::point::Point;
use super::runner::{Capture, Run, with_tail};
use super::stats::Better::{Higher, Lower};
use super::subject::Subject;
use super::workload::{Counts, Launch, MonitorUse, Reading, Workload};
use flexguard_launch::MonitorMode;
use flexguard_launch::child;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::names;
use flexguard_launch::prefix::Prefix;
pub use load::Load;

mod load;
mod sources;

#[derive(Debug)]
pub struct Guests {
    pub load: Load,
    /// Spinlocks to compare, or `all`; ratios are to the first
    pub subjects: Vec<Subject>,
    /// Guests at once
    pub guests: Vec<u32>,
    /// Virtual CPUs of each
    pub vcpus: Vec<u32>,
    /// Busy processes beside the guests
    pub hogs: Vec<u32>,
    /// Further guests that only compute
    pub burners: Vec<u32>,
    /// Sections of the kernel's own threads, in iterations of an empty loop
    pub section: Vec<u32>,
    /// How much work a run has
    pub scale: f64,
    /// Count in the spinlocks instead of comparing times
    pub counts: bool,
    pub monitor: MonitorMode,
    /// Where lab/guest/build keeps kernels
    pub kernels: PathBuf,
    scripts: Option<TempDir>,
}

/// A section of a tenth of a microsecond: VEE'13, section 4.2, has a microsecond or less.
const SECTION: u32 = 300;

/// What a guest says that cannot use the monitor it was given: most likely its kernel is of another version of the ABI.
const NO_MONITOR: &str = "flexguard: no monitor: ";

/// How long a guest may take to boot and end, and a load of work, before it counts as hanging.
const LIMIT_SECONDS: u64 = 100;

impl Guests {
    pub fn new(load: Load, subjects: Vec<Subject>, kernels: PathBuf) -> Self {
        Self {
            load,
            subjects,
            guests: vec![1],
            vcpus: vec![2],
            hogs: vec![0],
            burners: vec![0],
            section: vec![SECTION],
            scale: 1.0,
            counts: false,
            monitor: MonitorMode::Auto,
            kernels,
            scripts: None,
        }
    }

    fn kernel_name(&self, lock: &str) -> String {
        let suffix = if self.counts { "-counts" } else { "" };
        format!("linux-{lock}{suffix}")
    }

    fn kernel(&self, lock: &str) -> PathBuf {
        self.kernels.join(self.kernel_name(lock))
    }

    fn subject_called(&self, name: &str) -> Subject {
        let found = self.subjects.iter().find(|s| s.name == name);
        found.cloned().unwrap_or_else(|| Subject::of(name))
    }

    /// Whether lab/guest/build has made a kernel for each of the locks.
    pub fn is_built(&self) -> bool {
        let there = |subject: &Subject| self.kernel(&subject.lock).is_file();
        self.kernels.join("run").is_file() && self.subjects.iter().all(there)
    }

    /// The locks whose kernels are there.
    fn built(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.kernels).into_iter().flatten().flatten();
        let mut locks: Vec<String> = entries
            .filter_map(|entry| lock_of(entry.file_name().to_str()?, self.counts))
            .collect();
        locks.sort_by_key(|lock| (lock != "ticket", lock.clone()));
        locks
    }

    /// What guests with such a section run.
    fn script(&self, section: u32) -> PathBuf {
        let dir = self.scripts.as_ref().map(TempDir::path);
        dir.unwrap_or(Path::new("")).join(section.to_string())
    }
}

/// The lock of a kernel by the name of its file.
fn lock_of(file: &str, counts: bool) -> Option<String> {
    let lock = file.strip_prefix("linux-")?;
    let counting = lock.strip_suffix("-counts");
    let lock = if counts { counting? } else { lock };
    let other = (!counts && counting.is_some()) || lock.starts_with("source-");
    (!other).then(|| lock.to_owned())
}

impl Workload for Guests {
    fn name(&self) -> &str {
        "guests"
    }

    fn title(&self) -> String {
        let what = if self.counts { "counts" } else { "spinlocks" };
        format!("Guest kernels, {what}: {}", self.load.help())
    }

    fn prepare(&mut self, prefix: &Prefix) -> Result<()> {
        let built = self.built();
        let advice = format!(
            "`lab/guest/build{}` in the source tree makes them",
            if self.counts { " --counts" } else { "" }
        );
        if built.is_empty() || !self.kernels.join("run").exists() {
            let dir = self.kernels.display();
            return Err(Failure::new(format!("{dir} has no guest kernels")).advice(advice));
        }
        if self.subjects.len() == 1 && self.subjects[0].lock == "all" {
            self.subjects = built.iter().map(|lock| Subject::of(lock)).collect();
        }
        let locks: Vec<&str> = self.subjects.iter().map(|s| s.lock.as_str()).collect();
        if let Some(lock) = locks.iter().find(|l| !built.iter().any(|b| b == *l)) {
            let failure = format!("there is no guest kernel with the lock `{lock}`");
            return Err(
                Failure::new(failure).advice(format!("{}; {advice}", names::advice(lock, &built)))
            );
        }
        for lock in locks {
            sources::check(&self.kernels, &self.kernel_name(lock), prefix)
                .map_err(|failure| failure.advice(&advice))?;
        }
        let dir = tempfile::tempdir().context("cannot make a directory for the scripts")?;
        let counts = "[ ! -e /proc/flexguard/counts ] || echo 0 >/proc/flexguard/counts\n";
        let tell = "[ ! -e /proc/flexguard/counts ] || sed 's/^/result /' /proc/flexguard/counts\n";
        for section in &self.section {
            let script = format!("{counts}{}{tell}", self.load.script(self.scale, *section));
            fs::write(dir.path().join(section.to_string()), script)
                .context("cannot write the script")?;
        }
        self.scripts = Some(dir);
        Ok(())
    }

    fn subjects(&self) -> Vec<String> {
        self.subjects.iter().map(|s| s.name.clone()).collect()
    }

    fn points(&self) -> Vec<Point> {
        let numbers = |values: &[u32]| values.iter().copied().map(f64::from).collect();
        let mut variables = vec![
            ("guests", numbers(&self.guests)),
            ("vcpus", numbers(&self.vcpus)),
        ];
        if self.hogs != [0] {
            variables.push(("hogs", numbers(&self.hogs)));
        }
        if self.burners != [0] {
            variables.push(("burners", numbers(&self.burners)));
        }
        if self.section != [SECTION] {
            variables.push(("section", numbers(&self.section)));
        }
        Point::product(&variables)
    }

    fn settings(&self) -> Value {
        json!({
            "load": self.load.name(),
            "subjects": self.subjects,
            "scale": self.scale,
            "counts": self.counts,
        })
    }

    fn measures(&self) -> Vec<Measure> {
        let mut measures = vec![
            measure("throughput", "operations", Unit::OpsPerMs, Higher),
            measure("seconds", "time", Unit::Seconds, Lower),
            measure("cpu_seconds", "CPU", Unit::Seconds, Lower),
            measure("fairness", "least over most", Unit::Plain, None),
            measure("thread_ms", "a thread's ms", Unit::Plain, None),
            measure("deviation", "deviation", Unit::Plain, None),
            measure("burned", "CPUs of burners", Unit::Plain, None),
            measure("complete", "complete", Unit::Plain, None),
        ];
        let counted = |name: &str, title: &str| measure(name, title, Unit::Count, None);
        measures.extend([
            counted("taken", "N"),
            counted("stalls", "Nh+Nw"),
            counted("stalls_holder", "Nh"),
            counted("stalls_waiter", "Nw"),
            measure("waiter_share", "Nw/(Nh+Nw)", Unit::Plain, None),
            counted("psp", "PSP"),
            counted("psp_holder", "PSP, holder"),
            counted("psp_waiter", "PSP, waiter"),
            measure("psp_per_million", "PSP per 10^6", Unit::Plain, None),
            measure("spin_share", "spinning", Unit::Plain, None),
            measure("queue", "queue", Unit::Plain, None),
            counted("queue_most", "longest queue"),
            counted("overtaken", "order violations"),
            counted("overtaken_most", "most by one"),
            measure("overtaken_per_thousand", "per 10^3", Unit::Plain, None),
            counted("halts", "halts"),
            counted("kicks", "kicks"),
            counted("yields", "yields"),
            counted("incapable", "incapable"),
        ]);
        measures
    }

    fn primary(&self) -> &'static str {
        if self.load.is_timed() {
            "throughput"
        } else {
            "seconds"
        }
    }

    fn columns(&self) -> Vec<String> {
        let counts = [
            "taken",
            "stalls_holder",
            "stalls_waiter",
            "waiter_share",
            "psp_holder",
            "psp_waiter",
            "psp_per_million",
            "spin_share",
            "queue",
            "overtaken",
            "overtaken_per_thousand",
            "overtaken_most",
        ];
        let times = [
            self.primary(),
            "ratio",
            "cpu_seconds",
            "fairness",
            "thread_ms",
            "deviation",
            "burned",
            "complete",
        ];
        let names: &[&str] = if self.counts { &counts } else { &times };
        names.iter().copied().map(Into::into).collect()
    }

    fn figures(&self) -> Vec<FigureSpec> {
        let figure = |id: String, measure: &str| FigureSpec {
            id,
            title: self.title(),
            measure: measure.into(),
            shape: Shape::Bars,
            ..FigureSpec::default()
        };
        let id = format!("guests-{}", self.load.name());
        if !self.counts {
            return vec![figure(id, self.primary())];
        }
        vec![
            figure(format!("{id}-order"), "overtaken_per_thousand"),
            figure(format!("{id}-queue"), "queue"),
            figure(id, "psp_per_million"),
        ]
    }

    fn monitor(&self) -> Option<MonitorMode> {
        Some(self.monitor)
    }

    fn launch(&self, point: &Point, subject: &str) -> Launch {
        let number = |name: &str| point.get(name).unwrap_or(0.0) as u32;
        let section = point.get("section").map_or(self.section[0], |s| s as u32);
        let subject = self.subject_called(subject);
        let argv = [
            self.kernels.join("run").into_os_string(),
            format!("-n{}", number("guests")).into(),
            format!("-b{}", number("burners")).into(),
            format!("-c{}", number("vcpus")).into(),
            format!("-t{LIMIT_SECONDS}").into(),
            self.kernel(&subject.lock).into(),
            self.script(section).into(),
        ];
        Launch {
            seeded: false,
            command: child::command(&argv),
            capture: Capture::Together,
            limit: Duration::from_secs(LIMIT_SECONDS + 10),
            monitor: MonitorUse::Shared,
            hogs: number("hogs"),
            environment: subject.environment,
        }
    }

    fn read(&self, run: &Run, subject: &str, _: Option<&Counts>) -> Result<Reading, String> {
        let sums = results(&run.stdout);
        let get = |name: &str| sums.get(name).copied();
        let lock = self.subject_called(subject).lock;
        let booted = format!("guest: lock {lock},");
        let guests = run.stdout.matches(&booted).count() as f64;
        if let Some(line) = run.stdout.lines().find(|l| l.contains(NO_MONITOR)) {
            return Err(format!(
                "{line}; build the kernels anew (lab/guest/build, lab/guest/build --counts)"
            ));
        }
        let (Some(ns), true) = (get("ns"), guests > 0.0) else {
            return Err(with_tail("the guest printed no result", &run.stdout));
        };
        let seconds = ns / guests / 1e9;
        let mut values = BTreeMap::from([
            ("seconds".to_owned(), seconds),
            ("cpu_seconds".to_owned(), run.end.cpu_seconds()),
        ]);
        if get("lost").is_some_and(|lost| lost != 0.0) {
            return Err(with_tail("an update was lost", &run.stdout));
        }
        values.extend(self.worked(&sums, guests, seconds));
        if let Some(burned) = get("burned_ns") {
            let elapsed = run.elapsed.as_secs_f64();
            values.insert("burned".to_owned(), burned / 1e9 / elapsed.max(1e-9));
        }
        if get("taken").is_some() {
            values.extend(counted(&sums, guests, run.end.cpu_seconds())?);
        }
        Ok(Reading {
            values,
            detail: Value::Null,
        })
    }

    fn run_seconds(&self, point: &Point) -> Option<f64> {
        let vcpus = point.get("guests")? * point.get("vcpus")?;
        let crowd = (vcpus / machine::contexts() as f64).max(1.0);
        Some(1.0 + self.scale * if self.load.is_timed() { 2.0 } else { crowd })
    }
}

type Sums = BTreeMap<String, f64>;

impl Guests {
    /// What the threads of the guests have done, of the sums over the guests.
    fn worked(&self, sums: &Sums, guests: f64, seconds: f64) -> Sums {
        let get = |name: &str| sums.get(name).copied();
        let mut values = Sums::new();
        let mut put = |name: &str, value: f64| values.insert(name.to_owned(), value);
        if let Some(updates) = get("updates") {
            put("throughput", updates / seconds / 1e3);
        }
        if let (Some(least), Some(most)) = (get("least_updates"), get("most_updates")) {
            put("fairness", least / most.max(1.0));
        }
        // Threads that their limit ended have all waited for as long: how even their times are says nothing.
        let is_complete =
            self.load != Load::Turns || get("ops").is_none_or(|n| get("least_updates") == Some(n));
        if self.load == Load::Turns {
            put("complete", f64::from(u8::from(is_complete)));
        }
        if let (Some(mean), Some(deviation), true) =
            (get("mean_ns"), get("deviation_ns"), is_complete)
        {
            put("thread_ms", mean / guests / 1e6);
            put("deviation", deviation / mean.max(1.0));
        }
        values
    }
}

/// What the lock of a kernel with counts has counted, of the sums over the guests.
fn counted(sums: &Sums, guests: f64, cpu_seconds: f64) -> Result<Sums, String> {
    let of = |name: &str| sums.get(name).copied().unwrap_or(0.0);
    let (Some(spins), Some(spin_ps)) = (sums.get("spins"), sums.get("spin_ps")) else {
        return Err("the kernel counts no spins: build it anew (lab/guest/build --counts)".into());
    };
    let taken = of("taken").max(1.0);
    let stalls = of("stalls_holder") + of("stalls_waiter");
    let psp = of("slices_holder") + of("slices_waiter");
    let spun = spins * spin_ps / guests / 1e12;
    let as_counted = [
        "taken",
        "stalls_holder",
        "stalls_waiter",
        "overtaken",
        "halts",
        "kicks",
        "yields",
        "incapable",
    ];
    let mut values: Sums = as_counted.map(|name| (name.to_owned(), of(name))).into();
    let of_them = [
        ("stalls", stalls),
        ("overtaken_per_thousand", of("overtaken") / taken * 1e3),
        ("overtaken_most", of("overtaken_most") / guests),
        ("psp_holder", of("slices_holder")),
        ("psp_waiter", of("slices_waiter")),
        ("psp", psp),
        ("psp_per_million", psp / taken * 1e6),
        ("queue", of("queued") / of("waited").max(1.0)),
        ("queue_most", of("queued_most") / guests),
        ("spin_share", spun / cpu_seconds.max(1e-9)),
    ];
    values.extend(of_them.map(|(name, value)| (name.to_owned(), value)));
    if stalls > 0.0 {
        values.insert("waiter_share".to_owned(), of("stalls_waiter") / stalls);
    }
    Ok(values)
}

/// The sums over the guests of what they print as `NUMBER: result NAME VALUE`.
fn results(output: &str) -> Sums {
    let mut sums = Sums::new();
    for line in output.lines() {
        let mut words = line.split_whitespace().skip(1);
        if words.next() != Some("result") {
            continue;
        }
        let (Some(name), Some(value)) = (words.next(), words.next()) else {
            continue;
        };
        if let Ok(value) = value.parse::<f64>() {
            *sums.entry(name.to_owned()).or_insert(0.0) += value;
        }
    }
    sums
}

/// Where lab/guest/build keeps kernels unless it is told another place.
pub fn default_kernels() -> PathBuf {
    let scratch = std::env::var_os("FLEXGUARD_KERNELS").unwrap_or("/tmp/flexguard-kernels".into());
    Path::new(&scratch).join("guests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_known_by_their_names() {
        let lock = |file, counts| lock_of(file, counts);
        assert_eq!(lock("linux-ticket", false).as_deref(), Some("ticket"));
        assert_eq!(lock("linux-ticket-counts", true).as_deref(), Some("ticket"));
        assert_eq!(lock("linux-ticket-counts", false), None);
        assert_eq!(lock("linux-ticket", true), None);
        assert_eq!(lock("linux-source-7.3", false), None);
        assert_eq!(lock("run", false), None);
    }

    #[test]
    fn results_are_summed_over_the_guests() {
        let sums = results(
            "1: result ns 5\n2: result ns 7\n1: boot\n2: result lost\n2: result name text\n",
        );
        assert_eq!(sums, BTreeMap::from([("ns".to_owned(), 12.0)]));
    }
}
