// SPDX-License-Identifier: MIT
//! The clients whose message is there, until it is their turn.
//!
//! What they ask for may take the server a while: a registration walks the threads of its process. So their order is not
//! that of their coming. Programs that register come before those who ask for what the monitor knows. Among either, the
//! user who has used up least (clients.rs) comes first, and of near equals the one whose last turn is longest ago: a flood
//! of one user delays the other clients of that user alone. Subordinate ids are the user's who has them (accounts.rs).
//!
//! Each has a descriptor, of which there are only so many. While there is no space for more, the server accepts nobody:
//! the next clients wait in the socket's backlog, where all users are alike. With LimitNOFILE= of the unit there is
//! space for all connections that a user may make at once.

use std::collections::{HashMap, VecDeque};

use crate::clients::{Client, most_open_files};
use crate::message::Message;

/// Of the descriptors that this process may have, those of one user are a sixteenth at most, and those of all a quarter.
const SHARE_OF_ONE_USER: usize = 16;
const SHARE_OF_ALL: usize = 4;
/// In connections: users are equals if they have about as much left. What a flood has used up is given back while the
/// server gets no CPU, and what another user has used up just now is not.
const STEP: f64 = 100.0;

/// A client, and what it asks for.
type Turn = (Client, Message);
/// By user. No user is there without a client.
type Waiting = HashMap<u64, Queue>;

/// The clients of a user.
#[derive(Debug)]
struct Queue {
    /// The oldest first.
    turns: VecDeque<Turn>,
    /// Since when this user waits for a turn: since the first one came, or since its last turn.
    since: u64,
}

#[derive(Debug)]
pub struct Turns {
    registrations: Waiting,
    /// For the statistics, or the list.
    requests: Waiting,
    /// How many of both there are.
    all: usize,
    /// How often a user has as many of either as one may have.
    full: usize,
    /// Counts what `since` counts: clients that came, and turns.
    time: u64,
    most_of_one_user: usize,
    most: usize,
}

impl Default for Turns {
    fn default() -> Self {
        Turns::within(most_open_files())
    }
}

