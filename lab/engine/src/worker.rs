// SPDX-License-Identifier: MIT
//! How fg-bench, which runs one round of one lock, is called and how its answer is read.
//!
//! docs/guide/benchmarks.md says what it promises; a field that is absent is a measure that is not shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::launch::{Launch, MonitorUse, Reading};
use super::measure::{Measure, Unit, measure};
use super::runner::{Capture, Run, with_tail};
use super::stats::Better::{Higher, Lower};
use flexguard_launch::child;
use flexguard_launch::failure::{Failure, Result};
use flexguard_launch::locks::{self, Lock};
use flexguard_launch::output;
use flexguard_launch::prefix::Prefix;

/// A lock that collapses hands over once a time slice at worst; a run that takes this much longer hangs.
const GRACE: Duration = Duration::from_secs(90);

/// Starting the process, its threads, and taking them down again.
pub const START_SECONDS: f64 = 0.05;

/// The worker's name for the kind of lock that is not ours.
const PEER: &str = "peer";

/// Of locks of ours with other constants: nothing but their names stands for them.
const VARIANT: &str = "variant";
/// The default lock with another value of a constant.
const CONSTANT: &str = "constant";
/// The default lock without one of its rules.
const RULE: &str = "rule";

pub fn find(prefix: &Prefix) -> Result<PathBuf> {
    let worker = prefix.worker();
    if worker.is_file() {
        return Ok(worker);
    }
    Err(
        Failure::new(format_args!("there is no {}", worker.display()))
            .advice("`make workers` builds the workers of the benchmark"),
    )
}

/// The locks of the index and, after them, the peers that only the worker carries.
pub fn locks(prefix: &Prefix, worker: &Path) -> Result<Vec<Lock>> {
    let mut known = locks::read(prefix)?;
    let listed = Command::new(worker).arg("--list").output();
    let listed = listed.map_err(|e| {
        Failure::because(e, format_args!("cannot execute {}", worker.display()))
            .advice("`make workers` builds the workers of the benchmark")
    })?;
    for line in String::from_utf8_lossy(&listed.stdout).lines() {
        let (name, kind) = line.split_once('\t').unwrap_or((line, PEER));
        if !known.iter().any(|l| l.name == name) {
            known.push(Lock {
                name: name.into(),
                class: kind.into(),
                ..Lock::default()
            });
        }
    }
    Ok(known)
}

/// The locks named, each once; `all` stands for posix and every lock of the index that this machine has what it needs
/// for, `peers` for those of others, `constants` for the default lock with other constants (`make workers CONSTANTS=ON`),
/// `rules` for it without one of its rules (`make workers RULES=ON`).
pub fn resolve(known: &[Lock], names: &[String]) -> Result<Vec<String>> {
    let mut chosen: Vec<String> = Vec::new();
    for name in names {
        let picked: Vec<&str> = match name.as_str() {
            "all" => by_class(known, |class| {
                ![PEER, VARIANT, CONSTANT, RULE].contains(&class)
            })
            .into_iter()
            .filter(|name| usable(known, name))
            .collect(),
            "peers" => by_class(known, |class| class == PEER),
            "constants" => by_class(known, |class| class == CONSTANT),
            "rules" => by_class(known, |class| class == RULE),
            name => {
                let lock = locks::find(known, name)?;
                lock.demand()?;
                vec![lock.name.as_str()]
            }
        };
        for name in picked {
            if !chosen.iter().any(|c| c == name) {
                chosen.push(name.to_owned());
            }
        }
    }
    if chosen.is_empty() {
        return Err(Failure::new("--locks names no lock").advice(
            "this installation was built without peers; `flexguard list` shows the locks",
        ));
    }
    Ok(chosen)
}

/// What to build so that there are the locks of `group`, where none is there.
pub fn lacks(known: &[Lock], group: &str) -> Option<&'static str> {
    let (class, option) = match group {
        "constants" => (CONSTANT, "CONSTANTS=ON"),
        "rules" => (RULE, "RULES=ON"),
        _ => return None,
    };
    (!known.iter().any(|lock| lock.class == class)).then_some(option)
}

/// Says so if not.
fn usable(known: &[Lock], name: &str) -> bool {
    let demanded = locks::find(known, name).and_then(Lock::demand);
    demanded
        .map_err(|failure| output::note_once(&failure.report()))
        .is_ok()
}

fn by_class(known: &[Lock], wanted: impl Fn(&str) -> bool) -> Vec<&str> {
    let picked = known.iter().filter(|l| wanted(&l.class));
    picked.map(|l| l.name.as_str()).collect()
}

