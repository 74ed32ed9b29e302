// SPDX-License-Identifier: MIT
//! The monitor that concurrent runs of root share where there is no service.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::daemon::{Process, wait_for};
use crate::common::*;

/// Says where it registers, and stays until its input ends.
const STAY: [&str; 3] = ["sh", "-c", "echo $FLEXGUARD_SOCKET; read line"];

/// Where a service would be, and is not. Runs that are told of the same place share a monitor.
struct Place(String);

impl Place {
    /// None where a monitor cannot be loaded, or runs do not share one.
    fn new(test: &str) -> Option<Place> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !bpf(test) {
            return None;
        }
        if !as_root() {
            skipped(test, "needs root");
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        Some(Place(format!("/nonexistent/runs-{pid}-{number}")))
    }

    fn run(&self, program: &[&str]) -> Process {
        let mut command = flexguard();
        command
            .env("FLEXGUARD_SOCKET", &self.0)
            .args(["run", "--"])
            .args(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Process::start(&mut command)
    }

    /// A run that stays until its input ends, and where its program registers.
    fn stay(&self) -> (Process, String) {
        let mut run = self.run(&STAY);
        let socket = said(&mut run);
        (run, socket)
    }

    /// The monitors of the runs of this place.
    fn monitors(&self) -> Vec<u32> {
        let here = format!("FLEXGUARD_SOCKET={}", self.0);
        let is_ours = |pid: &u32| {
            let read = |file| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let has =
                |bytes: &[u8], word: &str| bytes.split(|b| *b == 0).any(|w| w == word.as_bytes());
            has(&read("cmdline"), "--of-runs") && has(&read("environ"), &here)
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_ours).collect()
    }

    fn await_end(&self) {
        wait_for("the monitor's end", || {
            self.monitors().is_empty().then_some(())
        });
    }
}

fn said(run: &mut Process) -> String {
    let mut line = String::new();
    let out = run.0.stdout.as_mut().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// How many BPF links the process holds.
fn links(pid: u32) -> usize {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
    targets
        .filter(|to| to.to_string_lossy().contains("bpf_link"))
        .count()
}

fn answers(socket: &str) -> bool {
    run(["monitor", "--status", "--socket", socket])
        .status
        .success()
}

fn end(mut run: Process) {
    drop(run.0.stdin.take());
    assert!(
        run.0.wait().unwrap().code() == Some(1),
        "`read` has found the end"
    );
}

#[test]
fn concurrent_runs_share_one_monitor_which_ends_with_the_last() {
    let Some(place) = Place::new("concurrent_runs_share_one_monitor_which_ends_with_the_last")
    else {
        return;
    };
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        // All three start before one of them is heard.
        let mut runs: Vec<_> = (0..3).map(|_| Some(place.run(&STAY))).collect();
        let sockets: Vec<_> = runs.iter_mut().flatten().map(said).collect();
        assert!(sockets.iter().all(|s| *s == sockets[0]), "{sockets:?}");
        let monitors = place.monitors();
        assert_eq!(monitors.len(), 1);
        // The programs run before the monitor has loaded its own.
        wait_for("the monitor to load", || {
            (links(monitors[0]) > 0).then_some(())
        });
        assert!(runs.iter().flatten().all(|run| links(run.pid()) == 0));
        for (ended, index) in order.into_iter().enumerate() {
            assert!(answers(&sockets[0]));
            assert_eq!(place.monitors(), monitors);
            let mut run = runs[index].take().unwrap();
            match ended {
                1 => drop(run.0.kill()), // -9
                _ => end(run),
            }
        }
        place.await_end();
        assert!(!answers(&sockets[0]));
    }
}

/// The programs go on; who can register anew finds the next monitor at the same address.
#[test]
fn a_shared_monitor_that_is_killed_is_replaced() {
    let Some(place) = Place::new("a_shared_monitor_that_is_killed_is_replaced") else {
        return;
    };
    let (first, socket) = place.stay();
    let (second, _) = place.stay();
    let worker = prefix().join("libexec/flexguard/fg-bench");
    let worker = format!(
        "FLEXGUARD_RECONNECT=1 exec {} shm --lock posix --threads 2 --seconds 100 --warmup 0",
        worker.display()
    );
    let busy = place.run(&["sh", "-c", &worker]);
    let registered = |socket: &str| {
        let output = run(["monitor", "--status", "--json", "--socket", socket]);
        (output.status.success() && json(&stdout(&output))["registered_processes"] != 0)
            .then_some(())
    };
    wait_for("the worker", || registered(&socket));
    let before = place.monitors();
    kill(before[0], libc::SIGKILL);
    wait_for("another monitor", || {
        (place.monitors().len() == 1 && place.monitors() != before).then_some(())
    });
    wait_for("the worker to register again", || registered(&socket));
    assert_eq!(place.stay().1, socket);
    drop(busy);
    end(first);
    end(second);
    place.await_end();
}

/// The dead monitor's socket is still there when its run finds the lease closed.
#[test]
fn a_run_waits_for_the_end_of_a_monitor_before_it_starts_the_next() {
    let Some(place) = Place::new("a_run_waits_for_the_end_of_a_monitor_before_it_starts_the_next")
    else {
        return;
    };
    let (run, socket) = place.stay();
    wait_for("the monitor to serve", || answers(&socket).then_some(()));
    let monitors = place.monitors();
    run.stop();
    kill(monitors[0], libc::SIGKILL);
    let address = SocketAddr::from_abstract_name(socket.trim_start_matches('@')).unwrap();
    let held = wait_for("the socket's name", || {
        UnixListener::bind_addr(&address).ok()
    });
    run.signal(libc::SIGCONT);
    std::thread::sleep(Duration::from_millis(200)); // the run finds the name taken
    drop(held);
    wait_for("the next monitor", || answers(&socket).then_some(()));
    end(run);
    place.await_end();
}

/// Also where the run that has started the monitor is killed, and it was the only one.
#[test]
fn a_run_that_is_killed_leaves_no_monitor() {
    let Some(place) = Place::new("a_run_that_is_killed_leaves_no_monitor") else {
        return;
    };
    let (run, _) = place.stay();
    assert_eq!(place.monitors().len(), 1);
    drop(run); // kill -9
    place.await_end();
}

/// A run that shares leaves its caller's pipes alone: who reads to the end of its output does not wait for the monitor.
#[test]
fn the_monitor_holds_no_descriptor_of_its_runs_caller() {
    let Some(place) = Place::new("the_monitor_holds_no_descriptor_of_its_runs_caller") else {
        return;
    };
    let (run, _) = place.stay();
    let monitor = place.monitors()[0];
    let ours = fs::metadata(format!("/proc/{}/fd/1", run.pid())).unwrap();
    let fds = fs::read_dir(format!("/proc/{monitor}/fd"))
        .unwrap()
        .flatten();
    for fd in fds.filter_map(|fd| fs::metadata(fd.path()).ok()) {
        assert_ne!((fd.dev(), fd.ino()), (ours.dev(), ours.ino()));
    }
    end(run);
    place.await_end();
}

/// What the runs of this place take their leases from.
fn lease_name(place: &Place) -> String {
    let (run, socket) = place.stay();
    end(run);
    place.await_end();
    let name = socket.strip_suffix(".monitor").unwrap();
    name.trim_start_matches('@').to_owned()
}

/// Another user, who does `what` with a new socket `s` and that `name` of one, and stays.
fn stranger(name: &str, what: &str) -> Process {
    let script = format!(
        "import encodings.idna, os, socket, struct, sys # first all of it: python may stand in root's home
os.setuid(65534)
name = '\\0' + sys.argv[1]
s = socket.socket(socket.AF_UNIX)
{what}
print('there', flush=True)
sys.stdin.read()"
    );
    let mut python = Command::new("python3");
    python
        .args(["-c", &script, name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut stranger = Process::start(&mut python);
    assert_eq!(said(&mut stranger), "there");
    stranger
}

/// Who takes the name first keeps runs from sharing, and from nothing else.
#[test]
fn another_user_who_takes_the_name_changes_no_more_than_the_sharing() {
    const TEST: &str = "another_user_who_takes_the_name_changes_no_more_than_the_sharing";
    let Some(place) = Place::new(TEST) else {
        return;
    };
    let _stranger = stranger(&lease_name(&place), "s.bind(name); s.listen(0)");
    for _ in 0..3 {
        // Never accepted, the second and third find the backlog full.
        let (run, own) = place.stay();
        assert!(own.contains("flexguard-run."), "{own}");
        assert!(answers(&own));
        end(run);
    }
}

/// It looks as if another run was about to listen there.
#[test]
fn another_user_who_takes_the_name_and_does_not_listen_stops_no_run() {
    const TEST: &str = "another_user_who_takes_the_name_and_does_not_listen_stops_no_run";
    let Some(place) = Place::new(TEST) else {
        return;
    };
    let _stranger = stranger(&lease_name(&place), "s.bind(name)");
    let mut run = place.run(&["true"]);
    let ended = wait_for("the run's end", || run.0.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
}

/// A TCP connection with much to say to an end that does not listen. Its last descriptor is in a message: to close that is
/// to wait for an hour.
const SLOW_TO_CLOSE: &str = "
listener = socket.create_server(('127.0.0.1', 0))
slow = socket.create_connection(listener.getsockname())
deaf = listener.accept()[0]
slow.setblocking(False)
try:
    while True:
        slow.send(bytes(65536))
except BlockingIOError:
    pass
slow.setblocking(True)
slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 3600))
s.connect(name)
socket.send_fds(s, [b'!'], [slow.fileno()])
slow.close()";

/// Goes on, also where a test fails: else it would never end.
struct Stopped(u32);

impl Drop for Stopped {
    fn drop(&mut self) {
        kill(self.0, libc::SIGCONT);
    }
}

#[test]
fn another_user_who_asks_for_a_lease_does_not_keep_the_monitor() {
    const TEST: &str = "another_user_who_asks_for_a_lease_does_not_keep_the_monitor";
    let Some(place) = Place::new(TEST) else {
        return;
    };
    let name = lease_name(&place);
    let (run, socket) = place.stay();
    wait_for("the monitor to serve", || answers(&socket).then_some(()));
    let monitor = place.monitors()[0];
    // So that it does not hang up before everything is sent.
    let stopped = Stopped(monitor);
    kill(monitor, libc::SIGSTOP);
    wait_for("the monitor to stop", || {
        let state = fs::read_to_string(format!("/proc/{monitor}/stat")).unwrap();
        state.contains(") T ").then_some(())
    });
    let _stranger = stranger(&name, SLOW_TO_CLOSE);
    drop(stopped);
    end(run);
    place.await_end();
}
