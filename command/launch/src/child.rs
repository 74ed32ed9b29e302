// SPDX-License-Identifier: MIT
//! Starting a program and standing in for it: its signals, its stops, its end.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use nix::unistd::{getpgrp, getpid, getsid, tcgetpgrp};

use crate::failure::{Context, Failure, NOT_EXECUTABLE, NOT_FOUND};
use crate::signals::{self, Received};

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Exited(u8),
    Signaled(i32),
}

/// A program's end and what it used, its own waited-for children included.
#[derive(Clone, Copy)]
pub struct End {
    pub status: Status,
    pub usage: libc::rusage,
}

impl End {
    pub fn user_seconds(&self) -> f64 {
        seconds(self.usage.ru_utime)
    }

    pub fn system_seconds(&self) -> f64 {
        seconds(self.usage.ru_stime)
    }

    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds() + self.system_seconds()
    }
}

fn seconds(t: libc::timeval) -> f64 {
    t.tv_sec as f64 + t.tv_usec as f64 / 1e6
}

/// `argv` as a command that starts with the signals our caller left.
pub fn command(argv: &[OsString]) -> Command {
    signals::note_mask();
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]);
    // SAFETY: restore_inherited is async-signal-safe and neither allocates nor locks.
    unsafe { command.pre_exec(signals::restore_inherited) };
    command
}

/// Why `command` could not be started, with the exit status that says so.
pub fn cannot_start(command: &Command, error: io::Error) -> Failure {
    let program = command.get_program().to_string_lossy().into_owned();
    match error.raw_os_error() {
        Some(libc::ENOENT) if program.contains('/') => Failure::new(format_args!("{program}: no such program"))
            .code(NOT_FOUND)
            .advice("check the path; if the file is there, the interpreter or loader that it names is missing"),
        Some(libc::ENOENT) => Failure::new(format_args!("{program}: no such program in PATH"))
            .code(NOT_FOUND)
            .advice("check the name, or give the path"),
        Some(libc::EAGAIN | libc::ENOMEM) => Failure::because(error, format_args!("cannot start {program}")),
        _ => Failure::because(error, format_args!("cannot execute {program}"))
            .code(NOT_EXECUTABLE)
            .advice("check that it is a program and that you may execute it (`ls -l`)"),
    }
}

/// A running program.
pub struct Child {
    pid: libc::pid_t,
}

/// What `Child::poll` found.
enum Change {
    Nothing,
    Stopped(i32),
    Ended(End),
}

impl Child {
    /// Signals must be held (`signals::hold`), or the program's end could be missed.
    pub fn spawn(command: &mut Command) -> Result<Self, Failure> {
        match command.spawn() {
            Ok(child) => Ok(Self {
                pid: child.id() as libc::pid_t,
            }),
            Err(e) => Err(cannot_start(command, e)),
        }
    }

    /// Waits for the program's end; until then every signal sent to us goes on to it, and we stop when it stops.
    pub fn stand_in(&self) -> Result<End, Failure> {
        loop {
            match signals::wait(None) {
                Some(s) if s.number == libc::SIGCHLD => match self.poll()? {
                    Change::Ended(end) => return Ok(end),
                    Change::Stopped(signal) => self.follow_stop(signal),
                    Change::Nothing => {}
                },
                Some(s) if self.is_for_program(s) => self.kill(s.number),
                _ => {}
            }
        }
    }

    /// Waits for the program's end at most until `limit` has passed. Err(Some): a signal that asks us to end arrived first.
    pub fn wait(&self, limit: Duration) -> Result<Result<End, Interruption>, Failure> {
        let deadline = std::time::Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            match signals::wait(Some(left)) {
                None => return Ok(Err(Interruption::TimedOut)),
                Some(s) if asks_to_end(s.number) => return Ok(Err(Interruption::Signal(s.number))),
                Some(s) if s.number == libc::SIGCHLD => {
                    if let Change::Ended(end) = self.poll()? {
                        return Ok(Ok(end));
                    }
                }
                Some(_) => {}
            }
        }
    }

    /// Ends the program and the process group it leads, and waits until it has gone.
    pub fn end_group(&self) -> Result<(), Failure> {
        // The program leads a group of its own and has not been waited for, so the number is still the group's.
        signals::send(-self.pid, libc::SIGKILL);
        self.reap(0).map(|_| ())
    }

    fn poll(&self) -> Result<Change, Failure> {
        self.reap(libc::WNOHANG | libc::WUNTRACED)
    }

    fn reap(&self, flags: i32) -> Result<Change, Failure> {
        let mut status = 0;
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        loop {
            // SAFETY: status and usage live for the call; all-zero is a valid rusage.
            match unsafe { libc::wait4(self.pid, &mut status, flags, usage.as_mut_ptr()) } {
                0 => return Ok(Change::Nothing),
                -1 => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error).context("lost track of the program"),
                },
                _ if libc::WIFSTOPPED(status) => {
                    return Ok(Change::Stopped(libc::WSTOPSIG(status)));
                }
                _ => break,
            }
        }
        let status = if libc::WIFSIGNALED(status) {
            Status::Signaled(libc::WTERMSIG(status))
        } else {
            Status::Exited(libc::WEXITSTATUS(status) as u8)
        };
        // SAFETY: wait4 filled it in.
        let usage = unsafe { usage.assume_init() };
        Ok(Change::Ended(End { status, usage }))
    }

    fn kill(&self, signal: i32) {
        // The program has not been waited for, so the number is still the program's.
        signals::send(self.pid, signal);
    }

    /// The program is in our process group: what the terminal sends us it has already received, and so has what it sent itself.
    /// Except a hang-up, which a session leader alone receives.
    fn is_for_program(&self, s: Received) -> bool {
        if s.by_kernel {
            return s.number == libc::SIGHUP && getsid(None) == Ok(getpid());
        }
        s.sender != self.pid
    }

    /// Stops us as the program was stopped, so that the shell sees a stopped job; once continued, continues the program.
    /// A program stopped by `kill -STOP` from elsewhere is also continued from there, without telling us: no following then.
    fn follow_stop(&self, signal: i32) {
        let by_terminal = matches!(signal, libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
        if by_terminal || tcgetpgrp(io::stdin()) == Ok(getpgrp()) {
            signals::send(getpid().as_raw(), libc::SIGSTOP);
            self.kill(libc::SIGCONT);
        }
    }
}

/// Why a wait ended before the program did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    TimedOut,
    Signal(i32),
}

fn asks_to_end(signal: i32) -> bool {
    matches!(
        signal,
        libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT
    )
}
