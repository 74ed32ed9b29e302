// SPDX-License-Identifier: MIT
//! What is done with a client's connection: taking in, answering, hanging up. None of it waits.
//!
//! The client may attach descriptors to what it sends (Linux before 6.16; newer kernels refuse them, see socket.rs).
//! To drop the last descriptor of a file is to close the file, and that may wait as long as the client likes: a TCP
//! socket can be made to linger. So the server looks at a message before it takes the message in. One that carries
//! descriptors is never taken in: it is left to a process that exits, in which no close lingers. One such process has many
//! connections, and their clients pay for it (server.rs). A look passes a byte over that was sent out of band, and what
//! takes in the next one drops it, unless such bytes are in line with the others (see_all).

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::size_of;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use flexguard_abi::{FG_ABI_MAGIC, FG_ABI_VERSION, fg_reply};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    self, ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg, setsockopt,
    sockopt,
};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork, pipe2, read};
use zerocopy::IntoBytes;

/// To be called before `receive`: from here on it sees what is sent out of band, too.
pub fn see_all(stream: &UnixStream) -> Result<(), Errno> {
    setsockopt(stream, sockopt::OobInline, &true)
}

/// Takes in what has arrived, 0 at the end. EAGAIN: nothing has. EBADMSG: it carries descriptors, and stays where it is.
pub fn receive(mut stream: &UnixStream, buffer: &mut [u8]) -> Result<usize, Errno> {
    let n = peek(stream, buffer)?;
    if n == 0 {
        return Ok(0);
    }
    let read = stream.read(&mut buffer[..n]);
    read.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
}

/// What `receive` would take in.
fn peek(stream: &UnixStream, buffer: &mut [u8]) -> Result<usize, Errno> {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<UnixAddr>(stream.as_raw_fd(), &mut parts, None, flags)?;
    if message.flags.contains(MsgFlags::MSG_CTRUNC) {
        return Err(Errno::EBADMSG);
    }
    Ok(message.bytes)
}

/// Ends the conversation, whatever the client has sent. Returns whether that were descriptors, which cost us a fork.
pub fn hang_up(stream: UnixStream) -> bool {
    let _ = stream.shutdown(Shutdown::Both); // from here on nothing can be added to what has been sent
    let _ = see_all(&stream); // it has no reason to fail
    let mut buffer = [0; 4096];
    loop {
        match receive(&stream, &mut buffer) {
            Ok(0) | Err(Errno::EAGAIN) => return false,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::EBADMSG) => {
                graves().lay(stream);
                return true;
            }
            Err(_) => return false, // a connection that was reset holds nothing any more
        }
    }
}

/// To be called before a listener is closed that nobody else has: the connections that were not accepted are closed with it,
/// and with them what has come over them.
pub fn end_listening(listener: &UnixListener) {
    let _ = socket::shutdown(listener.as_raw_fd(), socket::Shutdown::Both); // nobody connects any more
    while let Ok((stream, _)) = listener.accept() {
        hang_up(stream);
    }
    graves().close();
}

/// Connections that a process closes as its last act: an exiting process does not wait for a socket that lingers. A batch
/// of them has one process.
#[derive(Debug)]
pub struct Graves {
    streams: Vec<UnixStream>,
    since: Instant,
    forks: u64,
}

/// So many make a batch, or those of that time.
const BATCH: usize = 64;
const BATCH_TIME: Duration = Duration::from_millis(100);
/// So many wait where no process can be made; then no client is accepted.
const MOST_GRAVES: usize = 4 * BATCH;

/// Those of this process.
pub fn graves() -> MutexGuard<'static, Graves> {
    static GRAVES: LazyLock<Mutex<Graves>> = LazyLock::new(|| Mutex::new(Graves::new()));
    GRAVES.lock().expect("nobody panics with it")
}

impl Graves {
    fn new() -> Graves {
        Graves {
            streams: Vec::new(),
            since: Instant::now(),
            forks: 0,
        }
    }

    fn lay(&mut self, stream: UnixStream) {
        if self.streams.is_empty() {
            self.since = Instant::now();
        }
        self.streams.push(stream);
        if self.streams.len().is_multiple_of(BATCH) {
            self.close();
        }
    }

    /// When some are to be closed; None: there are none.
    pub fn due(&self) -> Option<Instant> {
        (!self.streams.is_empty()).then(|| self.since + BATCH_TIME)
    }

    pub fn are_full(&self) -> bool {
        self.streams.len() >= MOST_GRAVES
    }

    /// To be called often.
    pub fn close_old(&mut self) {
        if self.due().is_some_and(|due| Instant::now() >= due) {
            self.close();
        }
    }

    /// Those that no process can be made for now stay.
    pub fn close(&mut self) {
        self.since = Instant::now();
        if !self.streams.is_empty() && close_elsewhere(&mut self.streams, fork_to_close) {
            self.forks += 1;
        }
    }
}

fn fork_to_close() -> nix::Result<ForkResult> {
    // SAFETY: the child only makes system calls.
    unsafe { fork() }
}

