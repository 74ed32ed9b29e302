// SPDX-License-Identifier: MIT
//! `flexguard metrics`: serves what the monitor counts as OpenMetrics, over HTTP.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::{output, signals};
use flexguard_monitor::{Listing, SocketName};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Subcommand, monitor};
use crate::manual::{OWN_EXIT, SOCKET_ENVIRONMENT, SOCKET_FILES, Section, examples};
use crate::openmetrics;
use crate::programs::{Program, UnwatchedNumber};

/// What one request may take, and what taking the answer may: a slow client has a connection for twice as long at most.
const REQUEST_TIME: Duration = Duration::from_secs(1);
/// Requests that are answered at a time. Half of the connections that the monitor lets a user have unfinished, of which
/// each request takes one.
const ANSWERS: usize = 8;
/// Connections that have not finished their request. One more, and the oldest is dropped.
const IDLE: usize = 64;
const MAX_REQUEST: usize = 8192;
/// Of an answer, in one write.
const PART: usize = 4096;
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serve what the monitor counts as OpenMetrics, in the foreground
///
/// A process of its own, which needs no privilege and asks the monitor at each request. GET /metrics is all there is.
#[derive(Debug, Args)]
pub struct Metrics {
    /// Where to listen: an address and port of this machine's loopback device, or the path of a Unix socket
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9477")]
    listen: String,

    /// Let --listen name an address that other machines reach; they read the metrics without a password
    #[arg(long)]
    expose: bool,

    /// Print the metrics once instead, and end
    #[arg(long, conflicts_with_all = ["listen", "expose"])]
    once: bool,

    /// The socket of the monitor: a path, or @NAME in the abstract namespace
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    socket: Option<String>,
}

impl Subcommand for Metrics {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "METRICS",
            items: &[
                (
                    "flexguard_up",
                    "0: no monitor answers, and programs run without one. Then it is the only metric beside \
                     flexguard_unwatched_programs.",
                ),
                (
                    "the others",
                    "Each has its explanation in the output. share/flexguard/grafana.json is a dashboard for Grafana, \
                     share/flexguard/alerts.yml has rules for Prometheus.",
                ),
            ],
        },
        Section {
            title: "SIGNALS",
            items: &[("SIGTERM, SIGINT, SIGHUP", "End, with exit status 0.")],
        },
        Section {
            title: "EXIT STATUS",
            items: &[
                ("0", "It was told to end, or the metrics were printed."),
                OWN_EXIT[0],
                OWN_EXIT[1],
            ],
        },
        SOCKET_ENVIRONMENT,
        SOCKET_FILES,
        examples(&[
            ("flexguard metrics", "Serve http://127.0.0.1:9477/metrics."),
            (
                "curl --unix-socket /run/flexguard-metrics.sock http://localhost/metrics",
                "Ask the one that was started with --listen /run/flexguard-metrics.sock.",
            ),
            (
                "flexguard metrics --listen 10.0.0.7:9477 --expose",
                "Serve other machines of a network that is trusted.",
            ),
        ]),
    ];

    fn run(self) -> Result<Status> {
        let socket = monitor::socket(self.socket.as_deref())?;
        if self.once {
            output::print(&metrics(&socket)?)?;
            return Ok(Status::Exited(0));
        }
        signals::hold()?;
        let listener = Listener::open(&self.listen, self.expose)?;
        if listener.is_exposed() {
            output::note(&format!(
                "flexguard: warning: other machines can read the metrics on {}, without a password or encryption\n",
                listener.address()
            ));
        }
        output::announce(&format!(
            "flexguard metrics: ready on {}\n",
            listener.address()
        ));
        let removed = listener.path();
        let (asks, asked) = sync_channel(ANSWERS);
        let asked = Arc::new(Mutex::new(asked));
        for _ in 0..ANSWERS {
            let (asked, socket) = (Arc::clone(&asked), socket.clone());
            std::thread::Builder::new()
                .spawn(move || serve(&asked, &socket))
                .context("cannot start a thread")?;
        }
        std::thread::Builder::new()
            .spawn(move || Hall::new(listener, REQUEST_TIME).receive(&asks))
            .context("cannot start a thread")?;
        while !matches!(
            signals::wait(None).map(|signal| signal.number),
            Some(libc::SIGTERM | libc::SIGINT | libc::SIGHUP)
        ) {}
        if let Some(path) = removed {
            let _ = fs::remove_file(path);
        }
        Ok(Status::Exited(0))
    }
}

/// A connection, and the request that has come over it.
type Asked = (Box<dyn Stream>, Vec<u8>);

/// Answers one request after the other, as the other threads do.
fn serve(asked: &Mutex<Receiver<Asked>>, socket: &SocketName) {
    loop {
        let next = asked.lock().expect("nobody panics with it").recv();
        let Ok((client, head)) = next else { return };
        let _ = answer(client, &head, socket); // a client that goes away is no reason to end
    }
}