/// One round. `options` whose value is None are not passed: the worker's own default holds. Flags have an empty value.
pub fn launch(
    worker: &Path,
    workload: &str,
    lock: &str,
    options: &[(String, Option<String>)],
    seconds: f64,
) -> Launch {
    let mut argv: Vec<OsString> =
        vec![worker.into(), workload.into(), "--lock".into(), lock.into()];
    for (option, value) in options {
        if let Some(value) = value {
            argv.push(option.into());
            if !value.is_empty() {
                argv.push(value.into());
            }
        }
    }
    Launch {
        seeded: false,
        hogs: 0,
        command: child::command(&argv),
        capture: Capture::Apart,
        limit: Duration::from_secs_f64(seconds) + GRACE,
        monitor: MonitorUse::Shared,
        environment: BTreeMap::new(),
    }
}

pub const THROUGHPUT: &str = "throughput_ops_per_ms";
pub const NS_PER_PAIR: &str = "ns_per_pair";
pub const MEDIAN_NS_PER_PAIR: &str = "median_ns_per_pair";

/// The measures of `uncontended`.
pub fn measures_of_pairs() -> Vec<Measure> {
    use Unit::Nanoseconds;
    vec![
        measure(
            NS_PER_PAIR,
            "lock and unlock, best batch",
            Nanoseconds,
            Lower,
        ),
        measure(MEDIAN_NS_PER_PAIR, "median batch", Nanoseconds, Lower),
    ]
}

/// Where each measure is in the worker's object, as a JSON pointer.
const PLAIN: [(&str, &str); 23] = [
    (THROUGHPUT, "/throughput_ops_per_ms"),
    (NS_PER_PAIR, "/ns_per_pair"),
    (MEDIAN_NS_PER_PAIR, "/median_ns_per_pair"),
    ("cs_mean_ns", "/cs_ns/mean"),
    ("cs_p50_ns", "/cs_ns/p50"),
    ("cs_p99_ns", "/cs_ns/p99"),
    ("cs_p999_ns", "/cs_ns/p999"),
    ("cs_max_ns", "/cs_ns/max"),
    ("hold_p50_ns", "/hold_ns/p50"),
    ("hold_p99_ns", "/hold_ns/p99"),
    ("hold_p999_ns", "/hold_ns/p999"),
    ("wait_p99_ns", "/wait_ns/p99"),
    ("longest_wait_ns", "/longest_wait_ns"),
    ("fairness_factor", "/fairness_factor"),
    ("fairness_normalised", "/fairness_normalised"),
    ("fairness_1s", "/fairness_1s/factor"),
    ("fairness_1s_worst", "/fairness_1s/worst_factor"),
    ("fairness_10s", "/fairness_10s/factor"),
    ("lock_bytes", "/memory/lock_bytes"),
    ("per_lock_bytes", "/memory/per_lock_bytes"),
    ("per_thread_bytes", "/memory/per_thread_bytes"),
    ("rss_growth_bytes", "/memory/rss_growth_bytes"),
    ("cpu_seconds", "/cpu_seconds"),
];

/// The measures of every worker's workload.
pub fn measures() -> Vec<Measure> {
    use Unit::{
        Bytes, Microseconds, Nanoseconds, OpsPerMs, PerOperation, PerSecond, Plain, Seconds,
    };
    vec![
        measure("throughput_ops_per_ms", "throughput", OpsPerMs, Higher),
        measure("cs_mean_ns", "section mean", Nanoseconds, Lower),
        measure("cs_p50_ns", "section p50", Nanoseconds, Lower),
        measure("cs_p99_ns", "section p99", Nanoseconds, Lower),
        measure("cs_p999_ns", "section p99.9", Nanoseconds, Lower),
        measure("cs_max_ns", "longest section", Nanoseconds, Lower),
        measure("hold_p50_ns", "held p50", Nanoseconds, Lower),
        measure("hold_p99_ns", "held p99", Nanoseconds, Lower),
        measure("hold_p999_ns", "held p99.9", Nanoseconds, Lower),
        measure("wait_p99_ns", "wait p99", Nanoseconds, Lower),
        measure("longest_wait_ns", "longest wait", Nanoseconds, Lower),
        measure("fairness_factor", "fairness factor", Plain, Lower),
        measure("fairness_normalised", "fairness normalised", Plain, Lower),
        measure("fairness_1s", "fairness over 1 s", Plain, Lower),
        measure("fairness_1s_worst", "worst second", Plain, Lower),
        measure("fairness_10s", "fairness over 10 s", Plain, Lower),
        measure("cpu_us_per_op", "CPU per operation", Microseconds, Lower),
        measure("cpu_seconds", "CPU", Seconds, None),
        measure("spins_per_op", "spins", PerOperation, Lower),
        measure("spins_per_s", "spins", PerSecond, None),
        measure("parks_per_s", "parks", PerSecond, None),
        measure("preempted_per_s", "preempted sections", PerSecond, Lower),
        measure("transitions_per_s", "mode transitions", PerSecond, None),
        measure(RAMP_BACK, "throughput, going over coming", Plain, Higher),
        measure(OPERATION_NS, "time of an operation", Nanoseconds, Lower),
        measure("runnable_mean", "runnable threads", Plain, None),
        measure(RUNNABLE[0], "none is runnable", Plain, None),
        measure(RUNNABLE[1], "one is runnable", Plain, None),
        measure(RUNNABLE[2], "two are runnable", Plain, None),
        measure(RUNNABLE[3], "three or more are runnable", Plain, None),
        measure("lock_bytes", "lock object", Bytes, Lower),
        measure("per_lock_bytes", "memory per lock", Bytes, Lower),
        measure("per_thread_bytes", "memory per thread", Bytes, Lower),
        measure("rss_growth_bytes", "resident growth", Bytes, None),
    ]
}

