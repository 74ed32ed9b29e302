// SPDX-License-Identifier: MIT
//! The clients that have not finished their message, and how much of the server one user may have.
//!
//! What a user can use up is a share: places beside those of others, and connections a second. A user who wants more
//! displaces only clients of the same user, as long as another user has not more.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{UnixCredentials, getsockopt, sockopt};

use crate::message::MAX_BYTES;
use crate::peer::Ticks;
use crate::stream;

const MAX_CLIENTS: usize = 64;
const MAX_OF_ONE_USER: usize = 16;
/// An honest client sends its message at once.
pub const CLIENT_TIME: Duration = Duration::from_secs(1);
/// Connections a second that one user may make on average, and how many in one burst: a thousand processes may start at
/// once.
const RATE: f64 = 1000.0;
const BURST: f64 = 4000.0;
/// Users whose connections are remembered; those who have made none for a while are forgotten first.
const MAX_USERS: usize = 1024;

/// So many descriptors this process may have, which its clients share.
pub fn most_open_files() -> usize {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft as usize)
}

/// A connection, and what has come over it so far.
#[derive(Debug)]
pub struct Client {
    pub stream: UnixStream,
    pub accepted: Ticks,
    pub deadline: Instant,
    /// The process and the user that connected, for the log and the limits. The number may be another process's by now.
    pub pid: i32,
    pub uid: u32,
    /// Against whom what it takes of the server is held.
    pub account: u64,
    pub received: Vec<u8>,
}

