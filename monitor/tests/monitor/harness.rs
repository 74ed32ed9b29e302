// SPDX-License-Identifier: MIT
//! A monitor in this process, clients, and helper processes.

use std::io::{BufRead, BufReader, ErrorKind, IoSliceMut, Read, Write};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, fs};

use flexguard_abi::*;
use flexguard_monitor::{DomainKind, Error, Monitor, Options, SocketName, Stats, Stop};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, Uid};
use rustix::process::{PidfdFlags, pidfd_open};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::victim::die_with;

pub const ROLE_ENV: &str = "FLEXGUARD_TEST_ROLE";
/// Far beyond what anything here takes on a busy machine: reaching it is a failure, not a slow run.
pub const TIMEOUT: Duration = Duration::from_secs(150);
/// The kernel half that tests run with, where it is not the one that was built in (mutants.rs).
pub const OBJECT_ENV: &str = "FLEXGUARD_TEST_OBJECT";
/// On which of the CPUs that they may use the roles of such a test meet (victim::pin). The first, if it is not there.
pub const LANE_ENV: &str = "FLEXGUARD_TEST_LANE";
/// What such a test waits for, it waits for no longer than these milliseconds: longer than any of its waits has taken with
/// the right kernel half (mutants.rs).
pub const LIMIT_ENV: &str = "FLEXGUARD_TEST_LIMIT_MS";
/// It says when each of its waits begins, in nanoseconds.
pub const WAIT_BEGINS: &str = "a wait begins: ";
/// How the process ends if that object does not load.
pub const NOT_LOADED: i32 = 70;
/// The same for one answer of the monitor: less than the seconds it would take to wait for a crowd one by one.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A monitor that serves in a thread of this process.
pub struct Running {
    pub monitor: Arc<Monitor>,
    pub name: String,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// Starts a monitor, or says that the test is skipped.
pub fn start() -> Option<Running> {
    load().map(|(monitor, name)| Running::serve(monitor, name))
}

/// Starts a monitor that does not serve yet, or says that the test is skipped.
pub fn load() -> Option<(Monitor, String)> {
    let object = env::var_os(OBJECT_ENV);
    load_with(object.as_deref().map(Path::new), Options::default())
}

/// Starts a monitor with those options, or says that the test is skipped.
pub fn start_with(options: Options) -> Option<Running> {
    let object = env::var_os(OBJECT_ENV);
    let loaded = load_with(object.as_deref().map(Path::new), options);
    loaded.map(|(monitor, name)| Running::serve(monitor, name))
}

/// Starts a monitor with domains of that kind, or says that the test is skipped.
pub fn start_with_domains(domains: DomainKind) -> Option<Running> {
    start_with(Options {
        domains,
        ..Options::default()
    })
}

/// Another each time: a child that another test forks has the socket of a monitor that is gone until it calls exec.
pub fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("@flexguard-test-{}-{number}", std::process::id())
}

/// The same with the kernel half in that file, and those options.
pub fn load_with(object: Option<&Path>, options: Options) -> Option<(Monitor, String)> {
    let name = fresh_name();
    let socket = SocketName::parse(name.as_ref()).unwrap();
    let options = Options {
        socket,
        // A client may lose its CPU to other tests for seconds.
        client_time: options.client_time.or(Some(TIMEOUT)),
        ..options
    };
    let started = match object {
        None => Monitor::start(options),
        Some(path) => Ok(Monitor::start_with(&fs::read(path).unwrap(), options)
            .unwrap_or_else(|error| not_loaded(&error))),
    };
    match started {
        Ok(monitor) => Some((monitor, name)),
        Err(error) => {
            skip(&error);
            None
        }
    }
}

/// How long a wait may last that begins now.
pub fn timeout() -> Duration {
    match env::var(LIMIT_ENV) {
        Ok(limit) => {
            if env::var_os(ROLE_ENV).is_none() {
                say(&format!("{WAIT_BEGINS}{}\n", now().as_nanos()));
            }
            Duration::from_millis(limit.parse().unwrap())
        }
        Err(_) => TIMEOUT,
    }
}

pub fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().into()
}

