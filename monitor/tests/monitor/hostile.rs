// SPDX-License-Identifier: MIT
//! Clients that mean harm: to another user's program, and to all that watch the heartbeat.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, IoSlice, Read, Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flexguard_abi::{fg_reply, fg_shared, fg_window};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, recv, sendmsg, setsockopt, sockopt};
use nix::unistd::{ForkResult, Gid, Uid, getppid, pause};
use zerocopy::{FromZeros, IntoBytes};

use crate::domains::{Group, become_user};
use crate::harness::{
    AN_OFFSET, ANSWER_TIMEOUT, Helper, Running, connect, is_root, pidfd, register, registration,
    reply, start,
};
use crate::lifecycle::{map_page, read_page};
use crate::logged::{assert_refusal_logged, listen};
use crate::privileges::{NOBODY, become_least, become_nobody};
use crate::victim::{
    block_offset, die_with, fork_to_die_together, helper_command, pin, say, wait_for_go,
};

/// Nobody connects, leaves the socket to a child, and becomes a setuid or setgid program. Once that runs, the child sends
/// the message: the kernel says that it comes from that program.
pub fn play_setuid(socket: &str, cat: &str) {
    become_nobody();
    let mut stream = connect(socket);
    fcntl(&stream, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let (theirs, mut to_cat) = pipe().unwrap();
    let (mut from_cat, their_out) = pipe().unwrap();
    // SAFETY: this process has one thread.
    if let ForkResult::Parent { .. } = unsafe { fork_to_die_together() } {
        let error = Command::new(cat).stdin(theirs).stdout(their_out).exec();
        panic!("exec: {error}");
    }
    to_cat.write_all(b"!").unwrap();
    from_cat.read_exact(&mut [0]).unwrap();
    let window = fg_window {
        begin: 0x1000,
        end: 0x1100,
        ..Default::default()
    };
    let program = fs::metadata(format!("/proc/{}", getppid())).unwrap();
    stream
        .write_all(&registration(AN_OFFSET, &[window]))
        .unwrap();
    let status = reply(&mut stream).status;
    say(&format!("{}:{} {status}", program.uid(), program.gid()));
    wait_for_go(); // holds the pipe, so that the program runs on; to the end of the test at most
}

const SETUID: u32 = 0o4755;
const SETGID: u32 = 0o2755;

/// Of that user and group.
fn copy_with_mode(program: &str, to: &Path, owner: [u32; 2], mode: u32) {
    let [user, group] = owner.map(Some);
    fs::copy(program, to).unwrap();
    fs::set_permissions(to.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(to, user, group).unwrap(); // first: it takes the bits
    fs::set_permissions(to, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn nobody_can_have_a_setuid_or_setgid_program_watched() {
    let Some(running) = start() else { return };
    if !is_root() {
        return; // nobody to become
    }
    let directory = tempfile::tempdir().unwrap();
    listen();
    for (mode, runs_as) in [(SETUID, [0, NOBODY]), (SETGID, [NOBODY, 0])] {
        let cat = directory.path().join(format!("cat-{mode:o}"));
        copy_with_mode("/bin/cat", &cat, [0, 0], mode);
        let mut helper = running.helper(&format!("setuid {}", cat.display()));
        // The answer comes while that program runs.
        let said = helper.hear();
        let [user, group] = runs_as;
        let expected = format!("{user}:{group} {}", libc::EPERM);
        assert_eq!(said, expected, "is the temporary directory mounted nosuid?");
        let registered = running
            .monitor
            .registration(pidfd(helper.pid()).as_fd())
            .unwrap();
        assert_eq!(registered, None);
        assert_eq!(running.stats().registered_processes, 0);
        assert_refusal_logged(helper.pid(), NOBODY, Errno::EPERM);
    }
}

/// Nobody connects, leaves the socket to a child, and becomes a program of user or group 65533 that drops to nobody's ids,
/// but for its saved one.
pub fn play_saved_id(socket: &str, program: &str) {
    become_nobody();
    let mut stream = connect(socket);
    fcntl(&stream, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let (mut from_program, their_out) = pipe().unwrap();
    // SAFETY: this process has one thread.
    if let ForkResult::Parent { .. } = unsafe { fork_to_die_together() } {
        let error = helper_command(program, "dropped").stdout(their_out).exec();
        panic!("exec: {error}");
    }
    drop(their_out);
    let mut said = [0; 4096];
    while !String::from_utf8_lossy(&said).contains("SAYS dropped") {
        assert_ne!(from_program.read(&mut said).unwrap(), 0);
    }
    stream.write_all(&registration(AN_OFFSET, &[])).unwrap();
    say(&reply(&mut stream).status.to_string());
    nix::sys::signal::kill(getppid(), nix::sys::signal::Signal::SIGKILL).unwrap();
}

/// The program that play_saved_id becomes: only its saved id tells. Without the role's process of its own: the id that
/// matters is this process's.
pub fn play_dropped() {
    let real = (Uid::current(), Gid::current());
    assert_ne!(
        (Uid::effective(), Gid::effective()),
        real,
        "mounted nosuid?"
    );
    let harness = getppid();
    nix::unistd::setegid(real.1).unwrap();
    nix::unistd::seteuid(real.0).unwrap();
    nix::sys::prctl::set_dumpable(true).unwrap();
    die_with(harness);
    say("dropped");
    thread::sleep(ANSWER_TIMEOUT); // until it is killed
}

#[test]
fn a_saved_id_is_an_id() {
    let Some(running) = start() else { return };
    if !is_root() {
        return; // nobody to become
    }
    let directory = tempfile::tempdir().unwrap();
    let this = std::env::current_exe().unwrap();
    listen();
    for (mode, owner) in [(SETUID, [65533, 0]), (SETGID, [0, 65533])] {
        let program = directory.path().join(format!("program-{mode:o}"));
        copy_with_mode(this.to_str().unwrap(), &program, owner, mode);
        let mut helper = running.helper(&format!("saved-id {}", program.display()));
        assert_eq!(helper.hear().parse(), Ok(libc::EPERM), "{mode:o}");
        assert_refusal_logged(helper.pid(), NOBODY, Errno::EPERM);
        assert_eq!(running.stats().registered_processes, 0);
    }
}

/// Its user may not trace it, so its user must not have it watched.
pub fn play_untraceable(socket: &str) {
    become_nobody();
    nix::sys::prctl::set_dumpable(false).unwrap();
    let mut stream = connect(socket);
    stream.write_all(&registration(AN_OFFSET, &[])).unwrap();
    say(&reply(&mut stream).status.to_string());
}

#[test]
fn who_cannot_be_traced_cannot_be_registered() {
    let Some(running) = start() else { return };
    if !is_root() {
        return; // nobody to become
    }
    let mut helper = running.helper("untraceable");
    assert_eq!(helper.hear().parse(), Ok(libc::EPERM));
    assert_eq!(running.stats().registered_processes, 0);
}

/// More than the monitor lets register. 30,000 fit into no default pid_max beside the other tests: a long check.
const THREADS: usize = 4097;
const THREADS_ENV: &str = "FLEXGUARD_TEST_THREADS";
const STACK: usize = 16384;

extern "C" fn stay(_: *mut libc::c_void) -> *mut libc::c_void {
    loop {
        nix::unistd::pause();
    }
}

/// Their stacks are one mapping: a process has no more than 65,530.
pub fn start_threads(threads: usize) {
    let (protection, flags) = (
        ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
        MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE,
    );
    let length = (threads * STACK).try_into().unwrap();
    // SAFETY: a new mapping at an address of the kernel's choice.
    let stacks = unsafe { mmap_anonymous(None, length, protection, flags) }.unwrap();
    for n in 0..threads {
        // SAFETY: each thread has a part of the mapping for itself, which is never unmapped; `stay` looks at nothing.
        unsafe {
            let (mut attributes, mut thread) = (std::mem::zeroed(), 0);
            assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
            let stack = stacks.byte_add(n * STACK).as_ptr();
            assert_eq!(
                libc::pthread_attr_setstack(&mut attributes, stack, STACK),
                0
            );
            let made = libc::pthread_create(&mut thread, &attributes, stay, std::ptr::null_mut());
            assert_eq!(made, 0, "thread {n} of {threads}");
        }
    }
}

/// All of its threads would be walked at each message.
pub fn play_many_threads(socket: &str) {
    start_threads(std::env::var(THREADS_ENV).map_or(THREADS, |n| n.parse().unwrap()));
    let begin = Instant::now();
    let mut stream = connect(socket);
    stream.write_all(&registration(AN_OFFSET, &[])).unwrap();
    say(&reply(&mut stream).status.to_string());
    say(&begin.elapsed().as_micros().to_string());
    wait_for_go();
}

#[test]
fn a_process_with_a_crowd_of_threads_is_refused_and_delays_nobody() {
    listen();
    let Some(running) = start() else { return };
    let mut helper = running.helper("many-threads");
    assert_eq!(helper.hear().parse(), Ok(libc::E2BIG));
    eprintln!("refused after {} us", helper.hear());
    assert_refusal_logged(helper.pid(), Uid::effective().as_raw(), Errno::E2BIG);
    assert_eq!(running.status_of(&registration(AN_OFFSET, &[])), 0);
}

/// What a user may have of a monitor that has seen nothing of it before, in connections.
pub struct Allowance {
    begin: Instant,
    had: usize,
}

impl Allowance {
    const BURST: usize = 4000;
    const RATE: f64 = 1000.0;

    pub fn from_now() -> Allowance {
        Allowance {
            begin: Instant::now(),
            had: 0,
        }
    }

    /// Now that the user has been allowed that, too: whatever the machine does meanwhile, so much time has passed.
    pub fn is_exceeded_by(&mut self, price: usize) -> bool {
        self.had += price;
        let filled = self.begin.elapsed().as_secs_f64() * Self::RATE;
        self.had > Self::BURST + filled.ceil() as usize
    }
}

/// Takes as many places as it gets, then as many connections as it is allowed.
pub fn play_crowd(socket: &str) {
    become_nobody();
    let crowd: Vec<_> = (0..200).map(|_| connect(socket)).collect();
    say("there");
    wait_for_go();
    drop(crowd);
    let mut allowance = Allowance::from_now();
    for _ in 0..20_000 {
        let mut stream = connect(socket);
        let _ = stream.write_all(b"garbage!"); // it may have hung up already
        if reply(&mut stream).status as i32 == libc::EAGAIN {
            return say("refused");
        }
        if allowance.is_exceeded_by(1) {
            return say("too much");
        }
    }
    say("served");
}

#[test]
fn a_crowd_of_one_user_keeps_another_neither_from_a_place_nor_from_a_turn() {
    let Some(running) = start() else { return };
    if !is_root() {
        return; // nobody to become
    }
    listen();
    let mut crowd = running.helper("crowd");
    let mut slow = running.connect();
    let message = registration(AN_OFFSET, &[]);
    slow.write_all(&message[..8]).unwrap();
    assert_eq!(crowd.hear(), "there");
    slow.write_all(&message[8..]).unwrap();
    assert_eq!(reply(&mut slow).status, 0);
    crowd.go();
    let end = crowd.hear();
    // "served": the machine is so slow that it was no more than it may have.
    assert_ne!(end, "too much");
    if end == "refused" {
        assert_refusal_logged(crowd.pid(), NOBODY, Errno::EAGAIN);
    }
    assert_eq!(running.status_of(&message), 0);
}

/// The most answers that a monitor with enough open files lets one user leave unread.
const UNREAD: usize = 1024;

/// Registers, and leaves the answer unread. Returns what it says.
fn ask(socket: &str) -> (UnixStream, i32) {
    let mut stream = connect(socket);
    let message = registration(block_offset(), &[]);
    stream.write_all(&message).unwrap();
    let mut fds = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, PollTimeout::from(30_000u16)), Ok(1));
    let mut answer = fg_reply::new_zeroed();
    let flags = MsgFlags::MSG_PEEK;
    let read = recv(stream.as_raw_fd(), answer.as_mut_bytes(), flags).unwrap();
    assert_eq!(read, size_of::<fg_reply>());
    (stream, answer.status as i32)
}

/// Registers again and again until the monitor refuses. Returns the answers, and what the last one says.
fn hoard(socket: &str) -> (Vec<UnixStream>, i32) {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let mut unread = vec![];
    loop {
        let (stream, status) = ask(socket);
        if status != 0 {
            return (unread, status);
        }
        unread.push(stream);
    }
}

/// Of this user, reads no answer until the monitor refuses; then drops all of them.
pub fn play_unread(socket: &str, uid: u32) {
    become_user(uid);
    let (unread, status) = hoard(socket);
    say(&format!("{} {status}", unread.len()));
    wait_for_go();
    drop(unread);
    say(&ask(socket).1.to_string());
    wait_for_go();
}

/// One of its ids reads no answer until the monitor refuses. Then another id registers, and says what came of it.
pub fn play_range(socket: &str) {
    let (mut hears, mut tells) = pipe().unwrap();
    // SAFETY: this process has one thread.
    if let ForkResult::Child = unsafe { fork_to_die_together() } {
        become_user(1);
        let _unread = hoard(socket);
        tells.write_all(b".").unwrap();
        loop {
            pause();
        }
    }
    drop(tells);
    hears.read_exact(&mut [0]).unwrap();
    // SAFETY: as above. This process stays root: at its end, another user could not end the first.
    if let ForkResult::Child = unsafe { fork_to_die_together() } {
        become_user(2);
        say(&ask(socket).1.to_string());
    }
    loop {
        pause();
    }
}

/// Otherwise a user who has a range of ids would have the share of each of them.
#[test]
fn the_ids_of_a_user_namespace_leave_answers_unread_together() {
    let Some(running) = start() else { return };
    if !is_root() {
        return; // nobody to become
    }
    for owner in [NOBODY, 0] {
        let Some(group) = Group::new() else { return };
        let mut range = group.helper(&running, &format!("within {owner} range"));
        assert_eq!(range.hear(), libc::EBUSY.to_string(), "made by {owner}");
        assert_eq!(running.status_of(&registration(AN_OFFSET, &[])), 0);
    }
}

#[test]
fn a_user_who_reads_no_answers_is_refused_and_no_other_user_is() {
    let Some(running) = start() else { return };
    if !is_root() {
        return; // nobody to become
    }
    listen();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let most = UNREAD.min(soft as usize / 4);
    assert!(hard as usize > most + 100, "too few open files");
    let mut hoarder = running.helper(&format!("unread {NOBODY}"));
    assert_eq!(hoarder.hear(), format!("{most} {}", libc::EBUSY));
    assert_refusal_logged(hoarder.pid(), NOBODY, Errno::EBUSY);
    assert_eq!(running.status_of(&registration(AN_OFFSET, &[])), 0);
    hoarder.go();
    assert_eq!(hoarder.hear(), "0", "it may have more again");
}

/// Open files of a monitor that has few: half of them may be ends of unread answers, an eighth those of one user, and half of
/// the former are for users who have one or none.
const FEW: usize = 100;

/// The kernel counts the descriptors under way by user, so the user is one that no other test has, in no process.
pub fn play_few_files() {
    become_least(200_000 + std::process::id());
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, FEW as u64, hard).unwrap();
    crate::privileges::serve_here("few-files");
}

#[test]
fn where_users_read_no_answers_there_is_one_for_another_user() {
    if start().is_none() || !is_root() {
        return; // no user to become
    }
    let mut monitor = Helper::start("few-files", "");
    let socket = monitor.hear();
    let mut hoarder = vec![];
    for (uid, most) in [(65531, FEW / 8), (65532, FEW / 8), (65533, 2), (65534, 2)] {
        let mut one = Helper::start(&format!("unread {uid}"), &socket);
        assert_eq!(one.hear(), format!("{most} {}", libc::EBUSY), "{uid}");
        hoarder.push(one);
    }
    for one in &mut hoarder {
        one.go();
        assert_eq!(one.hear(), "0", "they may have more again");
    }
}

/// Registers, then becomes a program in which all threads would be critical by what was registered.
pub fn play_exec_of_critical(socket: &str) {
    register(socket, block_offset(), &[]);
    let error = helper_command(std::env::current_exe().unwrap(), "held-unregistered").exec();
    panic!("exec: {error}");
}

pub fn play_held_unregistered() {
    crate::victim::with_block(|block| block.held = 1);
    pin();
    say(&nix::unistd::gettid().to_string());
    crate::victim::spin_for_ever()
}

/// The page, mapped before anything hostile happens.
fn page_of(running: &Running) -> NonNull<fg_shared> {
    let fd = register(&running.name, block_offset(), &[]);
    map_page(&fd, ProtFlags::PROT_READ).unwrap()
}

fn assert_that_it_beats(page: NonNull<fg_shared>) {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    for _ in 0..3 {
        let last = read_page(page).heartbeat_ns;
        while read_page(page).heartbeat_ns == last {
            assert!(Instant::now() < deadline, "the heart stands still");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn set_linger(stream: &TcpStream, time: Option<Duration>) {
    let linger = libc::linger {
        l_onoff: time.is_some().into(),
        l_linger: time.map_or(0, |time| time.as_secs() as i32),
    };
    setsockopt(stream, sockopt::Linger, &linger).unwrap();
}

/// A TCP connection with much to say to an end that does not listen.
fn unheard() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut speaker = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let deaf = listener.accept().unwrap().0;
    speaker.set_nonblocking(true).unwrap();
    loop {
        match speaker.write(&[0; 65536]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (speaker, deaf),
            Err(error) => panic!("{error}"),
        }
    }
}

/// To close the last descriptor of a connection that lingers is to wait.
#[test]
fn a_descriptor_that_is_slow_to_close_does_not_stop_the_heart() {
    let Some(running) = start() else { return };
    let page = page_of(&running);
    let (slow, deaf) = unheard();
    set_linger(&slow, Some(2 * ANSWER_TIMEOUT));
    let client = running.connect();
    let sent = sendmsg::<UnixAddr>(
        client.as_raw_fd(),
        &[IoSlice::new(b"garbage")],
        &[ControlMessage::ScmRights(&[slow.as_raw_fd()])],
        MsgFlags::empty(),
        None,
    );
    // Linux 6.16 and newer refuse to send it. Elsewhere the monitor has the last one now.
    if sent == Err(Errno::EPERM) {
        set_linger(&slow, None);
    } else {
        sent.unwrap();
    }
    drop(slow);
    assert_that_it_beats(page);
    drop(deaf); // ends the linger
}

#[test]
fn a_flood_of_connections_stops_neither_the_heart_nor_the_end() {
    let Some(running) = start() else { return };
    let page = page_of(&running);
    let name = running.name.clone();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let address = SocketAddr::from_abstract_name(&name[1..]).unwrap();
                while !ended.load(Ordering::Relaxed) {
                    let _ = UnixStream::connect_addr(&address); // refused at the end
                }
            });
        }
        assert_that_it_beats(page);
        drop(running);
        ended.store(true, Ordering::Relaxed);
    });
}
