// SPDX-License-Identifier: MIT
//! The socket's server: nothing in it blocks.
//!
//! A client that is slow, silent or hostile costs a place for a second at most, and its user's share of the places and
//! of the connections a second (clients.rs): an honest one sends its message at once. Whose message is there waits for
//! its turn (turns.rs): each pass of the loop takes in what has come, as far as there is space for it, and serves one.
//! Another thread accepts (door.rs), and refuses who has used up its share of connections: the others do not wait for that.
//! The heartbeat has a thread of its own, too (heart.rs): it says that the counter is good, which needs the kernel half and
//! this process, but not the socket.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use zerocopy::IntoBytes;

use crate::census::Census;
use crate::clients::{Client, Clients};
use crate::door::Door;
use crate::error::os;
use crate::heart;
use crate::kernel::{Kernel, Registered};
use crate::lists::Lists;
use crate::message::{self, Message, Parsed, Registration};
use crate::peer;
use crate::socket::Listener;
use crate::stream::{Said, graves, hang_up, hung_up, reply};
use crate::tally::Tally;
use crate::turns::Turns;
use crate::unread::Unread;
use crate::{Error, Stats, Stop};

/// Clients taken in before the others are served: a flood of connections must not keep us from stopping.
const MAX_TAKEN: usize = 64;

/// What a look at every thread of the machine costs, in connections.
const LOOK_PRICE: f64 = 100.0;
/// A registration walks the threads of its process; so many of them cost as much as a connection.
const THREADS_OF_A_CONNECTION: f64 = 64.0;
/// The longest that the server sleeps.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

pub struct Server<'a> {
    pub kernel: &'a Kernel,
    pub listener: &'a Listener,
    pub tally: &'a Tally,
    /// Registered processes of an account.
    pub most_programs: u32,
    /// Of all records.
    pub record_bytes: i64,
    /// For a client's message.
    pub client_time: Duration,
    /// For what reads a list.
    pub list_time: Duration,
    pub stats: &'a dyn Fn() -> Result<Stats, Error>,
}

