// SPDX-License-Identifier: MIT
//! Which worker is critical, from the lock's memory and its history alone.
//!
//! All workers run on one CPU and nobody else touches the locks. So between a worker's switch-in and its switch-out
//! the lock changed by this worker's hand only, and what it found is what the previous worker left. Step by step
//! follows the whole state of the lock, with its order of waiters:
//!
//! - A word that is not 0 belongs to the worker that it belonged to before, or, if it was free or this worker's, to this worker.
//! - Only this worker can have joined the queue, at its end: the tail is then its node. It stands behind the node
//!   that was last, and the queue is cut there until that node's `next` says otherwise.
//! - Only the head can take itself, and waiters that have left, out of the queue: the tail is then 0, or a successor has become
//!   GRANTED by its hand, or the tail is a node that it joined with afterwards.
//! - Where releases cull waiters, those that the head has passed over wait on, as passive threads. The head brings them
//!   back: one becomes GRANTED, or, before that, the tail while the head is alone. It never leaves the lock free to them.
//!
//! Whatever contradicts this is undecided, and fails the test: then the lock or this model is wrong.

use std::str::FromStr;

use anyhow::{Result, bail, ensure};
use flexguard_abi::{
    FG_NODE_FREE, FG_NODE_GRANTED, FG_NODE_LEFT, FG_NODE_PASSED, FG_OWNER_MASK, fg_queue_node,
};

use crate::records::{oracle_event, oracle_node};

/// Where a lock keeps what the model needs, in bytes from its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The u32 that says whether the lock is held, and the bits in which it does.
    pub word: Option<(usize, u32)>,
    /// The u64 that points to the queue's last node.
    pub tail: Option<usize>,
    /// A release takes waiters out of the queue that wait on, and brings them back later.
    pub culls: bool,
}

impl FromStr for Layout {
    type Err = anyhow::Error;

    /// As the lists of locks say it (model=), separated by commas, each with its offset: `word:N`, any bit of which
    /// says that the lock is held; or `owner:N`, a word that has the owner's tid in FG_OWNER_MASK, while the two bits
    /// above may stay when it has gone; `tail:N`; and `culls`. What else a lock has decides nothing: the tickets beside
    /// a word; and, since one CPU is one NUMA node, the order in NUMA-aware queues.
    fn from_str(model: &str) -> Result<Layout> {
        let mut layout = Layout {
            word: None,
            tail: None,
            culls: false,
        };
        for field in model.split(',') {
            match field.split_once(':') {
                Some(("word", at)) => layout.word = Some((at.parse()?, u32::MAX)),
                Some(("owner", at)) => layout.word = Some((at.parse()?, FG_OWNER_MASK)),
                Some(("tail", at)) => layout.tail = Some(at.parse()?),
                None if field == "culls" => layout.culls = true,
                _ => bail!("{field:?} is no part of a model"),
            }
        }
        ensure!(
            layout.word.is_some() || layout.tail.is_some(),
            "a model has a word or a tail"
        );
        Ok(layout)
    }
}

/// A worker's place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    worker: u32,
    node: u64,
    /// The node before it, until that one's `next` leads here.
    cut_from: Option<u64>,
}

#[derive(Debug)]
pub struct Truth {
    layout: Layout,
    /// Which of the locks this is about.
    lock: usize,
    nodes_address: u64,
    owner: Option<u32>,
    /// From the head to the tail, with waiters that have left and were not skipped yet.
    queue: Vec<Place>,
    /// Culled, and not back in the queue.
    passive: Vec<Place>,
}

/// How a worker stands to the lock. In several ways at once: an owner may still have the head to pass on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    pub owner: bool,
    /// Of the queue: the next to get the lock, or, in a lock that is only a queue, its owner.
    pub head: bool,
    /// It has joined the queue and not linked itself yet.
    pub cut: bool,
}

impl Standing {
    pub fn is_critical(self) -> bool {
        self.owner || self.head || self.cut
    }
}

/// What the model cannot explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecided(pub String);

type Decision<T> = Result<T, Undecided>;

fn undecided<T>(why: impl Into<String>) -> Decision<T> {
    Err(Undecided(why.into()))
}

impl Truth {
    /// A lock that nobody holds or waits for.
    pub fn new(layout: Layout, lock: usize, nodes_address: u64) -> Truth {
        Truth {
            layout,
            lock,
            nodes_address,
            owner: None,
            queue: Vec::new(),
            passive: Vec::new(),
        }
    }

    /// `worker` leaves the CPU and the lock looks like this. How does it stand?
    pub fn leaves(&mut self, worker: u32, event: &oracle_event) -> Decision<Standing> {
        let memory = &event.locks[self.lock];
        if let Some((at, bits)) = self.layout.word {
            let bytes = memory[at..at + 4].try_into().expect("four bytes");
            self.step_word(worker, u32::from_ne_bytes(bytes) & bits)?;
        }
        if let Some(at) = self.layout.tail {
            let bytes = memory[at..at + 8].try_into().expect("eight bytes");
            self.step_queue(worker, u64::from_ne_bytes(bytes), &event.nodes)?;
        }
        let mut places = self.queue.iter().filter(|p| p.worker == worker);
        Ok(Standing {
            owner: self.owner == Some(worker),
            head: self.queue.first().is_some_and(|p| p.worker == worker),
            cut: places.any(|p| p.cut_from.is_some()),
        })
    }

