// SPDX-License-Identifier: MIT
//! Signals: what this process inherited, what it holds back while a program runs, and how it ends by one.
//!
//! The program must find signals as our caller left them. Rust's start-up ignores SIGPIPE before `main`, so its inherited
//! disposition is noted earlier, by a function in `.init_array`.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;

use crate::failure::{Context, Result};

/// A handler does not survive an exec: a disposition is inherited as "ignore" or as the default.
static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
static SIGCHLD_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
static INHERITED_MASK: OnceLock<SigSet> = OnceLock::new();
/// Where the signals that `hold` holds back are read.
static HELD: OnceLock<SignalFd> = OnceLock::new();

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_DISPOSITIONS: extern "C" fn() = note_dispositions;

extern "C" fn note_dispositions() {
    SIGPIPE_WAS_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    SIGCHLD_WAS_IGNORED.store(is_ignored(libc::SIGCHLD), Ordering::Relaxed);
}

/// Is the signal ignored now? Before `hold`, that is what our caller left.
pub fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action makes this a query; all-zero is a valid sigaction should the query fail.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Every signal that can be sent to us and be meant for the program, real-time signals included. Left out: what the CPU
/// raises (blocking it is undefined), what cannot be blocked, and the limits on our own resources.
fn asynchronous() -> SigSet {
    use Signal::*;
    const LEFT_OUT: [Signal; 13] = [
        SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPIPE,
        SIGXCPU, SIGXFSZ, SIGSTKFLT,
    ];
    let mut set = SigSet::all();
    LEFT_OUT.into_iter().for_each(|signal| set.remove(signal));
    set
}

/// Remembers the mask that our caller left, once. Starting a program empties it, so it must be known to be restored.
pub fn note_mask() {
    INHERITED_MASK.get_or_init(|| SigSet::thread_get_mask().unwrap_or(SigSet::empty()));
}

/// Holds every asynchronous signal back, in this thread and those it starts from now on; `wait` then takes them one by one.
/// Call before the first thread starts.
pub fn hold() -> Result<()> {
    note_mask();
    let doing = "cannot hold signals back";
    asynchronous().thread_block().context(doing)?;
    if HELD.get().is_none() {
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let held = SignalFd::with_flags(&asynchronous(), flags).context(doing)?;
        HELD.get_or_init(|| held);
    }
    // If our caller ignored SIGCHLD, the kernel would reap the program before we can ask for its status.
    // SAFETY: the default disposition calls no code of ours.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }.context(doing)?;
    Ok(())
}

/// Gives a program about to be executed the signals as our caller left them. Async-signal-safe: runs between fork and exec.
pub fn restore_inherited() -> io::Result<()> {
    let handler = |ignored: &AtomicBool| match ignored.load(Ordering::Relaxed) {
        true => SigHandler::SigIgn,
        false => SigHandler::SigDfl,
    };
    // SAFETY: "ignore" and the default call no code of ours.
    unsafe {
        signal(Signal::SIGPIPE, handler(&SIGPIPE_WAS_IGNORED))?;
        signal(Signal::SIGCHLD, handler(&SIGCHLD_WAS_IGNORED))?;
    }
    if let Some(mask) = INHERITED_MASK.get() {
        mask.thread_set_mask()?;
    }
    Ok(())
}

/// A signal that was sent to this process.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    pub number: i32,
    /// Sent by the kernel: the terminal, which tells the whole foreground group, not us alone.
    pub by_kernel: bool,
    /// The process that sent it, where that is known; else 0.
    pub sender: libc::pid_t,
}

/// Takes the next signal that `hold` has held back; None once `limit` has passed.
pub fn wait(limit: Option<Duration>) -> Option<Received> {
    let held = HELD
        .get()
        .expect("signals are held before anybody waits for one");
    let deadline = limit.map(|limit| Instant::now() + limit);
    loop {
        if let Ok(Some(info)) = held.read_signal() {
            let by_process = matches!(
                info.ssi_code,
                libc::SI_USER | libc::SI_TKILL | libc::SI_QUEUE
            );
            return Some(Received {
                number: info.ssi_signo as i32,
                by_kernel: info.ssi_code == libc::SI_KERNEL,
                sender: if by_process {
                    info.ssi_pid as libc::pid_t
                } else {
                    0
                },
            });
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let mut fds = [PollFd::new(held.as_fd(), PollFlags::POLLIN)];
        if ppoll(&mut fds, left.map(TimeSpec::from), None) == Ok(0) {
            return None;
        }
    }
}

/// Sends a signal to a process, or to a group if the number is negative. A process that has gone receives nothing.
pub fn send(process: libc::pid_t, signal: i32) {
    // SAFETY: no pointers are passed. (nix knows no real-time signals, which a program may use.)
    unsafe { libc::kill(process, signal) };
}

/// Ends this process by `signal`, as the program it stood for was ended; without a core dump, which would be ours, not the program's.
pub fn die_by(signal: i32) -> ! {
    // A program that handles core dumps through a pipe ignores the limit but respects undumpable. If either fails, we
    // still end.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = prctl::set_dumpable(false);
    let mut only = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set before it is used, and no handler of ours is installed.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, only.as_ptr(), ptr::null_mut());
        libc::raise(signal);
    }
    // Only a signal whose default is not to end a process gets here.
    std::process::exit(128 + signal)
}
