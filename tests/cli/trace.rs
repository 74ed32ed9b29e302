// SPDX-License-Identifier: MIT
//! `flexguard trace`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::common::daemon::{Daemon, Process, check_schema, first_cpu, wait_for};
use crate::common::*;
use serde_json::Value;

/// A tracer, and its lines as they come.
struct Tracing {
    process: Process,
    lines: BufReader<std::process::ChildStdout>,
    seen: Vec<Value>,
}

impl Tracing {
    fn start(daemon: &Daemon, options: &[&str]) -> Tracing {
        let mut command = flexguard();
        command
            .args(["trace", "--json", "--socket", &daemon.socket])
            .args(options);
        let mut process = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let lines = BufReader::new(process.0.stdout.take().unwrap());
        Tracing {
            process,
            lines,
            seen: vec![],
        }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let value = json(&line);
        self.seen.push(value.clone());
        value
    }

    /// Ends it, and returns its last line.
    fn end(mut self, signal: i32) -> Value {
        self.process.signal(signal);
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        self.seen.extend(rest.lines().map(json));
        check_schema("trace", &self.seen);
        assert_eq!(self.process.0.wait().unwrap().code(), Some(0));
        self.seen.pop().expect("an end")
    }
}

/// What a tracer needs.
fn can_trace(test: &str) -> bool {
    if !as_root() {
        skipped(test, "needs root");
        return false;
    }
    bpf(test)
}

#[test]
fn each_line_is_as_the_schema_says_and_names_holder_lock_preemptor_and_place() {
    if !can_trace("each_line_is_as_the_schema_says_and_names_holder_lock_preemptor_and_place") {
        return;
    }
    let daemon = Daemon::start();
    let worker = daemon.worker("flexguard");
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut tracing = Tracing::start(&daemon, &[]);
        assert_eq!(tracing.next()["event"], "start");
        let mut seen = 0;
        let mut symbols = 0;
        while seen < 5 || symbols == 0 {
            let line = tracing.next();
            assert_eq!(line["event"], "preemption");
            assert_eq!(
                (&line["pid"], &line["role"]),
                (&worker.pid().into(), &"holder".into()),
                "{line}"
            );
            assert_ne!(line["tid"], line["preemptor"]["tid"], "{line}");
            assert!(line["off_cpu_us"].as_f64().unwrap() > 0.0);
            let stack = line["stack"].as_array().unwrap();
            symbols += stack
                .iter()
                .filter(|frame| frame["symbol"].is_string())
                .count();
            let named = line["lock"].is_string();
            assert_eq!(line["waiters"].is_u64(), named, "{line}");
            seen += usize::from(named);
        }
        let end = tracing.end(signal);
        assert_eq!(end["event"], "end");
        assert!(end["preemptions"].as_u64().unwrap() >= 5, "{end}");
    }
}

#[test]
fn the_monitor_counts_what_is_traced() {
    if !can_trace("the_monitor_counts_what_is_traced") {
        return;
    }
    let daemon = Daemon::start();
    let mut tracing = Tracing::start(&daemon, &[]);
    assert_eq!(tracing.next()["event"], "start"); // it is attached before the first preemption
    let worker = daemon.worker("flexguard-sosp25");
    for _ in 0..20 {
        let line = tracing.next();
        assert_eq!(line["event"], "preemption");
        assert!(line["waiters"].is_null(), "its word names no owner: {line}");
    }
    drop(worker);
    let status = || {
        let output = run(["monitor", "--status", "--json", "--socket", &daemon.socket]);
        json(&stdout(&output))
    };
    wait_for("the end of the worker's threads", || {
        (status()["num_preempted_cs"] == 0).then_some(())
    });
    let counted = status(); // not that one: its numbers were not read at one instant
    let number = |name: &str| counted[name].as_u64().unwrap();
    let end = tracing.end(libc::SIGINT);
    let (shown, lost) = (
        end["preemptions"].as_u64().unwrap(),
        end["lost"].as_u64().unwrap(),
    );
    // Two programs see the same switches; each may miss a switch that the kernel does not report to it.
    let all = number("preempted_holders") + number("preempted_next_waiters");
    assert!(
        (shown + lost).abs_diff(all) <= 1 + all / 100,
        "{end} {counted}"
    );
    let in_durations: u64 = counted["durations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap())
        .sum();
    assert_eq!(in_durations, all, "{counted}");
    assert!(
        number("preempted_ns") > 0 && number("blocking_ns") > 0,
        "{counted}"
    );
    assert!(number("blocking_ns") <= number("uptime_ns"), "{counted}");
}

/// Four threads share a lock, and a CPU with a process that takes it for whole time slices. Those that wait find that
/// the holder is preempted, and sleep.
#[test]
fn waiters_that_sleep_behind_a_preempted_holder_are_counted() {
    if !can_trace("waiters_that_sleep_behind_a_preempted_holder_are_counted") {
        return;
    }
    let daemon = Daemon::start();
    let pinned = |program: &str| {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &first_cpu()]).arg(program);
        command
    };
    let mut tracing = Tracing::start(&daemon, &[]);
    assert_eq!(tracing.next()["event"], "start");
    let mut worker = pinned(
        prefix()
            .join("libexec/flexguard/fg-bench")
            .to_str()
            .unwrap(),
    );
    worker
        .args(words(
            "shm --lock posix --threads 4 --seconds 3600 --warmup 0 --section-cycles 300000",
        ))
        .env("LD_PRELOAD", prefix().join("lib/flexguard/flexguard.so"))
        .env("FLEXGUARD_SOCKET", &daemon.socket)
        .stdout(Stdio::null());
    let _worker = Process::start(&mut worker);
    let _hog = Process::start(pinned("sh").args(["-c", "while :; do :; done"]));
    wait_for("all three waiters to sleep", || {
        let waiters = tracing.next()["waiters"].as_u64().unwrap_or(0);
        assert!(waiters <= 3, "{waiters}");
        (waiters == 3).then_some(())
    });
    tracing.end(libc::SIGTERM);
}