    fn step_word(&mut self, worker: u32, word: u32) -> Decision<()> {
        self.owner = match (self.owner, word) {
            (Some(owner), 0) if owner != worker => {
                return undecided(format!("{owner}'s lock was released by {worker}"));
            }
            (_, 0) => None,
            (Some(owner), _) => Some(owner),
            (None, _) => Some(worker),
        };
        Ok(())
    }

    fn step_queue(&mut self, worker: u32, tail: u64, nodes: &[oracle_node]) -> Decision<()> {
        let before = self.last();
        if self.queue.first().is_some_and(|p| p.worker == worker) {
            self.head_may_have_passed(before, tail, nodes)?;
        } else if tail == 0 && before != 0 {
            return undecided(format!("{worker} emptied the queue without being its head"));
        }
        let last = self.last();
        if tail != last && tail != 0 {
            self.queue.push(Place {
                worker,
                node: tail,
                cut_from: (last != 0).then_some(last),
            });
        }
        self.link(worker, nodes)?;
        self.check(tail, nodes)
    }

    fn last(&self) -> u64 {
        self.queue.last().map_or(0, |place| place.node)
    }

    /// The head was running: is it still the head?
    fn head_may_have_passed(
        &mut self,
        before: u64,
        tail: u64,
        nodes: &[oracle_node],
    ) -> Decision<()> {
        for i in 1..self.queue.len() {
            if self.state(self.queue[i].node, nodes)? == FG_NODE_GRANTED {
                let passed_over = self.queue.drain(..i).skip(1);
                if self.layout.culls {
                    self.passive.extend(passed_over);
                }
                return Ok(());
            }
        }
        if self.passive_may_be_back(tail, nodes)? {
            return Ok(());
        }
        if tail != before {
            if !self.passive.is_empty() {
                return undecided("the head has gone, and left passive threads behind");
            }
            // Nobody was left to be granted: it emptied the queue, and may have joined it again since.
            self.queue.clear();
            return Ok(());
        }
        // Those it has skipped are out of the queue; their nodes may come back behind it.
        let mut skipped = Vec::new();
        for place in &self.queue[1..] {
            if self.state(place.node, nodes)? == FG_NODE_FREE {
                skipped.push(place.node);
            }
        }
        self.queue.retain(|place| !skipped.contains(&place.node));
        Ok(())
    }

    /// The head was running: has it brought a passive thread back?
    fn passive_may_be_back(&mut self, tail: u64, nodes: &[oracle_node]) -> Decision<bool> {
        for i in 0..self.passive.len() {
            let node = self.passive[i].node;
            if self.state(node, nodes)? == FG_NODE_GRANTED {
                self.queue[0] = self.passive.remove(i);
                return Ok(true);
            }
            if node == tail {
                self.queue.push(self.passive.remove(i));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Only its own worker links a place.
    fn link(&mut self, worker: u32, nodes: &[oracle_node]) -> Decision<()> {
        for i in 0..self.queue.len() {
            let place = self.queue[i];
            if let (true, Some(before)) = (place.worker == worker, place.cut_from)
                && self.node(before, nodes)?.next == place.node
            {
                self.queue[i].cut_from = None;
            }
        }
        Ok(())
    }

    /// What must be so if the model is right.
    fn check(&self, tail: u64, nodes: &[oracle_node]) -> Decision<()> {
        if self.last() != tail {
            return undecided(format!(
                "tail {tail:#x}, but the last place is {:#x}",
                self.last()
            ));
        }
        for (i, place) in self.queue.iter().enumerate() {
            let state = self.state(place.node, nodes)?;
            let left = [FG_NODE_LEFT, FG_NODE_PASSED, FG_NODE_FREE].contains(&state);
            if i == 0 && left || i > 0 && (state == FG_NODE_GRANTED || state == FG_NODE_FREE) {
                return undecided(format!("place {i} of the queue is in state {state}"));
            }
        }
        Ok(())
    }

    fn state(&self, node: u64, nodes: &[oracle_node]) -> Decision<u32> {
        Ok(self.node(node, nodes)?.state)
    }

    fn node<'a>(&self, node: u64, nodes: &'a [oracle_node]) -> Decision<&'a oracle_node> {
        let size = size_of::<fg_queue_node>() as u64;
        let offset = node.wrapping_sub(self.nodes_address);
        let index = usize::try_from(offset / size).unwrap_or(usize::MAX);
        match nodes.get(index) {
            Some(found) if offset.is_multiple_of(size) => Ok(found),
            _ => undecided(format!("{node:#x} is no node that was read")),
        }
    }
}

#[cfg(test)]
#[path = "truth_tests.rs"]
mod tests;