/// The share of the time in which so many threads are runnable; the last: so many or more.
pub const RUNNABLE: [&str; 4] = [
    "runnable_none",
    "runnable_one",
    "runnable_two",
    "runnable_more",
];

/// Of a ramp: the throughput while threads go, over that while they come.
const RAMP_BACK: &str = "ramp_back";

/// Of a step of a ramp: what a thread takes for an operation, and for what is between two.
pub const OPERATION_NS: &str = "operation_ns";

/// A ramp's steps up to the peak and from it, mirrored: without the peak itself.
fn ramp_back(object: &Value) -> Option<f64> {
    let steps = object.get("ramp")?.as_array()?;
    let throughput = |steps: &[Value]| -> Option<f64> {
        let sum = |key: &str| steps.iter().map(|s| s[key].as_f64()).sum::<Option<f64>>();
        Some(sum("ops")? / sum("seconds")?)
    };
    let peak = steps.len() / 2;
    Some(throughput(&steps[peak + 1..])? / throughput(&steps[..peak])?)
}

/// What the share of a nice level in all operations is called.
pub fn share(level: i32) -> String {
    format!("share_nice_{level}")
}

/// By level: the worker has one object for each place in the list, and a level may have several.
fn shares(object: &Value) -> BTreeMap<String, f64> {
    let mut ops: BTreeMap<i64, f64> = BTreeMap::new();
    for place in object["nice"].as_array().into_iter().flatten() {
        if let (Some(level), Some(n)) = (place["nice"].as_i64(), place["ops"].as_f64()) {
            *ops.entry(level).or_default() += n;
        }
    }
    let all: f64 = ops.values().sum();
    let shares = ops.into_iter().filter(|_| all > 0.0);
    shares
        .map(|(level, n)| (share(level as i32), n / all))
        .collect()
}

/// Reads the object that the worker printed; it may hold more.
pub fn read(run: &Run, required: &str) -> Result<Reading, String> {
    let unreadable =
        |e: String| with_tail(&format!("fg-bench printed no result: {e}"), &run.stdout);
    let object: Value = serde_json::from_str(&run.stdout).map_err(|e| unreadable(e.to_string()))?;
    let values = values(&object);
    if !values.contains_key(required) {
        return Err(unreadable(format!("{required} is missing")));
    }
    Ok(Reading {
        values,
        detail: object,
    })
}