#[test]
fn other_processes_can_be_left_out() {
    if !can_trace("other_processes_can_be_left_out") {
        return;
    }
    let daemon = Daemon::start();
    let workers = [daemon.worker("flexguard"), daemon.worker("flexguard")];
    let mut tracing = Tracing::start(&daemon, &["--pid", &workers[1].pid().to_string()]);
    assert_eq!(tracing.next()["pid"], workers[1].pid());
    for _ in 0..10 {
        assert_eq!(tracing.next()["pid"], workers[1].pid());
    }
    tracing.end(libc::SIGTERM);
}

#[test]
fn it_goes_on_with_a_monitor_that_was_started_anew() {
    if !can_trace("it_goes_on_with_a_monitor_that_was_started_anew") {
        return;
    }
    let daemon = Daemon::start();
    let mut tracing = Tracing::start(&daemon, &[]);
    assert_eq!(tracing.next()["event"], "start");
    let socket = daemon.socket.clone();
    drop(daemon);
    let daemon = Daemon::on(&socket);
    let worker = daemon.worker("flexguard");
    let line = tracing.next();
    assert_eq!(
        (&line["event"], &line["pid"]),
        (&"preemption".into(), &worker.pid().into())
    );
    tracing.end(libc::SIGTERM);
}

#[test]
fn text_is_readable_and_a_time_can_be_given() {
    if !can_trace("text_is_readable_and_a_time_can_be_given") {
        return;
    }
    let daemon = Daemon::start();
    let output = run(["trace", "--seconds", "1", "--socket", &daemon.socket]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output).as_str()),
        ("", "0 preemptions, 0 lost\n")
    );

    let _worker = daemon.worker("flexguard");
    let mut command = flexguard();
    command
        .args(["trace", "--socket", &daemon.socket])
        .stdout(Stdio::piped());
    let mut tracing = Process::start(command.stderr(Stdio::null()));
    let lines = BufReader::new(tracing.0.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    let line = lines
        .find(|line| line.contains(" holder of 0x"))
        .expect("a preemption");
    assert!(
        line.contains(": off CPU ") && line.contains(" ms, by ") && line.ends_with(" slept"),
        "{line}"
    );
    // The reader goes away: it ends as any filter does.
    drop(lines);
    let status = tracing.0.wait().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(libc::SIGPIPE),
        "{status}"
    );
}

#[test]
fn what_cannot_be_traced_is_said_with_what_to_do() {
    let output = run(["trace", "--socket", "@flexguard-test-nobody-is-there"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("start one with `flexguard monitor`"),
        "{}",
        stderr(&output)
    );
    let output = run(["trace", "--pid", "4194305"]); // above every PID_MAX
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("no process 4194305"),
        "{}",
        stderr(&output)
    );
    assert_eq!(run(["trace", "--pid", "0"]).status.code(), Some(2));
    if !can_trace("what_cannot_be_traced_is_said_with_what_to_do") {
        return;
    }
    let daemon = Daemon::start();
    let output = unprivileged()
        .args(["trace", "--socket", &daemon.socket])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("CAP_SYS_ADMIN"),
        "{}",
        stderr(&output)
    );
}