impl Client {
    pub fn new(
        stream: UnixStream,
        time: Duration,
        account_of: impl FnOnce(UnixCredentials) -> u64,
    ) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        stream::see_all(&stream)?;
        let peer = getsockopt(&stream, sockopt::PeerCredentials)?;
        Ok(Client {
            stream,
            accepted: Ticks::now()?,
            deadline: Instant::now() + time,
            pid: peer.pid(),
            uid: peer.uid(),
            account: account_of(peer),
            received: Vec::new(),
        })
    }

    /// Takes in what has arrived; true at the end of the stream. Never keeps more than one byte too many.
    pub fn read(&mut self) -> Result<bool, Errno> {
        let mut buffer = [0; MAX_BYTES + 1];
        while self.received.len() <= MAX_BYTES {
            let space = MAX_BYTES + 1 - self.received.len();
            match stream::receive(&self.stream, &mut buffer[..space]) {
                Ok(0) => return Ok(true),
                Ok(n) => self.received.extend_from_slice(&buffer[..n]),
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(false)
    }
}

/// The clients by age.
#[derive(Debug, Default)]
pub struct Clients(pub VecDeque<Client>);

impl Clients {
    /// Takes a client in; returns the one that has lost its place to it.
    pub fn admit(&mut self, client: Client) -> Option<Client> {
        let displaced = self.displaced_by(client.account);
        let displaced = displaced.and_then(|account| self.oldest_of(account));
        self.0.push_back(client);
        displaced
    }

    /// The user whose oldest client goes when `account` gets another place: of those who would have the most places, `account`, or
    /// else the one who holds the oldest.
    fn displaced_by(&self, account: u64) -> Option<u64> {
        let mut places = HashMap::from([(account, 1)]);
        for client in &self.0 {
            *places.entry(client.account).or_insert(0) += 1;
        }
        if places[&account] > MAX_OF_ONE_USER {
            return Some(account);
        }
        if self.0.len() < MAX_CLIENTS {
            return None;
        }
        let most = places.values().copied().max()?;
        let by_age = self.0.iter().map(|client| client.account);
        [account]
            .into_iter()
            .chain(by_age)
            .find(|user| places[user] == most)
    }

    fn oldest_of(&mut self, account: u64) -> Option<Client> {
        let index = self.0.iter().position(|client| client.account == account)?;
        self.0.remove(index)
    }
}

/// How many connections each user may make now: a token bucket for each.
#[derive(Debug, Default)]
pub struct Rates(HashMap<u64, Bucket>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn at(self, now: Instant) -> Bucket {
        let more = now.saturating_duration_since(self.filled).as_secs_f64() * RATE;
        Bucket {
            tokens: (self.tokens + more).min(BURST),
            filled: now,
        }
    }
}

impl Rates {
    /// How many more this user may make at once.
    pub fn left(&self, account: u64, now: Instant) -> f64 {
        let bucket = self.0.get(&account);
        bucket.map_or(BURST, |bucket| bucket.at(now).tokens)
    }

    /// The same, also if it is too much: a debt, of a burst at most.
    pub fn charge(&mut self, account: u64, price: f64, now: Instant) {
        self.allow(account, 0.0, now);
        if let Some(bucket) = self.0.get_mut(&account) {
            bucket.tokens = (bucket.tokens - price).max(-BURST);
        }
    }

    /// Something of this user's that costs as much as so many connections; false if it is too much.
    pub fn allow(&mut self, account: u64, price: f64, now: Instant) -> bool {
        if self.0.len() >= MAX_USERS && !self.0.contains_key(&account) {
            self.0.retain(|_, bucket| bucket.at(now).tokens < BURST);
        }
        let full = Bucket {
            tokens: BURST,
            filled: now,
        };
        let bucket = self.0.entry(account).or_insert(full);
        *bucket = bucket.at(now);
        let allowed = bucket.tokens >= price;
        if allowed {
            bucket.tokens -= price;
        }
        allowed
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn client(account: u64) -> Client {
        let (ours, _) = UnixStream::pair().unwrap();
        Client::new(ours, CLIENT_TIME, |_| account).unwrap()
    }

    #[test]
    fn a_crowd_of_one_user_displaces_only_itself() {
        let mut clients = Clients::default();
        assert!(clients.admit(client(1)).is_none());
        for n in 0..1000 {
            let displaced = clients.admit(client(2)).map(|client| client.account);
            assert_eq!(displaced, (n >= MAX_OF_ONE_USER).then_some(2));
        }
        assert_eq!(clients.0.len(), 1 + MAX_OF_ONE_USER);
    }

    #[test]
    fn when_all_places_are_taken_the_user_with_the_most_loses_one() {
        let mut clients = Clients::default();
        for uid in 0..MAX_CLIENTS as u64 / 4 {
            assert!((0..4).all(|_| clients.admit(client(uid)).is_none()));
        }
        let mut displaced_by = |uid| {
            clients
                .admit(client(uid))
                .map(|displaced| displaced.account)
        };
        assert_eq!(
            displaced_by(7),
            Some(7),
            "it would have five, the others four"
        );
        assert_eq!(
            displaced_by(100),
            Some(0),
            "of those with four the one who came first"
        );
        assert_eq!(displaced_by(101), Some(1), "0 has three");
        assert_eq!(
            displaced_by(0),
            Some(0),
            "it would have four, as the others"
        );
        assert_eq!(clients.0.len(), MAX_CLIENTS);
    }

    #[test]
    fn a_user_is_allowed_a_burst_and_a_rate_and_others_are_not_concerned() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        let allowed =
            |rates: &mut Rates, now| (0..10_000).filter(|_| rates.allow(1, 1.0, now)).count();
        assert_eq!(rates.left(1, start), BURST);
        assert_eq!(allowed(&mut rates, start), BURST as usize);
        assert_eq!(rates.left(1, start), 0.0);
        assert!(rates.allow(2, 1.0, start));
        let later = start + Duration::from_millis(500);
        assert_eq!(allowed(&mut rates, later), RATE as usize / 2);
    }

    #[test]
    fn users_are_forgotten_and_those_who_flood_are_not() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        while rates.allow(0, 1.0, start) {}
        for uid in 1..10_000 {
            let now = start + Duration::from_micros(100) * uid as u32;
            assert!(rates.allow(uid, 1.0, now));
            assert!(rates.0.len() <= MAX_USERS + 1, "at {uid}");
        }
        assert!(rates.0.contains_key(&0));
    }
}
