// SPDX-License-Identifier: MIT
//! `flexguard monitor`: one daemon for the machine, and the runs beside it.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdout, Command, Stdio};

use crate::common::daemon::Process;
use crate::common::*;

struct Daemon {
    process: Process,
    out: BufReader<ChildStdout>,
    socket: String,
    dir: tempfile::TempDir,
}

impl Daemon {
    /// Started, and ready. None where BPF cannot load.
    fn start(test: &str, options: &[&str]) -> Option<Self> {
        Self::start_with(test, options, &mut flexguard())
    }

    fn start_with(test: &str, options: &[&str], command: &mut Command) -> Option<Self> {
        if !bpf(test) {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("m.sock").to_str().unwrap().to_owned();
        command
            .args(["monitor", "--socket", &socket])
            .args(options)
            .stdout(Stdio::piped());
        let mut process = Process::start(command);
        let out = BufReader::new(process.0.stdout.take().unwrap());
        Some(Self {
            process,
            out,
            socket,
            dir,
        })
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    /// Returns what it says as it ends.
    fn end(mut self, signal: i32) -> String {
        self.process.signal(signal);
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        assert_eq!(self.process.0.wait().unwrap().code(), Some(0));
        assert!(
            !self.dir.path().join("m.sock").exists(),
            "the socket is still there"
        );
        text
    }
}

#[test]
fn rust_log_decides_what_a_daemon_tells_of_itself() {
    const TEST: &str = "rust_log_decides_what_a_daemon_tells_of_itself";
    for (wanted, said) in [("flexguard_monitor=info", true), ("warn", false)] {
        let mut command = flexguard();
        command.env("RUST_LOG", wanted).stderr(Stdio::piped());
        let Some(mut daemon) = Daemon::start_with(TEST, &[], &mut command) else {
            return;
        };
        daemon.line();
        let mut stderr = daemon.process.0.stderr.take().unwrap();
        daemon.end(libc::SIGTERM);
        let mut log = String::new();
        stderr.read_to_string(&mut log).unwrap();
        assert_eq!(log.contains("listening"), said, "{log}");
    }
}

#[test]
fn a_daemon_says_when_it_is_ready_and_ends_orderly() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let Some(mut daemon) = Daemon::start(
            "a_daemon_says_when_it_is_ready_and_ends_orderly",
            &["--json"],
        ) else {
            return;
        };
        let ready = json(&daemon.line());
        assert_eq!(
            (ready["state"].as_str(), ready["socket"].as_str()),
            (Some("ready"), Some(daemon.socket.as_str()))
        );
        let ended = json(&daemon.end(signal));
        assert_eq!(ended["state"], "ended");
        assert!(ended["switches"].as_u64().unwrap() > 0, "{ended}");
    }
}

/// Under a first line that says what it is about, each counter has a short line.
#[test]
fn what_people_read_of_a_daemon_has_one_counter_a_line() {
    const TEST: &str = "what_people_read_of_a_daemon_has_one_counter_a_line";
    let Some(mut daemon) = Daemon::start(TEST, &[]) else {
        return;
    };
    let socket = daemon.socket.clone();
    let first = |state: &str| format!("flexguard monitor: {state} on {socket}\n");
    assert_eq!(daemon.line(), first("ready"));
    let status = stdout(&run(["monitor", "--status", "--socket", &socket]));
    let ended = daemon.end(libc::SIGTERM);
    for (state, text) in [("running", status), ("ended", ended)] {
        let counters = text.strip_prefix(&first(state));
        let counters = counters.unwrap_or_else(|| panic!("{state}: {text}"));
        for line in counters.lines() {
            let value = line.split_once(": ").map(|(_, value)| value);
            let has_one = value.is_some_and(|v| !v.is_empty() && !v.contains(['[', '{', ',', ':']));
            assert!(has_one && line.len() <= 80, "{line}: {text}");
        }
        let switches = summary(counters)["switches"].parse::<u64>();
        assert!(switches.unwrap() > 0, "{text}");
    }
}