/// Leaves `streams` to a process that ends with them; false: there is none, and they stay.
fn close_elsewhere(
    streams: &mut Vec<UnixStream>,
    fork: impl FnOnce() -> nix::Result<ForkResult>,
) -> bool {
    let Ok((closed_here, ours)) = pipe2(OFlag::O_CLOEXEC) else {
        return false;
    };
    match fork() {
        Ok(ForkResult::Child) => {
            drop(ours);
            let _ = read(&closed_here, &mut [0]);
            // SAFETY: ends the process, without any clean-up.
            unsafe { libc::_exit(0) }
        }
        Ok(ForkResult::Parent { child }) => {
            streams.clear(); // these descriptors are not the last ones
            drop(ours);
            let _ = waitpid(child, None);
            true
        }
        Err(_) => false,
    }
}

/// The peer has closed its end altogether; a half-closed one (shutdown for writing) still reads.
pub fn hung_up(stream: &UnixStream) -> Result<bool, Errno> {
    let mut fds = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO)?;
    Ok(fds[0]
        .revents()
        .is_some_and(|events| events.contains(PollFlags::POLLHUP)))
}

/// What is said in the fixed reply's `number` and behind it.
pub enum Said<'a> {
    Nothing,
    /// The domain of a process that is registered now.
    Domain(u32),
    /// So many `u64`.
    Values(&'a [u8]),
}

/// Sends the fixed reply, what follows it, and a descriptor. A client that does not take it has only itself to blame:
/// the answer fits the socket's buffer, so this never waits. ETOOMANYREFS: too many descriptors are under way
/// (unread.rs), and the client has no answer yet.
pub fn reply(
    stream: &UnixStream,
    status: Errno,
    said: Said<'_>,
    fd: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let (number, more) = match said {
        Said::Nothing => (0, &[][..]),
        Said::Domain(domain) => (domain, &[][..]),
        Said::Values(bytes) => ((bytes.len() / size_of::<u64>()) as u32, bytes),
    };
    let head = fg_reply {
        magic: FG_ABI_MAGIC,
        version: FG_ABI_VERSION,
        status: status as u32,
        number,
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
    match sendmsg::<UnixAddr>(stream.as_raw_fd(), &parts, control, flags, None) {
        Ok(_) => Ok(()),
        Err(Errno::ETOOMANYREFS) => Err(Errno::ETOOMANYREFS),
        Err(errno) => {
            tracing::debug!(%errno, "a client closed its end before the answer");
            Ok(())
        }
    }
}

/// The other side of `reply`: takes in a whole answer, waiting as long as the socket's time limit says, and the descriptor
/// that comes with it.
pub fn receive_with_descriptor(
    stream: &UnixStream,
    answer: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    let (mut length, mut descriptor) = (0, None);
    while length < answer.len() {
        let mut parts = [IoSliceMut::new(&mut answer[length..])];
        let mut space = nix::cmsg_space!(RawFd);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let received = recvmsg::<UnixAddr>(stream.as_raw_fd(), &mut parts, Some(&mut space), flags);
        if matches!(received, Err(Errno::EINTR)) {
            continue; // with a time limit, also when the process was stopped, or frozen, and goes on
        }
        let message = received?;
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(fds) = control {
                for fd in fds {
                    // SAFETY: the kernel has just installed it for us; nobody else knows its number.
                    descriptor = Some(unsafe { OwnedFd::from_raw_fd(fd) });
                }
            }
        }
        match message.bytes {
            0 => break,
            n => length += n,
        }
    }
    Ok((length, descriptor))
}

#[cfg(test)]
pub mod tests {
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::PoisonError;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::sync::mpsc::channel;
    use std::thread;

    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

    use super::*;

    /// A process that one test forks has the descriptors of the others for a moment.
    static ALONE: Mutex<()> = Mutex::new(());

    pub fn alone() -> MutexGuard<'static, ()> {
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As good as for ever.
    pub const LONG: Duration = Duration::from_secs(3600);
    /// Far beyond what a thread that does not wait takes on a busy machine.
    pub const TIMEOUT: Duration = Duration::from_secs(60);

