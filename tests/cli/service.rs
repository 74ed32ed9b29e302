// SPDX-License-Identifier: MIT
//! `flexguard monitor` under a service manager, which is played by the test, and across restarts.

use std::fs;
use std::io::{BufRead, BufReader, IoSliceMut, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::daemon::{Process, TIMEOUT, wait_for};
use crate::common::*;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount, umount};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg};

pub fn root(test: &str) -> bool {
    if !as_root() {
        skipped(test, "needs root");
    }
    as_root()
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
}

fn said(process: &mut Process) -> String {
    let mut line = String::new();
    let out = process.0.stdout.as_mut().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    line
}

/// A monitor that is ready.
pub fn start(command: &mut Command) -> Process {
    let mut monitor = Process::start(command.stdout(Stdio::piped()));
    let line = said(&mut monitor);
    assert!(line.contains("ready"), "{line}");
    monitor
}

/// A program whose critical sections are preempted. It registers once, when it starts.
fn worker(socket: &Path) -> Process {
    let mut command = Command::new(prefix().join("libexec/flexguard/fg-bench"));
    command
        .args(["shm", "--lock", "flexguard-sosp25", "--threads", "8"])
        .args(["--seconds", "3600", "--warmup", "0"])
        .env("FLEXGUARD_SOCKET", socket)
        .env("FLEXGUARD_REQUIRE", "1") // or it would not wait for long on a busy machine
        .env_remove("FLEXGUARD_RECONNECT")
        .stdout(Stdio::null());
    Process::start(&mut command)
}

pub fn counters(socket: &Path) -> serde_json::Value {
    let socket = socket.to_str().unwrap();
    json(&stdout(&run([
        "monitor", "--status", "--json", "--socket", socket,
    ])))
}

pub fn preempted_holders(socket: &Path) -> u64 {
    counters(socket)["preempted_holders"].as_u64().unwrap()
}

pub fn await_more_than(before: u64, socket: &Path) {
    wait_for("a preempted critical section", || {
        (preempted_holders(socket) > before).then_some(())
    });
}

/// No program is left.
pub fn await_zero(socket: &Path) {
    wait_for("the counter to be 0", || {
        (counters(socket)["num_preempted_cs"] == 0).then_some(())
    });
}

#[test]
fn a_monitor_that_was_started_with_nohup_survives_a_hangup() {
    if !bpf("a_monitor_that_was_started_with_nohup_survives_a_hangup") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m.sock");
    for (disposition, survives) in [(libc::SIG_IGN, true), (libc::SIG_DFL, false)] {
        let mut command = flexguard();
        // SAFETY: between fork and exec, signal(2) is async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                libc::signal(libc::SIGHUP, disposition);
                Ok(())
            });
        }
        let mut monitor = start(command.arg("monitor").arg("--socket").arg(&socket));
        monitor.signal(libc::SIGHUP);
        if survives {
            assert_eq!(counters(&socket)["state"], "running");
            assert_eq!(monitor.end(libc::SIGTERM), Some(0));
        } else {
            assert_eq!(monitor.0.wait().unwrap().code(), Some(0));
        }
    }
}

/// To log to a pipe that nobody reads any more is an error, and no reason to end.
#[test]
fn a_monitor_whose_log_is_closed_goes_on() {
    if !bpf("a_monitor_whose_log_is_closed_goes_on") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m.sock");
    let mut command = flexguard();
    command
        .arg("monitor")
        .arg("--socket")
        .arg(&socket)
        .env("RUST_LOG", "info")
        .stderr(Stdio::piped());
    let mut monitor = start(&mut command);
    drop(monitor.0.stderr.take());
    let address = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    std::io::Write::write_all(&mut &address, b"garbage, which is refused, and logged").unwrap();
    let mut answer = Vec::new();
    let _ = (&address).read_to_end(&mut answer);
    assert_eq!(counters(&socket)["rejected_registrations"], 1);
    assert_eq!(monitor.end(libc::SIGTERM), Some(0));
}

/// Mounted for the test; unmounted, and all that was pinned gone, at its end.
pub struct BpfFileSystem(tempfile::TempDir);

impl BpfFileSystem {
    pub fn mount() -> Self {
        let dir = tempfile::tempdir().unwrap();
        mount(
            Some("bpf"),
            dir.path(),
            Some("bpf"),
            MsFlags::empty(),
            None::<&str>,
        )
        .unwrap();
        Self(dir)
    }

    pub fn pins(&self) -> PathBuf {
        self.0.path().join("monitor")
    }
}

impl Drop for BpfFileSystem {
    fn drop(&mut self) {
        umount(self.0.path()).unwrap();
    }
}

