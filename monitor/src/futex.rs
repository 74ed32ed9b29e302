// SPDX-License-Identifier: MIT
//! The watch over the waits of a process: what its threads sleep for in futex(2), whatever its locks are.

use std::fs;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object};
use nix::time::{ClockId, clock_gettime};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::Error;
use crate::capabilities;
use crate::error::os;
use crate::kernel::{bpf, btf_path, map, open};
use crate::records::{
    FG_FUTEX_SAMPLE_NS, fg_futex_begun, fg_futex_control, fg_futex_sample, fg_futex_word,
};
use crate::ring::{Control, Ring};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/futex.bpf.o"));
/// The system call's number.
const FUTEX: &str = if cfg!(target_arch = "x86_64") {
    "202"
} else {
    "98"
};

/// A wait that was sampled, with what is needed to find out where it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    pub tid: u32,
    pub word: u64,
    /// When it began, CLOCK_MONOTONIC, and how long it took.
    pub since_ns: u64,
    pub ns: u64,
    pub registers: Registers,
    /// The bytes of the stack from its pointer on.
    pub stack: Vec<u8>,
}

/// The thread's, in user space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers {
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
}

impl Wait {
    fn of(bytes: &[u8]) -> Option<Wait> {
        let (sample, _) = fg_futex_sample::ref_from_prefix(bytes).ok()?;
        let stack = &sample.stack[..(sample.bytes as usize).min(sample.stack.len())];
        Some(Wait {
            tid: sample.tid,
            word: sample.word,
            since_ns: sample.since_ns,
            ns: sample.ns,
            registers: Registers {
                ip: sample.ip,
                sp: sample.sp,
                bp: sample.bp,
            },
            stack: stack.to_vec(),
        })
    }

    /// How much waiting time it stands for.
    pub fn stands_for_ns(&self) -> u64 {
        self.ns.max(u64::from(FG_FUTEX_SAMPLE_NS))
    }
}

/// All waits for a word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Word {
    pub address: u64,
    pub waits: u64,
    pub ns: u64,
    pub longest_ns: u64,
    /// Threads that wait still; their time is in `ns`.
    pub waiting: u64,
}

/// What found no place: waits that were not counted, and samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostWaits {
    pub waits: u64,
    pub samples: u64,
}

/// A watch that is attached. Dropping it detaches it.
pub struct WaitWatch {
    // Before `object`: fields are dropped in this order.
    links: Vec<Link>,
    ring: Ring<Wait>,
    control: Control<fg_futex_control>,
    begun: MapHandle,
    words: MapHandle,
    _object: Object,
}

impl WaitWatch {
    /// Watches the process, which is named as in the initial PID namespace.
    pub fn attach(pid: u32) -> Result<WaitWatch, Error> {
        if let Some(missing) = capabilities::missing_capabilities() {
            return Err(Error::NoPrivilege { missing });
        }
        let object = open(OBJECT, &btf_path())?;
        let object = object.load().map_err(bpf("loading the watch over waits"))?;
        let settings = fg_futex_control {
            pid,
            ..FromZeros::new_zeroed()
        };
        let control = Control::set(&object, "setting the watch over waits up", &settings)?;
        let ring = Ring::of(&object, "reading the samples of waits", Wait::of)?;
        let programs = object.progs_mut();
        let links: Result<Vec<Link>, _> = programs.map(|program| program.attach_trace()).collect();
        let watch = WaitWatch {
            links: links.map_err(bpf("attaching the watch over waits"))?,
            ring,
            control,
            begun: map(&object, "begun")?,
            words: map(&object, "words")?,
            _object: object,
        };
        watch.begin_those_that_wait(pid)?;
        Ok(watch)
    }

    /// Threads that are in futex(2) already: their waits begin now.
    fn begin_those_that_wait(&self, pid: u32) -> Result<(), Error> {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        let since_ns = now()?;
        for tid in tasks.into_iter().flatten().flatten() {
            let path = tid.path().join("syscall");
            let word = || waits_for(&fs::read_to_string(&path).unwrap_or_default());
            let tid = tid.file_name().to_string_lossy().parse::<u32>();
            let (Ok(tid), Some(word_then)) = (tid, word()) else {
                continue;
            };
            let begun = fg_futex_begun {
                since_ns,
                word: word_then,
            };
            // The thread may have come back, and wait anew: that is right already.
            let key = tid.to_ne_bytes();
            let _ = self
                .begun
                .update(&key, begun.as_bytes(), MapFlags::NO_EXIST);
            // Or it had come back before, and this is no wait: its next call that wakes would end it.
            if word() != Some(word_then) {
                let stored = self.begun.lookup(&key, MapFlags::ANY).ok().flatten();
                if stored.is_some_and(|stored| stored == begun.as_bytes()) {
                    let _ = self.begun.delete(&key);
                }
            }
        }
        Ok(())
    }

