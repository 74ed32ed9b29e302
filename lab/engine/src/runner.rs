// SPDX-License-Identifier: MIT
//! One run of one program, measured from outside. Its output is shown only if it fails.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};

use flexguard_launch::child::{Child, End, Interruption, Status};
use flexguard_launch::failure::{Context, Result};

/// How much of a failed program's output is shown.
const TAIL_LINES: usize = 20;

pub enum Outcome {
    Ended(Run),
    /// It took longer than the limit and was killed; what it had written.
    TimedOut(String),
    /// A signal asked us to end; the program was killed.
    Interrupted(i32),
}

pub struct Run {
    pub end: End,
    pub elapsed: Duration,
    pub stdout: String,
    /// Empty where stderr went to the same place as stdout.
    pub stderr: String,
}

impl Run {
    /// Why the run is no good, with the end of its output; None if it is good.
    pub fn defect(&self) -> Option<String> {
        let what = match self.end.status {
            Status::Exited(0) => return None,
            Status::Exited(code) => format!("exit status {code}"),
            Status::Signaled(signal) => format!("killed by signal {signal}"),
        };
        Some(with_tail(&what, &format!("{}{}", self.stdout, self.stderr)))
    }
}

/// `what`, and below it the last lines of `output`.
pub fn with_tail(what: &str, output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    std::iter::once(what.to_owned())
        .chain(tail.iter().map(|l| format!("    | {l}")))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Processes that only compute. They end when this is dropped.
pub struct Hogs(Vec<process::Child>);

impl Hogs {
    pub fn start(count: u32) -> Result<Self> {
        let mut hogs = Self(Vec::new());
        for _ in 0..count {
            let mut hog = Command::new("/bin/sh");
            hog.args(["-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .process_group(0);
            end_with_us(&mut hog);
            let started = hog.spawn();
            hogs.0.push(started.context("cannot start a busy process")?);
        }
        Ok(hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// If this process is killed, the kernel ends the program.
fn end_with_us(command: &mut Command) {
    // SAFETY: prctl is async-signal-safe, and nothing else happens between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    };
}

/// Whether stdout and stderr are kept apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    Apart,
    Together,
}

/// Runs `command` in a process group of its own: a Ctrl-C reaches us, and we end the whole group.
pub fn run(mut command: Command, capture: Capture, limit: Duration) -> Result<Outcome> {
    let mut stdout = tempfile::tempfile().context("cannot keep the program's output")?;
    let mut stderr = match capture {
        Capture::Apart => Some(tempfile::tempfile().context("cannot keep the program's output")?),
        Capture::Together => None,
    };
    command
        .stdin(Stdio::null())
        .stdout(duplicate(&stdout)?)
        .stderr(duplicate(stderr.as_ref().unwrap_or(&stdout))?);
    command.process_group(0);
    end_with_us(&mut command);

    let start = Instant::now();
    let child = Child::spawn(&mut command)?;
    let waited = child.wait(limit)?;
    let elapsed = start.elapsed();
    let mut output = || -> Result<(String, String)> {
        Ok((
            contents(&mut stdout)?,
            stderr
                .as_mut()
                .map(contents)
                .transpose()?
                .unwrap_or_default(),
        ))
    };
    match waited {
        Ok(end) => {
            let (stdout, stderr) = output()?;
            Ok(Outcome::Ended(Run {
                end,
                elapsed,
                stdout,
                stderr,
            }))
        }
        Err(Interruption::Signal(signal)) => {
            child.end_group()?;
            Ok(Outcome::Interrupted(signal))
        }
        Err(Interruption::TimedOut) => {
            child.end_group()?;
            let (stdout, stderr) = output()?;
            Ok(Outcome::TimedOut(format!("{stdout}{stderr}")))
        }
    }
}

fn duplicate(file: &File) -> Result<File> {
    file.try_clone().context("cannot keep the program's output")
}

fn contents(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .context("cannot read the program's output")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hogs_compute_and_end() {
        let hogs = Hogs::start(2).unwrap();
        let ids: Vec<u32> = hogs.0.iter().map(process::Child::id).collect();
        let stat = |id| std::fs::read_to_string(format!("/proc/{id}/stat"));
        // The 14th field: what it has computed.
        let computed = |id| {
            let text = stat(id).unwrap();
            let fields: Vec<&str> = text.rsplit(") ").next().unwrap().split(' ').collect();
            fields[11] != "0"
        };
        while !ids.iter().all(|id| computed(*id)) {
            std::thread::yield_now();
        }
        drop(hogs);
        assert!(ids.iter().all(|id| stat(*id).is_err()));
    }

    #[test]
    fn only_the_last_lines_are_shown() {
        let output: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let text = with_tail("exit status 3", &output);
        assert!(text.starts_with("exit status 3\n    | line 80\n"), "{text}");
        assert!(text.ends_with("    | line 99"), "{text}");
    }
}