/// Each client takes a descriptor: the limit that its parent was content with says nothing of the daemon's clients.
#[test]
fn a_daemon_has_as_many_files_as_it_may_and_says_if_they_are_few() {
    const TEST: &str = "a_daemon_has_as_many_files_as_it_may_and_says_if_they_are_few";
    for (hard, few) in [(4096, false), (1024, true)] {
        let mut command = flexguard();
        command.stderr(Stdio::piped());
        // SAFETY: between fork and exec; a system call alone.
        unsafe {
            command.pre_exec(move || {
                let limit = libc::rlimit {
                    rlim_cur: 64,
                    rlim_max: hard,
                };
                match libc::setrlimit(libc::RLIMIT_NOFILE, &limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let Some(mut daemon) = Daemon::start_with(TEST, &[], &mut command) else {
            return;
        };
        daemon.line();
        let limits = format!("/proc/{}/limits", daemon.process.pid());
        let limits = std::fs::read_to_string(limits).unwrap();
        let files = limits
            .lines()
            .find_map(|l| l.strip_prefix("Max open files"));
        let files: Vec<&str> = files.unwrap().split_whitespace().collect();
        let hard = hard.to_string();
        assert_eq!(files[..2], [&hard, &hard], "{limits}");
        let mut stderr = daemon.process.0.stderr.take().unwrap();
        daemon.end(libc::SIGTERM);
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        let warning = format!("may have only {hard} open files");
        assert_eq!(said.contains(&warning), few, "{said}");
    }
}

#[test]
fn the_service_manager_is_told() {
    if !bpf("the_service_manager_is_told") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let manager = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    // What the manager is to keep is handed over before (tests/cli/service.rs).
    let told = || loop {
        let mut message = [0; 256];
        let length = manager.recv(&mut message).unwrap();
        let text = String::from_utf8_lossy(&message[..length]).into_owned();
        if !text.contains("FDSTORE") {
            return text;
        }
    };
    let mut command = flexguard();
    command
        .env("NOTIFY_SOCKET", dir.path().join("notify"))
        .arg("monitor")
        .arg("--socket")
        .arg(dir.path().join("m.sock"));
    let mut monitor = Process::start(command.stdout(Stdio::null()));
    assert_eq!(told(), "READY=1\n");
    monitor.signal(libc::SIGTERM);
    assert_eq!(told(), "STOPPING=1\n");
    assert_eq!(monitor.0.wait().unwrap().code(), Some(0));
}

#[test]
fn runs_beside_a_daemon_need_no_privilege_and_are_counted_by_it() {
    let Some(mut daemon) = Daemon::start(
        "runs_beside_a_daemon_need_no_privilege_and_are_counted_by_it",
        &["--json"],
    ) else {
        return;
    };
    daemon.line();
    let worker = prefix().join("libexec/flexguard/fg-bench");
    let output = unprivileged()
        .env("FLEXGUARD_SOCKET", &daemon.socket)
        .args(words("run --lock futex --monitor require --stats --"))
        .arg(&worker)
        .args(words(
            "shm --lock posix --threads 2 --seconds 0.1 --warmup 0",
        ))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary = summary(&stderr(&output));
    assert_eq!(summary["monitor"], "active (shared daemon)");
    assert!(
        summary["registered-processes"].parse::<u64>().unwrap() >= 1,
        "{summary:?}"
    );

    let status = run(["monitor", "--status", "--json", "--socket", &daemon.socket]);
    let status = json(&stdout(&status));
    assert_eq!(status["state"], "running");
    assert!(
        status["registered_processes"].as_u64().unwrap() >= 1,
        "{status}"
    );
    assert!(status["switches"].as_u64().unwrap() > 0, "{status}");

    let output = flexguard()
        .arg("doctor")
        .env("FLEXGUARD_SOCKET", &daemon.socket)
        .output()
        .unwrap();
    assert!(
        stdout(&output).contains("answers on"),
        "{}",
        stdout(&output)
    );
    daemon.end(libc::SIGTERM);
}

#[test]
fn a_program_run_beside_a_daemon_takes_the_commands_place() {
    let Some(mut daemon) = Daemon::start(
        "a_program_run_beside_a_daemon_takes_the_commands_place",
        &["--json"],
    ) else {
        return;
    };
    daemon.line();
    let child = flexguard()
        .env("FLEXGUARD_SOCKET", &daemon.socket)
        .args(["run", "--", "sh", "-c", "echo $$"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    assert_eq!(
        stdout(&child.wait_with_output().unwrap()).trim(),
        pid.to_string()
    );
    daemon.end(libc::SIGTERM);
}

#[test]
fn a_second_daemon_is_refused() {
    let Some(mut daemon) = Daemon::start("a_second_daemon_is_refused", &["--json"]) else {
        return;
    };
    daemon.line();
    let output = run(["monitor", "--socket", &daemon.socket]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("already listens"),
        "{}",
        stderr(&output)
    );
    daemon.end(libc::SIGTERM);
}

#[test]
fn a_daemon_whose_place_is_another_files_says_what_to_do() {
    if !bpf("a_daemon_whose_place_is_another_files_says_what_to_do") {
        return;
    }
    let output = run(["monitor", "--socket", "/dev/null"]);
    assert_eq!(output.status.code(), Some(125));
    let said = stderr(&output);
    assert!(
        said.contains("not a socket") && said.contains("choose another path"),
        "{said}"
    );
}

#[test]
fn a_daemon_without_privilege_says_what_to_do() {
    let output = unprivileged()
        .args(["monitor", "--socket", "@flexguard-test-unprivileged"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("CAP_BPF"), "{}", stderr(&output));
}

#[test]
fn status_of_nobody_says_how_to_start_one() {
    let output = run(["monitor", "--status"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("flexguard monitor"),
        "{}",
        stderr(&output)
    );
}
