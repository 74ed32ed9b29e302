// SPDX-License-Identifier: MIT
//! What the tests of the command share.

pub mod daemon;
pub mod fake;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

pub const FLEXGUARD: &str = env!("CARGO_BIN_EXE_flexguard");

/// The installation under test: FLEXGUARD_PREFIX, or the tree's own build/.
pub fn prefix() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build");
    let prefix = std::env::var_os("FLEXGUARD_PREFIX").map_or(built, PathBuf::from);
    let index = prefix.join("share/flexguard/LOCKS");
    assert!(
        index.is_file(),
        "{} is missing: run `make` first, or set FLEXGUARD_PREFIX",
        index.display()
    );
    prefix.canonicalize().expect("the prefix is a directory")
}

/// The signals that the tests' parent may have set to be ignored (nohup, a shell's background job): a shell cannot
/// trap those, and the tests are about what the command does with them.
fn signals_as_in_a_login(command: &mut Command) {
    // SAFETY: between fork and exec, signal(2) is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
}

/// The command, in an environment where no daemon of the machine can be found and nothing is preloaded.
pub fn flexguard() -> Command {
    let mut command = Command::new(FLEXGUARD);
    clean(&mut command);
    command
}

pub fn clean(command: &mut Command) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Each another: runs that are told of the same place share a monitor.
    let nowhere = format!("/nonexistent/{}-{number}.sock", std::process::id());
    command
        .env("FLEXGUARD_PREFIX", prefix())
        .env("FLEXGUARD_SOCKET", nowhere)
        .env_remove("LD_PRELOAD")
        .env_remove("NOTIFY_SOCKET");
    signals_as_in_a_login(command);
}

pub fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    flexguard().args(args).output().expect("the command starts")
}

/// Sends a signal to a process that the test started.
pub fn kill(pid: u32, signal: i32) {
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

/// A command line of words without spaces.
pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

pub fn sh(options: &[&str], script: &str) -> Output {
    run([&["run"], options, &["--", "sh", "-c", script]].concat())
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The `name: value` lines of a summary.
pub fn summary(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|l| l.split_once(": "))
        .map(|(k, v)| (k.into(), v.into()))
        .collect()
}

pub fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("not JSON ({e}): {text}"))
}

/// Whether the monitor can be loaded here. If not, the test is skipped; where BPF is required, it fails.
pub fn bpf(test: &str) -> bool {
    let probe = flexguard_monitor::probe();
    if probe.usable() {
        return true;
    }
    let why = format!("{:?}", probe.hook);
    assert!(
        std::env::var("FLEXGUARD_REQUIRE_BPF").as_deref() != Ok("1"),
        "{test} needs BPF: {why}"
    );
    skipped(test, &format!("BPF cannot load here: {why}"));
    false
}

/// Says so where the test harness, which hides what a passing test prints, cannot swallow it; scripts/check reads it.
pub fn skipped(test: &str, why: &str) {
    let line = format!("SKIPPED: {test}: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

pub fn as_root() -> bool {
    // SAFETY: a query.
    unsafe { libc::geteuid() == 0 }
}

/// The command without any capability, also when root runs the test.
pub fn unprivileged() -> Command {
    if !as_root() {
        return flexguard();
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", FLEXGUARD]);
    clean(&mut command);
    command
}

/// A program of this C source, linked to a library with the name of GNU OpenMP's, which has the function
/// `int of_the_runtime(void)`.
pub fn linked_to_openmp(dir: &Path, source: &str) -> PathBuf {
    let (runtime, program) = (dir.join("libgomp.so.1"), dir.join("says"));
    std::fs::write(
        dir.join("runtime.c"),
        "int of_the_runtime(void) { return 0; }",
    )
    .unwrap();
    std::fs::write(dir.join("says.c"), source).unwrap();
    let cc = |arguments: &[&OsStr]| {
        assert!(
            Command::new("cc")
                .args(arguments)
                .status()
                .unwrap()
                .success()
        )
    };
    let rpath = format!("-Wl,-rpath,{}", dir.display());
    cc(&[
        "-shared".as_ref(),
        "-Wl,-soname,libgomp.so.1".as_ref(),
        "-o".as_ref(),
        runtime.as_ref(),
        dir.join("runtime.c").as_ref(),
    ]);
    cc(&[
        "-o".as_ref(),
        program.as_ref(),
        dir.join("says.c").as_ref(),
        runtime.as_ref(),
        rpath.as_ref(),
    ]);
    program
}
