// SPDX-License-Identifier: MIT
//! How often and how long holders were preempted, from the monitor's tracer.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_monitor::{Event, SocketName, Tracer};

use super::record::{Preempted, Process};

/// How often to take the events.
const LOOK: Duration = Duration::from_millis(50);
/// The bytes of a pthread_mutex_t, in which a lock's word is.
const MUTEX: u64 = 40;

/// The initial PID namespace, as the kernel has numbered it since 3.8 (include/linux/proc_ns.h).
const INITIAL_NAMESPACE: &str = "pid:[4026531836]";

/// A tracer that is attached.
pub struct Watch(Tracer);

/// What was seen: by process and address of the lock's word, which is None where the thread does not say it.
#[derive(Default)]
pub struct Seen(HashMap<(u32, Option<u64>), Preempted>);

pub fn refuse_other_namespaces() -> Result<()> {
    let own = fs::read_link("/proc/self/ns/pid").context("cannot read the PID namespace")?;
    if own.as_os_str() != INITIAL_NAMESPACE {
        return Err(Failure::new(
            "the tracer's process ids are those of the initial PID namespace, and the program is in another",
        ));
    }
    Ok(())
}

impl Watch {
    pub fn attach(socket: &SocketName) -> Result<Watch> {
        refuse_other_namespaces()?;
        let tracer = Tracer::attach(socket, None).context("cannot trace")?;
        Ok(Watch(tracer))
    }

    /// Takes the events until `work` is done.
    pub fn during<T>(self, work: impl FnOnce() -> T) -> (T, Result<Seen>) {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let watching = scope.spawn(|| self.take_until(&done));
            let result = work();
            done.store(true, Ordering::Release);
            watching.thread().unpark();
            let lost = || Err(Failure::new("the tracer's thread has died"));
            (result, watching.join().unwrap_or_else(|_| lost()))
        })
    }

    fn take_until(self, done: &AtomicBool) -> Result<Seen> {
        let mut seen = Seen::default();
        loop {
            // Once more after the end.
            let last = done.load(Ordering::Acquire);
            let events = self.0.take().context("cannot read what was traced")?;
            events.iter().for_each(|event| seen.add(event));
            if last {
                return Ok(seen);
            }
            thread::park_timeout(LOOK);
        }
    }
}

impl Seen {
    fn add(&mut self, event: &Event) {
        if !event.holder {
            return;
        }
        let sum = self.0.entry((event.pid, event.lock)).or_default();
        sum.count += 1;
        sum.seconds += event.off_cpu_ns as f64 / 1e9;
    }

    /// Tells each lock of the process. Under a lock that never says its address it is not known which one it was.
    pub fn tell(&self, process: &mut Process) {
        let own: Vec<(Option<u64>, Preempted)> = (self.0.iter())
            .filter(|((pid, _), _)| *pid == process.pid)
            .map(|((_, word), sum)| (*word, *sum))
            .collect();
        if !own.is_empty() && own.iter().all(|(word, _)| word.is_none()) {
            return;
        }
        for lock in &mut process.locks {
            let words = lock.address..lock.address + MUTEX;
            let mut sum = Preempted::default();
            for (word, one) in &own {
                if word.is_some_and(|word| words.contains(&word)) {
                    sum.count += one.count;
                    sum.seconds += one.seconds;
                }
            }
            lock.preempted = Some(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::record::Lock;

    fn lock(address: u64) -> Lock {
        Lock {
            address,
            kind: crate::profile::record::Kind::Mutex,
            name: None,
            first_use: None,
            acquisitions: 1,
            contended: 0,
            contended_share: 0.0,
            failed: 0,
            cond_waits: 0,
            wait: None,
            hold: None,
            preempted: None,
            sites: vec![],
        }
    }

    #[test]
    fn a_preemption_belongs_to_the_mutex_that_the_word_is_in() {
        let one = Preempted {
            count: 1,
            seconds: 0.5,
        };
        let told = |seen: &[(u32, Option<u64>)]| {
            let seen = Seen(seen.iter().map(|&key| (key, one)).collect());
            let mut process = Process {
                pid: 7,
                locks: vec![lock(1000), lock(1040)],
                ..Process::default()
            };
            seen.tell(&mut process);
            [0, 1].map(|i| process.locks[i].preempted.map(|p| p.count))
        };
        let words = [
            (7, Some(1032)),
            (7, Some(1040)),
            (7, Some(1079)),
            (8, Some(1000)),
            (7, None),
        ];
        assert_eq!(told(&words), [Some(1), Some(2)]);
        assert_eq!(told(&[]), [Some(0), Some(0)]);
        assert_eq!(told(&[(7, None)]), [None, None]);
    }
}
