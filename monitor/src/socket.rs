// SPDX-License-Identifier: MIT
//! Where a monitor listens, and how to listen and connect there.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flexguard_abi::{FG_SOCKET_DEFAULT, FG_SOCKET_ENV};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr, sockopt};
use nix::unistd::geteuid;
use nix::{setsockopt_impl, sockopt_impl};

use crate::Error;
use crate::error::LISTENING;
use crate::stream::end_listening;

/// The address of a monitor: a file system path, or `@name` in the abstract namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketName {
    Path(PathBuf),
    Abstract(Vec<u8>),
}

/// What sun_path holds, its final NUL (path) or leading NUL (abstract) excluded.
const MAX_NAME: usize = 107;
/// A monitor that has a CPU answers in microseconds. It is also asked where CPUs are what lacks.
const TIMEOUT: Duration = Duration::from_secs(10);

impl SocketName {
    /// Reads a name as FLEXGUARD_SOCKET spells it: an absolute path, or `@name`. An empty one is an error here.
    pub fn parse(name: &OsStr) -> Result<SocketName, Error> {
        let bytes = name.as_bytes();
        let bad = |why| {
            Err(Error::BadSocketName(
                name.to_string_lossy().into_owned(),
                why,
            ))
        };
        if bytes.len() > MAX_NAME {
            return bad("it is too long");
        }
        if bytes.contains(&0) {
            return bad("it contains a NUL byte");
        }
        match bytes {
            [] | [b'@'] => bad("it is empty"),
            [b'@', name @ ..] => Ok(SocketName::Abstract(name.to_vec())),
            // A relative one would mean another place to each client.
            [b'/', ..] => Ok(SocketName::Path(name.into())),
            _ => bad("it is not an absolute path"),
        }
    }

    /// FLEXGUARD_SOCKET if it is set, else the default path. None: it is set and empty ("never register").
    pub fn from_env() -> Result<Option<SocketName>, Error> {
        let name = FG_SOCKET_ENV
            .to_str()
            .expect("the variable's name is ASCII");
        match env::var_os(name) {
            None => Ok(Some(SocketName::default())),
            Some(value) if value.is_empty() => Ok(None),
            Some(value) => SocketName::parse(&value).map(Some),
        }
    }

    fn of(address: &UnixAddr) -> Option<SocketName> {
        let path = address.path().map(|path| SocketName::Path(path.into()));
        path.or_else(|| Some(SocketName::Abstract(address.as_abstract()?.into())))
    }

    fn address(&self) -> nix::Result<UnixAddr> {
        match self {
            SocketName::Path(path) => UnixAddr::new(path),
            SocketName::Abstract(name) => UnixAddr::new_abstract(name),
        }
    }

    /// Connects to the monitor there. No step of the conversation waits longer than TIMEOUT.
    pub(crate) fn connect(&self) -> Result<UnixStream, Error> {
        self.try_connect().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                Error::NotListening(self.clone())
            }
            _ => Error::Socket {
                step: "cannot connect to",
                socket: self.clone(),
                source,
            },
        })
    }

    fn try_connect(&self) -> io::Result<UnixStream> {
        let socket = socket::socket(
            AddressFamily::Unix,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC,
            None,
        )?;
        let stream = UnixStream::from(socket);
        stream.set_read_timeout(Some(TIMEOUT))?;
        // Also bounds connect(), which waits while the listener's backlog is full.
        stream.set_write_timeout(Some(TIMEOUT))?;
        socket::connect(stream.as_raw_fd(), &self.address()?)?;
        Ok(stream)
    }

    /// Listens there. A socket file that a dead monitor left is replaced, a live monitor is not.
    pub(crate) fn listen(&self) -> Result<Listener, Error> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => Error::AlreadyListening(self.clone()),
            _ => Error::Socket {
                step: LISTENING,
                socket: self.clone(),
                source,
            },
        };
        let listener = match self {
            SocketName::Path(path) => self.listen_on_path(path),
            SocketName::Abstract(name) => listen_on_abstract(name),
        };
        let listener = listener.map_err(failed)?;
        listener.socket.set_nonblocking(true).map_err(failed)?;
        refuse_descriptors(&listener.socket);
        bound_backlog(&listener.socket);
        Ok(listener)
    }

    fn listen_on_path(&self, path: &Path) -> io::Result<Listener> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        make_directory(directory)?;
        // Two monitors that start together must not both take a dead one's file for theirs to replace.
        let _lock = lock_beside(path)?;
        match fs::symlink_metadata(path) {
            Ok(file) if file.file_type().is_socket() => match self.try_connect() {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path)?
                }
                _ => return Err(io::ErrorKind::AddrInUse.into()),
            },
            Ok(_) => {
                return Err(io::Error::other(
                    "a file that is not a socket has that name",
                ));
            }
            Err(_) => {}
        }
        let socket = UnixListener::bind(path)?;
        // Every user may register: a client can speak only for its own process.
        let file = open_to_all(path)?;
        let file = SocketFile {
            path: path.into(),
            device: file.dev(),
            inode: file.ino(),
        };
        Ok(Listener {
            socket,
            file: Some(file),
            is_ours_alone: true,
        })
    }
}