/// Not eprintln: the test harness hides what a passing test prints.
fn say(line: &str) {
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

fn not_loaded(error: &Error) -> ! {
    say(&format!(
        "the kernel half of this test does not load: {error:?}\n"
    ));
    std::process::exit(NOT_LOADED)
}

pub fn skip(error: &Error) {
    if env::var_os("FLEXGUARD_REQUIRE_BPF").is_some_and(|value| value == "1") {
        panic!("BPF is required here: {error}");
    }
    say_skipped(&error.to_string());
}

/// Whether this is root. If not, the test is skipped.
pub fn is_root() -> bool {
    let root = Uid::effective().is_root();
    if !root {
        say_skipped("needs root");
    }
    root
}

/// scripts/check shows the line, and counts it as a failure with FLEXGUARD_REQUIRE_BPF=1.
pub fn say_skipped(why: &str) {
    let test = thread::current();
    say(&format!("SKIPPED: {}: {why}\n", test.name().unwrap_or("?")));
}

impl Running {
    pub fn serve(monitor: Monitor, name: String) -> Running {
        let monitor = Arc::new(monitor);
        let stop = Stop::new().unwrap();
        let thread = thread::spawn({
            let (monitor, stop) = (monitor.clone(), stop.clone());
            move || monitor.serve(&stop)
        });
        Running {
            monitor,
            name,
            stop,
            thread: Some(thread),
        }
    }

    pub fn stats(&self) -> Stats {
        self.monitor.stats().unwrap()
    }

    pub fn connect(&self) -> UnixStream {
        connect(&self.name)
    }

    /// Sends `bytes` and returns the status of the answer.
    pub fn status_of(&self, bytes: &[u8]) -> i32 {
        status_of(&self.name, bytes)
    }

    /// Waits until the statistics are as wanted.
    pub fn wait_until(&self, what: &str, wanted: impl Fn(&Stats) -> bool) -> Stats {
        let deadline = Instant::now() + timeout();
        loop {
            let stats = self.stats();
            if wanted(&stats) {
                return stats;
            }
            assert!(
                Instant::now() < deadline,
                "waited in vain for {what}: {stats:?}"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs this executable again in another role, with this monitor's socket in its environment.
    pub fn helper(&self, role: &str) -> Helper {
        Helper::start(role, &self.name)
    }

    /// The same, once it has begun.
    pub fn ready(&self, role: &str) -> Helper {
        let mut helper = self.helper(role);
        assert_eq!(helper.hear(), "ready");
        helper
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        let served = self.thread.take().unwrap().join();
        if !thread::panicking() {
            served.unwrap().unwrap();
        }
    }
}

pub fn connect(name: &str) -> UnixStream {
    let address = SocketAddr::from_abstract_name(&name[1..]).unwrap();
    let stream = UnixStream::connect_addr(&address).unwrap();
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
    stream
}

/// The status of the monitor's answer to that.
pub fn status_of(name: &str, bytes: &[u8]) -> i32 {
    let mut stream = connect(name);
    match stream.write_all(bytes) {
        // A message may be refused before all of it is said; the answer is there nevertheless.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
            ) => {}
        written => written.unwrap(),
    }
    reply(&mut stream).status as i32
}

pub fn reply(stream: &mut UnixStream) -> fg_reply {
    let mut reply = fg_reply::new_zeroed();
    stream.read_exact(reply.as_mut_bytes()).unwrap();
    reply
}

/// Where a thread block might be, from the thread pointer.
pub const AN_OFFSET: i64 = if cfg!(target_arch = "aarch64") {
    4096
} else {
    -4096
};

pub fn registration(block_offset: i64, windows: &[fg_window]) -> Vec<u8> {
    registration_asking(block_offset, windows, 0)
}

fn registration_asking(block_offset: i64, windows: &[fg_window], flags: u64) -> Vec<u8> {
    let head = fg_registration {
        magic: FG_ABI_MAGIC,
        version: FG_ABI_VERSION,
        size: (size_of::<fg_registration>() + size_of_val(windows)) as u32,
        windows: windows.len() as u32,
        block_offset,
        flags,
    };
    [head.as_bytes(), windows.as_bytes()].concat()
}

/// Registers this process as a client does; returns the descriptor of the shared page.
pub fn register(name: &str, block_offset: i64, windows: &[fg_window]) -> OwnedFd {
    send_request(name, &registration(block_offset, windows)).0
}

/// The same, asking for something besides.
pub fn register_asking(name: &str, block_offset: i64, flags: u64) -> OwnedFd {
    send_request(name, &registration_asking(block_offset, &[], flags)).0
}

/// Asks for the list; returns its file.
pub fn ask_for_list(name: &str) -> fs::File {
    fs::File::from(send_request(name, &status_request(FG_STATUS_LIST)).0)
}

pub fn status_request(what: u32) -> Vec<u8> {
    let request = fg_status_request {
        magic: FG_STATUS_MAGIC,
        version: FG_ABI_VERSION,
        size: size_of::<fg_status_request>() as u32,
        what,
    };
    request.as_bytes().to_vec()
}

/// The same, asking for nothing; also returns the domain.
pub fn register_in_domain(name: &str, block_offset: i64) -> (OwnedFd, u32) {
    send_request(name, &registration(block_offset, &[]))
}

fn send_request(name: &str, message: &[u8]) -> (OwnedFd, u32) {
    let mut stream = connect(name);
    stream.write_all(message).unwrap();
    let mut reply = [0; size_of::<fg_reply>()];
    let mut parts = [IoSliceMut::new(&mut reply)];
    let mut space = nix::cmsg_space!(RawFd);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    // With a time limit it is interrupted when this process was stopped, or frozen, and goes on.
    let message = loop {
        match recvmsg::<UnixAddr>(stream.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Err(Errno::EINTR) => {}
            received => break received.unwrap(),
        }
    };
    let fds: Vec<RawFd> = message
        .cmsgs()
        .unwrap()
        .flat_map(|control| {
            if let ControlMessageOwned::ScmRights(fds) = control {
                fds
            } else {
                vec![]
            }
        })
        .collect();
    let reply = fg_reply::read_from_bytes(&reply).unwrap();
    assert_eq!(
        (reply.magic, reply.version, reply.status),
        (FG_ABI_MAGIC, FG_ABI_VERSION, 0)
    );
    assert_eq!(fds.len(), 1);
    // SAFETY: the kernel has just installed it for us; nobody else knows it.
    (unsafe { OwnedFd::from_raw_fd(fds[0]) }, reply.number)
}

/// Held while a test's real-time threads take turns on a CPU: with those of another test between them, neither test would
/// ever end. All copies of this executable have it in common.
pub fn take_turns_alone() -> fs::File {
    let this = fs::File::open(env::current_exe().unwrap()).unwrap();
    this.lock().unwrap();
    this
}

/// What `command` starts is killed when the thread that starts it ends, whatever ends that.
pub fn ends_with_us(command: &mut Command) -> &mut Command {
    let parent = Pid::this();
    // SAFETY: between fork and exec; system calls alone.
    unsafe {
        command.pre_exec(move || {
            die_with(parent);
            Ok(())
        })
    }
}

/// A helper process. Dropping it kills it with SIGKILL and reaps it.
pub struct Helper {
    /// The harness that has forked the role and waits for it.
    harness: Child,
    role: Pid,
    lines: BufReader<ChildStdout>,
}

impl Helper {
    pub fn start(role: &str, socket: &str) -> Helper {
        let mut harness = ends_with_us(&mut Command::new(env::current_exe().unwrap()))
            .args([
                "--ignored",
                "--exact",
                "helper",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(ROLE_ENV, role)
            .env("FLEXGUARD_SOCKET", socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(harness.stdout.take().unwrap());
        let mut helper = Helper {
            harness,
            role: Pid::this(),
            lines,
        };
        helper.role = Pid::from_raw(helper.hear().parse().unwrap());
        helper
    }

    /// In a role that is a monitor in a process of its own, with the name of its socket; None: the test is skipped.
    pub fn monitor(role: &str) -> Option<(Helper, String)> {
        let mut monitor = Helper::start(role, "");
        let name = monitor.hear();
        (name != "skipped").then_some((monitor, name))
    }

    pub fn pid(&self) -> i32 {
        self.role.as_raw()
    }

    /// The next line that the role itself says (see victim::say), without its mark.
    pub fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.lines.read_line(&mut line).unwrap(),
                0,
                "the helper has ended early"
            );
            if let Some((_, said)) = line.trim_end().split_once("SAYS ") {
                return said.to_owned();
            }
        }
    }

    /// Lets the role go on from victim::wait_for_go.
    pub fn go(&mut self) {
        self.harness
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"go\n")
            .unwrap();
    }

    /// From here on it gets no CPU beside a starving hog. Before that is there, and after it has gone, it must not be so:
    /// beside a usual hog, which another test may have, it would get its CPU about once a second.
    pub fn starve(&self) {
        self.set_policy(libc::SCHED_IDLE);
    }

    pub fn starve_no_more(&self) {
        self.set_policy(libc::SCHED_OTHER);
    }

    fn set_policy(&self, policy: i32) {
        let usual = libc::sched_param { sched_priority: 0 };
        // SAFETY: the record outlives the call.
        let set = unsafe { libc::sched_setscheduler(self.pid(), policy, &usual) };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }

    /// Waits for its own end.
    pub fn wait(&mut self) {
        self.harness.wait().unwrap();
    }

    /// kill -9, and reaped.
    pub fn kill(&mut self) {
        kill(self.role, Signal::SIGKILL).unwrap();
        self.wait();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The role dies with it.
        let _ = self.harness.kill();
        let _ = self.harness.wait();
    }
}

pub fn pidfd(pid: i32) -> OwnedFd {
    pidfd_open(
        rustix::process::Pid::from_raw(pid).unwrap(),
        PidfdFlags::empty(),
    )
    .unwrap()
}
