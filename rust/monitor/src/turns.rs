// SPDX-License-Identifier: MIT
//! The clients whose message is there, until it is their turn.
//!
//! What they ask for may take the server a while: a registration walks the threads of its process. So their order is not
//! that of their coming, but by what each user has used up (clients.rs): the user who has used least comes first. A flood
//! of one user delays the other clients of that user alone.

use std::collections::{HashMap, VecDeque};

use nix::sys::resource::{Resource, getrlimit};

use crate::clients::Client;
use crate::message::Message;

/// A thousand processes may start at once.
const MOST_OF_ONE_USER: usize = 1024;
/// Of the descriptors that this process may have, those of one user are an eighth at most, and those of all a quarter.
const SHARE_OF_ONE_USER: usize = 8;
const SHARE_OF_ALL: usize = 4;

/// A client, what it asks for, and its number among all that have come.
type Turn = (Client, Message, u64);

/// By user, the oldest first. No user is there without a client.
#[derive(Debug)]
pub struct Turns {
    waiting: HashMap<u32, VecDeque<Turn>>,
    /// How many have ever come.
    numbers: u64,
    most_of_one_user: usize,
    most: usize,
}

impl Default for Turns {
    fn default() -> Self {
        let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft as usize);
        Turns::within(files)
    }
}

impl Turns {
    fn within(files: usize) -> Turns {
        Turns {
            waiting: HashMap::new(),
            numbers: 0,
            most_of_one_user: MOST_OF_ONE_USER.min(files / SHARE_OF_ONE_USER).max(1),
            most: (files / SHARE_OF_ALL).max(1),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a client in; returns the one that loses its place to it: the last of the user who has the most.
    pub fn push(&mut self, client: Client, message: Message) -> Option<Client> {
        let uid = client.uid;
        self.numbers += 1;
        let turns = self.waiting.entry(uid).or_default();
        turns.push_back((client, message, self.numbers));
        let full = turns.len() > self.most_of_one_user;
        let displaced = if full { uid } else { self.displaced()? };
        self.take(displaced, VecDeque::pop_back)
            .map(|(client, ..)| client)
    }

    /// Of the users with the most clients the one whose last has come last; None: there is space for all.
    fn displaced(&self) -> Option<u32> {
        let all: usize = self.waiting.values().map(VecDeque::len).sum();
        if all <= self.most {
            return None;
        }
        let by_number = |turns: &VecDeque<Turn>| (turns.len(), turns.back().map(|turn| turn.2));
        let most = self
            .waiting
            .iter()
            .max_by_key(|(_, turns)| by_number(turns));
        most.map(|(uid, _)| *uid)
    }

    /// The client whose turn it is: of the user who has the most left; of equals, of the one who has waited longest.
    pub fn next(&mut self, left: impl Fn(u32) -> f64) -> Option<(Client, Message)> {
        let first = |turns: &VecDeque<Turn>| turns.front().map(|turn| turn.2);
        let (uid, _) = self.waiting.iter().max_by(|(a, of_a), (b, of_b)| {
            let by_left = left(**a).total_cmp(&left(**b));
            by_left.then_with(|| first(of_b).cmp(&first(of_a)))
        })?;
        let uid = *uid;
        let (client, message, _) = self.take(uid, VecDeque::pop_front)?;
        Some((client, message))
    }

    fn take(&mut self, uid: u32, from: fn(&mut VecDeque<Turn>) -> Option<Turn>) -> Option<Turn> {
        let turns = self.waiting.get_mut(&uid)?;
        let taken = from(turns);
        if turns.is_empty() {
            self.waiting.remove(&uid);
        }
        taken
    }

    /// All of them.
    pub fn drain(&mut self) -> impl Iterator<Item = Client> {
        let turns = std::mem::take(&mut self.waiting);
        turns.into_values().flatten().map(|(client, ..)| client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::tests::client;

    /// The users in the order in which they are served.
    fn served(turns: &mut Turns, left: impl Fn(u32) -> f64) -> Vec<u32> {
        std::iter::from_fn(|| turns.next(&left))
            .map(|(client, _)| client.uid)
            .collect()
    }

    fn push(turns: &mut Turns, uid: u32) -> Option<u32> {
        let displaced = turns.push(client(uid), Message::Status);
        displaced.map(|client| client.uid)
    }

    #[test]
    fn the_user_who_has_used_least_comes_first() {
        let mut turns = Turns::within(1000);
        for uid in [1, 1, 1, 2, 1, 3, 2] {
            assert_eq!(push(&mut turns, uid), None);
        }
        let left = |uid| if uid == 1 { 7.0 } else { 8.0 };
        assert_eq!(served(&mut turns, left), [2, 3, 2, 1, 1, 1, 1]);
        assert!(turns.is_empty());
    }

    #[test]
    fn a_user_who_pays_as_it_is_served_takes_turns_with_an_equal() {
        let mut turns = Turns::within(1000);
        for uid in [1, 1, 1, 2, 2] {
            assert_eq!(push(&mut turns, uid), None);
        }
        let mut left = HashMap::from([(1, 10.0), (2, 10.0)]);
        let mut order = vec![];
        while let Some((client, _)) = turns.next(|uid| left[&uid]) {
            *left.get_mut(&client.uid).unwrap() -= 1.0;
            order.push(client.uid);
        }
        assert_eq!(order, [1, 2, 1, 2, 1]);
    }

    #[test]
    fn a_flood_displaces_only_its_own() {
        let mut turns = Turns::within(16 * SHARE_OF_ALL); // of one user: 8
        for n in 0..20 {
            assert_eq!(push(&mut turns, 1), (n >= 8).then_some(1));
        }
        for uid in 2..10 {
            assert_eq!(push(&mut turns, uid), None);
        }
        assert_eq!(push(&mut turns, 10), Some(1), "it has the most");
        assert_eq!(served(&mut turns, |_| 0.0).len(), 16);
    }

    #[test]
    fn of_equals_the_last_goes() {
        let mut turns = Turns::within(2 * SHARE_OF_ALL);
        assert_eq!(
            [1, 2, 3].map(|uid| push(&mut turns, uid)),
            [None, None, Some(3)]
        );
        assert_eq!(served(&mut turns, |_| 0.0), [1, 2]);
    }
}
