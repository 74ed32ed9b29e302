// SPDX-License-Identifier: MIT
//! The monitor that concurrent runs of root share where no service runs: a process of its own, started by the first run,
//! which ends with the last.
//!
//! | process       | what it holds                                                    | when it ends, also by kill -9        |
//! |---------------|------------------------------------------------------------------|--------------------------------------|
//! | a run         | a lease: one connection, for as long as its program runs         | the kernel closes the lease          |
//! | the monitor   | the BPF programs, the programs' socket, the socket of the leases | a run that remains starts another    |
//! | the program   | its registration                                                 | as with every monitor                |
//!
//! A run does not wait until the monitor has loaded its programs. It binds both sockets itself and passes them to the monitor
//! that it starts: what the program sends waits there.
//!
//! Both sockets are abstract: to bind is to exclude every other, and nothing is left of them, however the monitor ends. The
//! names can be foreseen. Another user who takes one keeps runs from sharing, and no more: a run asks the kernel who is at
//! the other end, as clients do, and loads a monitor of its own.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flexguard_monitor::Options;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr, sockopt};
use nix::unistd::geteuid;

use crate::attach::{SOCKET_ENV, Served, tell_of_loading};
use crate::failure::{Context, Result};

/// The hidden option of `flexguard monitor` with which a run starts the monitor.
pub const OPTION: &str = "--of-runs";
/// How often the monitor looks whether its server still works.
const LOOK: u16 = 1000;

/// How long a run waits for the end of the last monitor, in steps of PAUSE: before its program starts, and while that runs.
const AT_START: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// What the monitor says to a run that holds a lease: it serves.
const SERVES: u8 = b's';

/// Where the leases are taken: a name for each user, each version, and each place where a service would be.
pub fn lease_name() -> String {
    let mut place = DefaultHasher::new();
    std::env::var_os(SOCKET_ENV).hash(&mut place);
    let (user, version) = (geteuid(), env!("CARGO_PKG_VERSION"));
    format!("flexguard-runs.{user}.{version}.{:016x}", place.finish())
}

/// The socket of the programs.
fn monitor_name() -> Vec<u8> {
    (lease_name() + ".monitor").into_bytes()
}

/// While it is held, the monitor that runs share stays.
pub struct Lease {
    connection: UnixStream,
    /// The monitor, if this run has started it.
    monitor: Option<Child>,
}

/// The monitor of the runs is not there, and cannot be loaded.
pub struct NotLoaded;

impl Lease {
    /// Does not wait until the monitor serves. None: there is none to be had here, or the last one is still ending. Signals
    /// must be held, as they are for a program's end.
    pub fn take() -> Option<Lease> {
        Lease::take_within(AT_START)
    }

    /// Waits so long for the end of a monitor that is ending.
    fn take_within(most: Duration) -> Option<Lease> {
        if !geteuid().is_root() {
            return None;
        }
        let deadline = Instant::now() + most;
        loop {
            match connect() {
                Ok(connection) if is_ours(&connection) && !has_ended(&connection) => {
                    return Some(Lease {
                        connection,
                        monitor: None,
                    });
                }
                Ok(connection) if is_ours(&connection) => {} // it was about to end
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                _ => return None,
            }
            match begin() {
                Ok(lease) => return Some(lease),
                // Also where it never comes to listening: another user may have taken the name.
                Err(Begun::AtTheSameTime | Begun::TooEarly) if Instant::now() < deadline => {
                    thread::sleep(PAUSE);
                }
                Err(_) => return None,
            }
        }
    }

    pub fn tell(&self, command: &mut Command) {
        let socket = format!("@{}.monitor", lease_name());
        tell_of_loading(command, socket.as_ref());
    }

    /// Held until this process ends; if the monitor ends before, another one is started. `failed` is called if it cannot be
    /// loaded.
    pub fn hold(self, failed: impl FnOnce(NotLoaded) + Send + 'static) -> Result<()> {
        let mut lease = Some(self);
        let hold = move || {
            while let Some(held) = lease.take() {
                let serves = hear(&held.connection).is_ok_and(|said| said == Some(SERVES));
                if serves {
                    let _ = (&held.connection).read(&mut [0]);
                }
                if let Some(mut monitor) = held.monitor {
                    let _ = monitor.wait();
                    if !serves {
                        return failed(NotLoaded);
                    }
                }
                lease = Lease::take_within(LATER);
            }
        };
        let thread = thread::Builder::new().name("lease".into());
        thread.spawn(hold).context("cannot start a thread")?;
        Ok(())
    }
}

/// Why no monitor was started.
enum Begun {
    /// Another run has just done it, or another user has the name.
    AtTheSameTime,
    /// The last one still has the programs' socket.
    TooEarly,
    /// It is impossible.
    Not,
}