/// A monitor whose maps and programs outlive it.
pub fn start_pinned(socket: &Path, pins: &BpfFileSystem) -> Process {
    let mut command = flexguard();
    let command = command.arg("monitor").arg("--socket").arg(socket);
    start(command.arg("--pin").arg(pins.pins()))
}

#[test]
fn a_monitor_is_killed_and_its_successor_goes_on_where_it_ended() {
    const TEST: &str = "a_monitor_is_killed_and_its_successor_goes_on_where_it_ended";
    if !bpf(TEST) || !root(TEST) {
        return; // mounting is root's
    }
    let (dir, pins) = (tempfile::tempdir().unwrap(), BpfFileSystem::mount());
    let socket = dir.path().join("m.sock");
    let monitor = || start_pinned(&socket, &pins);
    let mut running = monitor();
    let worker = worker(&socket);
    await_more_than(0, &socket);
    for signal in [libc::SIGKILL, libc::SIGUSR2, libc::SIGKILL] {
        let before = preempted_holders(&socket);
        running.end(signal);
        running = monitor();
        // The worker makes no second registration: it is counted because the first one lives on.
        assert!(
            preempted_holders(&socket) >= before,
            "the counters began anew"
        );
        await_more_than(preempted_holders(&socket) + 10, &socket);
        assert_eq!(counters(&socket)["registered_processes"], 0);
    }
    drop(worker);
    await_zero(&socket);
    assert_eq!(running.end(libc::SIGTERM), Some(0));
    assert_eq!(
        fs::read_dir(pins.pins()).unwrap().count(),
        0,
        "pins are left"
    );
}

