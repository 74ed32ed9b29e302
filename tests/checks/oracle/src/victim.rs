// SPDX-License-Identifier: MIT
//! The watched process (tests/monitor/victim.c): started, heard, told to go and to stop.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::records::ORACLE_LOCKS;

/// A victim that waits to be told to go. Dropping it kills it.
pub struct Victim {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub pid: i32,
    pub locks: [u64; ORACLE_LOCKS as usize],
    pub nodes: u64,
    pub workers: Vec<Worker>,
    /// Of one under an interposer the monitor knows.
    pub registered: bool,
    /// Where its executable is mapped.
    pub code: u64,
}

pub struct Worker {
    pub tid: i32,
    pub block: u64,
}

impl Victim {
    /// On the first of the CPUs; with a second one it changes between them. With an interposer it uses that one's locks,
    /// and its workers' blocks are at their thread pointers ([`Victim::find_blocks`]).
    pub fn start(
        program: &Path,
        cpus: &[usize],
        socket: &str,
        interposer: Option<&Path>,
    ) -> Result<Victim> {
        let mut command = Command::new(program);
        if let Some(interposer) = interposer {
            command.env("LD_PRELOAD", interposer);
        }
        let mut child = command
            .args(cpus.iter().map(usize::to_string))
            .env("FLEXGUARD_SOCKET", socket)
            .env("FLEXGUARD_REQUIRE", "1") // or it would not wait for long on a busy machine
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let stdout = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut victim = Victim {
            child,
            stdout,
            pid: 0,
            locks: Default::default(),
            nodes: 0,
            workers: Vec::new(),
            registered: false,
            code: 0,
        };
        let line = victim.next_line()?;
        victim
            .introduced(&line)
            .with_context(|| format!("the victim introduced itself as {line:?}"))?;
        Ok(victim)
    }

    fn next_line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line)
    }

    fn introduced(&mut self, line: &str) -> Result<()> {
        let said: HashMap<_, _> = line
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .collect();
        let value = |name| {
            said.get(name)
                .copied()
                .with_context(|| format!("no {name}"))
        };
        self.pid = value("pid")?.parse()?;
        let mut locks = value("locks")?.split(',');
        for lock in &mut self.locks {
            *lock = address(locks.next().context("too few locks")?)?;
        }
        self.nodes = address(value("nodes")?)?;
        for worker in value("workers")?.split(',') {
            let (tid, block) = worker.split_once(':').context("a worker without block")?;
            self.workers.push(Worker {
                tid: tid.parse()?,
                block: address(block)?,
            });
        }
        self.registered = value("registered")? == "1";
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.child.id()))?;
        let first = maps.split('-').next().unwrap_or_default();
        self.code = u64::from_str_radix(first, 16)?;
        Ok(())
    }

    /// `offset` is what an interposer has told the monitor.
    pub fn find_blocks(&mut self, offset: i64) {
        for worker in &mut self.workers {
            worker.block = worker.block.wrapping_add_signed(offset);
        }
    }

    /// Lets it run for one burst. Its workers sleep before and after.
    pub fn begin_burst(&mut self) -> Result<()> {
        let stdin = self.child.stdin.as_mut().expect("it was piped");
        stdin.write_all(b"b").context("starting a burst")
    }

    pub fn end_burst(&mut self) -> Result<()> {
        let line = self.next_line()?;
        ensure!(line == "burst\n", "the victim said {line:?} after a burst");
        Ok(())
    }

    /// Lets it end.
    pub fn finish(mut self) -> Result<ExitStatus> {
        self.child.stdin = None;
        Ok(self.child.wait()?)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn address(text: &str) -> Result<u64> {
    match text.strip_prefix("0x") {
        None if text == "(nil)" => Ok(0),
        Some(digits) => Ok(u64::from_str_radix(digits, 16)?),
        None => bail!("{text:?} is no address"),
    }
}