fn begin() -> std::result::Result<Lease, Begun> {
    let leases = bind(lease_name().as_bytes()).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Begun::AtTheSameTime,
        _ => Begun::Not,
    })?;
    let start = || {
        let programs = bind(&monitor_name())?;
        flexguard_monitor::bound_backlog(&programs);
        let (ours, theirs) = UnixStream::pair()?;
        let monitor = start(theirs, leases, programs)?;
        Ok::<_, io::Error>(Lease {
            connection: ours,
            monitor: Some(monitor),
        })
    };
    start().map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Begun::TooEarly,
        _ => Begun::Not,
    })
}

fn bind(name: &[u8]) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// The other end has closed.
fn has_ended(connection: &UnixStream) -> bool {
    let mut fds = [PollFd::new(connection.as_fd(), PollFlags::POLLIN)];
    let polled = poll(&mut fds, PollTimeout::ZERO);
    let events = fds[0].revents().unwrap_or(PollFlags::empty());
    polled.is_err() || events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR)
}

/// Never waits: a stranger's listener may have a full backlog.
fn connect() -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let address = UnixAddr::new_abstract(lease_name().as_bytes())?;
    socket::connect(socket.as_raw_fd(), &address)?;
    let connection = UnixStream::from(socket);
    connection.set_nonblocking(false)?;
    Ok(connection)
}

/// The process at the other end is this user's.
fn is_ours(connection: &UnixStream) -> bool {
    let peer = socket::getsockopt(connection, sockopt::PeerCredentials);
    peer.is_ok_and(|peer| peer.uid() == geteuid().as_raw())
}

/// One byte; None: the other end has closed.
fn hear(mut connection: &UnixStream) -> io::Result<Option<u8>> {
    let mut byte = [0];
    Ok((connection.read(&mut byte)? == 1).then_some(byte[0]))
}

/// The monitor's process: in a session of its own, with its first lease, the sockets that it serves, and nothing else of ours.
fn start(lease: UnixStream, leases: UnixListener, programs: UnixListener) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["monitor", OPTION])
        .arg0("flexguard")
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(lease)))
        .stdout(Stdio::from(OwnedFd::from(leases)))
        .stderr(Stdio::from(OwnedFd::from(programs)));
    // SAFETY: between fork and exec; system calls alone.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::syscall(
                libc::SYS_close_range,
                3,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
            Ok(())
        })
    };
    command.spawn()
}

/// What the monitor's process does. Its standard input is the first lease, its standard output the socket of the leases, and
/// its standard error that of the programs.
pub fn serve() -> Result<()> {
    let doing = "cannot serve runs";
    let first = io::stdin().as_fd().try_clone_to_owned().context(doing)?;
    let listener = io::stdout().as_fd().try_clone_to_owned().context(doing)?;
    let programs = io::stderr().as_fd().try_clone_to_owned().context(doing)?;
    let null = || File::options().read(true).write(true).open("/dev/null");
    nix::unistd::dup2_stdin(null().context(doing)?).context(doing)?;
    nix::unistd::dup2_stdout(null().context(doing)?).context(doing)?;
    nix::unistd::dup2_stderr(null().context(doing)?).context(doing)?;
    let (first, listener) = (UnixStream::from(first), UnixListener::from(listener));
    listener.set_nonblocking(true).context(doing)?;
    let served = Served::load(Options {
        listener: Some(programs),
        ..Options::default()
    })?;
    let mut leases = Vec::new();
    admit(first, &mut leases);
    while !served.has_stopped() {
        while let Ok((connection, _)) = listener.accept() {
            admit(connection, &mut leases);
        }
        // A run that connects from here on finds its lease closed, and starts the next monitor.
        if leases.is_empty() {
            break;
        }
        wait(&listener, &mut leases).context(doing)?;
    }
    flexguard_monitor::end_listening(&listener);
    drop(listener);
    served.end()
}

fn admit(mut connection: UnixStream, leases: &mut Vec<UnixStream>) {
    if !is_ours(&connection) {
        // Merely to close it may take as long as that user likes: it may have sent descriptors.
        flexguard_monitor::hang_up(connection);
    } else if connection.write_all(&[SERVES]).is_ok() {
        leases.push(connection);
    }
}

/// Until a lease is asked for, or given up; those that are given up are closed.
fn wait(listener: &UnixListener, leases: &mut Vec<UnixStream>) -> io::Result<()> {
    let mut fds = vec![PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    // A lease that says anything, its end included, is given up.
    let lease = |lease| PollFd::new(lease, PollFlags::POLLIN);
    fds.extend(leases.iter().map(|l| lease(l.as_fd())));
    poll(&mut fds, PollTimeout::from(LOOK))?;
    let ended: Vec<bool> = fds[1..].iter().map(|fd| fd.any().unwrap_or(true)).collect();
    let mut ended = ended.into_iter();
    leases.retain(|_| !ended.next().unwrap_or(false));
    Ok(())
}