#[test]
fn a_directory_that_cannot_hold_pins_is_told_so_and_not_left_behind() {
    if !bpf("a_directory_that_cannot_hold_pins_is_told_so_and_not_left_behind") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for pins in ["", "new/and/deeper"] {
        let output = flexguard()
            .args(["monitor", "--socket", "@flexguard-test-no-pins", "--pin"])
            .arg(dir.path().join(pins))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert!(
            stderr(&output).contains("BPF file system"),
            "{}",
            stderr(&output)
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

/// The part of a service manager that listens, is told things, and keeps descriptors.
struct Manager {
    dir: tempfile::TempDir,
    told: UnixDatagram,
    listener: UnixListener,
    kept: Vec<(String, OwnedFd)>,
}

impl Manager {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let told = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        told.set_read_timeout(Some(TIMEOUT)).unwrap();
        let listener = UnixListener::bind(dir.path().join("m.sock")).unwrap();
        Self {
            dir,
            told,
            listener,
            kept: Vec::new(),
        }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("m.sock")
    }

    /// Starts the service as its unit does, and does what it asks for until it is ready.
    fn start(&mut self) -> Process {
        self.start_with(&[])
    }

    /// The same, by a command that becomes it.
    fn start_with(&mut self, launcher: &[&str]) -> Process {
        let mut names = vec!["flexguard.socket"];
        names.extend(self.kept.iter().map(|(name, _)| name.as_str()));
        let mut passed = vec![self.listener.as_raw_fd()];
        passed.extend(self.kept.iter().map(|(_, fd)| fd.as_raw_fd()));
        let mut command = Command::new("sh");
        clean(&mut command);
        command
            .args([
                "-c",
                "LISTEN_PID=$$ WATCHDOG_USEC=30000000 exec \"$@\"",
                "sh",
            ])
            .args(launcher)
            .args([FLEXGUARD, "monitor"])
            .env("LISTEN_FDS", passed.len().to_string())
            .env("LISTEN_FDNAMES", names.join(":"))
            .env("NOTIFY_SOCKET", self.dir.path().join("notify"))
            .stdout(Stdio::null());
        // SAFETY: dup2 and fcntl are async-signal-safe, and the vectors are not changed.
        unsafe {
            command.pre_exec(move || {
                // First out of the way of the numbers that they are to have.
                let moved = passed
                    .iter()
                    .map(|&fd| libc::fcntl(fd, libc::F_DUPFD, 1000));
                for (target, fd) in (3..).zip(moved.collect::<Vec<RawFd>>()) {
                    libc::dup2(fd, target);
                    libc::close(fd);
                }
                Ok(())
            });
        }
        let service = Process::start(&mut command);
        while !self.hear().contains("READY=1") {}
        service
    }

    /// One message, and what it asks for done.
    fn hear(&mut self) -> String {
        let mut text = [0; 4096];
        let mut parts = [IoSliceMut::new(&mut text)];
        let mut space = cmsg_space!(RawFd);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let told = self.told.as_raw_fd();
        // Where a socket has a timeout, being stopped and continued ends a call.
        let message = loop {
            match recvmsg::<UnixAddr>(told, &mut parts, Some(&mut space), flags) {
                Err(Errno::EINTR) => {}
                other => break other.unwrap(),
            }
        };
        let fds: Vec<RawFd> = message
            .cmsgs()
            .unwrap()
            .flat_map(|c| {
                if let ControlMessageOwned::ScmRights(fds) = c {
                    fds
                } else {
                    vec![]
                }
            })
            .collect();
        let bytes = message.bytes;
        let text = String::from_utf8_lossy(&text[..bytes]).into_owned();
        let name = text
            .lines()
            .find_map(|line| line.strip_prefix("FDNAME="))
            .unwrap_or("")
            .to_owned();
        if text.contains("FDSTORE=1") {
            assert!(text.contains("FDPOLL=0"), "it would drop maps: {text}");
            // SAFETY: the kernel has just installed it for us; nobody else knows it.
            self.kept.extend(
                fds.iter()
                    .map(|&fd| (name.clone(), unsafe { OwnedFd::from_raw_fd(fd) })),
            );
        }
        if text.contains("FDSTOREREMOVE=1") {
            self.kept.retain(|(kept, _)| *kept != name);
        }
        text
    }
}

#[test]
fn a_service_manager_keeps_what_a_successor_needs() {
    if !bpf("a_service_manager_keeps_what_a_successor_needs") {
        return;
    }
    let mut manager = Manager::new();
    let socket = manager.socket();
    let mut service = manager.start();
    let maps_and_links = manager.kept.len();
    let worker = worker(&socket);
    await_more_than(0, &socket);
    for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGKILL] {
        service.end(signal);
        assert!(socket.exists(), "the socket is the manager's");
        service = manager.start();
        assert_eq!(manager.kept.len(), maps_and_links, "kept descriptors grow");
        await_more_than(preempted_holders(&socket) + 10, &socket);
        assert_eq!(counters(&socket)["registered_processes"], 0);
    }
    drop(worker);
}

/// A monitor is killed when it has handed over the first of its maps.
#[test]
fn what_a_service_manager_has_of_half_a_set_is_replaced() {
    if !bpf("what_a_service_manager_has_of_half_a_set_is_replaced") {
        return;
    }
    let mut manager = Manager::new();
    manager.start().end(libc::SIGKILL);
    let maps_and_links = manager.kept.len();
    manager.kept.retain(|(name, _)| name.ends_with("-shared"));
    assert_eq!(manager.kept.len(), 1);
    for _ in 0..2 {
        manager.start().end(libc::SIGKILL);
        assert_eq!(manager.kept.len(), maps_and_links);
    }
}

#[test]
fn the_watchdog_is_fed_while_the_server_works() {
    if !bpf("the_watchdog_is_fed_while_the_server_works") {
        return;
    }
    let mut manager = Manager::new();
    let _service = manager.start();
    for _ in 0..2 {
        while !manager.hear().contains("WATCHDOG=1") {}
    }
}

#[test]
fn what_is_no_socket_to_serve_is_refused() {
    let output = Command::new("sh")
        .args(["-c", "LISTEN_PID=$$ exec \"$0\" monitor 3<&0", FLEXGUARD])
        .env("LISTEN_FDS", "1")
        .env("FLEXGUARD_PREFIX", prefix())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("ListenStream="),
        "{}",
        stderr(&output)
    );
}