    /// The samples that were taken since the last call. Does not wait.
    pub fn take(&self) -> Result<Vec<Wait>, Error> {
        self.ring.take()
    }

    /// All words on which a thread has waited, or waits still. Ends the watch: who goes through a table from which entries are
    /// taken meanwhile begins anew, and meets a thread twice.
    pub fn words(&mut self) -> Result<Vec<Word>, Error> {
        self.links.clear();
        let now = now()?;
        let mut words: Vec<Word> = Vec::new();
        for key in self.words.keys() {
            let (Ok(address), Some(value)) = (
                u64::read_from_bytes(&key),
                self.words.lookup(&key, MapFlags::ANY).ok().flatten(),
            ) else {
                continue;
            };
            let Ok((of, _)) = fg_futex_word::read_from_prefix(&value) else {
                continue;
            };
            words.push(Word {
                address,
                waits: of.waits,
                ns: of.ns,
                longest_ns: of.longest_ns,
                waiting: 0,
            });
        }
        for key in self.begun.keys() {
            let value = self.begun.lookup(&key, MapFlags::ANY).ok().flatten();
            let value = value.unwrap_or_default();
            let Ok((begun, _)) = fg_futex_begun::read_from_prefix(&value) else {
                continue;
            };
            let ns = now.saturating_sub(begun.since_ns);
            let at = words.iter().position(|word| word.address == begun.word);
            let at = at.unwrap_or_else(|| {
                words.push(Word {
                    address: begun.word,
                    ..Word::default()
                });
                words.len() - 1
            });
            let word = &mut words[at];
            word.waiting += 1;
            word.ns += ns;
            word.longest_ns = word.longest_ns.max(ns);
        }
        Ok(words)
    }

    pub fn lost(&self) -> Result<LostWaits, Error> {
        let control = self
            .control
            .get("reading the counts of the watch over waits")?;
        Ok(LostWaits {
            waits: control.lost_waits,
            samples: control.lost_samples,
        })
    }
}

/// The word of a thread that is in futex(2), by its line of /proc: `NUMBER ARGUMENT... SP PC`. A call that wakes does not last.
fn waits_for(call: &str) -> Option<u64> {
    let mut words = call.split(' ');
    if words.next() != Some(FUTEX) {
        return None;
    }
    u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()
}

fn now() -> Result<u64, Error> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(os("reading the clock"))?;
    Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_read_as_it_was_written() {
        let mut wire = fg_futex_sample::new_zeroed();
        (wire.ns, wire.word, wire.sp, wire.bytes) = (7, 0x1000, 0x2000, 2);
        wire.stack[..2].copy_from_slice(&[5, 6]);
        let wait = Wait::of(wire.as_bytes()).unwrap();
        assert_eq!((wait.word, wait.registers.sp, wait.ns), (0x1000, 0x2000, 7));
        assert_eq!(wait.stack, [5, 6]);
        assert_eq!(wait.stands_for_ns(), 10_000_000);
        wire.bytes = u32::MAX; // more than there are
        assert_eq!(
            Wait::of(wire.as_bytes()).unwrap().stack.len(),
            wire.stack.len()
        );
        let less = size_of::<fg_futex_sample>() - 1;
        assert_eq!(Wait::of(&wire.as_bytes()[..less]), None);
    }

    #[test]
    fn a_thread_that_waits_is_known_by_its_system_call() {
        let line = format!("{FUTEX} 0x7f00deadbee0 0x80 0x2 0x0 0x0 0x0 0x7ffd0 0x7f11\n");
        assert_eq!(waits_for(&line), Some(0x7f00_dead_bee0));
        assert_eq!(
            waits_for("0 0x3 0x7ffd 0x10 0x0 0x0 0x0 0x7ffd0 0x7f11"),
            None
        );
        assert_eq!(waits_for("running\n"), None);
    }
}
