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
use std::time::Duration;

use flexguard_monitor::{Options, SocketName};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr, sockopt};
use nix::unistd::geteuid;

use crate::attach::{SOCKET_ENV, Served};
use crate::failure::{Context, Result};

/// The hidden option of `flexguard monitor` with which a run starts the monitor.
pub const OPTION: &str = "--of-runs";
/// Far beyond what loading takes. A run then loads its own.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often the monitor looks whether its server still works.
const LOOK: u16 = 1000;

/// What the monitor says to a run that holds a lease: it serves.
const SERVES: u8 = b's';
/// Another one is there already.
const TAKEN: u8 = b't';

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
    _monitor: Option<Child>,
}

impl Lease {
    /// None: there is none to be had here. Signals must be held, as they are for a program's end.
    pub fn take() -> Option<Lease> {
        if !geteuid().is_root() {
            return None;
        }
        loop {
            match connect() {
                Ok(connection) if is_ours(&connection) => match hear(&connection) {
                    Ok(Some(SERVES)) => {
                        return Some(Lease {
                            connection,
                            _monitor: None,
                        });
                    }
                    Ok(_) => {} // it was about to end, or could not load
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                    Err(_) => return None,
                },
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                _ => return None,
            }
            let (ours, theirs) = UnixStream::pair().ok()?;
            let mut monitor = start(theirs).ok()?;
            match hear(&ours) {
                Ok(Some(SERVES)) => {
                    return Some(Lease {
                        connection: ours,
                        _monitor: Some(monitor),
                    });
                }
                Ok(Some(TAKEN)) => drop(monitor.wait()), // by one that started at the same time
                _ => {
                    drop(ours);
                    let _ = monitor.kill();
                    let _ = monitor.wait();
                    return None;
                }
            }
        }
    }

    /// The value of FLEXGUARD_SOCKET for the program.
    pub fn socket(&self) -> String {
        format!("@{}.monitor", lease_name())
    }

    /// Held until this process ends; if the monitor ends before, another one is started.
    pub fn hold(self) -> Result<()> {
        let mut lease = Some(self);
        let hold = move || {
            while let Some(held) = lease.take() {
                let _ = held.connection.set_read_timeout(None);
                let _ = (&held.connection).read(&mut [0]);
                if let Some(mut monitor) = held._monitor {
                    let _ = monitor.wait();
                }
                lease = Lease::take();
            }
        };
        let thread = std::thread::Builder::new().name("lease".into());
        thread.spawn(hold).context("cannot start a thread")?;
        Ok(())
    }
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
    connection.set_read_timeout(Some(TIMEOUT))?;
    let mut byte = [0];
    Ok((connection.read(&mut byte)? == 1).then_some(byte[0]))
}

/// The monitor's process: in a session of its own, with its first lease and nothing else of ours.
fn start(lease: UnixStream) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["monitor", OPTION])
        .arg0("flexguard")
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(lease)))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
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

/// What the monitor's process does; its standard input is the first lease.
pub fn serve() -> Result<()> {
    let doing = "cannot serve runs";
    let first = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map(UnixStream::from);
    let first = first.context(doing)?;
    let null = File::open("/dev/null").context(doing)?;
    nix::unistd::dup2_stdin(null).context(doing)?;
    let name = SocketAddr::from_abstract_name(lease_name()).context(doing)?;
    let Ok(listener) = UnixListener::bind_addr(&name) else {
        return (&first).write_all(&[TAKEN]).context(doing);
    };
    listener.set_nonblocking(true).context(doing)?;
    let served = Served::load(Options {
        socket: SocketName::Abstract(monitor_name()),
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
    drop(listener);
    served.end()
}

fn admit(mut connection: UnixStream, leases: &mut Vec<UnixStream>) {
    if is_ours(&connection) && connection.write_all(&[SERVES]).is_ok() {
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