/// The connections whose request is not complete, by age.
struct Hall {
    listener: Listener,
    /// What one request may take.
    request_time: Duration,
    waiting: VecDeque<(Box<dyn Stream>, Vec<u8>, Instant)>,
}

impl Hall {
    fn new(listener: Listener, request_time: Duration) -> Hall {
        Hall {
            listener,
            request_time,
            waiting: VecDeque::new(),
        }
    }

    /// Takes requests in, of all connections at once, and hands over those that are complete.
    fn receive(mut self, asks: &SyncSender<Asked>) {
        loop {
            let now = Instant::now();
            self.waiting.retain(|(_, _, deadline)| *deadline > now);
            let oldest = self.waiting.front().map(|(_, _, deadline)| *deadline - now);
            let mut fds = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
            let streams = self.waiting.iter();
            fds.extend(streams.map(|(client, ..)| PollFd::new(client.as_fd(), PollFlags::POLLIN)));
            let timeout = oldest.unwrap_or(self.request_time) + Duration::from_millis(1);
            let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::ZERO);
            if poll(&mut fds, timeout).is_err() {
                continue;
            }
            let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
            // From the back, so that those before it keep their places in `ready`.
            for index in (0..self.waiting.len()).rev().filter(|&i| ready[i + 1]) {
                let (client, head, _) = &mut self.waiting[index];
                let complete = match take_in(client.as_mut(), head) {
                    Ok(false) => continue,
                    read => read.is_ok(),
                };
                let (client, head, _) = self.waiting.remove(index).expect("it is there");
                if complete && client.set_nonblocking(false).is_ok() {
                    let _ = asks.send((client, head)); // those who answer never end
                }
            }
            if ready[0] {
                self.accept();
            }
        }
    }

    fn accept(&mut self) {
        let accepted = self.listener.accept();
        match accepted.and_then(|client| client.set_nonblocking(true).map(|()| client)) {
            Ok(client) => {
                if self.waiting.len() == IDLE {
                    self.waiting.pop_front();
                }
                let deadline = Instant::now() + self.request_time;
                self.waiting.push_back((client, Vec::new(), deadline));
            }
            // It has gone again.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // A lack of descriptors is no reason to end.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Reads what there is of a request; true: it is complete.
fn take_in(client: &mut dyn Stream, head: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 1024];
    loop {
        match client.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => head.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(true);
        }
        if head.len() > MAX_REQUEST {
            return Err(ErrorKind::InvalidData.into());
        }
    }
}

/// Any user of the machine may ask, as often as they like.
static UNWATCHED: Mutex<UnwatchedNumber> = Mutex::new(UnwatchedNumber::new());

fn metrics(socket: &SocketName) -> Result<String> {
    let answer = Listing::query(socket).ok();
    let listed = answer.iter().flat_map(|(_, listing)| &listing.processes);
    let watched: Vec<Program> = listed.map(Program::of).collect();
    let mut number = UNWATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    let unwatched = number.of(&watched);
    drop(number);
    openmetrics::text(answer, unwatched).context("cannot write the metrics")
}

enum Listener {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

trait Stream: Read + Write + AsFd + Send {
    fn set_timeout(&self, left: Duration) -> io::Result<()>;
    fn set_nonblocking(&self, on: bool) -> io::Result<()>;
}

impl Stream for UnixStream {
    fn set_timeout(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }

    fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.set_nonblocking(on)
    }
}

impl Stream for std::net::TcpStream {
    fn set_timeout(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }

    fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.set_nonblocking(on)
    }
}

/// What to do about an address that cannot be had.
const OTHER: &str = "give --listen another one: a port that is free, or a path shorter than 108 bytes, of a socket or of no file, in a \
                     directory that you may write";

impl Listener {
    /// Other machines can reach it only if `expose`.
    fn open(address: &str, expose: bool) -> Result<Listener> {
        let doing = format!("cannot listen on {address}");
        if address.starts_with('/') {
            let path = Path::new(address);
            let listener = bind(path).context(&doing).map_err(|f| f.advice(OTHER))?;
            // What the monitor counts it tells everybody, too.
            flexguard_monitor::open_to_all(path).context(&doing)?;
            listener.set_nonblocking(true).context(&doing)?;
            return Ok(Listener::Unix(listener, path.into()));
        }
        let advice = "give an absolute path, or an address of the loopback device with a port, as 127.0.0.1:9477; \
                      another address needs --expose";
        let parsed = address
            .parse::<SocketAddr>()
            .context(&doing)
            .map_err(|f| f.advice(advice))?;
        if !expose && !parsed.ip().is_loopback() {
            let why = Failure::new(format_args!("{doing}: other machines could reach it"));
            return Err(why.advice(advice));
        }
        let listener = TcpListener::bind(parsed).context(&doing);
        let listener = listener.map_err(|f| f.advice(OTHER))?;
        listener.set_nonblocking(true).context(&doing)?;
        Ok(Listener::Tcp(listener))
    }

