// SPDX-License-Identifier: MIT
//! The model on hand-written histories: every way in which the queue can change while a worker runs.

use flexguard_abi::{FG_NODE_OWNED, FG_NODE_WAITING};

use super::*;

/// Models of the lists of locks: tatas, the default lock, mcs, malthusian, FlexGuard as published.
const WORD: &str = "word:0";
const OWNER_WORD: &str = "owner:0";
const QUEUE: &str = "tail:0";
const CULLING: &str = "tail:0,culls";
const BOTH: &str = "word:0,tail:8";

const NODES: u64 = 0x1000;
const A: u32 = 0;
const B: u32 = 1;
const C: u32 = 2;

fn at(index: usize) -> u64 {
    NODES + index as u64 * size_of::<fg_queue_node>() as u64
}

/// A lock's memory, as the test writes it. Node n is worker n's; 4 and up are their second ones.
struct Lock {
    truth: Truth,
    event: oracle_event,
    tail_at: usize,
}

impl Lock {
    fn new(model: &str) -> Lock {
        let layout = model.parse::<Layout>().unwrap();
        Lock {
            truth: Truth::new(layout, 1, NODES),
            event: oracle_event::default(),
            tail_at: layout.tail.unwrap_or(0),
        }
    }

    fn word(&mut self, word: u32) -> &mut Lock {
        self.event.locks[1][..4].copy_from_slice(&word.to_ne_bytes());
        self
    }

    fn tail(&mut self, tail: u64) -> &mut Lock {
        let at = self.tail_at;
        self.event.locks[1][at..at + 8].copy_from_slice(&tail.to_ne_bytes());
        self
    }

    fn state(&mut self, node: usize, state: u32) -> &mut Lock {
        self.event.nodes[node].state = state;
        self
    }

    fn link(&mut self, from: usize, to: usize) -> &mut Lock {
        self.event.nodes[from].next = at(to);
        self
    }

    /// Node `node` has joined and stands in this state.
    fn join(&mut self, node: usize, state: u32) -> &mut Lock {
        self.event.nodes[node].next = 0;
        self.state(node, state).tail(at(node))
    }

    fn leaves(&mut self, worker: u32) -> Standing {
        self.truth.leaves(worker, &self.event).unwrap()
    }

    fn undecided(&mut self, worker: u32) -> String {
        self.truth.leaves(worker, &self.event).unwrap_err().0
    }
}

const NOTHING: Standing = Standing {
    owner: false,
    head: false,
    cut: false,
};
const OWNER: Standing = Standing {
    owner: true,
    ..NOTHING
};
const HEAD: Standing = Standing {
    head: true,
    ..NOTHING
};
const CUT: Standing = Standing {
    cut: true,
    ..NOTHING
};

/// A queue of A, B and C in this order.
fn three(model: &str) -> Lock {
    let mut lock = Lock::new(model);
    assert_eq!(lock.join(0, FG_NODE_WAITING).leaves(A), HEAD);
    lock.state(0, FG_NODE_GRANTED);
    assert_eq!(lock.join(1, FG_NODE_WAITING).link(0, 1).leaves(B), NOTHING);
    assert_eq!(lock.join(2, FG_NODE_WAITING).link(1, 2).leaves(C), NOTHING);
    lock
}

#[test]
fn a_word_belongs_to_who_found_it_free() {
    let mut lock = Lock::new(WORD);
    assert_eq!(lock.leaves(A), NOTHING);
    assert_eq!(lock.word(1).leaves(A), OWNER);
    assert_eq!(lock.leaves(B), NOTHING);
    assert_eq!(lock.word(2).leaves(C), NOTHING); // a waiter may mark it
    assert_eq!(lock.leaves(A), OWNER);
    assert_eq!(lock.word(0).leaves(A), NOTHING);
    assert_eq!(lock.word(1).leaves(B), OWNER);
}

#[test]
fn flags_own_nothing() {
    const FLAGS: u32 = !FG_OWNER_MASK;
    let mut lock = Lock::new(OWNER_WORD);
    assert_eq!(lock.word(77).leaves(A), OWNER);
    assert_eq!(lock.word(77 | FLAGS).leaves(B), NOTHING);
    assert_eq!(lock.word(FLAGS).leaves(A), NOTHING);
    assert_eq!(lock.leaves(B), NOTHING);
    assert_eq!(lock.word(78).leaves(B), OWNER);
}

#[test]
fn a_word_released_by_another_is_undecided() {
    let mut lock = Lock::new(WORD);
    lock.word(77).leaves(A);
    assert!(lock.word(0).undecided(B).contains("released"));
}