impl Server<'_> {
    /// Serves and beats until `stop` is thrown.
    pub fn run(&self, stop: &Stop) -> Result<(), Error> {
        heart::beat_while(self.kernel, stop, |ended| self.serve(stop, ended))
    }

    fn serve(&self, stop: &Stop, ended: &Stop) -> Result<(), Error> {
        let door = Door::new(self.listener, self.tally, self.client_time, self.kernel)?;
        let closes = Stop::new()?;
        thread::scope(|scope| {
            scope.spawn(|| door.accept([stop, ended, &closes]));
            let served = self.serve_those_within(&door, [stop, ended]);
            closes.stop();
            door.leave();
            served
        })
    }

    fn serve_those_within(&self, door: &Door<'_>, stops: [&Stop; 2]) -> Result<(), Error> {
        let mut clients = Clients::default();
        let mut turns = Turns::default();
        let mut users = Users {
            door,
            unread: Unread::default(),
            lists: Lists::that_live(self.list_time),
            census: Census::new(self.kernel, self.most_programs, self.record_bytes)
                .map_err(os("counting the registered programs"))?,
        };
        loop {
            self.tally.looks.fetch_add(1, Ordering::Relaxed);
            if door.lacks_descriptors() {
                users.unread.look();
            }
            users.unread.look_now_and_then();
            users.lists.withdraw_old();
            graves().close_old();
            // The kernel may be out of memory for the iterator: then the next look tries again.
            if let Err(errno) = users.census.look_now_and_then(self.kernel) {
                tracing::warn!(%errno, "cannot count the registered programs");
            }
            let now = Instant::now();
            while clients.0.front().is_some_and(|c| now >= c.deadline) {
                let mut late = clients.0.pop_front().expect("there is one");
                // Its message may have come while this thread had no CPU.
                match self.read(&mut late) {
                    Parsed::Incomplete => self.reject(late, Errno::ETIMEDOUT, &users),
                    parsed => self.queue(late, parsed, &mut turns, &users),
                }
            }
            let ready = wait(stops, door, &turns, &clients)?;
            if ready.stop {
                let left = clients.0.drain(..).chain(turns.drain());
                for client in left {
                    hang_up(client.stream);
                }
                graves().close();
                return Ok(());
            }
            // From the back, so that those before it keep their places in `ready`.
            for index in (0..clients.0.len()).rev().filter(|&i| ready.clients[i]) {
                let parsed = self.read(&mut clients.0[index]);
                if !matches!(parsed, Parsed::Incomplete) {
                    let client = clients.0.remove(index).expect("it is there");
                    self.queue(client, parsed, &mut turns, &users);
                }
            }
            self.take_in(&mut clients, &mut turns, &users);
            let now = Instant::now();
            if let Some((client, message)) = turns.next(|account| door.rates().left(account, now)) {
                self.finish(client, message, &mut users);
            }
        }
    }

    /// Takes in the clients that are within the door, as long as there is space for them.
    fn take_in(&self, clients: &mut Clients, turns: &mut Turns, users: &Users<'_>) {
        for _ in 0..MAX_TAKEN {
            if turns.is_full() {
                return;
            }
            let Some(mut client) = users.door.next() else {
                return;
            };
            match self.read(&mut client) {
                Parsed::Incomplete => {
                    if let Some(displaced) = clients.admit(client) {
                        self.reject(displaced, Errno::EBUSY, users);
                    }
                }
                parsed => self.queue(client, parsed, turns, users),
            }
        }
    }

    /// A client that has said all it will say waits for its turn, or goes.
    fn queue(&self, mut client: Client, parsed: Parsed, turns: &mut Turns, users: &Users<'_>) {
        match parsed {
            Parsed::Incomplete | Parsed::Nothing => {
                hang_up(client.stream);
            }
            Parsed::Invalid(errno) => self.reject(client, errno, users),
            Parsed::Complete(message) => {
                client.received = Vec::new();
                tracing::debug!(
                    pid = client.pid,
                    uid = client.uid,
                    "a client waits for its turn"
                );
                turns.push(client, message);
            }
        }
    }

    /// Reads what there is, and judges it.
    fn read(&self, client: &mut Client) -> Parsed {
        match client.read() {
            Ok(true) if client.received.is_empty() => Parsed::Nothing,
            Ok(end) => match message::parse(&client.received) {
                Parsed::Incomplete if end => Parsed::Invalid(Errno::EINVAL),
                parsed => parsed,
            },
            Err(errno) => Parsed::Invalid(errno),
        }
    }

    /// Answers, and hangs up.
    fn finish(&self, client: Client, message: Message, users: &mut Users<'_>) {
        let answered = match &message {
            Message::Status => self.answer_status(&client, None),
            // The other answers carry a descriptor.
            _ if !users.unread.may_have_more(client.account) => Err(Errno::EBUSY),
            Message::List => users.pay(client.account, LOOK_PRICE).and_then(|()| {
                let list = self.kernel.list()?;
                let list = users.lists.make(client.account, list.as_bytes())?;
                self.answer_status(&client, Some(list))
            }),
            Message::Register(image) => self.register(&client, image, users),
        };
        match answered {
            Ok(()) if matches!(message, Message::Status) => {
                hang_up(client.stream);
            }
            Ok(()) => users.unread.keep(client.account, client.stream),
            Err(errno) if matches!(message, Message::Register(_)) => {
                self.reject(client, errno, users)
            }
            Err(errno) => self.refuse(client, errno, users),
        }
    }

    fn register(
        &self,
        client: &Client,
        image: &Registration,
        users: &mut Users<'_>,
    ) -> Result<(), Errno> {
        let pidfd = peer::pidfd(&client.stream, client.accepted)?;
        let pidfd = pidfd.as_fd();
        let check = || {
            if hung_up(&client.stream)? {
                // Perhaps by an exec, which closes sockets before the new program is another one to the kernel half.
                return Err(Errno::ECONNRESET);
            }
            peer::check(&client.stream, pidfd)
        };
        let threads = check()?;
        let registered = match self.kernel.registered(pidfd, image)? {
            Some(registered) => check().map(|_| registered)?,
            None => {
                users.pay(client.account, f64::from(threads) / THREADS_OF_A_CONNECTION)?;
                self.kernel.register(pidfd, image, |record| {
                    if record.n_images == 0 {
                        self.admit(client.account, record.account, users)?;
                    }
                    check().map(drop)
                })?
            }
        };
        if registered.first {
            users.census.add(registered.account, threads, self.kernel)?;
        }
        self.note(client, image, registered);
        reply(
            &client.stream,
            Errno::from_raw(0),
            Said::Domain(registered.domain),
            Some(self.kernel.shared_fd()),
        )
    }

    /// One more program is to be registered, of this account of the kernel half's. If nothing is left for it, the client
    /// pays for the look whether others have ended.
    fn admit(&self, client: u64, account: u64, users: &mut Users<'_>) -> Result<(), Errno> {
        if users.census.has_no_share(account, self.kernel)? && users.pay(client, LOOK_PRICE).is_ok()
        {
            users.census.look(self.kernel)?;
        }
        match users.census.has_no_share(account, self.kernel)? {
            true => Err(Errno::EDQUOT),
            false => Ok(()),
        }
    }

    fn note(&self, client: &Client, image: &Registration, registered: Registered) {
        if registered.first {
            self.tally.registered.fetch_add(1, Ordering::Relaxed);
            let without: u64 = registered.without_domain.into();
            self.tally
                .without_domain
                .fetch_add(without, Ordering::Relaxed);
        }
        tracing::debug!(
            pid = client.pid,
            uid = client.uid,
            first = registered.first,
            domain = registered.domain,
            windows = image.windows.len(),
            block_offset = image.block_offset,
            "registered an image"
        );
    }

    fn answer_status(&self, client: &Client, list: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let stats = (self.stats)().map_err(|error| {
            tracing::warn!(error = %error.told(), "cannot read the statistics");
            Errno::EIO
        })?;
        reply(
            &client.stream,
            Errno::from_raw(0),
            Said::Values(&stats.to_wire()),
            list,
        )
    }

    /// Refuses a client that asks, or might, for its program to be watched.
    fn reject(&self, client: Client, errno: Errno, users: &Users<'_>) {
        self.tally.unmonitored.fetch_add(1, Ordering::Relaxed);
        self.refuse(client, errno, users);
    }

    fn refuse(&self, client: Client, errno: Errno, users: &Users<'_>) {
        self.tally.refusals.count(errno);
        users.door.refuse(client, errno);
    }
}