impl Default for SocketName {
    fn default() -> Self {
        SocketName::Path(OsStr::from_bytes(FG_SOCKET_DEFAULT.to_bytes()).into())
    }
}

/// As FLEXGUARD_SOCKET spells it.
impl fmt::Display for SocketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketName::Path(path) => path.display().fmt(f),
            SocketName::Abstract(name) => write!(f, "@{}", String::from_utf8_lossy(name)),
        }
    }
}

/// A listening socket. Drop removes its file, unless another monitor's has taken its place.
#[derive(Debug)]
pub(crate) struct Listener {
    pub socket: UnixListener,
    file: Option<SocketFile>,
    /// Who has connected and was not accepted has nobody to wait for when it is closed.
    is_ours_alone: bool,
}

impl Listener {
    /// A socket that somebody else has made, and where that is. The backlog is as it was made. `stays`: the service manager
    /// goes on listening.
    pub fn passed(socket: OwnedFd, stays: bool) -> Result<(Listener, SocketName), Error> {
        let listens = socket::getsockopt(&socket, sockopt::AcceptConn) == Ok(true)
            && socket::getsockopt(&socket, sockopt::SockType) == Ok(SockType::Stream);
        let name = socket::getsockname::<UnixAddr>(socket.as_raw_fd()).ok();
        let name = name.and_then(|address| SocketName::of(&address));
        let name = name.filter(|_| listens).ok_or(Error::NoSocketPassed)?;
        let socket = UnixListener::from(socket);
        socket
            .set_nonblocking(true)
            .map_err(|source| Error::Socket {
                step: LISTENING,
                socket: name.clone(),
                source,
            })?;
        refuse_descriptors(&socket);
        let listener = Listener {
            socket,
            file: None,
            is_ours_alone: !stays,
        };
        Ok((listener, name))
    }
}

#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let ours = fs::symlink_metadata(&file.path)
                .is_ok_and(|m| (m.dev(), m.ino()) == (file.device, file.inode));
            if ours && let Err(error) = fs::remove_file(&file.path) {
                tracing::warn!(path = %file.path.display(), %error, "cannot remove the socket");
            }
        }
        if self.is_ours_alone {
            end_listening(&self.socket);
        }
    }
}

/// Clients have no descriptors to send us; a client that sends one may want us to close it, and to wait while doing so.
/// Connections inherit the option from the listener. Linux 6.16; older kernels do not know it.
fn refuse_descriptors(socket: &UnixListener) {
    if let Err(errno) = socket::setsockopt(socket, PassRights, &false) {
        tracing::debug!(%errno, "clients may send descriptors");
    }
}

/// All users' clients wait in one queue. So it is short: then a flood's are not before the others', but wait to connect, as
/// they do, one for each of its processes.
const BACKLOG: i32 = 512;