    /// A TCP connection that lingers for so long when it is closed: it has much to say to an end that does not listen.
    fn lingering(time: Duration) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut speaker = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let deaf = listener.accept().unwrap().0;
        speaker.set_nonblocking(true).unwrap();
        while match speaker.write(&[0; 65536]) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                false
            }
        } {}
        let linger = libc::linger {
            l_onoff: 1,
            l_linger: time.as_secs() as i32,
        };
        setsockopt(&speaker, sockopt::Linger, &linger).unwrap();
        speaker.set_nonblocking(false).unwrap(); // a non-blocking one would not linger
        (speaker, deaf)
    }

    /// Sends a byte with a socket that lingers attached, of which no other descriptor is left. Returns its other end.
    pub fn send_a_lingering_socket(
        stream: &UnixStream,
        time: Duration,
        flags: MsgFlags,
    ) -> TcpStream {
        let (slow, deaf) = lingering(time);
        let fds = [slow.as_raw_fd()];
        let control = [ControlMessage::ScmRights(&fds)];
        let parts = [IoSlice::new(b"!")];
        sendmsg::<UnixAddr>(stream.as_raw_fd(), &parts, &control, flags, None).unwrap();
        deaf
    }

    /// Sends `text`, and then that.
    fn with_a_lingering_socket(
        time: Duration,
        text: &[u8],
        flags: MsgFlags,
    ) -> (UnixStream, UnixStream, TcpStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.write_all(text).unwrap();
        let deaf = send_a_lingering_socket(&theirs, time, flags);
        (ours, theirs, deaf)
    }

    fn hang_up_without_waiting(stream: UnixStream) {
        let (tells, told) = channel();
        thread::spawn(move || {
            assert!(hang_up(stream));
            graves().close();
            tells.send(()).unwrap();
        });
        told.recv_timeout(TIMEOUT)
            .expect("it waits for the socket that lingers");
    }

    const IN_LINE: MsgFlags = MsgFlags::empty();

    #[test]
    fn what_carries_descriptors_is_not_taken_in() {
        let _alone = alone();
        let (ours, _theirs, _deaf) = with_a_lingering_socket(LONG, b"", IN_LINE);
        assert_eq!(receive(&ours, &mut [0; 64]), Err(Errno::EBADMSG));
        hang_up_without_waiting(ours);
    }

    #[test]
    fn descriptors_behind_the_message_do_not_make_us_wait_either() {
        let _alone = alone();
        let (ours, _theirs, _deaf) = with_a_lingering_socket(LONG, b"message", IN_LINE);
        (&ours).read_exact(&mut [0; 7]).unwrap(); // as if they had been sent after the message was taken in
        hang_up_without_waiting(ours);
    }

    #[test]
    fn descriptors_out_of_band_are_not_taken_in() {
        let _alone = alone();
        for behind in [&b""[..], b"message"] {
            let (ours, mut theirs, _deaf) = with_a_lingering_socket(LONG, b"", MsgFlags::MSG_OOB);
            theirs.write_all(behind).unwrap();
            see_all(&ours).unwrap();
            assert_eq!(receive(&ours, &mut [0; 64]), Err(Errno::EBADMSG));
            hang_up_without_waiting(ours);
        }
    }

    #[test]
    fn who_hangs_up_without_a_look_does_not_wait_for_them_either() {
        let _alone = alone();
        let (ours, _theirs, _deaf) = with_a_lingering_socket(LONG, b"", MsgFlags::MSG_OOB);
        hang_up_without_waiting(ours);
    }

    /// Or the tests above would show nothing.
    #[test]
    fn merely_closing_such_a_connection_waits() {
        let _alone = alone();
        let time = Duration::from_secs(2);
        let (ours, theirs, _deaf) = with_a_lingering_socket(time, b"", IN_LINE);
        drop(theirs);
        let begin = Instant::now();
        drop(ours);
        assert!(begin.elapsed() >= time / 2, "{:?}", begin.elapsed());
    }

    #[test]
    fn a_batch_of_connections_has_one_process_and_none_is_lost_where_there_is_none() {
        let _alone = alone();
        let mut graves = Graves::new();
        let mut theirs = vec![];
        for _ in 0..BATCH + 1 {
            let (ours, end) = UnixStream::pair().unwrap();
            graves.lay(ours);
            theirs.push(end);
        }
        assert_eq!((graves.forks, graves.streams.len()), (1, 1));
        let end = theirs.pop().unwrap();
        assert!(!close_elsewhere(&mut graves.streams, || Err(Errno::EAGAIN)));
        assert_eq!(graves.streams.len(), 1);
        assert_eq!((hung_up(&theirs[0]), hung_up(&end)), (Ok(true), Ok(false)));
        graves.since -= BATCH_TIME;
        graves.close_old();
        assert_eq!((graves.forks, hung_up(&end)), (2, Ok(true)));
        assert_eq!(graves.due(), None);
    }

    static INTERRUPTIONS: AtomicU32 = AtomicU32::new(0);

    extern "C" fn count_interruption(_: i32) {
        INTERRUPTIONS.fetch_add(1, Relaxed);
    }

    /// As a process is that was stopped, and goes on.
    #[test]
    fn an_answer_is_waited_for_beyond_interruptions() {
        let count = SigAction::new(
            SigHandler::Handler(count_interruption),
            SaFlags::SA_RESTART,
            SigSet::empty(),
        );
        // SAFETY: the handler counts, and does nothing else.
        unsafe { sigaction(Signal::SIGURG, &count) }.unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(TIMEOUT)).unwrap();
        let waits = thread::spawn(move || receive_with_descriptor(&ours, &mut [0; 4]));
        while INTERRUPTIONS.load(Relaxed) < 50 && !waits.is_finished() {
            // SAFETY: the thread has not been joined.
            unsafe { libc::pthread_kill(waits.as_pthread_t(), libc::SIGURG) };
            thread::sleep(Duration::from_millis(1));
        }
        theirs.write_all(b"well").unwrap();
        assert_eq!(waits.join().unwrap().unwrap().0, 4);
    }
}