#[test]
fn who_swings_the_tail_is_cut_until_it_links() {
    let mut lock = Lock::new(QUEUE);
    assert_eq!(lock.join(0, FG_NODE_WAITING).leaves(A), HEAD);
    assert_eq!(lock.join(1, FG_NODE_WAITING).leaves(B), CUT);
    assert_eq!(lock.join(2, FG_NODE_WAITING).link(1, 2).leaves(C), NOTHING);
    assert_eq!(lock.leaves(B), CUT);
    assert_eq!(lock.link(0, 1).leaves(B), NOTHING);
}

#[test]
fn the_head_is_passed_on_by_the_grant() {
    let mut lock = three(QUEUE);
    lock.state(0, FG_NODE_OWNED);
    assert_eq!(lock.leaves(A), HEAD);
    // Granted, but A has not put its node away yet.
    assert_eq!(lock.state(1, FG_NODE_GRANTED).leaves(A), NOTHING);
    assert_eq!(lock.state(0, FG_NODE_FREE).leaves(A), NOTHING);
    assert_eq!(lock.leaves(B), HEAD);
}

#[test]
fn the_head_may_pass_on_and_queue_again() {
    let mut lock = three(QUEUE);
    lock.state(1, FG_NODE_GRANTED);
    assert_eq!(lock.join(0, FG_NODE_WAITING).leaves(A), CUT);
    assert_eq!(lock.link(2, 0).leaves(A), NOTHING);
    assert_eq!(lock.leaves(B), HEAD);
}

#[test]
fn a_lonely_head_may_leave_and_come_back() {
    let mut lock = Lock::new(QUEUE);
    assert_eq!(lock.join(0, FG_NODE_OWNED).leaves(A), HEAD);
    assert_eq!(lock.leaves(A), HEAD);
    assert_eq!(lock.join(4, FG_NODE_WAITING).leaves(A), HEAD);
    assert_eq!(lock.tail(0).state(4, FG_NODE_FREE).leaves(A), NOTHING);
    assert_eq!(lock.join(1, FG_NODE_WAITING).leaves(B), HEAD);
}

#[test]
fn who_left_is_skipped() {
    let mut lock = three(BOTH);
    assert_eq!(lock.state(1, FG_NODE_LEFT).leaves(B), NOTHING);
    // A skips B's place, is interrupted in between, and stays the head until C is granted.
    assert_eq!(lock.state(1, FG_NODE_PASSED).leaves(A), HEAD);
    assert_eq!(lock.join(5, FG_NODE_WAITING).leaves(B), CUT); // B may not use its node yet
    assert_eq!(lock.link(2, 5).leaves(B), NOTHING);
    assert_eq!(lock.state(1, FG_NODE_FREE).leaves(A), HEAD);
    assert_eq!(lock.state(2, FG_NODE_GRANTED).leaves(A), NOTHING);
    assert_eq!(lock.leaves(C), HEAD);
}

#[test]
fn a_skipped_node_may_come_back_behind_its_skipper() {
    let mut lock = three(BOTH);
    lock.state(1, FG_NODE_LEFT).leaves(B);
    lock.state(2, FG_NODE_LEFT).leaves(C);
    // B is out of the queue, C is being skipped.
    lock.state(1, FG_NODE_FREE).state(2, FG_NODE_PASSED);
    assert_eq!(lock.leaves(A), HEAD);
    assert_eq!(lock.join(1, FG_NODE_WAITING).leaves(B), CUT);
    assert_eq!(lock.link(2, 1).leaves(B), NOTHING);
    lock.state(2, FG_NODE_FREE).state(1, FG_NODE_GRANTED);
    assert_eq!(lock.leaves(A), NOTHING);
    assert_eq!(lock.leaves(B), HEAD);
}

#[test]
fn the_head_of_a_deserted_queue_empties_it() {
    let mut lock = three(BOTH);
    lock.state(1, FG_NODE_LEFT).leaves(B);
    lock.state(2, FG_NODE_LEFT).leaves(C);
    lock.state(1, FG_NODE_FREE).state(2, FG_NODE_FREE).tail(0);
    assert_eq!(lock.leaves(A), NOTHING);
    assert_eq!(lock.join(1, FG_NODE_WAITING).leaves(B), HEAD);
}

#[test]
fn the_head_may_empty_the_queue_and_be_alone_in_it_again() {
    let mut lock = three(BOTH);
    lock.state(1, FG_NODE_LEFT).leaves(B);
    lock.state(2, FG_NODE_LEFT).leaves(C);
    lock.state(1, FG_NODE_FREE).state(2, FG_NODE_FREE);
    assert_eq!(lock.join(0, FG_NODE_WAITING).leaves(A), HEAD);
    assert_eq!(lock.join(1, FG_NODE_WAITING).leaves(B), CUT);
}