/// Each of the unit's two capabilities is needed, and no other is: the service as it runs under systemd.
#[test]
fn the_units_capabilities_are_the_minimum() {
    const TEST: &str = "the_units_capabilities_are_the_minimum";
    if !bpf(TEST) || !root(TEST) {
        return; // only root can give capabilities away
    }
    let unit = fs::read_to_string(prefix().join("lib/systemd/system/flexguard.service")).unwrap();
    let line = |key: &str| {
        unit.lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap()
    };
    let all: Vec<_> = line("CapabilityBoundingSet=").split(' ').collect();
    assert_eq!(
        line("AmbientCapabilities=").split(' ').collect::<Vec<_>>(),
        all
    );
    let mut manager = Manager::new();
    open_to_all(manager.dir.path());
    open_to_all(&manager.dir.path().join("notify"));
    for left_out in [None].into_iter().chain(all.iter().copied().map(Some)) {
        let some: Vec<_> = all.iter().filter(|c| Some(**c) != left_out).collect();
        let set: String = some
            .iter()
            .map(|c| format!(",+{}", c.to_lowercase().replacen("cap_", "", 1)))
            .collect();
        let mut command = Command::new("setpriv");
        clean(&mut command);
        let service = command
            .args(["--reuid=65533", "--regid=65533", "--clear-groups"])
            .arg("--pdeathsig=KILL")
            .args([
                format!("--inh-caps=-all{set}"),
                format!("--ambient-caps=-all{set}"),
                format!("--bounding-set=-all{set}"),
            ])
            .args([
                FLEXGUARD,
                "monitor",
                "--socket",
                "@flexguard-test-capabilities",
            ])
            .env("NOTIFY_SOCKET", manager.dir.path().join("notify"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        match left_out {
            None => {
                while !manager.hear().contains("READY=1") {}
                assert_eq!(Process(service).end(libc::SIGTERM), Some(0));
            }
            Some(capability) => {
                let output = service.wait_with_output().unwrap();
                assert_eq!(output.status.code(), Some(125));
                assert!(stderr(&output).contains(capability), "{}", stderr(&output));
            }
        }
    }
}

/// The service is neither root nor the program's user: the program trusts it because root listens on its socket.
#[test]
fn a_program_trusts_the_service_that_root_listens_for() {
    const TEST: &str = "a_program_trusts_the_service_that_root_listens_for";
    if !bpf(TEST) || !root(TEST) {
        return; // only root can become other users
    }
    let mut manager = Manager::new();
    let socket = manager.socket();
    for path in [
        manager.dir.path(),
        &socket,
        &manager.dir.path().join("notify"),
    ] {
        open_to_all(path);
    }
    let _service = manager.start_with(&[
        "setpriv",
        "--reuid=65533",
        "--regid=65533",
        "--clear-groups",
        "--inh-caps=-all,+bpf,+perfmon",
        "--ambient-caps=-all,+bpf,+perfmon",
        "--bounding-set=-all,+bpf,+perfmon",
    ]);
    let _worker = confined_worker(&socket);
    wait_for("the program to register", || {
        (counters(&socket)["registered_processes"] == 1).then_some(())
    });
}

/// A program of user nobody, in PID, mount and network namespaces of its own. It checks mutual exclusion itself, and ends
/// when it is asked to (`end_round`).
fn confined_worker(socket: &Path) -> Process {
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--fork", "--kill-child", "--mount", "--net"])
        .args([
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--pdeathsig=KILL", // what --kill-child has set goes with the user
        ])
        .arg(prefix().join("libexec/flexguard/fg-bench"))
        .args(["shm", "--lock", "flexguard-sosp25", "--threads", "8"])
        .args(["--seconds", "3600", "--warmup", "0"])
        .env("FLEXGUARD_SOCKET", socket)
        .stdout(Stdio::null());
    Process::start(&mut command)
}

fn end_round(worker: &Process) {
    let unshare = worker.0.id();
    let children = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"));
    let program = children.unwrap().trim().parse().unwrap();
    kill(program, libc::SIGUSR1);
}

/// At no instant of a start, of a registration or of a switch does it matter to a program that its monitor is killed.
#[test]
fn a_hundred_kills_cost_a_confined_program_nothing() {
    const TEST: &str = "a_hundred_kills_cost_a_confined_program_nothing";
    if !bpf(TEST) || !root(TEST) {
        return;
    }
    let (dir, pins) = (tempfile::tempdir().unwrap(), BpfFileSystem::mount());
    open_to_all(dir.path());
    let socket = dir.path().join("m.sock");
    let start_one = || {
        let mut command = flexguard();
        let command = command.arg("monitor").arg("--socket").arg(&socket);
        command.arg("--pin").arg(pins.pins()).stdout(Stdio::piped());
        Process::start(command)
    };
    let mut monitor = start_one();
    assert!(said(&mut monitor).contains("ready"));
    let mut worker = confined_worker(&socket);
    await_more_than(0, &socket);
    let mut random = 0x9e37_79b9_u32;
    for _ in 0..100 {
        // Some die before they are ready, some long after.
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        std::thread::sleep(Duration::from_millis(u64::from(random >> 24)));
        monitor.end(libc::SIGKILL);
        monitor = start_one();
    }
    assert!(said(&mut monitor).contains("ready"));
    assert_eq!(
        worker.0.try_wait().unwrap(),
        None,
        "the program has ended early"
    );
    await_more_than(preempted_holders(&socket), &socket);
    end_round(&worker);
    // 3: two threads were in one critical section.
    assert_eq!(worker.0.wait().unwrap().code(), Some(0));
    await_zero(&socket);
    assert_eq!(monitor.end(libc::SIGTERM), Some(0));
}
