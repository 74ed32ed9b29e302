// SPDX-License-Identifier: MIT
//! `flexguard run` between the program and the senders of signals: other processes, and the terminal.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Stdio};

use crate::common::*;

/// A program that waits for signals and answers `ready`, its process number, then a word for each signal.
const ANSWER: &str = r#"
    for s in HUP INT TERM USR1 USR2 QUIT WINCH; do trap "echo got $s" $s; done
    trap 'echo got ALRM; exit 9' ALRM
    echo ready $$
    while :; do sleep 0.05; done
"#;

fn start(options: &[&str], script: &str) -> (Child, BufReader<std::process::ChildStdout>, u32) {
    let mut child = flexguard()
        .arg("run")
        .args(options)
        .args(["--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let program = line(&mut out)
        .strip_prefix("ready ")
        .expect("the program is ready")
        .parse()
        .unwrap();
    (child, out, program)
}

fn line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn signals_sent_to_the_command_reach_the_program() {
    let (child, mut out, _) = start(&["--monitor", "off", "--stats"], ANSWER);
    let names = [
        (libc::SIGTERM, "TERM"),
        (libc::SIGHUP, "HUP"),
        (libc::SIGINT, "INT"),
        (libc::SIGQUIT, "QUIT"),
        (libc::SIGUSR1, "USR1"),
        (libc::SIGUSR2, "USR2"),
        (libc::SIGWINCH, "WINCH"),
    ];
    for (signal, name) in names {
        kill(child.id(), signal);
        assert_eq!(line(&mut out), format!("got {name}"));
    }
    kill(child.id(), libc::SIGALRM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    assert!(
        stderr(&output).contains("elapsed-seconds: "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_program_killed_through_the_command_is_reported_as_killed() {
    let (child, _out, _) = start(
        &["--monitor", "off", "--stats"],
        "echo ready $$; exec sleep 100",
    );
    kill(child.id(), libc::SIGTERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGTERM));
    assert!(
        stderr(&output).contains("elapsed-seconds: "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_program_survives_the_command() {
    let (mut child, mut out, program) = start(&["--monitor", "off", "--stats"], ANSWER);
    child.kill().unwrap();
    child.wait().unwrap();
    kill(program, libc::SIGUSR1);
    assert_eq!(line(&mut out), "got USR1");
    kill(program, libc::SIGALRM);
    assert_eq!(line(&mut out), "got ALRM");
}

#[test]
fn the_program_survives_the_loss_of_its_monitor() {
    if !bpf("the_program_survives_the_loss_of_its_monitor") {
        return;
    }
    let worker = prefix().join("libexec/flexguard/fg-bench");
    let script = format!(
        "echo ready $$; exec {} shm --lock posix --threads 8 --seconds 1 --warmup 0",
        worker.display()
    );
    let (mut child, mut out, _) = start(&["--monitor", "require"], &script);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    assert_eq!(json(&text)["checksum_ok"], true);
}

/// The command on a terminal of its own, as a shell's foreground job is.
struct Terminal {
    master: File,
    child: Child,
}

impl Terminal {
    fn start(script: &str) -> Self {
        let (mut master, mut slave) = (0, 0);
        let null = std::ptr::null_mut();
        // SAFETY: both numbers are valid for writing; the null pointers mean defaults.
        let opened =
            unsafe { libc::openpty(&mut master, &mut slave, null, null.cast(), null.cast()) };
        assert_eq!(opened, 0);
        // SAFETY: openpty has just opened both, and nobody else owns them.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        // SAFETY: a flag of a descriptor that we own; the command must not inherit the master.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        // The shell between: a job must not lead the session, or the kernel ignores its stops.
        let mut command = std::process::Command::new("sh");
        command.args([
            "-mc",
            "\"$@\"; echo shell saw $?; fg; echo shell then saw $?",
            "sh",
            FLEXGUARD,
            "run",
        ]);
        command.args([
            "--monitor",
            "off",
            "--stats-file",
            "/dev/null",
            "--",
            "sh",
            "-c",
            script,
        ]);
        clean(&mut command);
        command
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave);
        // SAFETY: setsid and ioctl are async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            })
        };
        Self {
            master,
            child: command.spawn().unwrap(),
        }
    }

    /// Reads until `words` have appeared; what came before them.
    fn until(&mut self, words: &str) -> String {
        let mut seen = String::new();
        let mut byte = [0];
        while !seen.contains(words) {
            match self.master.read(&mut byte) {
                Ok(1) => seen.push(byte[0] as char),
                end => panic!("the terminal closed ({end:?}) before {words:?}: {seen}"),
            }
        }
        seen
    }

    fn type_in(&mut self, key: u8) {
        self.master.write_all(&[key]).unwrap();
    }
}

#[test]
fn ctrl_c_reaches_the_program_once_and_the_command_outlives_it() {
    let mut terminal = Terminal::start(
        "n=0; trap 'n=$((n+1))' INT; echo ready; until [ $n -gt 0 ]; do sleep 0.05; done; sleep 0.3; exit 4$n",
    );
    terminal.until("ready");
    terminal.type_in(0x03);
    terminal.until("shell saw 41");
    terminal.child.wait().unwrap();
}

#[test]
fn ctrl_z_stops_the_job_and_fg_continues_it() {
    // It must not fork: a stop that hits a vfork child before its exec leaves the parent unstoppable, with or without this command.
    let mut terminal =
        Terminal::start("trap 'echo continued; exit 6' CONT; echo ready; read line; exit 1");
    terminal.until("ready");
    terminal.type_in(0x1a);
    let stopped = format!("shell saw {}", 128 + libc::SIGSTOP);
    terminal.until(&stopped);
    terminal.until("continued");
    terminal.until("shell then saw 6");
    terminal.child.wait().unwrap();
}
