// SPDX-License-Identifier: MIT
//! Names that others have chosen reach no terminal raw: each command that prints text, beside a program whose name is a
//! terminal's escape sequence.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::common::daemon::{Daemon, Process, wait_for};
use crate::common::*;

/// Sets a terminal's title, then turns what follows red.
const NAME: &str = "\x1b]0;x\x07\x1b[31m";
const SHOWN: &str = "\\u001b]0;x\\u0007\\u001b[31m";
const SOURCE: &str = "#include <pthread.h>
pthread_mutex_t a_lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void a_function(void)
{
    pthread_mutex_lock(&a_lock);
    pthread_mutex_unlock(&a_lock);
    __asm__ volatile(\"\");
}
int main(void)
{
    for (int i = 0; i < 1000; i++)
        a_function();
    return 0;
}
";
const ARGUMENTS: &str = "shm --lock posix --threads 8 --warmup 0 --section-cycles 300000";

/// The bench's worker by that name, in a directory of its own.
fn named() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    fs::copy(prefix().join("libexec/flexguard/fg-bench-posix"), &path).unwrap();
    (dir, path)
}

fn start(daemon: &Daemon, path: &Path) -> Process {
    let mut command = Command::new(path);
    command
        .arg0("worker")
        .args(ARGUMENTS.split(' '))
        .args(["--seconds", "3600"])
        .env("LD_PRELOAD", prefix().join("lib/flexguard/flexguard.so"))
        .env("FLEXGUARD_SOCKET", &daemon.socket)
        .stdout(Stdio::null());
    Process::start(&mut command)
}

/// The linker takes every name.
fn linked_with(names: &[(&str, &str)], dir: &Path) -> String {
    let at = |file: &str| dir.join(file).to_str().unwrap().to_owned();
    let (source, object, program) = (at("symbols.c"), at("symbols.o"), at("symbols"));
    fs::write(&source, SOURCE).unwrap();
    let does = |program: &str, arguments: &[&str]| {
        let status = Command::new(program).args(arguments).status();
        assert!(status.unwrap().success(), "{program}");
    };
    let options = ["-O1", "-fno-omit-frame-pointer", "-c", "-o"];
    does(
        "cc",
        &[&options[..], &[object.as_str(), source.as_str()]].concat(),
    );
    for (old, new) in names {
        let name = format!("{old}={new}");
        does("objcopy", &["--redefine-sym", &name, &object]);
    }
    does("cc", &["-pthread", "-o", &program, &object]);
    program
}

fn assert_harmless(what: &str, output: &Output) {
    for text in [&output.stdout, &output.stderr] {
        let commands = text.iter().find(|&&b| b < b' ' && b != b'\n' && b != b'\t');
        let text = String::from_utf8_lossy(text);
        assert_eq!(commands, None, "{what}: {text:?}");
    }
}

#[test]
fn a_program_that_ends_for_want_of_a_monitor_prints_no_such_name() {
    let (_dir, path) = named();
    let output = Command::new(&path)
        .env("LD_PRELOAD", prefix().join("lib/flexguard/flexguard.so"))
        .env("FLEXGUARD_SOCKET", "@flexguard-test-nobody")
        .env("FLEXGUARD_REQUIRE", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("?]0;x??[31m does not start"));
    assert_harmless("FLEXGUARD_REQUIRE", &output);
}

#[test]
fn no_text_has_what_a_terminal_obeys() {
    const TEST: &str = "no_text_has_what_a_terminal_obeys";
    if !bpf(TEST) {
        return;
    }
    let (_dir, path) = named();
    let daemon = Daemon::start();
    let worker = start(&daemon, &path);
    let ask = |words: &[&str]| run(words.iter().copied().chain(["--socket", &daemon.socket]));
    wait_for("the program in the status", || {
        let output = ask(&["status"]);
        assert_harmless("status", &output);
        stdout(&output).contains(SHOWN).then_some(())
    });
    assert!(stdout(&ask(&["status", "--json"])).contains("\\u001b[31m"));
    assert_harmless("metrics", &ask(&["metrics", "--once"]));
    if as_root() {
        wait_for("a preemption in the trace", || {
            let output = ask(&["trace", "--seconds", "1"]);
            assert_harmless("trace", &output);
            stdout(&output).contains(SHOWN).then_some(())
        });
        let pid = worker.pid().to_string();
        let mut profile = flexguard();
        profile
            .args(["profile", "--pid", &pid, "--seconds", "1"])
            .env("FLEXGUARD_SOCKET", &daemon.socket);
        assert_harmless("profile --pid", &profile.output().unwrap());
    }
    drop(worker);
}

/// Of programs that the user names, too: a file's name may come from anywhere.
#[test]
fn nor_have_commands_that_start_a_program() {
    let (_dir, path) = named();
    let path = path.to_str().unwrap();
    let arguments: Vec<&str> = ARGUMENTS.split(' ').chain(["--seconds", "0.2"]).collect();
    for options in [
        &["profile", "--monitor", "off", "--"][..],
        &["run", "--monitor", "off", "--stats", "--"],
        &[
            "advise",
            "--monitor",
            "off",
            "--locks",
            "futex",
            "--rounds",
            "1",
            "--",
        ],
    ] {
        let words = options.iter().chain([&path]).chain(&arguments);
        let output = run(words.copied());
        assert_harmless(
            options[0],
            &Output {
                stdout: said_by_us(&output),
                ..output
            },
        );
    }
    let missing = format!("/nonexist/{NAME}");
    let missing = run(["run", "--monitor", "off", "--", missing.as_str()]);
    assert_harmless("a failure", &missing);
    assert!(stderr(&missing).contains(SHOWN), "{}", stderr(&missing));
}

/// Names in a program's file, in what a profile says when it was made and when it is read again.
#[test]
fn nor_has_a_symbol_which_begins_no_line_either() {
    let dir = tempfile::tempdir().unwrap();
    let (lock, function) = (format!("{NAME}\nforged"), format!("f{NAME}\nforged"));
    let names = [("a_lock", lock.as_str()), ("a_function", function.as_str())];
    let program = linked_with(&names, dir.path());
    let saved = dir.path().join("saved");
    fs::create_dir(&saved).unwrap();
    let saved = saved.to_str().unwrap();
    let profile = ["profile", "--monitor", "off", "-o", saved, "--", &program];
    let shown = format!("{SHOWN}\\u000aforged");
    let runs: [(&[&str], usize); 3] = [
        (&profile, 3),
        (&["profile", "--open", saved], 3),
        (&["profile", "--compare", saved, saved], 1),
    ];
    for (words, names) in runs {
        let output = run(words);
        assert_harmless(&words.join(" "), &output);
        let text = stdout(&output) + &stderr(&output);
        assert_eq!(text.matches(&shown).count(), names, "{text}");
        assert!(!text.lines().any(|l| l.starts_with("forged")), "{text}");
    }
}

/// Without the lines that the program itself has printed, as JSON.
fn said_by_us(output: &Output) -> Vec<u8> {
    let lines = stdout(output);
    let ours = lines.lines().filter(|line| !line.starts_with('{'));
    ours.collect::<Vec<_>>().join("\n").into_bytes()
}
