// SPDX-License-Identifier: MIT
//! How many processes are registered, whose they are, and what the records of them take.
//!
//! The kernel charges the records to the monitor. So all of them together have a budget (FG_RECORD_BYTES), and an account
//! (a user; of root, and with `--domains cgroup`, a control group) may have so many processes, and a part of the budget.
//! Processes end, and inherit registrations, without a word to the server. So it looks at all of the machine now and
//! then, and adds what it registers itself meanwhile. An account that has as much as one may have registers no more, and
//! its forks inherit nothing (bpf/census.h; FG_FULL_ACCOUNTS at a time), until a later look finds less. Where no process
//! is left that is registered, or that wants slice forecasts, the kernel half goes back to doing nothing for them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use flexguard_abi::FG_WANT_SLICE_FORECAST;
use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};

use crate::kernel::Kernel;
use crate::records::{FG_FULL_ACCOUNTS, FG_PROCESS_BYTES, FG_THREAD_BYTES, fg_full_accounts};

/// Between looks, at least.
const INTERVAL: Duration = Duration::from_secs(1);
/// And at least so many times as long as the last look had the CPU, but no longer than this: in a virtual machine that
/// time includes what the host took away,
const PAUSES: u32 = 1000;
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
/// except a look that so many forks make necessary, which have inherited a registration since the last one.
const MANY_FORKS: u64 = 1024;
/// Of the budget, that of one account.
const SHARE_OF_ONE: i64 = 4;
/// Where less than this part of the budget is left, it looks more often, too.
const LITTLE: i64 = 4;
/// What is left for a process that registers: as many threads as one may have.
const MARGIN: i64 = 4096 * FG_THREAD_BYTES as i64;

/// What an account has.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    programs: u32,
    bytes: i64,
}

#[derive(Debug)]
pub struct Census {
    /// What each account has, at most: what the last look found, and the registrations since.
    shares: HashMap<u64, Share>,
    most_programs: u32,
    most_bytes: i64,
    ended: Instant,
    took: Duration,
    /// How many processes had ever inherited a registration, before the last look.
    inherited: u64,
}

/// Between a look that had the CPU for so long and the next.
fn pause_after(look: Duration) -> Duration {
    LONGEST_INTERVAL.min(look * PAUSES)
}

