// SPDX-License-Identifier: MIT
//! `flexguard profile --spins`: CPU time that a program spends in loops that wait, and whether another thread of it waited
//! for a CPU meanwhile.

mod clock;
mod places;
mod report;

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flexguard_launch::child::{self, Child, Status};
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::{output, signals};
use flexguard_monitor::{SpinProgram, SpinSampler};

use super::preempted::refuse_other_namespaces;
use super::target::Target;
use clock::Clock;
use places::Places;
use report::Report;

/// How often to take the samples: while a process is there to tell what its addresses mean.
const LOOK: Duration = Duration::from_millis(50);

/// What is looked at, and how it is shown.
pub struct Spins<'a> {
    /// Functions that wait, besides those that are known.
    pub symbols: &'a [String],
    /// Functions that are shown.
    pub most: usize,
    pub json: bool,
}

impl Spins<'_> {
    /// A process that runs, and those that come of it: until it ends, a signal comes, or the time is over.
    pub fn watch(&self, pid: u32, time: Option<Duration>) -> Result<Status> {
        refuse_other_namespaces()?;
        let target = Target::find(pid)?;
        signals::hold()?;
        let mut seen = self.begin(SpinProgram::From(pid))?;
        output::note(&format!("flexguard: sampling process {pid}; Ctrl-C ends\n"));
        while time.is_none_or(|time| seen.begin.elapsed() < time) && !target.has_ended() {
            let signal = signals::wait(Some(LOOK)).map(|signal| signal.number);
            seen.take()?;
            if let Some(libc::SIGINT | libc::SIGTERM | libc::SIGHUP) = signal {
                break;
            }
        }
        let report = seen.report(Some(pid))?;
        match self.json {
            true => output::print_json(&report)?,
            false => output::print(&report.text(self.most))?,
        }
        Ok(Status::Exited(0))
    }

    /// A program that is started, and the processes that come of it; shown when it has ended, on stderr.
    pub fn run(&self, program: &[OsString]) -> Result<Status> {
        refuse_other_namespaces()?;
        let mut command = child::command(program);
        signals::hold()?;
        let mut seen = self.begin(SpinProgram::Children)?;
        let done = AtomicBool::new(false);
        let samples = thread::current();
        let (end, taken) = thread::scope(|scope| {
            let runs = scope.spawn(|| {
                let end = Child::spawn(&mut command).and_then(|child| child.stand_in());
                done.store(true, Ordering::Release);
                samples.unpark();
                end
            });
            let mut taken = Ok(());
            while !done.load(Ordering::Acquire) {
                taken = taken.and_then(|()| seen.take());
                thread::park_timeout(LOOK);
            }
            let died = || {
                Err(Failure::new(
                    "the thread that waits for the program has died",
                ))
            };
            (runs.join().unwrap_or_else(|_| died()), taken)
        });
        let end = end?;
        taken?;
        let report = seen.report(None)?;
        output::note(&match self.json {
            true => output::to_json(&report)?,
            false => report.text(self.most),
        });
        Ok(end.status)
    }

    fn begin(&self, program: SpinProgram) -> Result<Seen> {
        let doing = "cannot sample";
        let places = Places::new(self.symbols);
        let sampler = SpinSampler::attach(program).context(doing)?;
        Ok(Seen {
            sampler,
            places,
            clock: Clock::default(),
            begin: Instant::now(),
            report: Report::new(SpinSampler::PERIOD),
        })
    }
}

struct Seen {
    sampler: SpinSampler,
    places: Places,
    clock: Clock,
    begin: Instant,
    report: Report,
}

impl Seen {
    fn take(&mut self) -> Result<()> {
        let samples = self.sampler.take().context("cannot read the samples")?;
        for sample in &samples {
            let time = self.clock.time(sample);
            self.report
                .add(self.places.of(sample), sample.waiting, time);
        }
        Ok(())
    }

    fn report(mut self, pid: Option<u32>) -> Result<Report> {
        let elapsed = self.begin.elapsed();
        self.take()?;
        let lost = self.sampler.lost().context("cannot read what was lost")?;
        let cpu = self.sampler.cpu_time();
        let cpu = cpu.context("cannot read the program's CPU time")?;
        self.report.end(pid, elapsed, cpu, lost);
        Ok(self.report)
    }
}