/// What each user takes of the server.
struct Users<'a> {
    door: &'a Door<'a>,
    unread: Unread,
    lists: Lists,
    census: Census,
}

impl Users<'_> {
    /// For something that costs as much as so many connections.
    fn pay(&mut self, account: u64, price: f64) -> Result<(), Errno> {
        let allowed = self.door.rates().allow(account, price, Instant::now());
        allowed.then_some(()).ok_or(Errno::EAGAIN)
    }
}

struct Ready {
    stop: bool,
    clients: Vec<bool>,
}

/// Sleeps until there is something to do.
fn wait(
    stops: [&Stop; 2],
    door: &Door<'_>,
    turns: &Turns,
    clients: &Clients,
) -> Result<Ready, Error> {
    let within = match turns.is_full() {
        true => PollFlags::empty(),
        false => PollFlags::POLLIN,
    };
    let mut fds = vec![
        PollFd::new(stops[0].as_fd(), PollFlags::POLLIN),
        PollFd::new(stops[1].as_fd(), PollFlags::POLLIN),
        PollFd::new(door.bell(), within),
    ];
    fds.extend(
        clients
            .0
            .iter()
            .map(|client| PollFd::new(client.stream.as_fd(), PollFlags::POLLIN)),
    );
    // The front client is the oldest, so its deadline is the first.
    let deadline = clients.0.front().map(|client| client.deadline);
    let wake = [deadline, graves().due()].into_iter().flatten().min();
    let left = wake.map_or(LONGEST_SLEEP, |wake| {
        wake.saturating_duration_since(Instant::now())
    });
    let left = left.min(LONGEST_SLEEP) + Duration::from_millis(1);
    let left = if turns.is_empty() {
        left
    } else {
        Duration::ZERO
    };
    let timeout = PollTimeout::try_from(left).expect("a second fits");
    match poll(&mut fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(os("waiting for clients")(errno)),
    }
    let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
    Ok(Ready {
        stop: ready[0] || ready[1],
        clients: ready[3..].to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::mpsc::channel;

    use flexguard_abi::fg_reply;
    use zerocopy::FromZeros;

    use super::*;
    use crate::{DomainKind, Keeper, SocketName};

    /// The server is busy with another client while the rest of a message comes and its time ends.
    #[test]
    fn a_message_that_came_in_time_is_answered_although_the_server_is_late() {
        const TIME: Duration = Duration::from_millis(20);
        let (object, kind) = (crate::kernel::OBJECT, DomainKind::default());
        let Ok(kernel) = Kernel::load(object, false, Keeper::Nobody, kind) else {
            return; // where there is no BPF, the monitor's other tests say so
        };
        let name = format!("@flexguard-test-late-{}", std::process::id());
        let socket = SocketName::parse(name.as_ref()).unwrap();
        let listener = socket.listen().unwrap();
        let (begins, begun) = channel();
        let (go, goes_on) = channel();
        let message = message::status_request(false);
        let (beginning, rest) = message.split_at(message.len() / 2);
        let mut late = socket.connect().unwrap();
        late.write_all(beginning).unwrap();
        let mut other = socket.connect().unwrap();
        other.write_all(&message).unwrap();
        let stop = Stop::new().unwrap();
        let serve = || {
            let stats = move || {
                begins.send(()).unwrap();
                goes_on.recv().unwrap();
                Ok(Stats::default())
            };
            let server = Server {
                kernel: &kernel,
                listener: &listener,
                tally: &Tally::default(),
                most_programs: 1,
                record_bytes: 1 << 20,
                client_time: TIME,
                list_time: TIME,
                stats: &stats,
            };
            server.run(&stop).unwrap();
        };
        let status = thread::scope(|scope| {
            scope.spawn(serve);
            begun.recv().unwrap();
            late.write_all(rest).unwrap();
            thread::sleep(2 * TIME);
            go.send(()).unwrap(); // to the other client
            go.send(()).unwrap(); // to this one
            let mut reply = fg_reply::new_zeroed();
            late.read_exact(reply.as_mut_bytes()).unwrap();
            stop.stop();
            reply.status
        });
        assert_eq!(status, 0);
    }
}