/// That this thread has had. On a busy machine a look takes much longer than it costs.
fn cpu_time() -> Duration {
    let clock = ClockId::CLOCK_THREAD_CPUTIME_ID;
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

impl Census {
    pub fn new(kernel: &Kernel, most_programs: u32, most_bytes: i64) -> Result<Census, Errno> {
        let mut census = Census {
            shares: HashMap::new(),
            most_programs,
            most_bytes,
            ended: Instant::now(),
            took: Duration::ZERO,
            inherited: 0,
        };
        census.look(kernel)?;
        Ok(census)
    }

    /// One more process of this account is registered.
    pub fn add(&mut self, account: u64, threads: u32, kernel: &Kernel) -> Result<(), Errno> {
        self.count(account, threads);
        match self.is_full(account) {
            true => kernel.set_full_accounts(&self.full_accounts()),
            false => Ok(()),
        }
    }

    fn count(&mut self, account: u64, threads: u32) {
        let share = self.shares.entry(account).or_default();
        share.programs += 1;
        share.bytes +=
            i64::from(FG_PROCESS_BYTES) + i64::from(threads) * i64::from(FG_THREAD_BYTES);
    }

    /// To be called often.
    pub fn look_now_and_then(&mut self, kernel: &Kernel) -> Result<(), Errno> {
        let since = self.ended.elapsed();
        if since < INTERVAL
            || (since < pause_after(self.took)
                && !self.are_many_forks(kernel)
                && !self.is_little_left(kernel))
        {
            return Ok(());
        }
        self.look(kernel)
    }

    fn are_many_forks(&self, kernel: &Kernel) -> bool {
        let few = |inherited| inherited < self.inherited + MANY_FORKS;
        !kernel.inherited().is_ok_and(few)
    }

    fn is_little_left(&self, kernel: &Kernel) -> bool {
        let much = |left| left >= self.most_bytes / LITTLE;
        !kernel.budget_left().is_ok_and(much)
    }

    /// Has the account as much as one may have? Some of its processes may have ended since the last look.
    pub fn is_full(&self, account: u64) -> bool {
        let share = self.shares.get(&account);
        share.is_some_and(|share| {
            share.programs >= self.most_programs || share.bytes >= self.most_bytes / SHARE_OF_ONE
        })
    }

    /// Is nothing left for another process of that account, or of any?
    pub fn has_no_share(&self, account: u64, kernel: &Kernel) -> Result<bool, Errno> {
        Ok(self.is_full(account)
            || kernel.budget_left()? < MARGIN.min(self.most_bytes / SHARE_OF_ONE))
    }

    /// Walks all threads of the machine.
    pub fn look(&mut self, kernel: &Kernel) -> Result<(), Errno> {
        let begin = cpu_time();
        let looked = self.count_all(kernel);
        // Also where it fails: the next try has its time, too.
        self.ended = Instant::now();
        self.took = cpu_time() - begin;
        looked
    }

    fn count_all(&mut self, kernel: &Kernel) -> Result<(), Errno> {
        self.inherited = kernel.inherited()?;
        if kernel.watches_any()? {
            let processes = kernel.census(self.most_bytes)?;
            self.shares.clear();
            for process in &processes {
                self.count(process.account, process.threads);
            }
            let wants = |flag| processes.iter().any(|process| process.wants & flag != 0);
            // A process that was forked behind the iterator's back may be registered.
            if kernel.inherited()? == self.inherited {
                kernel.rest(!processes.is_empty(), wants(FG_WANT_SLICE_FORECAST))?;
            }
            kernel.set_full_accounts(&self.full_accounts())?;
        } else {
            self.shares.clear();
            kernel.set_budget(self.most_bytes)?;
        }
        Ok(())
    }

    fn full_accounts(&self) -> fg_full_accounts {
        let mut full = fg_full_accounts {
            number: 0,
            account: [0; FG_FULL_ACCOUNTS as usize],
        };
        let accounts = self.shares.keys().filter(|account| self.is_full(**account));
        for (place, &account) in full.account.iter_mut().zip(accounts) {
            *place = account;
            full.number += 1;
        }
        full
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::fd::{AsFd, OwnedFd};
    use std::process::{Child as Program, Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::waitpid;
    use nix::unistd::{ForkResult, Pid, fork, pause, pipe, read, write};
    use rustix::process::{PidfdFlags, getpid, pidfd_open};

    use super::*;
    use crate::message::Registration;
    use crate::{DomainKind, Keeper};

    /// Where there is no BPF, the monitor's other tests say so.
    fn load() -> Option<Kernel> {
        let (object, machine) = (crate::kernel::OBJECT, DomainKind::Machine);
        Kernel::load(object, false, Keeper::Nobody, machine).ok()
    }

    fn image() -> Registration {
        Registration {
            block_offset: -4096,
            flags: 0,
            windows: vec![],
        }
    }

    /// A process that ends with this value.
    struct Child(Pid);

    impl Child {
        fn fork(play: impl FnOnce()) -> Child {
            // SAFETY: the child leaves through _exit, so that it runs nothing of the parent's.
            match unsafe { fork() }.unwrap() {
                ForkResult::Parent { child } => Child(child),
                ForkResult::Child => {
                    play();
                    // SAFETY: as above.
                    unsafe { libc::_exit(0) }
                }
            }
        }

        fn pidfd(&self) -> OwnedFd {
            let pid = rustix::process::Pid::from_raw(self.0.as_raw()).unwrap();
            pidfd_open(pid, PidfdFlags::empty()).unwrap()
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            kill(self.0, Signal::SIGKILL).unwrap();
            waitpid(self.0, None).unwrap();
        }
    }

    fn stay_on(cpu: usize) {
        let mut one = CpuSet::new();
        one.set(cpu).unwrap();
        sched_setaffinity(Pid::from_raw(0), &one).unwrap();
    }

    fn has_looked(census: &mut Census, kernel: &Kernel) -> bool {
        let before = census.ended;
        census.look_now_and_then(kernel).unwrap();
        census.ended != before
    }

    /// Their records would be held against no account.
    #[test]
    fn of_a_process_that_is_refused_no_thread_has_a_record() {
        let Some(kernel) = load() else { return };
        kernel.set_budget(i64::from(i32::MAX)).unwrap();
        let (ready, says) = pipe().unwrap();
        let child = Child::fork(|| {
            for _ in 0..8 {
                thread::spawn(pause);
            }
            write(&says, b"!").unwrap();
            pause();
        });
        assert_eq!(read(&ready, &mut [0]), Ok(1));
        // Before its threads have records, and when they have.
        for refusal in 1..=2 {
            let before = kernel.budget_left().unwrap();
            let mut asked = 0;
            let refused = kernel.register(child.pidfd().as_fd(), &image(), |_| {
                asked += 1;
                match asked < refusal {
                    true => Ok(()),
                    false => Err(Errno::EDQUOT),
                }
            });
            let taken = before - kernel.budget_left().unwrap();
            assert_eq!(refused.map(drop), Err(Errno::EDQUOT));
            assert!(taken <= i64::from(FG_PROCESS_BYTES), "{taken} bytes");
        }
    }

    /// Its record would be held against no account.
    #[test]
    fn a_child_of_a_process_that_is_not_registered_yet_inherits_nothing() {
        let Some(kernel) = load() else { return };
        let this = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let before = kernel.inherited().unwrap();
        let mut children = vec![];
        let refused = kernel.register(this.as_fd(), &image(), |_| {
            children.push(Child::fork(pause));
            Err(Errno::EDQUOT)
        });
        assert_eq!(refused.map(drop), Err(Errno::EDQUOT));
        assert_eq!(children.len(), 1);
        assert_eq!(kernel.inherited().unwrap(), before);
    }

    /// A thread of low priority shares its CPU with one that never sleeps, so that its looks are interrupted.
    #[test]
    fn a_look_that_waits_for_the_cpu_does_not_put_off_the_next() {
        const INTERRUPTED: usize = 16;
        const WAITED: Duration = Duration::from_millis(2);
        let Some(kernel) = load() else { return };
        let child = Child::fork(pause);
        kernel
            .register(child.pidfd().as_fd(), &image(), |_| Ok(()))
            .unwrap();
        let mut census = Census::new(&kernel, u32::MAX, i64::MAX).unwrap();
        let ends = AtomicBool::new(false);
        let cpu = sched_getcpu().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                stay_on(cpu);
                while !ends.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let looks = scope.spawn(|| {
                stay_on(cpu);
                // SAFETY: plain system call; 0 is this thread.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
                let (mut interrupted, mut dearer) = (0, 0);
                while interrupted < INTERRUPTED {
                    let (begin, began) = (Instant::now(), cpu_time());
                    census.look(&kernel).unwrap();
                    let (cost, lasted) = (cpu_time() - began, begin.elapsed());
                    interrupted += usize::from(lasted > cost + WAITED);
                    dearer += usize::from(census.took > cost);
                }
                dearer
            });
            let dearer = looks.join().unwrap();
            ends.store(true, Ordering::Relaxed);
            assert_eq!(dearer, 0, "looks that are said to cost more than they did");
        });
    }

    /// Runs `make`, and waits until what the kernel half holds against the budget is as before.
    fn is_given_back(kernel: &Kernel, make: impl Fn()) {
        // The tests beside this one have threads, too.
        let others = i64::from(FG_PROCESS_BYTES) * 32;
        let before = kernel.budget_left().unwrap();
        make();
        let deadline = Instant::now() + Duration::from_secs(60);
        while kernel.budget_left().unwrap() < before - others {
            assert!(Instant::now() < deadline, "{before} bytes were left");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_look_follows_within_a_minute_however_long_the_last_took() {
        assert_eq!(pause_after(Duration::from_millis(2)), INTERVAL * 2);
        assert_eq!(pause_after(Duration::from_secs(2)), LONGEST_INTERVAL);
    }

    /// With this process registered, and a budget that ends nothing.
    fn with_this_process() -> Option<Kernel> {
        let kernel = load()?;
        kernel.set_budget(i64::from(i32::MAX)).unwrap();
        let this = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        kernel.register(this.as_fd(), &image(), |_| Ok(())).unwrap();
        Some(kernel)
    }

    /// No look is needed for it: the churn of one user within a second takes nothing from the others.
    #[test]
    fn the_records_of_what_has_ended_are_given_back() {
        let Some(kernel) = with_this_process() else {
            return;
        };
        is_given_back(&kernel, || {
            for _ in 0..200 {
                // SAFETY: the child does nothing but end.
                match unsafe { fork() }.unwrap() {
                    // SAFETY: as above.
                    ForkResult::Child => unsafe { libc::_exit(0) },
                    ForkResult::Parent { child } => drop(waitpid(child, None)),
                }
            }
        });
        is_given_back(&kernel, || {
            for _ in 0..400 {
                std::thread::spawn(|| ()).join().unwrap();
            }
        });
        let programs = kernel.inherited().unwrap();
        is_given_back(&kernel, || {
            for _ in 0..200 {
                let ended = std::process::Command::new("/bin/true").status();
                assert!(ended.unwrap().success());
            }
        });
        assert!(kernel.inherited().unwrap() >= programs + 200);
    }

    /// They live on, and no account has them.
    #[test]
    fn programs_that_do_not_register_take_nothing_of_the_budget() {
        let Some(kernel) = with_this_process() else {
            return;
        };
        let programs = RefCell::new(Vec::<Program>::new());
        let before = kernel.inherited().unwrap();
        is_given_back(&kernel, || {
            for _ in 0..200 {
                let mut program = Command::new("/bin/cat"); // it waits for what this process says
                let started = program.stdin(Stdio::piped()).spawn().unwrap();
                programs.borrow_mut().push(started);
            }
        });
        assert!(kernel.inherited().unwrap() >= before + 200);
        for mut program in programs.take() {
            assert_eq!(program.try_wait().unwrap(), None);
            program.kill().unwrap();
            program.wait().unwrap();
        }
    }

    #[test]
    fn many_forks_are_counted_within_a_second_whatever_it_costs() {
        let Some(kernel) = load() else { return };
        let this = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        kernel.register(this.as_fd(), &image(), |_| Ok(())).unwrap();
        let mut census = Census::new(&kernel, u32::MAX, i64::MAX).unwrap();
        census.took = Duration::from_secs(1);
        census.ended = Instant::now() - INTERVAL;
        assert!(!has_looked(&mut census, &kernel), "the next is in 1,000 s");
        for _ in 0..MANY_FORKS {
            // SAFETY: the child does nothing but end.
            match unsafe { fork() }.unwrap() {
                // SAFETY: as above.
                ForkResult::Child => unsafe { libc::_exit(0) },
                ForkResult::Parent { child } => drop(waitpid(child, None)),
            }
        }
        assert!(has_looked(&mut census, &kernel));
        assert!(
            !has_looked(&mut census, &kernel),
            "that was less than a second ago"
        );
    }
}