/// Not for a socket that another user listens on: clients see at the other end the user who listened last.
pub fn bound_backlog(socket: &UnixListener) {
    let backlog = Backlog::new(BACKLOG);
    if let Err(errno) = backlog.and_then(|backlog| socket::listen(socket, backlog)) {
        tracing::debug!(%errno, "the queue of clients stays as long as it is");
    }
}

const SO_PASSRIGHTS: libc::c_int = 83;
sockopt_impl!(PassRights, SetOnly, libc::SOL_SOCKET, SO_PASSRIGHTS, bool);

fn listen_on_abstract(name: &[u8]) -> io::Result<Listener> {
    Ok(Listener {
        socket: UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?,
        file: None,
        is_ours_alone: true,
    })
}

/// Lets every user connect to the socket that was just bound there, and says which file it is. Not by its path alone: who
/// may write the directory may have put a link in its place, and all could write what that leads to.
pub fn open_to_all(path: &Path) -> io::Result<Metadata> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
        .open(path)?;
    let about = file.metadata()?;
    if !about.file_type().is_socket() {
        return Err(io::Error::other("another file is in the socket's place"));
    }
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::set_permissions(itself, Permissions::from_mode(0o666))?;
    Ok(about)
}

/// A lock that only monitors of this user can take: bystanders may open neither the file nor, where the directory is
/// theirs to write, put one in its place. It is held for the moments of a start; a monitor that finds it taken does not wait.
fn lock_beside(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = Path::new(&name);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(name)?;
    if file.metadata()?.uid() != geteuid().as_raw() {
        let why = format!("{} belongs to another user", name.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::AddrInUse.into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Makes the socket's directory if it is not there, passable for every user whatever the umask. The one above it must be
/// there: a path that is mistyped would make directories where no client looks.
fn make_directory(directory: &Path) -> io::Result<()> {
    if directory.exists() {
        return Ok(());
    }
    let above = directory.parent().filter(|above| !above.exists());
    if let Some(above) = above {
        let why = format!("there is no directory {}", above.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    DirBuilder::new().mode(0o755).create(directory)?;
    tracing::info!(directory = %directory.display(), "made the socket's directory");
    let made = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW) // as open_to_all
        .open(directory)?;
    made.set_permissions(Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::stream::tests::{LONG, TIMEOUT as FAR, alone, send_a_lingering_socket};

    fn parse(name: &str) -> Result<SocketName, Error> {
        SocketName::parse(OsStr::new(name))
    }

    #[test]
    fn a_path_without_a_directory_is_an_error_and_one_directory_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let listen = |path: &str| parse(folder.path().join(path).to_str().unwrap())?.listen();
        let error = listen("a/b/socket").unwrap_err();
        let Error::Socket { source, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(source.kind(), io::ErrorKind::NotFound);
        assert!(!folder.path().join("a").exists());
        listen("a/socket").unwrap();
    }

    #[test]
    fn names_are_read_and_written_alike() {
        for name in ["/run/x.sock", "@flexguard-17"] {
            assert_eq!(parse(name).unwrap().to_string(), name);
        }
        assert_eq!(
            SocketName::default().to_string(),
            "/run/flexguard/monitor.sock"
        );
    }

    #[test]
    fn unusable_names_are_refused() {
        for name in [
            "",
            "@",
            "relative",
            "/with\0nul",
            &format!("/{}", "x".repeat(107)),
        ] {
            assert!(
                matches!(parse(name), Err(Error::BadSocketName(..))),
                "{name:?}"
            );
        }
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let name = SocketName::Path(directory.path().join("new/monitor.sock"));
        let live = name.listen().unwrap();
        assert!(matches!(name.listen(), Err(Error::AlreadyListening(_))));
        name.connect().unwrap();
        // What kill -9 leaves: the file, without a server.
        let mut dead = live;
        dead.file = None;
        drop(dead);
        assert!(matches!(name.connect(), Err(Error::NotListening(_))));
        let again = name.listen().unwrap();
        name.connect().unwrap();
        drop(again);
        let SocketName::Path(path) = &name else {
            unreachable!()
        };
        assert!(!path.exists());
    }

    /// Any user who may read a directory may lock it.
    #[test]
    fn a_bystander_who_locks_the_directory_stops_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let held = File::open(directory.path()).unwrap();
        held.lock().unwrap();
        let name = SocketName::Path(directory.path().join("monitor.sock"));
        name.listen().unwrap();
        let lock = directory.path().join("monitor.sock.lock");
        assert_eq!(fs::metadata(lock).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_monitor_does_not_wait_for_another_ones_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("monitor.sock");
        let starting = lock_beside(&path).unwrap();
        let name = SocketName::Path(path);
        assert!(matches!(name.listen(), Err(Error::AlreadyListening(_))));
        drop(starting);
        name.listen().unwrap();
    }

    #[test]
    fn a_lock_file_that_is_a_link_or_anothers_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("monitor.sock");
        let lock = directory.path().join("monitor.sock.lock");
        std::os::unix::fs::symlink("/dev/null", &lock).unwrap();
        assert!(lock_beside(&path).is_err());
        fs::remove_file(&lock).unwrap();
        if geteuid().is_root() {
            fs::write(&lock, "").unwrap();
            std::os::unix::fs::chown(&lock, Some(65534), None).unwrap();
            assert!(lock_beside(&path).is_err());
        }
    }

    #[test]
    fn the_socket_is_open_to_every_user() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/monitor.sock");
        let _listener = SocketName::Path(path.clone()).listen().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o666);
        assert_eq!(mode(path.parent().unwrap()), 0o755);
    }

    /// Who may write the directory has put it there since the socket was bound.
    #[test]
    fn what_is_in_the_sockets_place_is_not_opened_to_all() {
        let directory = tempfile::tempdir().unwrap();
        let [secret, link] = ["secret", "link"].map(|name| directory.path().join(name));
        fs::write(&secret, "").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        for place in [&link, &secret] {
            assert!(open_to_all(place).is_err());
        }
        assert_eq!(fs::metadata(&secret).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("precious");
        fs::write(&path, "data").unwrap();
        assert!(SocketName::Path(path.clone()).listen().is_err());
        assert_eq!(fs::read(&path).unwrap(), b"data");
    }

    #[test]
    fn a_conversation_ends_however_silent_the_other_side_is() {
        let name = parse(&format!("@flexguard-test-silent-{}", std::process::id())).unwrap();
        let _silent = name.listen().unwrap();
        let stream = name.connect().unwrap();
        let waits = [stream.read_timeout(), stream.write_timeout()];
        assert_eq!(waits.map(Result::unwrap), [Some(TIMEOUT); 2]);
    }

    /// A client that was not accepted has sent what is slow to close.
    #[test]
    fn to_end_is_not_to_wait_for_who_has_connected() {
        let _alone = alone();
        let name = parse(&format!("@flexguard-test-end-{}", std::process::id())).unwrap();
        let listener = name.listen().unwrap();
        let _ = socket::setsockopt(&listener.socket, PassRights, &true); // as older kernels have it
        let client = name.connect().unwrap();
        let _deaf = send_a_lingering_socket(&client, LONG, socket::MsgFlags::empty());
        let (tells, told) = channel();
        thread::spawn(move || {
            drop(listener);
            tells.send(()).unwrap();
        });
        told.recv_timeout(FAR)
            .expect("it waits for the socket that lingers");
        assert!(matches!(name.connect(), Err(Error::NotListening(_))));
    }

    #[test]
    fn abstract_names_are_exclusive() {
        let name = parse(&format!("@flexguard-test-{}", std::process::id())).unwrap();
        let _live = name.listen().unwrap();
        assert!(matches!(name.listen(), Err(Error::AlreadyListening(_))));
        name.connect().unwrap();
    }
}
