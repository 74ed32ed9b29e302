// SPDX-License-Identifier: MIT
//! Compares the monitor's verdicts with the truth, event by event.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::ops::AddAssign;

use flexguard_abi::FG_NODE_GRANTED;

use crate::records::*;
use crate::truth::{Layout, Standing, Truth, Undecided};
use crate::victim::Victim;

/// How many disagreements are told in full.
const TOLD: usize = 5;
/// A thread that has been off its CPU for so long the monitor may have forgotten at any time since: FG_AGED_NS of
/// monitor/bpf/monitor.h, less what passes from the switch to the oracle's event.
const AGED_NS: u64 = 990_000_000;
/// How many events are told before each.
const BEFORE: usize = 6;

/// What has been compared. A disagreement is a difference at one event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Switches from a worker.
    pub departures: u64,
    /// Of these, the ones that left it runnable.
    pub preemptions: u64,
    /// Of these, the ones by an interrupt, at an arbitrary instruction.
    pub forced: u64,
    /// Forced, and critical in truth.
    pub critical: u64,
    /// By standing to any of the locks; one may be several.
    pub owners: u64,
    pub heads: u64,
    pub cuts: u64,
    /// Critical for both locks.
    pub nested: u64,
    /// Forced, with an intent that leads to a lock whose owner the worker is not: not yet, or no longer.
    pub edges: u64,
    /// Of the critical, the ones that neither `held` nor the state of a node tells: only a window or an intent does.
    pub hidden: u64,
    /// Changes of the CPU.
    pub moves: u64,
    /// Critical in truth, not counted by the monitor.
    pub false_negatives: u64,
    /// Counted by the monitor, not critical or not even preempted in truth.
    pub false_positives: u64,
    /// Events that the model of the lock cannot explain.
    pub undecided: u64,
    /// Events at which num_preempted_cs was not the number of workers that the monitor had counted. Beside another
    /// victim it may be higher, by that one's workers at most; and lower, by those that have had no CPU for a second.
    pub miscounts: u64,
    /// Events whose evidence is incomplete.
    pub incomplete: u64,
    /// Departures of a worker whose arrival the kernel has reported to nobody. Judged like all: no other worker ran
    /// meanwhile, so the truth is known, and the monitor is to notice. But a counter was too high for a while. A Linux
    /// 6.18 of a virtual machine hides from one in 30,000 to one in 16, if it is crowded, from ftrace as well.
    pub unreported: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Tally) {
        self.departures += more.departures;
        self.preemptions += more.preemptions;
        self.forced += more.forced;
        self.critical += more.critical;
        self.owners += more.owners;
        self.heads += more.heads;
        self.cuts += more.cuts;
        self.nested += more.nested;
        self.edges += more.edges;
        self.hidden += more.hidden;
        self.moves += more.moves;
        self.false_negatives += more.false_negatives;
        self.false_positives += more.false_positives;
        self.undecided += more.undecided;
        self.miscounts += more.miscounts;
        self.incomplete += more.incomplete;
        self.unreported += more.unreported;
    }
}

impl Tally {
    /// Nothing to object to.
    pub fn is_exact(&self) -> bool {
        self.false_negatives == 0
            && self.false_positives == 0
            && self.undecided == 0
            && self.miscounts == 0
            && self.incomplete == 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} preemptions by interrupt ({} in all, {} switches), {} critical ({} by both locks, {} owners, {} heads, \
             {} cuts), {} of them seen by a window or an intent alone, {} beside an intent, {} moves; \
             {} false negatives, {} false positives, {} undecided, {} miscounts, {} incomplete, {} unreported",
            self.forced,
            self.preemptions,
            self.departures,
            self.critical,
            self.nested,
            self.owners,
            self.heads,
            self.cuts,
            self.hidden,
            self.edges,
            self.moves,
            self.false_negatives,
            self.false_positives,
            self.undecided,
            self.miscounts,
            self.incomplete,
            self.unreported,
        )
    }
}

pub struct Judge {
    /// By lock, as their addresses.
    truths: Vec<Truth>,
    locks: Vec<u64>,
    /// By worker: when it left its CPU, if it is off CPU and the monitor counted it.
    counted: Vec<Option<u64>>,
    /// Workers of other victims of the same monitor: what they add to the counter is not known at every instant.
    others: usize,
    sequence: u64,
    /// The worker that is on the CPU, and which CPU that is.
    running: u32,
    cpu: Option<u32>,
    recent: VecDeque<String>,
    pub tally: Tally,
    /// The first disagreements, told in full.
    pub report: Vec<String>,
    /// From where the victim's code is loaded: addresses are told relative to it.
    code: u64,
}

impl Judge {
    pub fn new(layout: Layout, victim: &Victim, others: usize) -> Judge {
        let truth = |lock| Truth::new(layout, lock, victim.nodes);
        Judge {
            truths: (0..victim.locks.len()).map(truth).collect(),
            locks: victim.locks.to_vec(),
            counted: vec![None; victim.workers.len()],
            others,
            sequence: 0,
            running: ORACLE_NOBODY,
            cpu: None,
            recent: VecDeque::new(),
            tally: Tally::default(),
            report: Vec::new(),
            code: victim.code,
        }
    }

