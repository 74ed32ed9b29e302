// SPDX-License-Identifier: MIT
//! The socket's server: one thread, nothing in it blocks.
//!
//! A client that is slow, silent or hostile costs a descriptor for a second at most. When all places are taken, the
//! oldest unfinished client goes: an honest one sends its message at once and is done within one turn of the loop.
//!
//! Where the kernel lets a client attach descriptors to its message (before 6.16), dropping them may be made to block: to
//! close a TCP socket may mean to linger. So the heartbeat has a thread of its own (heart.rs): it says that the counter
//! is good, which needs the kernel half and this process, but not the socket.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flexguard_abi::{FG_ABI_MAGIC, FG_ABI_VERSION, fg_reply};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use zerocopy::IntoBytes;

use crate::error::os;
use crate::heart;
use crate::kernel::Kernel;
use crate::message::{self, MAX_BYTES, Message, Parsed, Registration};
use crate::peer::{self, Ticks};
use crate::socket::Listener;
use crate::{Error, Stats, Stop};

const MAX_CLIENTS: usize = 64;
const CLIENT_TIME: Duration = Duration::from_secs(1);
/// Clients taken in before the others get a turn: a flood of connections must not keep us from stopping.
const MAX_ACCEPTS: usize = 64;
/// How long the server accepts no client after the system had no descriptor or memory for one.
const RECESS: Duration = Duration::from_millis(500);

/// What the server has done; read by other threads.
#[derive(Debug, Default)]
pub struct Tally {
    pub registered: AtomicU64,
    pub rejected: AtomicU64,
}

pub struct Server<'a> {
    pub kernel: &'a Kernel,
    pub listener: &'a Listener,
    pub tally: &'a Tally,
    pub stats: &'a dyn Fn() -> Result<Stats, Error>,
}

struct Client {
    stream: UnixStream,
    accepted: Ticks,
    deadline: Instant,
    received: Vec<u8>,
}

impl Server<'_> {
    /// Serves and beats until `stop` is thrown.
    pub fn run(&self, stop: &Stop) -> Result<(), Error> {
        heart::beat_while(self.kernel, stop, |ended| self.serve(stop, ended))
    }

    fn serve(&self, stop: &Stop, ended: &Stop) -> Result<(), Error> {
        let mut clients: VecDeque<Client> = VecDeque::with_capacity(MAX_CLIENTS);
        let mut recess_until = None;
        loop {
            let now = Instant::now();
            recess_until = recess_until.filter(|&until| now < until);
            clients.retain(|client| !self.expired(client, now));
            let ready = wait([stop, ended], self.listener, recess_until, &clients)?;
            if ready.stop {
                return Ok(());
            }
            let mut index = 0;
            clients.retain_mut(|client| {
                index += 1;
                !ready.clients[index - 1] || !self.finished(client)
            });
            if ready.listener && recess_until.is_none() && !self.accept(&mut clients) {
                recess_until = Some(Instant::now() + RECESS);
            }
        }
    }

    fn expired(&self, client: &Client, now: Instant) -> bool {
        let expired = now >= client.deadline;
        if expired {
            self.reject(&client.stream, Errno::ETIMEDOUT);
        }
        expired
    }

    /// Accepts the clients that wait; false if the system has no descriptor or memory for them now.
    fn accept(&self, clients: &mut VecDeque<Client>) -> bool {
        for _ in 0..MAX_ACCEPTS {
            let mut client = match self
                .listener
                .socket
                .accept()
                .and_then(|(stream, _)| Client::new(stream))
            {
                Ok(client) => client,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a client");
                    return false;
                }
            };
            if self.finished(&mut client) {
                continue;
            }
            if clients.len() == MAX_CLIENTS
                && let Some(oldest) = clients.pop_front()
            {
                self.reject(&oldest.stream, Errno::EBUSY);
            }
            clients.push_back(client);
        }
        true
    }

    /// Reads what there is; true when the conversation is over.
    fn finished(&self, client: &mut Client) -> bool {
        let parsed = match client.read() {
            Ok(true) if client.received.is_empty() => return true, // a client that only checks whether the server lives
            Ok(end) => match message::parse(&client.received) {
                Parsed::Incomplete if end => Parsed::Invalid(Errno::EINVAL),
                parsed => parsed,
            },
            Err(errno) => Parsed::Invalid(errno),
        };
        match parsed {
            Parsed::Incomplete => return false,
            Parsed::Invalid(errno) => self.reject(&client.stream, errno),
            Parsed::Complete(Message::Status) => self.answer_status(&client.stream),
            Parsed::Complete(Message::Register(image)) => match self.register(client, &image) {
                Ok(()) => {}
                Err(errno) => self.reject(&client.stream, errno),
            },
        }
        true
    }

    fn register(&self, client: &Client, image: &Registration) -> Result<(), Errno> {
        let pidfd = peer::pidfd(&client.stream, client.accepted)?;
        peer::check(&client.stream, pidfd.as_fd())?; // before its threads are walked
        let first = self.kernel.register(pidfd.as_fd(), image, || {
            if hung_up(&client.stream)? {
                // Perhaps by an exec, which closes sockets before the new program is another one to the kernel half.
                return Err(Errno::ECONNRESET);
            }
            peer::check(&client.stream, pidfd.as_fd())
        })?;
        if first {
            self.tally.registered.fetch_add(1, Ordering::Relaxed);
        }
        tracing::debug!(
            first,
            windows = image.windows.len(),
            block_offset = image.block_offset,
            "registered an image"
        );
        reply(
            &client.stream,
            Errno::from_raw(0),
            &[],
            Some(self.kernel.shared_fd()),
        );
        Ok(())
    }

    fn answer_status(&self, stream: &UnixStream) {
        match (self.stats)() {
            Ok(stats) => reply(stream, Errno::from_raw(0), &stats.to_wire(), None),
            Err(error) => {
                tracing::warn!(error = %error.told(), "cannot read the statistics");
                reply(stream, Errno::EIO, &[], None);
            }
        }
    }

    fn reject(&self, stream: &UnixStream, errno: Errno) {
        self.tally.rejected.fetch_add(1, Ordering::Relaxed);
        tracing::info!(%errno, "refused a client");
        reply(stream, errno, &[], None);
    }
}

