// SPDX-License-Identifier: MIT
//! Signals: what this process inherited, what it holds back while a program runs, and how it ends by one.
//!
//! The program must find signals as our caller left them. Rust's start-up ignores SIGPIPE before `main`, so its inherited
//! disposition is noted earlier, by a function in `.init_array`.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// SIG_DFL or SIG_IGN: nothing else survives an exec.
static INHERITED_SIGPIPE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static INHERITED_SIGCHLD: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static INHERITED_MASK: OnceLock<Mask> = OnceLock::new();

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_DISPOSITIONS: extern "C" fn() = note_dispositions;

extern "C" fn note_dispositions() {
    INHERITED_SIGPIPE.store(disposition(libc::SIGPIPE), Ordering::Relaxed);
    INHERITED_SIGCHLD.store(disposition(libc::SIGCHLD), Ordering::Relaxed);
}

fn disposition(signal: i32) -> usize {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action makes this a query; all-zero is a valid sigaction should the query fail.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction
    }
}

#[derive(Clone, Copy)]
struct Mask(libc::sigset_t);

impl Mask {
    fn empty() -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the set it is given.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            Self(set.assume_init())
        }
    }

    fn with(mut self, signal: i32) -> Self {
        // SAFETY: the set is initialised; a bad number is refused with EINVAL and changes nothing.
        unsafe { libc::sigaddset(&mut self.0, signal) };
        self
    }

    /// Everything that can be sent to us and be meant for the program. Left out: what the CPU raises (blocking it is undefined),
    /// what cannot be blocked, the limits on our own resources, and the two that the C library keeps for itself.
    fn asynchronous() -> Self {
        use libc::*;
        const LEFT_OUT: [i32; 13] = [
            SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPIPE,
            SIGXCPU, SIGXFSZ, SIGSTKFLT,
        ];
        (1..=SIGRTMAX())
            .filter(|s| !LEFT_OUT.contains(s) && !(32..SIGRTMIN()).contains(s))
            .fold(Self::empty(), Self::with)
    }

    fn apply(&self, how: i32) -> Self {
        let mut old = Self::empty();
        // SAFETY: both sets are initialised and live for the call.
        unsafe { libc::pthread_sigmask(how, &self.0, &mut old.0) };
        old
    }
}

/// Remembers the mask that our caller left, once. Starting a program empties it, so it must be known to be restored.
pub fn note_mask() {
    INHERITED_MASK.get_or_init(|| Mask::empty().apply(libc::SIG_BLOCK));
}

/// Holds every asynchronous signal back, in this thread and those it starts from now on; `wait` then takes them one by one.
/// Call before the first thread starts.
pub fn hold() {
    note_mask();
    Mask::asynchronous().apply(libc::SIG_BLOCK);
    // An inherited "ignore" would make the kernel reap the program before we can ask for its status.
    // SAFETY: SIG_DFL is a valid disposition and no other thread handles SIGCHLD.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Gives a program about to be executed the signals as our caller left them. Async-signal-safe: runs between fork and exec.
pub fn restore_inherited() {
    // SAFETY: signal() with SIG_DFL or SIG_IGN is async-signal-safe and takes no pointers.
    unsafe {
        libc::signal(libc::SIGPIPE, INHERITED_SIGPIPE.load(Ordering::Relaxed));
        libc::signal(libc::SIGCHLD, INHERITED_SIGCHLD.load(Ordering::Relaxed));
    }
    if let Some(mask) = INHERITED_MASK.get() {
        mask.apply(libc::SIG_SETMASK);
    }
}

/// A signal that was sent to this process.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    pub number: i32,
    /// Sent by the kernel: the terminal, which tells the whole foreground group, not us alone.
    pub by_kernel: bool,
    /// Who sent it, where that is known; else 0.
    pub sender: libc::pid_t,
}

/// Takes the next held signal; None once `limit` has passed.
pub fn wait(limit: Option<Duration>) -> Option<Received> {
    let set = Mask::asynchronous();
    let limit = limit.map(|d| libc::timespec {
        tv_sec: d.as_secs() as libc::time_t,
        tv_nsec: d.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        // SAFETY: set and info live for the call; limit is null or points to a timespec that does.
        let number = unsafe { libc::sigtimedwait(&set.0, info.as_mut_ptr(), limit) };
        if number > 0 {
            // SAFETY: the call filled it in; si_pid is plain data, meaningful only for signals sent by a process.
            let (code, sender) = unsafe {
                (
                    info.assume_init_ref().si_code,
                    info.assume_init_ref().si_pid(),
                )
            };
            let by_process = matches!(code, libc::SI_USER | libc::SI_TKILL | libc::SI_QUEUE);
            return Some(Received {
                number,
                by_kernel: code == libc::SI_KERNEL,
                sender: if by_process { sender } else { 0 },
            });
        }
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return None;
        }
    }
}

/// Ends this process by `signal`, as the program it stood for was ended; without a core dump, which would be ours, not the program's.
pub fn die_by(signal: i32) -> ! {
    let no_core = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: plain system calls on this process. A core handler (a pipe) ignores the limit but respects undumpable.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &no_core);
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
    }
    Mask::empty().with(signal).apply(libc::SIG_UNBLOCK);
    // SAFETY: sends a signal to this thread only.
    unsafe { libc::raise(signal) };
    // Only a signal whose default is not to end a process gets here.
    std::process::exit(128 + signal)
}
