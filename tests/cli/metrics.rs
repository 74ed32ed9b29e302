// SPDX-License-Identifier: MIT
//! `flexguard metrics`.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::common::daemon::{Daemon, Process, TIMEOUT, wait_for};
use crate::common::*;

/// An exporter, and where it listens.
fn serve(listen: &str, socket: &str) -> (Process, String) {
    let mut command = unprivileged();
    command.args(["metrics", "--listen", listen, "--socket", socket]);
    let mut process = Process::start(command.stdout(Stdio::piped()));
    let mut ready = String::new();
    BufReader::new(process.0.stdout.as_mut().unwrap())
        .read_line(&mut ready)
        .unwrap();
    let address = ready
        .trim_end()
        .strip_prefix("flexguard metrics: ready on ");
    (
        process,
        address.expect("it says where it listens").to_owned(),
    )
}

fn ask(mut stream: impl Read + Write, request: &str) -> (String, String) {
    stream
        .write_all(format!("{request}\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

fn get(address: &str) -> String {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (head, body) = ask(stream, "GET /metrics HTTP/1.1\r\nHost: x");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"),
        "{head}"
    );
    assert!(body.ends_with("# EOF\n"), "{body}");
    body
}

/// The value of a metric without labels, or of one with these.
fn value(text: &str, name: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn what_the_monitor_counts_is_served_and_its_absence_too() {
    if !bpf("what_the_monitor_counts_is_served_and_its_absence_too") {
        return;
    }
    let daemon = Daemon::start();
    let (process, address) = serve("127.0.0.1:0", &daemon.socket);
    assert_eq!(
        value(&get(&address), "flexguard_registered_processes"),
        Some(0.0)
    );
    let worker = daemon.worker("flexguard");
    let preempted = "flexguard_preemptions_total{role=\"holder\"}";
    let text = wait_for("a preempted holder", || {
        let text = get(&address);
        (value(&text, preempted)? > 0.0 && value(&text, "flexguard_preempted_seconds_count")? > 0.0)
            .then_some(text)
    });
    assert_eq!(value(&text, "flexguard_up"), Some(1.0), "{text}");
    assert_eq!(
        value(&text, "flexguard_registered_processes"),
        Some(1.0),
        "{text}"
    );
    for name in [
        "flexguard_context_switches_total",
        "flexguard_uptime_seconds",
        "flexguard_blocking_seconds_total",
        "flexguard_monitor_cpu_seconds_total",
    ] {
        assert!(
            value(&text, name).is_some_and(|number| number > 0.0),
            "{name}: {text}"
        );
    }
    assert_eq!(
        value(
            &text,
            "flexguard_refused_clients_total{reason=\"malformed\"}"
        ),
        Some(0.0),
        "{text}"
    );
    // SAFETY: no pointers are passed.
    let domain = format!("user {}", unsafe { libc::getuid() });
    let name = format!("flexguard_domain_preempted_critical_sections{{domain=\"{domain}\"}}");
    assert!(value(&text, &name).is_some(), "{text}");
    drop(worker);
    drop(daemon);
    let text = get(&address);
    assert_eq!(value(&text, "flexguard_up"), Some(0.0), "{text}");
    assert_eq!(value(&text, preempted), None, "{text}");
    process.signal(libc::SIGTERM);
    let mut process = process;
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_unix_socket_serves_as_well_and_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.sock");
    let listen = path.to_str().unwrap();
    // One that was left by a killed exporter is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let (mut process, address) = serve(listen, "@flexguard-test-nobody-is-there");
    assert_eq!(address, listen);
    let connect = || UnixStream::connect(&path).unwrap();
    let (_, body) = ask(connect(), "GET /metrics HTTP/1.0");
    assert_eq!(value(&body, "flexguard_up"), Some(0.0), "{body}");
    assert!(ask(connect(), "GET / HTTP/1.0").0.contains(" 404 "));
    assert!(ask(connect(), "POST /metrics HTTP/1.0").0.contains(" 405 "));
    let second = run(["metrics", "--listen", listen]);
    assert_eq!(second.status.code(), Some(125));
    assert!(stderr(&second).contains("in use"), "{}", stderr(&second));
    process.signal(libc::SIGINT);
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
    assert!(!path.exists());
}

#[test]
fn who_is_slow_or_talks_for_ever_is_dropped() {
    let (_process, address) = serve("127.0.0.1:0", "@flexguard-test-nobody-is-there");
    let silent = TcpStream::connect(&address).unwrap();
    let mut endless = TcpStream::connect(&address).unwrap();
    endless.set_write_timeout(Some(TIMEOUT)).unwrap();
    let begin = Instant::now();
    while endless.write_all(&[b'a'; 4096]).is_ok() {
        assert!(begin.elapsed() < TIMEOUT, "it listens for ever");
    }
    silent.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(
        (&silent).read(&mut [0]).unwrap(),
        0,
        "it was not hung up on"
    );
    get(&address);
}

/// What has not been closed by the other side.
fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match (&mut &*stream).read(&mut [0]) {
        Ok(n) => n > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

/// Seven clients say nothing, and each has a connection as long as it may. Another is answered while they are there. A
/// machine may be so slow that their time is over first; then others say nothing.
#[test]
fn silent_clients_delay_no_other() {
    let (_process, address) = serve("127.0.0.1:0", "@flexguard-test-nobody-is-there");
    wait_for("an answer beside silent clients", || {
        let silent = [(); 7].map(|()| TcpStream::connect(&address).unwrap());
        get(&address);
        silent.iter().all(is_open).then_some(())
    });
}

/// With --expose, and with a warning only where other machines can reach it.
#[test]
fn who_asks_for_it_serves_other_machines_and_is_warned() {
    for (listen, is_warned) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let socket = "@flexguard-test-nobody-is-there";
        let mut command = unprivileged();
        command.args([
            "metrics", "--expose", "--listen", listen, "--socket", socket,
        ]);
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::start(piped);
        let mut ready = String::new();
        let mut out = BufReader::new(process.0.stdout.take().unwrap());
        out.read_line(&mut ready).unwrap();
        let (_, port) = ready.trim_end().rsplit_once(':').expect("an address");
        assert_eq!(
            value(&get(&format!("127.0.0.1:{port}")), "flexguard_up"),
            Some(0.0)
        );
        process.signal(libc::SIGTERM);
        let mut said = String::new();
        let mut err = process.0.stderr.take().unwrap();
        err.read_to_string(&mut said).unwrap();
        let warning = format!("warning: other machines can read the metrics on 0.0.0.0:{port}");
        assert_eq!(said.contains(&warning), is_warned, "{said}");
        assert_eq!(said.is_empty(), !is_warned, "{said}");
    }
}

#[test]
fn bad_addresses_are_refused_with_what_to_do() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let used = other.local_addr().unwrap().to_string();
    let long = format!("/tmp/{}", "m".repeat(200));
    for (address, why) in [
        ("0.0.0.0:9477", "other machines could reach it"),
        (&used, "a port that is free"),
        (&long, "a path shorter than 108 bytes"),
        ("localhost", "loopback"),
        ("/dev/null", "in use"),
        ("/nonexistent/m.sock", "No such file"),
    ] {
        let output = run(["metrics", "--listen", address]);
        assert_eq!(output.status.code(), Some(125), "{address}");
        assert!(
            stderr(&output).contains(why),
            "{address}: {}",
            stderr(&output)
        );
    }
    assert!(Path::new("/dev/null").exists());
}

fn share(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging/metrics")
        .join(file);
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn promtool(args: &[&str]) {
    let output = Command::new("promtool")
        .args(args)
        .output()
        .expect("promtool starts");
    assert!(
        output.status.success(),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
}

#[test]
fn the_alert_rules_are_valid_and_fire_when_they_should() {
    promtool(&[
        "check",
        "rules",
        "--lint=all",
        "--lint-fatal",
        &share("alerts.yml"),
    ]);
    promtool(&["test", "rules", &share("alerts-test.yml")]);
}

/// Prometheus itself reads what is served, and every metric that the dashboard and the rules ask for is there.
#[test]
fn prometheus_reads_it() {
    if !bpf("prometheus_reads_it") {
        return;
    }
    let daemon = Daemon::start();
    let _worker = daemon.worker("flexguard");
    let (_exporter, address) = serve("127.0.0.1:0", &daemon.socket);
    let text = wait_for("a preemption", || {
        Some(get(&address)).filter(|text| {
            value(text, "flexguard_preempted_seconds_count").is_some_and(|n| n > 0.0)
        })
    });
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("prometheus.yml");
    let scrape = format!(
        "scrape_configs: [{{job_name: x, scrape_interval: 1s, static_configs: [{{targets: ['{address}']}}]}}]\n"
    );
    std::fs::write(&config, scrape).unwrap();
    promtool(&["check", "config", config.to_str().unwrap()]);
    // A port that is free now.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut server = Command::new("prometheus");
    server
        .arg(format!("--config.file={}", config.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.path().join("data").display()
        ))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _server = Process::start(&mut server);
    let names = wait_for("what Prometheus has read", || {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        let (_, body) = ask(stream, "GET /api/v1/label/__name__/values HTTP/1.0");
        // What Prometheus says of a scrape it adds after all that it has scraped.
        body.contains("scrape_duration_seconds").then_some(body)
    });
    let rules = std::fs::read_to_string(share("alerts.yml")).unwrap();
    let dashboard = std::fs::read_to_string(share("grafana.json")).unwrap();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = rules
        .split(|c| !is_name(c))
        .chain(dashboard.split(|c| !is_name(c)));
    let asked: Vec<&str> = words
        .filter(|word| word.starts_with("flexguard_"))
        .collect();
    assert!(asked.len() > 10, "{asked:?}");
    for name in asked {
        assert!(
            names.contains(&format!("\"{name}\"")),
            "{name} is not in {names}\n{text}"
        );
    }
}
