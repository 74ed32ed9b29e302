// SPDX-License-Identifier: MIT
//! A monitor of a test's own, a program that is preempted in critical sections, and the schemas of what is said about them.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::{flexguard, kill, prefix};

/// Far beyond what anything here takes on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// A process that ends with the test, whatever ends the test.
pub struct Process(pub Child);

impl Process {
    pub fn start(command: &mut Command) -> Process {
        let parent = std::process::id() as i32;
        // SAFETY: between fork and exec; system calls alone.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() != parent {
                    libc::_exit(1); // it was dead before
                }
                Ok(())
            })
        };
        Process(command.spawn().expect("the command starts"))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, signal: i32) {
        kill(self.pid(), signal);
    }

    /// Returns when all its threads have stopped: until then those that the signal has not reached go on.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        // SAFETY: `info` is of its type, and all bits 0 are a value of it.
        let result = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(
                libc::P_PID,
                self.pid(),
                &mut info,
                libc::WSTOPPED | libc::WNOWAIT,
            )
        };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }

    /// What it prints until it ends by itself, without error. Its standard output is a pipe.
    pub fn said(&mut self) -> String {
        let mut text = String::new();
        let mut out = self.0.stdout.take().unwrap();
        out.read_to_string(&mut text).unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
        text
    }

    /// Ends it by that signal, and says its exit code.
    pub fn end(mut self, signal: i32) -> Option<i32> {
        self.signal(signal);
        self.0.wait().unwrap().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `flexguard monitor` on an abstract socket of its own.
pub struct Daemon {
    pub socket: String,
    _process: Process,
}

impl Daemon {
    pub fn start() -> Daemon {
        Daemon::with(&[])
    }

    pub fn with(options: &[&str]) -> Daemon {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = format!("@flexguard-test-cli-{}-{number}", std::process::id());
        Daemon::run(&socket, options)
    }

    pub fn on(socket: &str) -> Daemon {
        Daemon::run(socket, &[])
    }

    fn run(socket: &str, options: &[&str]) -> Daemon {
        let mut command = flexguard();
        command
            .args(["monitor", "--socket", socket])
            .args(options)
            .stdout(Stdio::piped());
        let mut process = Process::start(&mut command);
        let mut ready = String::new();
        let stdout = process.0.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut ready).unwrap();
        assert!(ready.contains("ready"), "{ready}");
        Daemon {
            socket: socket.to_owned(),
            _process: process,
        }
    }

    /// Eight threads that share one lock, and the CPUs with whatever else runs. Nearly all their time is in sections.
    pub fn worker(&self, lock: &str) -> Process {
        let mut command = Command::new(prefix().join("libexec/flexguard/fg-bench"));
        let args = "shm --lock posix --threads 8 --seconds 3600 --warmup 0 --section-cycles 300000";
        command
            .args(args.split(' '))
            .env(
                "LD_PRELOAD",
                prefix().join(format!("lib/flexguard/{lock}.so")),
            )
            .env("FLEXGUARD_SOCKET", &self.socket)
            .stdout(Stdio::null());
        Process::start(&mut command)
    }
}

/// One that this process may run on.
pub fn first_cpu() -> String {
    let output = Command::new("taskset")
        .args(["-pc", &std::process::id().to_string()])
        .output();
    let said = super::stdout(&output.expect("taskset starts"));
    let list = said.rsplit(' ').next().unwrap().trim();
    list.split([',', '-']).next().unwrap().to_owned()
}

/// Waits until `look` finds something.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Holds each of `values` against docs/design/schemas/NAME.json.
pub fn check_schema(name: &str, values: &[serde_json::Value]) {
    const CHECK: &str = "import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
for value in json.load(sys.stdin):
    validator.validate(value)";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/schemas");
    let mut check = Command::new("python3")
        .args(["-c", CHECK])
        .arg(folder.join(format!("{name}.json")))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let text = serde_json::to_vec(values).unwrap();
    let _ = check.stdin.take().unwrap().write_all(&text); // a check that has failed says why
    let output = check.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", super::stderr(&output));
}