impl Turns {
    fn within(files: usize) -> Turns {
        Turns {
            registrations: Waiting::new(),
            requests: Waiting::new(),
            all: 0,
            full: 0,
            time: 0,
            most_of_one_user: (files / SHARE_OF_ONE_USER).max(1),
            most: (files / SHARE_OF_ALL).max(1),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.all == 0
    }

    /// Is there no space for another client? The next one may be of the user who has the most.
    pub fn is_full(&self) -> bool {
        self.all >= self.most || self.full > 0
    }

    /// Takes a client in.
    pub fn push(&mut self, client: Client, message: Message) {
        self.all += 1;
        self.time += 1;
        let waiting = match message {
            Message::Register(_) => &mut self.registrations,
            Message::Status | Message::List => &mut self.requests,
        };
        let queue = waiting.entry(client.account).or_insert(Queue {
            turns: VecDeque::new(),
            since: self.time,
        });
        queue.turns.push_back((client, message));
        if queue.turns.len() == self.most_of_one_user {
            self.full += 1;
        }
    }

    /// The client whose turn it is: one that registers; of the user who has the most left; of equals, of the one who has
    /// waited longest for a turn.
    pub fn next(&mut self, left: impl Fn(u64) -> f64) -> Option<(Client, Message)> {
        let waiting = match self.registrations.is_empty() {
            true => &mut self.requests,
            false => &mut self.registrations,
        };
        let (&account, queue) = waiting.iter_mut().max_by(|(a, of_a), (b, of_b)| {
            let steps = |account: &u64| (left(*account) / STEP).ceil();
            let by_left = steps(a).total_cmp(&steps(b));
            by_left.then_with(|| of_b.since.cmp(&of_a.since))
        })?;
        if queue.turns.len() == self.most_of_one_user {
            self.full -= 1;
        }
        let turn = queue.turns.pop_front()?;
        self.time += 1;
        queue.since = self.time;
        if queue.turns.is_empty() {
            waiting.remove(&account);
        }
        self.all -= 1;
        Some(turn)
    }

    /// All of them.
    pub fn drain(self) -> impl Iterator<Item = Client> {
        let turns = self
            .registrations
            .into_values()
            .chain(self.requests.into_values());
        turns
            .flat_map(|queue| queue.turns)
            .map(|(client, _)| client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::tests::client;
    use crate::message::Registration;

    fn registration() -> Message {
        Message::Register(Registration {
            block_offset: -64,
            flags: 0,
            windows: vec![],
        })
    }

    /// Programs of these users, in that order.
    fn waiting(files: usize, users: impl IntoIterator<Item = u64>) -> Turns {
        let mut turns = Turns::within(files);
        for account in users {
            turns.push(client(account), registration());
        }
        turns
    }

    /// The users in the order in which they are served.
    fn served(turns: &mut Turns, left: impl Fn(u64) -> f64) -> Vec<u64> {
        std::iter::from_fn(|| turns.next(&left))
            .map(|(client, _)| client.account)
            .collect()
    }

    #[test]
    fn the_user_who_has_used_least_comes_first() {
        let mut turns = waiting(1000, [1, 1, 1, 2, 1, 3, 2]);
        let left = |account| if account == 1 { 700.0 } else { 800.0 };
        assert_eq!(served(&mut turns, left), [2, 3, 2, 1, 1, 1, 1]);
        assert!(turns.is_empty());
    }

    #[test]
    fn a_flood_of_a_user_who_has_used_nothing_up_leaves_others_their_turns() {
        let mut turns = waiting(1000, [1, 1, 1, 1, 2, 3, 2]);
        let left = |account| if account == 2 { 3999.5 } else { 4000.0 };
        assert_eq!(served(&mut turns, left), [1, 2, 3, 1, 2, 1, 1]);
    }

    #[test]
    fn a_user_who_pays_as_it_is_served_takes_turns_with_an_equal() {
        let mut turns = waiting(1000, [1, 1, 1, 2, 2]);
        let mut left = HashMap::from([(1, 10.0), (2, 10.0)]);
        let mut order = vec![];
        while let Some((client, _)) = turns.next(|account| left[&account]) {
            *left.get_mut(&client.account).unwrap() -= 1.0;
            order.push(client.account);
        }
        assert_eq!(order, [1, 2, 1, 2, 1]);
    }

    #[test]
    fn who_registers_comes_before_who_asks() {
        let mut turns = Turns::within(1000);
        for account in 1..=3 {
            turns.push(client(account), Message::List);
            turns.push(client(account), Message::Status);
        }
        turns.push(client(1), registration());
        let left = |account| if account == 1 { 700.0 } else { 800.0 };
        assert_eq!(served(&mut turns, left), [1, 2, 3, 2, 3, 1, 1]);
    }

    #[test]
    fn there_is_space_until_a_user_or_all_have_their_share() {
        let files = 32 * SHARE_OF_ALL; // of one user: 8
        for (users, full) in [
            (vec![1; 7], false),
            (vec![1; 8], true),
            ((0..31).collect(), false),
            ((0..32).collect(), true),
        ] {
            assert_eq!(waiting(files, users.clone()).is_full(), full, "{users:?}");
        }
    }

    /// Clients that were accepted before, and have now said all, may make it more.
    #[test]
    fn there_is_space_again_when_enough_were_served() {
        let mut turns = waiting(32 * SHARE_OF_ALL, [1; 10]);
        let full = std::iter::from_fn(|| turns.next(|_| 0.0).map(|_| turns.is_full()));
        let full: Vec<bool> = full.collect();
        assert_eq!(full.iter().filter(|&&full| full).count(), 2);
        assert_eq!(full[..2], [true; 2]);
    }
}
