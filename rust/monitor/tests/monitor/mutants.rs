// SPDX-License-Identifier: MIT
//! The tests' own test: the kernel half is broken in one place after the other, and each time the test that is to
//! notice must fail.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{NOT_LOADED, OBJECT_ENV, Running, load, load_object};

include!("mutants/table.rs");
include!("../../bpf_flags.rs");

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// What the slowest test needs, and then some: a test that does not end by itself has noticed, too.
const LONGEST: Duration = Duration::from_secs(40);

/// A monitor with those edits in its kernel half.
pub fn serve_edited(edits: &[(&str, &str)]) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let (monitor, name) = load_object(Some(&build(folder.path(), "edited", edits))).unwrap();
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

/// Runs tests of this executable with that kernel half. None: they had to be ended.
fn run(object: &Path, tests: &[&str]) -> Option<Output> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--test-threads=1"])
        .args(tests)
        .env(OBJECT_ENV, object)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > LONGEST * tests.len() as u32 {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        thread::sleep(Duration::from_millis(10));
    }
    Some(child.wait_with_output().unwrap())
}

fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Builds the mutants beside the tests that run.
fn build_all(folder: &Path, built: &Sender<PathBuf>) {
    for mutant in judged_here() {
        let object = build(folder, mutant.name, &[(mutant.old, mutant.new)]);
        if built.send(object).is_err() {
            return; // the other side has failed
        }
    }
}

fn judged_here() -> impl Iterator<Item = &'static Mutant> {
    MUTANTS.iter().filter(|mutant| mutant.caught_by != ORACLE)
}

/// Whether the test that is to notice the mutant failed.
fn is_noticed(mutant: &Mutant, object: &Path) -> bool {
    let Some(output) = run(object, &[mutant.caught_by]) else {
        return true;
    };
    let loaded = output.status.code() != Some(NOT_LOADED);
    assert!(loaded, "{} does not load: {}", mutant.name, told(&output));
    !output.status.success()
}

#[test]
#[ignore = "a minute; scripts/check runs it by its name"]
fn each_is_noticed() {
    if load().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tests: BTreeSet<&str> = judged_here().map(|mutant| mutant.caught_by).collect();
    let right = build(folder.path(), "right", &[]);
    let control = run(&right, &tests.iter().copied().collect::<Vec<_>>())
        .expect("with the right kernel half the tests end");
    let passed = format!("{} passed", tests.len());
    assert!(told(&control).contains(&passed), "{}", told(&control));
    let mut unnoticed = vec![];
    thread::scope(|scope| {
        let (sender, built) = channel();
        scope.spawn(|| build_all(folder.path(), &{ sender }));
        for (mutant, object) in judged_here().zip(built) {
            let begin = Instant::now();
            if !is_noticed(mutant, &object) {
                unnoticed.push(mutant.name);
            }
            eprintln!("{}: {:.1} s", mutant.name, begin.elapsed().as_secs_f64());
        }
    });
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}