/// A, the holder, B and C, of which A culls B: C is the holder and B passive.
fn culled() -> Lock {
    let mut lock = three(CULLING);
    assert_eq!(lock.state(2, FG_NODE_GRANTED).leaves(A), NOTHING);
    assert_eq!(lock.leaves(C), HEAD);
    assert_eq!(lock.leaves(B), NOTHING);
    lock
}

#[test]
fn a_passive_thread_comes_back_when_the_queue_is_empty() {
    let mut lock = culled();
    // C puts B in its place, is interrupted before the grant, and stays the holder; A joins behind B meanwhile.
    assert_eq!(lock.tail(at(1)).leaves(C), HEAD);
    lock.event.nodes[1].next = 0;
    assert_eq!(lock.leaves(B), NOTHING);
    assert_eq!(lock.join(0, FG_NODE_WAITING).leaves(A), CUT);
    assert_eq!(lock.link(1, 0).leaves(A), NOTHING);
    assert_eq!(lock.state(1, FG_NODE_GRANTED).leaves(C), NOTHING);
    assert_eq!(lock.leaves(B), HEAD);
}

#[test]
fn a_passive_thread_may_be_granted_and_queued_behind_at_once() {
    let mut lock = culled();
    lock.event.nodes[1].next = 0;
    lock.state(1, FG_NODE_GRANTED);
    assert_eq!(lock.join(2, FG_NODE_WAITING).leaves(C), CUT);
    assert_eq!(lock.link(1, 2).leaves(C), NOTHING);
    assert_eq!(lock.leaves(B), HEAD);
}

#[test]
fn a_favoured_passive_thread_is_put_before_the_queue() {
    let mut lock = culled();
    assert_eq!(lock.join(0, FG_NODE_WAITING).link(2, 0).leaves(A), NOTHING);
    lock.link(1, 0).state(1, FG_NODE_GRANTED);
    assert_eq!(lock.leaves(C), NOTHING);
    assert_eq!(lock.leaves(B), HEAD);
    assert_eq!(lock.state(0, FG_NODE_GRANTED).leaves(B), NOTHING);
    assert_eq!(lock.leaves(A), HEAD);
}

#[test]
fn a_free_lock_with_passive_threads_is_undecided() {
    assert!(culled().tail(0).undecided(C).contains("passive"));
}

#[test]
fn a_queue_that_does_not_cull_forgets_whom_it_skips() {
    let mut lock = three(QUEUE);
    lock.state(1, FG_NODE_PASSED);
    assert_eq!(lock.leaves(A), HEAD);
    assert_eq!(lock.leaves(B), NOTHING);
    lock.state(1, FG_NODE_FREE).state(2, FG_NODE_FREE);
    assert_eq!(lock.tail(0).leaves(A), NOTHING);
    assert_eq!(lock.join(1, FG_NODE_WAITING).leaves(B), HEAD);
}

#[test]
fn the_word_may_stand_behind_the_tickets() {
    let mut lock = Lock::new("word:8");
    assert_eq!(lock.word(3).leaves(A), NOTHING);
    lock.event.locks[1][8] = 1;
    assert_eq!(lock.leaves(A), OWNER);
    lock.event.locks[1][8] = 2; // a waiter sleeps
    assert_eq!(lock.leaves(B), NOTHING);
    lock.event.locks[1][8] = 0;
    assert_eq!(lock.leaves(A), NOTHING);
}

#[test]
fn an_owner_is_critical_beside_the_queue() {
    let mut lock = three(BOTH);
    let both = Standing {
        owner: true,
        ..HEAD
    };
    assert_eq!(lock.word(1).leaves(A), both);
    assert_eq!(lock.state(1, FG_NODE_GRANTED).leaves(A), OWNER);
    assert_eq!(lock.leaves(B), HEAD);
    assert_eq!(lock.leaves(C), NOTHING);
}

#[test]
fn what_cannot_be_is_undecided() {
    let mut lock = three(BOTH);
    assert!(lock.tail(0).undecided(B).contains("without being its head"));
    let mut lock = three(BOTH);
    assert!(
        lock.state(1, FG_NODE_GRANTED)
            .undecided(C)
            .contains("place 1")
    );
    let mut lock = three(QUEUE);
    assert!(lock.state(0, FG_NODE_LEFT).undecided(B).contains("place 0"));
    let mut lock = Lock::new(QUEUE);
    assert!(lock.tail(at(0) + 8).undecided(A).contains("no node"));
    for model in ["unheard-of", "word", "tail:x", "culls", ""] {
        assert!(model.parse::<Layout>().is_err(), "{model}");
    }
}
