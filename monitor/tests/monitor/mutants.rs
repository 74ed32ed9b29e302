// SPDX-License-Identifier: MIT
//! The tests' own test: the kernel half is broken in one place after the other, and each time the test that is to
//! notice must fail.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use flexguard_monitor::Options;

use crate::domains::Group;
use crate::harness::{
    LANE_ENV, LIMIT_ENV, NOT_LOADED, OBJECT_ENV, Running, WAIT_BEGINS, ends_with_us, load,
    load_with, now,
};

include!("mutants/table.rs");
include!("../../bpf_flags.rs");

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// What the slowest test needs, and then some: a test that does not end by itself has noticed, too.
const LONGEST: Duration = Duration::from_secs(40);
/// Locked for writing while a test runs that takes a CPU, for reading while another runs. Where one of two CPUs is taken, a
/// test's thread that waits for the counter to fall may share the other one with its holder: it never runs while the holder
/// does.
static CPUS: RwLock<()> = RwLock::new(());
/// Each has a monitor of its own, and every switch on the machine runs all of them.
const MOST_LANES: usize = 4;

/// A monitor with those edits in its kernel half.
pub fn serve_edited(edits: &[(&str, &str)]) -> Running {
    serve_edited_with(edits, Options::default())
}

/// The same with those options.
pub fn serve_edited_with(edits: &[(&str, &str)], options: Options) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let object = build(folder.path(), "edited", edits);
    let (monitor, name) = load_with(Some(&object), options).unwrap();
    Running::serve(monitor, name)
}

/// Compiles the kernel half with each old text replaced by its new one.
fn build(folder: &Path, name: &str, edits: &[(&str, &str)]) -> PathBuf {
    let mut source = kernel_half(ROOT);
    for (old, new) in edits {
        assert!(
            source.contains(old),
            "{name}: the kernel half does not contain `{old}`: adapt the mutant, or delete it"
        );
        source = source.replace(old, new);
    }
    compiled(folder, name, &source)
}

/// The object of that source, in the folder.
pub fn compiled(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (file, object) = (
        folder.join(format!("{name}.bpf.c")),
        folder.join(format!("{name}.bpf.o")),
    );
    fs::write(&file, source).unwrap();
    let mut flags = bpf_flags(ROOT, env::consts::ARCH);
    flags.retain(|flag| flag != "-Werror");
    flags.push("-w".to_owned());
    compile_bpf(&file, &object, env!("FG_BPF_HEADERS"), &flags)
        .unwrap_or_else(|error| panic!("{name} does not compile: {error}"));
    object
}

/// What a test waits for with the right kernel half.
const MOST: Duration = Duration::from_secs(6);
/// With a broken one, at least.
const LEAST: Duration = Duration::from_secs(1);

/// Runs a test of this executable with that kernel half; in it each wait has that limit. None: it had to be ended.
fn run(object: &Path, test: &str, lane: usize, limit: Duration) -> Option<Output> {
    let alone = takes_a_cpu(test);
    let _alone = alone.then(|| CPUS.write().unwrap());
    let _shared = (!alone).then(|| CPUS.read().unwrap());
    let mut child = ends_with_us(&mut Command::new(env::current_exe().unwrap()))
        .args(["--exact", test])
        .env(OBJECT_ENV, object)
        .env(LANE_ENV, lane.to_string())
        .env(LIMIT_ENV, limit.as_millis().to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (begin, pid) = (Instant::now(), child.id());
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > LONGEST {
            child.kill().unwrap();
            child.wait().unwrap();
            Group::remove_those_of(pid);
            return None;
        }
        thread::sleep(Duration::from_millis(10));
    }
    Group::remove_those_of(pid); // it may have been aborted
    Some(child.wait_with_output().unwrap())
}

fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn judged_here() -> impl Iterator<Item = &'static Mutant> {
    MUTANTS.iter().filter(|mutant| mutant.caught_by != ORACLE)
}

/// Whether the test that is to notice the mutant failed.
fn is_noticed(mutant: &Mutant, object: &Path, lane: usize, limit: Duration) -> bool {
    let Some(output) = run(object, mutant.caught_by, lane, limit) else {
        return true;
    };
    let loaded = output.status.code() != Some(NOT_LOADED);
    assert!(loaded, "{} does not load: {}", mutant.name, told(&output));
    !output.status.success()
}

/// Tests whose roles leave their CPU to nobody else.
fn takes_a_cpu(test: &str) -> bool {
    const TAKING: [&str; 5] = [
        AGED,
        STAYS,
        "counting::one_holder_replacing_another_is_no_transition",
        "domains::holders_of_two_users_take_turns",
        "domains::who_gets_no_cpu_leaves_its_users_counter_after_a_second",
    ];
    TAKING.contains(&test)
}

/// With the right kernel half the test passes in this lane, beside the other lanes or alone. Returns for how long its waits
/// may last with a broken one: three times as long as the longest from one's beginning to the next one's, or to the end.
fn control(right: &Path, test: &str, lane: usize) -> Duration {
    let output = run(right, test, lane, MOST).expect("with the right kernel half the tests end");
    let end = now();
    let told = told(&output);
    assert!(told.contains("1 passed"), "{test}: {told}");
    let begin = |line: &str| line.strip_prefix(WAIT_BEGINS)?.parse().ok();
    let mut times: Vec<_> = told
        .lines()
        .filter_map(begin)
        .map(Duration::from_nanos)
        .collect();
    times.push(end);
    let longest = times
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .max();
    (3 * longest.unwrap_or_default()).clamp(LEAST, MOST)
}

/// Does the same in each lane. A lane has a CPU on which its victims and hogs meet, and the tests' own threads run on any.
fn in_lanes(work: impl Fn(usize) + Sync) {
    let lanes = thread::available_parallelism().unwrap().get();
    thread::scope(|scope| {
        for lane in 0..lanes.min(MOST_LANES) {
            let work = &work;
            scope.spawn(move || work(lane));
        }
    });
}

#[test]
#[ignore = "a minute; scripts/check runs it by its name"]
fn each_is_noticed() {
    if load().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let right = build(folder.path(), "right", &[]);
    let mut by_test: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in judged_here() {
        by_test.entry(mutant.caught_by).or_default().push(mutant);
    }
    // A test and its mutants are run in one lane. The longest begin first.
    let mut by_test: Vec<_> = by_test.into_iter().collect();
    by_test.sort_by_key(|(test, mutants)| (takes_a_cpu(test), mutants.len()));
    let left = Mutex::new(by_test);
    let unnoticed = Mutex::new(vec![]);
    let next = || left.lock().unwrap().pop();
    in_lanes(|lane| {
        while let Some((test, mutants)) = next() {
            let limit = control(&right, test, lane);
            for mutant in mutants {
                let object = build(folder.path(), mutant.name, &[(mutant.old, mutant.new)]);
                let begin = Instant::now();
                if !is_noticed(mutant, &object, lane, limit) {
                    unnoticed.lock().unwrap().push(mutant.name);
                }
                let seconds = begin.elapsed().as_secs_f64();
                eprintln!("{}: {seconds:.1} s, lane {lane}", mutant.name);
            }
        }
    });
    let unnoticed = unnoticed.into_inner().unwrap();
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}