fn values(object: &Value) -> BTreeMap<String, f64> {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_f64);
    let mut values: BTreeMap<String, f64> = PLAIN
        .iter()
        .filter_map(|(name, pointer)| Some(((*name).to_owned(), number(pointer)?)))
        .collect();
    let mut derive = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            values.insert(name.into(), value);
        }
    };
    let over = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
    let (ops, seconds) = (number("/ops"), number("/seconds"));
    derive(
        "cpu_us_per_op",
        over(number("/cpu_seconds").map(|s| s * 1e6), ops),
    );
    derive("spins_per_op", over(number("/spins"), ops));
    derive("spins_per_s", over(number("/spins"), seconds));
    derive("parks_per_s", over(number("/parks"), seconds));
    // Without a monitor nothing is counted, and the worker's zeros mean nothing.
    if object["monitor"] == Value::Bool(true) {
        let preempted = number("/preempted_holders")
            .zip(number("/preempted_next_waiters"))
            .map(|(a, b)| a + b);
        derive("preempted_per_s", over(preempted, seconds));
        derive(
            "transitions_per_s",
            over(number("/mode_transitions"), seconds),
        );
    }
    if let Some(samples) = object
        .pointer("/runnable/samples")
        .and_then(Value::as_array)
    {
        let samples: Vec<f64> = samples.iter().filter_map(Value::as_f64).collect();
        derive(
            "runnable_mean",
            Some(samples.iter().sum::<f64>() / samples.len() as f64),
        );
        for (i, name) in RUNNABLE.iter().enumerate() {
            let is = |n: f64| (n as usize).min(RUNNABLE.len() - 1) == i;
            let found = samples.iter().filter(|n| is(**n)).count();
            derive(name, Some(found as f64 / samples.len() as f64));
        }
    }
    derive(RAMP_BACK, ramp_back(object));
    values.extend(shares(object));
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_absent_is_left_out_and_what_follows_is_computed() {
        let read = values(
            &json!({"throughput_ops_per_ms": 2.0, "ops": 1000, "seconds": 0.5, "cpu_seconds": 1.0,
            "spins": 500, "monitor": true, "preempted_holders": 3, "preempted_next_waiters": 1, "mode_transitions": 2,
            "runnable": {"interval_us": 100, "samples": [1, 2, 1, 4]}}),
        );
        let expected = [
            ("cpu_seconds", 1.0),
            ("cpu_us_per_op", 1000.0),
            ("preempted_per_s", 8.0),
            ("runnable_mean", 2.0),
            ("runnable_more", 0.25),
            ("runnable_none", 0.0),
            ("runnable_one", 0.5),
            ("runnable_two", 0.25),
            ("spins_per_op", 0.5),
            ("spins_per_s", 1000.0),
            ("throughput_ops_per_ms", 2.0),
            ("transitions_per_s", 4.0),
        ];
        let read: Vec<(&str, f64)> = read.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn a_ramp_is_compared_with_its_way_back() {
        let step = |threads: u32, ops: u32| json!({"threads": threads, "seconds": 0.5, "ops": ops});
        let read = values(
            &json!({"ramp": [step(1, 60), step(2, 20), step(3, 7), step(2, 10), step(1, 30)]}),
        );
        assert_eq!(read, BTreeMap::from([("ramp_back".into(), 0.5)]));
        assert!(values(&json!({"ramp": [step(1, 60)]})).is_empty());
    }

    #[test]
    fn places_of_one_nice_level_are_added_up() {
        let place = |nice: i32, ops: u32| json!({"nice": nice, "threads": 1, "ops": ops});
        let read = values(&json!({"nice": [place(-5, 50), place(5, 10), place(-5, 20)]}));
        assert_eq!(
            read,
            BTreeMap::from([
                ("share_nice_-5".into(), 0.875),
                ("share_nice_5".into(), 0.125)
            ])
        );
        assert!(values(&json!({"nice": [place(0, 0)]})).is_empty());
    }

    #[test]
    fn without_a_monitor_nothing_was_counted() {
        let read = values(
            &json!({"monitor": false, "preempted_holders": 0, "preempted_next_waiters": 0,
                                  "mode_transitions": 0, "seconds": 1, "ops": 0, "spins": 0}),
        );
        assert_eq!(read.keys().collect::<Vec<_>>(), ["spins_per_s"]);
    }

    #[test]
    fn every_value_is_in_the_catalogue() {
        let all = measures().into_iter().chain(measures_of_pairs());
        let names: Vec<String> = all.map(|m| m.name).collect();
        assert!(
            PLAIN
                .iter()
                .all(|(name, _)| names.iter().any(|n| n == name))
        );
    }

    #[test]
    fn all_means_ours_and_peers_the_others() {
        let lock = |name: &str, class: &str| Lock {
            name: name.into(),
            class: class.into(),
            ..Lock::default()
        };
        let known = [
            lock("posix", "libc"),
            lock("a", "spin"),
            lock("absl", "peer"),
            lock("a-30", "variant"),
            lock("b-7", "constant"),
            lock("b-no-clock", "rule"),
        ];
        let resolve = |names: &[&str]| {
            resolve(
                &known,
                &names.iter().map(ToString::to_string).collect::<Vec<_>>(),
            )
        };
        assert_eq!(resolve(&["a", "all"]).unwrap(), ["a", "posix"]);
        assert_eq!(resolve(&["peers", "a"]).unwrap(), ["absl", "a"]);
        assert_eq!(resolve(&["a-30"]).unwrap(), ["a-30"]);
        assert_eq!(resolve(&["constants", "a"]).unwrap(), ["b-7", "a"]);
        assert_eq!(resolve(&["rules"]).unwrap(), ["b-no-clock"]);
        assert!(resolve(&["b"]).is_err());
    }
}
