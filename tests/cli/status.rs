// SPDX-License-Identifier: MIT
//! `flexguard status`.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::*;

/// Far beyond what anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn status(socket: &str) -> serde_json::Value {
    let output = unprivileged()
        .args(["status", "--json", "--socket", socket])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    json(&stdout(&output))
}

#[test]
fn without_a_monitor_it_says_so() {
    let output = run(["status", "--socket", "@flexguard-test-nobody-is-there"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stdout(&output).contains("no monitor listens"),
        "{}",
        stdout(&output)
    );
    let output = run([
        "status",
        "--json",
        "--socket",
        "@flexguard-test-nobody-is-there",
    ]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(json(&stdout(&output))["state"], "absent");
}

#[test]
fn bad_sockets_are_refused_with_what_to_do() {
    let output = run(["status", "--socket", "relative"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("absolute path"),
        "{}",
        stderr(&output)
    );
    let output = run(["status", "--socket", "/dev/null"]);
    assert_ne!(output.status.code(), Some(0));
}

#[test]
fn a_program_and_what_it_holds_are_shown() {
    if !bpf("a_program_and_what_it_holds_are_shown") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m.sock").to_str().unwrap().to_owned();
    std::fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let mut monitor = flexguard();
    let monitor = monitor
        .args(["monitor", "--socket", &socket])
        .stdout(Stdio::piped())
        .spawn();
    let mut monitor = Process(monitor.unwrap());
    let mut ready = String::new();
    BufReader::new(monitor.0.stdout.as_mut().unwrap())
        .read_line(&mut ready)
        .unwrap();
    assert!(ready.contains("ready"), "{ready}");
    assert_eq!(status(&socket)["programs"], serde_json::json!([]));

    let worker = Command::new(prefix().join("libexec/flexguard/fg-bench"))
        .args([
            "shm",
            "--lock",
            "posix",
            "--threads",
            "8",
            "--seconds",
            "100",
            "--warmup",
            "0",
        ])
        .env(
            "LD_PRELOAD",
            prefix().join("lib/flexguard/flexguard-sosp25.so"),
        )
        .env("FLEXGUARD_SOCKET", &socket)
        .stdout(Stdio::null())
        .spawn();
    let worker = Process(worker.unwrap());
    let pid = worker.0.id();
    let deadline = Instant::now() + TIMEOUT;
    let shown = loop {
        let shown = status(&socket);
        let preempted = shown["preempted_now"].as_array().unwrap();
        if preempted.iter().any(|thread| thread["role"] == "holder") {
            break shown;
        }
        assert!(
            Instant::now() < deadline,
            "nobody was ever seen preempted: {shown}"
        );
    };
    let program = shown["programs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["pid"] == pid);
    let program = program.expect("the worker is registered");
    // The unprivileged command of a test that root runs is still root's, but may not read its map.
    assert!(
        [
            serde_json::json!("flexguard-sosp25"),
            serde_json::Value::Null
        ]
        .contains(&program["lock"]),
        "{program}"
    );
    assert!(program["threads"].as_u64().unwrap() >= 8, "{program}");
    assert!(
        shown["preempted_now"]
            .as_array()
            .unwrap()
            .iter()
            .all(|thread| thread["pid"] == pid),
        "{shown}"
    );
    assert!(shown["rates_per_second"]["switches"].as_f64().unwrap() > 0.0);
    assert!(shown["uptime_seconds"].as_f64().unwrap() > 0.0);

    let text = stdout(&run(["status", "--socket", &socket]));
    assert!(text.contains("flexguard-sosp25"), "{text}");
    drop(worker);
    let deadline = Instant::now() + TIMEOUT;
    while status(&socket)["counter"] != 0 || status(&socket)["programs"] != serde_json::json!([]) {
        assert!(
            Instant::now() < deadline,
            "it still shows a program that has ended"
        );
    }
}