impl Client {
    fn new(stream: UnixStream) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        let deadline = Instant::now() + CLIENT_TIME;
        Ok(Client {
            stream,
            accepted: Ticks::now()?,
            deadline,
            received: Vec::new(),
        })
    }

    /// Takes in what has arrived; true at the end of the stream. Never keeps more than one byte too many.
    fn read(&mut self) -> Result<bool, Errno> {
        let mut buffer = [0; MAX_BYTES + 1];
        while self.received.len() <= MAX_BYTES {
            let space = MAX_BYTES + 1 - self.received.len();
            match self.stream.read(&mut buffer[..space]) {
                Ok(0) => return Ok(true),
                Ok(n) => self.received.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)));
                }
            }
        }
        Ok(false)
    }
}

struct Ready {
    stop: bool,
    listener: bool,
    clients: Vec<bool>,
}

/// Sleeps until there is something to do.
fn wait(
    stops: [&Stop; 2],
    listener: &Listener,
    recess_until: Option<Instant>,
    clients: &VecDeque<Client>,
) -> Result<Ready, Error> {
    let connections = if recess_until.is_none() {
        PollFlags::POLLIN
    } else {
        PollFlags::empty()
    };
    let mut fds = vec![
        PollFd::new(stops[0].as_fd(), PollFlags::POLLIN),
        PollFd::new(stops[1].as_fd(), PollFlags::POLLIN),
        PollFd::new(listener.socket.as_fd(), connections),
    ];
    fds.extend(
        clients
            .iter()
            .map(|client| PollFd::new(client.stream.as_fd(), PollFlags::POLLIN)),
    );
    // The front client is the oldest, so its deadline is the first.
    let deadline = clients.front().map(|client| client.deadline);
    let wake = [deadline, recess_until].into_iter().flatten().min();
    let timeout = wake.map_or(PollTimeout::NONE, |wake| {
        let left = wake.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)
    });
    match poll(&mut fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(os("waiting for clients")(errno)),
    }
    let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
    Ok(Ready {
        stop: ready[0] || ready[1],
        listener: ready[2],
        clients: ready[3..].to_vec(),
    })
}

/// The peer has closed its end altogether; a half-closed one (shutdown for writing) still reads.
fn hung_up(stream: &UnixStream) -> Result<bool, Errno> {
    let mut fds = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO)?;
    Ok(fds[0]
        .revents()
        .is_some_and(|events| events.contains(PollFlags::POLLHUP)))
}

/// Sends the fixed reply, what follows it, and a descriptor. A client that does not take it has only itself to blame:
/// the answer fits the socket's buffer, so this never waits.
fn reply(stream: &UnixStream, status: Errno, more: &[u8], fd: Option<BorrowedFd<'_>>) {
    let head = fg_reply {
        magic: FG_ABI_MAGIC,
        version: FG_ABI_VERSION,
        status: status as u32,
        values: (more.len() / size_of::<u64>()) as u32,
    };
    let parts = [IoSlice::new(head.as_bytes()), IoSlice::new(more)];
    let fds: Vec<RawFd> = fd.iter().map(|fd| fd.as_raw_fd()).collect();
    let control = [ControlMessage::ScmRights(&fds)];
    let control = if fds.is_empty() {
        &control[..0]
    } else {
        &control[..]
    };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    if let Err(errno) = sendmsg::<UnixAddr>(stream.as_raw_fd(), &parts, control, flags, None) {
        tracing::debug!(%errno, "a client closed its end before the answer");
    }
}
