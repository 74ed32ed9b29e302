// SPDX-License-Identifier: MIT
//! An installation whose fg-bench is a shell script: a run takes no time, and the test decides what it measures.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::daemon::TIMEOUT;
use super::{flexguard, prefix, stderr, stdout};

pub struct Fake(tempfile::TempDir);

/// `result N` prints a result with throughput N.
const RESULT: &str = r#"result() { echo '{"throughput_ops_per_ms":'$1',"cs_ns":{"mean":'$1',"p50":1,"p99":2,"p999":3,"max":4},
"fairness_factor":0.5,"longest_wait_ns":1500,"cpu_seconds":0.25,"ops":10,"seconds":1,"spins":5,"parks":0,
"runnable":{"interval_us":500,"samples":[1,2,1]}}'; }"#;

impl Fake {
    /// In the script, $lock and $threads are what is asked for, $n is the number of the run, $dir a directory.
    pub fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for sub in ["share/flexguard", "libexec/flexguard", "lib/flexguard"] {
            fs::create_dir_all(dir.path().join(sub)).unwrap();
        }
        fs::write(
            dir.path().join("share/flexguard/LOCKS"),
            "a\tspin\tA\nb\tblock\tB\n",
        )
        .unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/scenes");
        symlink(source, dir.path().join("share/flexguard/scenes")).unwrap();
        let fake = Self(dir);
        fake.change(script);
        fake
    }

    /// Another worker, as if it had been built anew.
    pub fn change(&self, script: &str) {
        let worker = self.path().join("libexec/flexguard/fg-bench");
        let head = format!(
            "#!/bin/sh\ndir={}\nif [ $1 = --list ]; then printf 'posix\\tlibc\\na\\town\\nb\\town\\npeer\\tpeer\\n'; exit; fi\n\
             if [ $1 = --options ]; then exec {} --options; fi\n\
             lock=$3; threads=$5; echo $lock $threads >>$dir/log; echo \"$@\" >>$dir/calls; n=$(wc -l <$dir/log)\n{RESULT}\n",
            self.path().display(),
            prefix().join("libexec/flexguard/fg-bench").display()
        );
        fs::write(&worker, head + script).unwrap();
        fs::set_permissions(&worker, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn bench(&self, args: &[&str]) -> Command {
        let mut command = flexguard();
        command
            .arg("bench")
            .args(args)
            .env("FLEXGUARD_PREFIX", self.path())
            // Empty: no monitor is looked for, or loaded.
            .env("FLEXGUARD_SOCKET", "")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn shm(&self, args: &[&str]) -> Command {
        self.bench(&[&["shm", "--monitor", "off"], args].concat())
    }

    /// What ran: lock and threads, in order.
    pub fn order(&self) -> Vec<String> {
        self.lines("log")
    }

    /// The worker's arguments, in order.
    pub fn calls(&self) -> Vec<String> {
        self.lines("calls")
    }

    pub fn has_run(&self) -> bool {
        self.path().join("log").exists()
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path().join(file)).unwrap();
        text.lines().map(Into::into).collect()
    }

    /// Starts the command, and returns with what a run writes into `$dir/fifo`: it has begun. A command that ends
    /// before that fails the test with what it printed.
    pub fn begin(&self, command: &mut Command) -> (Child, String) {
        let path = self.path().join("fifo");
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        // Non-blocking: the open does not wait for a run.
        let fifo = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .unwrap();
        let mut child = command.spawn().expect("the command starts");
        let pid = Pid::from_child(&child);
        let end = pidfd_open(pid, PidfdFlags::empty()).unwrap(); // readable once the command has ended
        let mut either = [fifo.as_fd(), end.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let limit = PollTimeout::try_from(TIMEOUT).unwrap();
        let ready = poll(&mut either, limit).unwrap();
        if either[0].any() == Some(true) {
            let mut said = String::new();
            BufReader::new(&fifo).read_line(&mut said).unwrap(); // a short line is written, and read, as a whole
            return (child, said);
        }
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        panic!(
            "the command {} before a run had begun: {}\n{}{}",
            if ready == 0 { "was ended" } else { "ended" },
            output.status,
            stdout(&output),
            stderr(&output)
        );
    }
}
