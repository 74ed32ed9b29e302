// SPDX-License-Identifier: MIT
//! Where clients come in: a thread accepts them, refuses those whose user has made too many connections, and lets the
//! others wait within, in the order of their coming.
//!
//! All clients wait in one backlog, so a flood delays the others by as long as it takes to refuse it. So that is all this
//! thread does, before anything else where it may (a higher priority needs CAP_SYS_NICE), and the server's work (a walk
//! over the threads of a process, say) is not between.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::UnixCredentials;

use crate::accounts::Accounts;
use crate::clients::{Client, Rates, most_open_files};
use crate::error::os;
use crate::kernel::Kernel;
use crate::socket::Listener;
use crate::stream::{Said, graves, hang_up, reply};
use crate::tally::Tally;
use crate::{Error, Stop};

/// How long no client is accepted after the system had no descriptor or memory for one.
const RECESS: Duration = Duration::from_millis(500);
/// Of the descriptors that this process may have, those within.
const SHARE: usize = 16;
/// The nice value of the thread.
const NICE: i32 = -10;
/// What it costs to let go of a connection that carries descriptors, in connections.
const GRAVE_PRICE: f64 = 20.0;

/// Those who are within.
#[derive(Debug, Default)]
struct Within {
    clients: VecDeque<Client>,
    /// Nobody takes them any more.
    left: bool,
}

pub struct Door<'a> {
    listener: &'a Listener,
    tally: &'a Tally,
    client_time: Duration,
    kernel: &'a Kernel,
    rates: Mutex<Rates>,
    within: Mutex<Within>,
    has_space: Condvar,
    most: usize,
    /// Readable while there is a client within.
    bell: EventFd,
    lacks_descriptors: AtomicBool,
}

impl<'a> Door<'a> {
    pub fn new(
        listener: &'a Listener,
        tally: &'a Tally,
        client_time: Duration,
        kernel: &'a Kernel,
    ) -> Result<Door<'a>, Error> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Door {
            listener,
            tally,
            client_time,
            kernel,
            rates: Mutex::default(),
            within: Mutex::default(),
            has_space: Condvar::new(),
            most: (most_open_files() / SHARE).max(1),
            bell: EventFd::from_flags(flags).map_err(os("making an event"))?,
            lacks_descriptors: AtomicBool::new(false),
        })
    }

    /// Accepts until one of these is thrown.
    pub fn accept(&self, stops: [&Stop; 3]) {
        // SAFETY: no pointers are passed. Without the privilege it stays as it is.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
        let mut accounts = Accounts::new(|pid| self.kernel.account_of(pid));
        let mut accepts = true;
        loop {
            let connections = match accepts {
                true => PollFlags::POLLIN,
                false => PollFlags::empty(),
            };
            let mut fds = stops
                .map(|stop| PollFd::new(stop.as_fd(), PollFlags::POLLIN))
                .to_vec();
            fds.push(PollFd::new(self.listener.socket.as_fd(), connections));
            let timeout = match accepts {
                true => PollTimeout::NONE,
                false => PollTimeout::try_from(RECESS).expect("it fits"),
            };
            if poll(&mut fds, timeout).is_err_and(|errno| errno != Errno::EINTR) {
                thread::sleep(RECESS); // the kernel is out of memory
                continue;
            }
            if fds[..stops.len()]
                .iter()
                .any(|fd| fd.any().unwrap_or(false))
            {
                return;
            }
            accepts = self.accept_one(|peer| accounts.of(peer));
        }
    }

    /// False if the system has no descriptor or memory for a client now.
    fn accept_one(&self, account_of: impl FnOnce(UnixCredentials) -> u64) -> bool {
        let accepted = self.listener.socket.accept();
        let client =
            accepted.and_then(|(stream, _)| Client::new(stream, self.client_time, account_of));
        let client = match client {
            Ok(client) => client,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a client");
                self.lacks_descriptors.store(true, Ordering::Relaxed);
                self.ring();
                return false;
            }
        };
        if self.rates().allow(client.account, 1.0, Instant::now()) {
            self.let_in(client);
        } else {
            self.tally.unmonitored.fetch_add(1, Ordering::Relaxed);
            self.tally.refusals.count(Errno::EAGAIN);
            self.refuse(client, Errno::EAGAIN);
        }
        !graves().are_full()
    }

    /// Waits where there is no space.
    fn let_in(&self, client: Client) {
        let full = |within: &mut Within| within.clients.len() >= self.most && !within.left;
        let within = self.within.lock().expect("nobody panics with it");
        let mut within = self
            .has_space
            .wait_while(within, full)
            .expect("nobody panics with it");
        if within.left {
            hang_up(client.stream);
            return;
        }
        within.clients.push_back(client);
        self.ring();
    }

    fn ring(&self) {
        let _ = self.bell.write(1); // it rings already
    }

    /// The one that came first.
    pub fn next(&self) -> Option<Client> {
        let mut within = self.within.lock().expect("nobody panics with it");
        let client = within.clients.pop_front();
        if within.clients.is_empty() {
            let _ = self.bell.read(); // it does not ring
        }
        self.has_space.notify_one();
        client
    }

    /// Nobody takes clients any more.
    pub fn leave(&self) {
        let mut within = self.within.lock().expect("nobody panics with it");
        within.left = true;
        let left = within.clients.drain(..);
        for client in left {
            hang_up(client.stream);
        }
        self.has_space.notify_one();
    }

    /// Readable while there is a client within, or descriptors are lacking.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Since this was last asked.
    pub fn lacks_descriptors(&self) -> bool {
        self.lacks_descriptors.swap(false, Ordering::Relaxed)
    }

    pub fn rates(&self) -> MutexGuard<'_, Rates> {
        self.rates.lock().expect("nobody panics with it")
    }

    /// Answers a client, and hangs up. If it has sent descriptors, its user pays for them.
    pub fn refuse(&self, client: Client, errno: Errno) {
        let (pid, uid) = (client.pid, client.uid);
        if errno == Errno::ETOOMANYREFS {
            tracing::warn!(
                pid,
                uid,
                "cannot answer a client: clients leave too many answers unread; let the monitor have more open files \
                 (LimitNOFILE= of its unit)"
            );
        } else {
            tracing::info!(%errno, pid, uid, "refused a client");
        }
        let _ = reply(&client.stream, errno, Said::Nothing, None); // without a descriptor it does not fail
        if hang_up(client.stream) {
            let now = Instant::now();
            self.rates().charge(client.account, GRAVE_PRICE, now);
        }
    }
}
