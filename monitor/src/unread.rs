// SPDX-License-Identifier: MIT
//! The answers with a descriptor that clients have not read yet.
//!
//! Until a client reads such an answer, the kernel counts the descriptor among those that the monitor's user has under
//! way. Beyond RLIMIT_NOFILE of them the monitor can answer nobody (ETOOMANYREFS), unless it has CAP_SYS_RESOURCE or
//! CAP_SYS_ADMIN, and nothing takes an answer back. So a user may have only so many: the server keeps its end of the
//! connection until the answer is read. Users are many (a container has 65,536 of its own), so half of what all may have
//! is for those who have few: it takes an eighth as many users as the monitor may have open files to use it up.
//! LimitNOFILE= of the unit makes that 65,536.

use std::collections::HashMap;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::clients::most_open_files;
use crate::stream::hang_up;

/// An honest client reads its answer at once. A thousand processes may start at once.
const MOST_OF_ONE_USER: usize = 1024;
/// Of the descriptors that this process may have, those of one user are an eighth at most, and those of all a half: it
/// takes two users to leave the others only few.
const SHARE_OF_ONE_USER: usize = 8;
const SHARE_OF_ALL: usize = 2;
/// A user with fewer may have more although others hold back half of what all may have.
const FEW_OF_ONE_USER: usize = 2;
/// So few are looked at whenever the server wakes, more of them once in a while.
const FEW: usize = 64;
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

nix::ioctl_read_bad!(bytes_unread, libc::TIOCOUTQ, libc::c_int);

/// The server's ends of the connections over which the answers went, by user.
#[derive(Debug)]
pub struct Unread {
    ends: HashMap<u64, Vec<UnixStream>>,
    /// How many they are.
    all: usize,
    most_of_one_user: usize,
    most: usize,
    searched: Instant,
}

impl Default for Unread {
    fn default() -> Self {
        Unread::within(most_open_files())
    }
}

impl Unread {
    fn within(files: usize) -> Self {
        Unread {
            ends: HashMap::new(),
            all: 0,
            most_of_one_user: MOST_OF_ONE_USER.min(files / SHARE_OF_ONE_USER),
            most: files / SHARE_OF_ALL,
            searched: Instant::now(),
        }
    }

    /// May this user be sent another descriptor?
    pub fn may_have_more(&mut self, account: u64) -> bool {
        if self.is_allowed_more(account) {
            return true;
        }
        let ends = self.ends.get_mut(&account);
        self.all -= ends.map_or(0, let_go_of_read);
        self.is_allowed_more(account)
    }

    fn is_allowed_more(&self, account: u64) -> bool {
        let has = self.ends.get(&account).map_or(0, Vec::len);
        let most_of_one_user = match self.all < self.most / 2 {
            true => self.most_of_one_user,
            false => FEW_OF_ONE_USER.min(self.most_of_one_user),
        };
        has < most_of_one_user && self.all < self.most
    }

    /// An answer with a descriptor went over this connection. To the client it looks as if the server had closed its end.
    pub fn keep(&mut self, account: u64, end: UnixStream) {
        if self.all >= self.most || !is_unread(&end) {
            hang_up(end);
            return;
        }
        let _ = end.shutdown(Shutdown::Both);
        self.ends.entry(account).or_default().push(end);
        self.all += 1;
    }

    /// Lets go of the answers that were read, where it is time to.
    pub fn look_now_and_then(&mut self) {
        if self.all <= FEW || self.searched.elapsed() >= SEARCH_INTERVAL {
            self.look();
        }
    }

    /// Lets go of the answers that were read.
    pub fn look(&mut self) {
        self.searched = Instant::now();
        let read: usize = self.ends.values_mut().map(let_go_of_read).sum();
        self.all -= read;
        self.ends.retain(|_, ends| !ends.is_empty());
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        // A mere close might wait (stream.rs).
        for end in self.ends.drain().flat_map(|(_, ends)| ends) {
            hang_up(end);
        }
    }
}

/// Returns how many.
fn let_go_of_read(ends: &mut Vec<UnixStream>) -> usize {
    let read = ends.extract_if(.., |end| !is_unread(end));
    read.map(hang_up).count()
}

/// The client has its end, and has not read all of what we have sent.
fn is_unread(end: &UnixStream) -> bool {
    let mut bytes = 0;
    // SAFETY: the call writes one int.
    unsafe { bytes_unread(end.as_raw_fd(), &mut bytes) }.is_ok() && bytes > 0
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// A client that has an answer of one byte.
    fn answered(unread: &mut Unread, account: u64) -> UnixStream {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(b"!").unwrap();
        unread.keep(account, ours);
        theirs
    }

    #[test]
    fn a_user_may_have_more_when_an_answer_is_read_or_dropped() {
        let mut unread = Unread::within(3 * SHARE_OF_ONE_USER);
        let mut clients: Vec<_> = (0..3).map(|_| answered(&mut unread, 1)).collect();
        assert!(!unread.may_have_more(1));
        assert!(unread.may_have_more(2));
        clients[1].read_exact(&mut [0]).unwrap();
        assert!(unread.may_have_more(1));
        clients.push(answered(&mut unread, 1));
        assert!(!unread.may_have_more(1));
        clients.pop();
        assert!(unread.may_have_more(1));
    }

    #[test]
    fn a_client_sees_the_end_behind_its_answer() {
        let mut unread = Unread::within(100);
        let mut said = vec![];
        answered(&mut unread, 1).read_to_end(&mut said).unwrap();
        assert_eq!(said, b"!");
        unread.look();
        assert!(unread.ends.is_empty());
    }

    #[test]
    fn all_users_together_leave_descriptors_for_others() {
        let mut unread = Unread::within(64 * SHARE_OF_ALL);
        let mut clients = vec![];
        // Each takes what it gets.
        for account in 1..17 {
            while unread.may_have_more(account) {
                clients.push(answered(&mut unread, account));
            }
        }
        let of = |account| unread.ends.get(&account).map_or(0, Vec::len);
        assert_eq!([1, 2, 16].map(of), [16, 16, 2]);
        assert!(unread.may_have_more(0), "there is one for another user");
        clients.truncate(31);
        unread.look();
        assert_eq!(unread.all, 31);
        assert!(unread.may_have_more(2), "they may have more again");
    }
}