    pub fn hear(&mut self, event: &oracle_event) {
        self.remember(event);
        let arrived = event.prev == self.running;
        let unreported = self.running == ORACLE_NOBODY;
        if event.sequence != self.sequence || !arrived && !unreported {
            self.tally.incomplete += 1;
            self.tell("a switch before this one is missing");
        }
        self.sequence = event.sequence + 1;
        self.running = event.next;
        let before = self.cpu.replace(event.cpu);
        self.tally.moves += u64::from(before.is_some_and(|cpu| cpu != event.cpu));
        if event.next != ORACLE_NOBODY {
            self.counted[event.next as usize] = None;
        }
        if event.prev != ORACLE_NOBODY {
            self.tally.unreported += u64::from(!arrived);
            self.departure(event);
        }
        let counted = self.counted.iter().flatten().count();
        let lately = |left: &&u64| event.at_ns.saturating_sub(**left) < AGED_NS;
        let least = self.counted.iter().flatten().filter(lately).count();
        if !(least..=counted + self.others).contains(&(event.counter as usize)) {
            self.tally.miscounts += 1;
            self.tell(&format!(
                "num_preempted_cs is {}, counted are {counted}",
                event.counter
            ));
        }
    }

    fn departure(&mut self, event: &oracle_event) {
        let runnable = event.flags & ORACLE_RUNNABLE != 0;
        let forced = event.flags & ORACLE_FORCED != 0;
        let counted = event.verdict != 0;
        self.counted[event.prev as usize] = counted.then_some(event.at_ns);
        self.tally.departures += 1;
        self.tally.preemptions += u64::from(runnable);
        self.tally.forced += u64::from(forced);
        if event.flags & (ORACLE_UNREADABLE | ORACLE_NO_VERDICT) != 0 {
            self.tally.incomplete += 1;
            self.tell("some of the evidence could not be read");
            return;
        }
        match self.standings(event) {
            Err(why) => {
                self.tally.undecided += 1;
                self.tell(&format!("undecided: {}", why.0));
            }
            Ok(standings) => {
                if forced {
                    self.classify(&standings, event);
                }
                let critical = standings.iter().any(|s| s.is_critical());
                self.compare(runnable && critical, counted);
            }
        }
    }

    /// To each of the locks.
    fn standings(&mut self, event: &oracle_event) -> Result<Vec<Standing>, Undecided> {
        let all = self.truths.iter_mut();
        all.map(|truth| truth.leaves(event.prev, event)).collect()
    }

    fn classify(&mut self, standings: &[Standing], event: &oracle_event) {
        let is = |what: fn(&Standing) -> bool| standings.iter().any(what);
        let critical = is(|s| s.is_critical());
        let mut intended = self.locks.iter().zip(standings);
        let shown = event.held > 0 || event.own_state == FG_NODE_GRANTED;
        self.tally.critical += u64::from(critical);
        self.tally.owners += u64::from(is(|s| s.owner));
        self.tally.nested += u64::from(standings.iter().all(|s| s.is_critical()));
        self.tally.heads += u64::from(is(|s| s.head));
        self.tally.cuts += u64::from(is(|s| s.cut));
        let edge = intended.any(|(lock, s)| *lock == event.pending && !s.owner);
        self.tally.edges += u64::from(edge);
        self.tally.hidden += u64::from(critical && !shown);
    }

    fn compare(&mut self, expected: bool, counted: bool) {
        if expected && !counted {
            self.tally.false_negatives += 1;
            self.tell("false negative: critical, but not counted");
        }
        if counted && !expected {
            self.tally.false_positives += 1;
            self.tell("false positive: counted, but not preempted in a critical section");
        }
    }

    /// The workers have gone: nobody may be counted any more.
    pub fn finish(&mut self, num_preempted_cs: u64) {
        if num_preempted_cs != 0 {
            self.tally.miscounts += 1;
            self.tell(&format!("num_preempted_cs ends as {num_preempted_cs}"));
        }
    }

    fn remember(&mut self, event: &oracle_event) {
        self.recent.push_back(describe(event, self.code));
        if self.recent.len() > BEFORE + 1 {
            self.recent.pop_front();
        }
    }

    fn tell(&mut self, what: &str) {
        if self.report.len() < TOLD {
            let events = self.recent.make_contiguous().join("\n    ");
            self.report.push(format!(
                "{what}\n    {events}\n    truth: {:?}",
                self.truths
            ));
        }
    }
}

fn describe(event: &oracle_event, code: u64) -> String {
    let name = |worker: u32| match worker {
        ORACLE_NOBODY => "-".to_string(),
        worker => worker.to_string(),
    };
    let mut text = format!(
        "#{} {} -> {} counter={}",
        event.sequence,
        name(event.prev),
        name(event.next),
        event.counter
    );
    if event.prev == ORACLE_NOBODY {
        return text;
    }
    let locks = event.locks.map(|lock| {
        let halves = [&lock[..8], &lock[8..]];
        halves.map(|half| u64::from_ne_bytes(half.try_into().expect("eight bytes")))
    });
    let _ = write!(
        text,
        " flags={:#x} verdict={} ip=+{:#x} held={} node={:#x} (state {}) pending={:#x} locks={:x?} nodes=",
        event.flags,
        event.verdict,
        event.ip.wrapping_sub(code),
        event.held,
        event.node,
        event.own_state,
        event.pending,
        locks,
    );
    for (i, node) in event.nodes.iter().enumerate() {
        if node.state != 0 || node.next != 0 {
            let _ = write!(text, "[{i}: next={:#x} state={}]", node.next, node.state);
        }
    }
    text
}
