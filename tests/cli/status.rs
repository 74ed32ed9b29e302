// SPDX-License-Identifier: MIT
//! `flexguard status`.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::Command;
use std::time::Instant;

use crate::common::daemon::{Daemon, Process, TIMEOUT, check_schema, wait_for};
use crate::common::*;

fn status(socket: &str) -> serde_json::Value {
    let output = unprivileged()
        .args(["status", "--json", "--socket", socket])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    json(&stdout(&output))
}

/// Two processes that burn CPU, by which the holders of a program are preempted for whole time slices.
fn busy() -> [Process; 2] {
    [(); 2].map(|_| Process::start(Command::new("sh").args(["-c", "while :; do :; done"])))
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
    let output = run(words(
        "status --json --socket @flexguard-test-nobody-is-there",
    ));
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(json(&stdout(&output))["state"], "absent");
    check_schema("status", &[json(&stdout(&output))]);
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

/// It runs under a lock of FlexGuard's, and registers nowhere.
#[test]
fn a_program_that_runs_unwatched_is_shown() {
    let name = "a_program_that_runs_unwatched_is_shown";
    if !as_root() {
        return skipped(
            name,
            "needs root, which may look at the program's memory map",
        );
    }
    if !bpf(name) {
        return;
    }
    let daemon = Daemon::start();
    let mut command = flexguard();
    command
        .args(words("run -m off --lock flexguard -- sleep 1000"))
        .stdout(std::process::Stdio::null());
    let program = Process::start(&mut command);
    let found = wait_for("the program among the unwatched", || {
        let output = run(["status", "--json", "--socket", &daemon.socket]);
        let shown = json(&stdout(&output));
        check_schema("status", std::slice::from_ref(&shown));
        let mut unwatched = shown["unwatched_programs"].as_array()?.iter();
        let found = unwatched.find(|p| p["pid"] == program.pid())?;
        Some(found.clone())
    });
    assert_eq!(
        (&found["lock"], &found["command"]),
        (&"flexguard".into(), &"sleep".into())
    );
    let text = stdout(&run(["status", "--socket", &daemon.socket]));
    assert!(text.contains("not watched: "), "{text}");
}

/// With the program itself: all its threads run, and it is listed before the thread, so that its count may be older.
fn with_a_preempted_holder(socket: &str, pid: u32) -> (serde_json::Value, serde_json::Value) {
    wait_for(
        "a preempted holder of a program with all its threads",
        || {
            let shown = status(socket);
            let preempted = shown["preempted_now"].as_array()?.iter();
            let mut holders = preempted.filter(|thread| thread["role"] == "holder");
            let mut programs = shown["programs"].as_array()?.iter();
            let program = programs.find(|program| program["pid"] == pid)?;
            let is_complete =
                program["threads"].as_u64()? >= 8 && program["preempted_holders"].as_u64()? > 0;
            let program = program.clone();
            (is_complete && holders.next().is_some()).then_some((shown, program))
        },
    )
}

#[test]
fn a_program_and_what_it_holds_are_shown() {
    if !bpf("a_program_and_what_it_holds_are_shown") {
        return;
    }
    let daemon = Daemon::start();
    let socket = daemon.socket.clone();
    assert_eq!(status(&socket)["programs"], serde_json::json!([]));

    let _busy = busy();
    let worker = daemon.worker("flexguard-sosp25");
    let pid = worker.pid();
    let (shown, program) = with_a_preempted_holder(&socket, pid);
    // The unprivileged command of a test that root runs is still root's, but may not read its map.
    assert!(
        [
            serde_json::json!("flexguard-sosp25"),
            serde_json::Value::Null
        ]
        .contains(&program["lock"]),
        "{program}"
    );
    assert!(
        shown["preempted_now"]
            .as_array()
            .unwrap()
            .iter()
            .all(|thread| thread["pid"] == pid),
        "{shown}"
    );
    assert!(shown["rates_per_second"]["switches"].as_f64().unwrap() > 0.0);
    check_schema("status", std::slice::from_ref(&shown));
    let preempted = &shown["preempted_now"][0];
    assert_ne!(preempted["preemptor"]["tid"], preempted["tid"], "{shown}");
    assert!(shown["uptime_seconds"].as_f64().unwrap() > 0.0);
    // The answer to the first question of two was in between.
    assert!(shown["rates_per_second"]["process_cpus"].as_f64().unwrap() > 0.0);
    let version = stdout(&run(["--version"]));
    let version = version.trim_end().trim_start_matches("flexguard ");
    assert_eq!(
        (&shown["version"], &shown["command_version"]),
        (&version.into(), &version.into())
    );

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

#[test]
fn refused_clients_are_shown_with_the_reason() {
    if !bpf("refused_clients_are_shown_with_the_reason") {
        return;
    }
    let daemon = Daemon::start();
    let address = SocketAddr::from_abstract_name(&daemon.socket[1..]).unwrap();
    for (message, answers) in [(&b"FLGD\xff\xff\xff\xff"[..], 1), (b"GET / HTTP/1.1", 2)] {
        for _ in 0..answers {
            let mut client = UnixStream::connect_addr(&address).unwrap();
            client.write_all(message).unwrap();
            let mut answer = vec![];
            let _ = client.read_to_end(&mut answer); // the monitor hangs up on what it has not read
        }
    }
    let shown = status(&daemon.socket);
    let refused = &shown["totals"]["refused"];
    assert_eq!(
        (&refused["other_version"], &refused["malformed"]),
        (&1.into(), &2.into()),
        "{refused}"
    );
    assert_eq!(shown["totals"]["rejected_registrations"], 3);
    let text = stdout(&run(["status", "--socket", &daemon.socket]));
    assert!(
        text.contains("3 refused (2 malformed, 1 other version)"),
        "{text}"
    );
}

/// What listens there answers one client so.
fn answering(answer: &'static [u8]) -> (String, std::thread::JoinHandle<()>) {
    let socket = format!("@flexguard-test-answer-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&socket[1..]).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    let served = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.read_exact(&mut [0; 16]).unwrap();
        client.write_all(answer).unwrap();
    });
    (socket, served)
}

#[test]
fn a_monitor_that_speaks_another_abi_is_told_so() {
    // struct fg_reply: EPROTONOSUPPORT from a monitor of ABI 250.
    let (socket, served) = answering(b"FLGD\xfa\0\0\0\x5d\0\0\0\0\0\0\0");
    let output = run(["status", "--socket", &socket]);
    served.join().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let told = stderr(&output);
    assert!(told.contains("speaks ABI 250"), "{told}");
    assert!(told.contains("restart the service"), "{told}");
}

#[test]
fn a_user_has_so_many_programs_and_no_more() {
    if !bpf("a_user_has_so_many_programs_and_no_more") {
        return;
    }
    let daemon = Daemon::with(&["--programs-per-user", "1"]);
    // Each registers more than once: fg-bench executes the worker.
    let _first = daemon.worker("flexguard");
    let shown = wait_for("the first program", || {
        let shown = status(&daemon.socket);
        (shown["programs"].as_array()?.len() == 1).then_some(shown)
    });
    assert_eq!(shown["totals"]["unmonitored"], 0);
    let _second = daemon.worker("flexguard");
    let shown = wait_for("the second program", || {
        let shown = status(&daemon.socket);
        (shown["totals"]["too_many_programs"].as_u64()? > 0).then_some(shown)
    });
    assert_eq!(
        shown["totals"]["unmonitored"],
        shown["totals"]["too_many_programs"]
    );
    assert_eq!(shown["programs"].as_array().unwrap().len(), 1);
    check_schema("status", std::slice::from_ref(&shown));
    let text = stdout(&run(["status", "--socket", &daemon.socket]));
    assert!(text.contains(" too many programs)"), "{text}");
}

#[test]
fn the_domain_of_a_program_is_shown() {
    if !bpf("the_domain_of_a_program_is_shown") {
        return;
    }
    let _busy = busy();
    // SAFETY: no pointers are passed.
    let uid = unsafe { libc::getuid() };
    for (kind, domain) in [
        ("machine", "machine".to_owned()),
        ("user", format!("user {uid}")),
    ] {
        let daemon = Daemon::with(&["--domains", kind]);
        let worker = daemon.worker("flexguard");
        let shown = wait_for("a program whose holder is preempted", || {
            Some(status(&daemon.socket)).filter(|s| {
                let counter = &s["programs"][0]["domain_counter"];
                counter.as_u64().is_some_and(|n| n > 0)
            })
        });
        assert_eq!(shown["totals"]["domain_kind"], kind);
        assert_eq!(shown["programs"][0]["domain"], domain);
        check_schema("status", &[shown]);
        let text = stdout(&run(["status", "--socket", &daemon.socket]));
        assert!(text.contains(&format!("{domain}: ")), "{text}");
        drop(worker);
    }
}