    fn is_exposed(&self) -> bool {
        match self {
            Listener::Unix(..) => false,
            Listener::Tcp(listener) => listener.local_addr().is_ok_and(|a| !a.ip().is_loopback()),
        }
    }

    fn address(&self) -> String {
        match self {
            Listener::Unix(_, path) => path.display().to_string(),
            Listener::Tcp(listener) => listener
                .local_addr()
                .map_or_else(|_| "?".into(), |a| a.to_string()),
        }
    }

    fn path(&self) -> Option<PathBuf> {
        match self {
            Listener::Unix(_, path) => Some(path.clone()),
            Listener::Tcp(_) => None,
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener, _) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }

    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Listener::Unix(listener, _) => Box::new(listener.accept()?.0),
            Listener::Tcp(listener) => Box::new(listener.accept()?.0),
        })
    }
}

/// A socket that nobody listens on any more is replaced; anything else that is there is not.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let bound = UnixListener::bind(path);
    let is_socket = || fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    match bound {
        Err(e) if e.kind() == ErrorKind::AddrInUse && is_socket() => {
            match UnixStream::connect(path) {
                Err(refused) if refused.kind() == ErrorKind::ConnectionRefused => {
                    fs::remove_file(path)?;
                    UnixListener::bind(path)
                }
                _ => Err(e),
            }
        }
        bound => bound,
    }
}

/// Answers one request.
fn answer(mut client: Box<dyn Stream>, head: &[u8], socket: &SocketName) -> io::Result<()> {
    let mut words = head.split(|&b| b == b' ' || b == b'\r');
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/metrics")) => match metrics(socket) {
            Ok(text) => ("200 OK", CONTENT_TYPE, text),
            Err(failure) => ("500 Internal Server Error", "text/plain", failure.report()),
        },
        (Some(b"GET"), Some(_)) => (
            "404 Not Found",
            "text/plain",
            "the metrics are at /metrics\n".into(),
        ),
        _ => (
            "405 Method Not Allowed",
            "text/plain",
            "only GET /metrics is answered\n".into(),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    write_answer(
        client.as_mut(),
        (head + &body).as_bytes(),
        Instant::now() + REQUEST_TIME,
    )
}

/// Lets the next read or write of the client take what is left of its time.
fn wait_until(client: &dyn Stream, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    client.set_timeout(left)
}

fn write_answer(client: &mut dyn Stream, mut rest: &[u8], deadline: Instant) -> io::Result<()> {
    while !rest.is_empty() {
        wait_until(client, deadline)?;
        // A long write to a Unix socket waits for so long again whenever the client has taken a part.
        match client.write(&rest[..rest.len().min(PART)])? {
            0 => return Err(ErrorKind::WriteZero.into()),
            n => rest = &rest[n..],
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections that say nothing, each of which may take an hour: one that asks is heard, and the oldest are dropped.
    #[test]
    fn idle_connections_silence_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.sock");
        let listener = Listener::open(path.to_str().unwrap(), false).unwrap();
        let (asks, asked) = sync_channel(1);
        let hall = Hall::new(listener, Duration::from_secs(3600));
        std::thread::spawn(move || hall.receive(&asks));
        let connect = || UnixStream::connect(&path).unwrap();
        let idle: Vec<UnixStream> = (0..3 * IDLE).map(|_| connect()).collect();
        let mut asking = connect();
        asking.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let (_, head) = asked.recv().unwrap();
        assert!(head.starts_with(b"GET /metrics"));
        let is_open = |mut stream: &UnixStream| {
            stream.set_nonblocking(true).unwrap();
            stream.read(&mut [0]).is_err()
        };
        assert_eq!(idle.iter().filter(|s| is_open(s)).count(), IDLE - 1);
        assert!(!is_open(&idle[0]), "the oldest is not dropped");
    }

    /// As many bytes as no client takes that sleeps between pages.
    const MUCH: usize = 64 << 20;

    #[test]
    fn a_client_that_takes_a_page_now_and_then_gets_no_more_time() {
        let (mut server, mut client) = UnixStream::pair().unwrap();
        let taking = std::thread::spawn(move || {
            while client.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let deadline = Instant::now() + Duration::from_millis(200);
        let answered = write_answer(&mut server, &vec![b'x'; MUCH], deadline);
        assert!(answered.is_err());
        drop(server);
        taking.join().unwrap();
    }
}
