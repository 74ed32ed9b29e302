// SPDX-License-Identifier: MIT
//! A profile as ui.perfetto.dev opens one: the JSON trace format. A profile has sums, no times of day: each lock has a track
//! on which the call stacks that waited for it stand side by side, as long as they waited, the longest first.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::samples::{Column, Samples, Stack};

/// More functions than these are left out, the innermost first: a file that was saved may hold any number.
const DEEPEST: usize = 256;

pub fn perfetto(samples: &Samples) -> String {
    let mut events = Vec::new();
    let mut processes: BTreeMap<u32, Vec<&Stack>> = BTreeMap::new();
    for stack in &samples.stacks {
        processes.entry(stack.pid).or_default().push(stack);
    }
    for (pid, stacks) in processes {
        let name = format!("{} (sums, not a timeline)", stacks[0].process);
        events.push(metadata("process_name", pid, 0, &name));
        let mut track = 0;
        for (index, column) in samples.times() {
            for (lock, stacks) in by_lock(&stacks, index) {
                track += 1;
                let name = format!("{}: {lock}", column.name);
                events.push(metadata("thread_name", pid, track, &name));
                let node = Node::of(&stacks, index);
                let place = (pid, track, column);
                node.lay(0, place, &mut events);
            }
        }
    }
    let trace = json!({
        "displayTimeUnit": "ns",
        "otherData": {"comment": samples.comment, "lengths": "sums over the run, not a timeline"},
        "traceEvents": events,
    });
    trace.to_string()
}

fn metadata(what: &str, pid: u32, tid: u32, name: &str) -> Value {
    json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}})
}

/// The lock with the largest sum comes first.
fn by_lock<'a>(stacks: &[&'a Stack], index: usize) -> Vec<(&'a str, Vec<&'a Stack>)> {
    let mut locks: BTreeMap<&str, Vec<&Stack>> = BTreeMap::new();
    for stack in stacks.iter().filter(|stack| stack.numbers[index] > 0) {
        locks.entry(&stack.lock).or_default().push(stack);
    }
    let sum = |stacks: &[&Stack]| {
        let numbers = stacks.iter().map(|s| s.numbers[index]);
        numbers.fold(0, u64::saturating_add)
    };
    let mut locks: Vec<_> = locks.into_iter().collect();
    locks.sort_by_key(|(_, stacks)| std::cmp::Reverse(sum(stacks)));
    locks
}

/// A function, and what it called.
#[derive(Default)]
struct Node {
    sum: u64,
    called: BTreeMap<String, Node>,
}

impl Node {
    fn of(stacks: &[&Stack], index: usize) -> Node {
        let mut root = Node::default();
        for stack in stacks {
            let number = stack.numbers[index];
            let mut node = &mut root;
            node.sum = node.sum.saturating_add(number);
            for place in stack.places.iter().rev().take(DEEPEST) {
                node = node.called.entry(place.text()).or_default();
                node.sum = node.sum.saturating_add(number);
            }
        }
        root
    }

    fn lay(&self, begin: u64, place: (u32, u32, &Column), events: &mut Vec<Value>) {
        let (pid, track, column) = place;
        let mut called: Vec<_> = self.called.iter().collect();
        called.sort_by_key(|(_, node)| std::cmp::Reverse(node.sum));
        let mut at = begin;
        for (name, node) in called {
            events.push(json!({
                "ph": "X", "name": name, "cat": column.name, "pid": pid, "tid": track,
                "ts": at as f64 / 1e3, "dur": node.sum as f64 / 1e3,
            }));
            node.lay(at, place, events);
            at = at.saturating_add(node.sum);
        }
    }
}
