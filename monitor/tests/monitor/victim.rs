// SPDX-License-Identifier: MIT
//! The roles of the helper process: programs whose state at every instant is known, because it never changes.

use std::arch::asm;
use std::cell::UnsafeCell;
use std::env;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use flexguard_abi::*;
use nix::sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, getppid, gettid};
use zerocopy::FromZeros;

use crate::harness::{LANE_ENV, ROLE_ENV, register};
use crate::{census, domains, fair, hostile, notes, privileges, scale, sleepers, slices, stays};

#[repr(C, align(64))]
struct Block(UnsafeCell<fg_thread_block>);

impl Block {
    const fn new() -> Block {
        let zero = fg_thread_block {
            held: 0,
            self_: 0,
            node: 0,
            pending: 0,
            life: 0,
            parks: 0,
            spins: 0,
            lock_private: [0; 3],
        };
        Block(UnsafeCell::new(zero))
    }
}

// Constant initialisers and nothing to drop: plain TLS, at the same offset from the thread pointer in every thread.
thread_local! {
    static BLOCK: Block = const { Block::new() };
    static SECOND_BLOCK: Block = const { Block::new() };
}

/// `program`, a copy of this one, as it is to be started to play the role in this very process.
pub fn helper_command(program: impl AsRef<std::ffi::OsStr>, role: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args([
            "--ignored",
            "--exact",
            "helper",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ROLE_ENV, format!("here {role}"));
    command
}

/// Plays the role in a process that has no other threads than the role's own: the test harness's would be preempted,
/// too, and be counted among the registered ones.
pub fn play_alone(role: &str) {
    if let Some(role) = role.strip_prefix("here ") {
        return play_here(role);
    }
    // SAFETY: the harness's main thread only waits for this one, so the child finds no lock held by it.
    match unsafe { fork_to_die_together() } {
        ForkResult::Child => {
            say(&std::process::id().to_string());
            let played = std::panic::catch_unwind(|| play(role));
            std::process::exit(if played.is_ok() { 0 } else { 101 });
        }
        ForkResult::Parent { child } => drop(waitpid(child, None)),
    }
}

fn play_here(role: &str) {
    match role {
        "register-again" => census::play_register_again(),
        "dropped" => hostile::play_dropped(),
        "held-unregistered" => hostile::play_held_unregistered(),
        _ => panic!("no such role: {role}"),
    }
}

/// Or a helper would outlive a test that fails or is killed. The kernel forgets it when the user changes.
pub fn die_with(parent: Pid) {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).unwrap();
    if getppid() != parent {
        // SAFETY: ends this process, which has nothing to leave behind.
        unsafe { libc::_exit(1) } // it was dead before
    }
}

/// fork, but the child ends with its parent.
///
/// # Safety
///
/// As of fork.
pub unsafe fn fork_to_die_together() -> ForkResult {
    let parent = Pid::this();
    // SAFETY: the caller's.
    let forked = unsafe { fork() }.unwrap();
    if forked.is_child() {
        die_with(parent);
    }
    forked
}

fn play(role: &str) {
    let socket = env::var("FLEXGUARD_SOCKET").unwrap();
    match role.split_once(' ').unwrap_or((role, "")) {
        ("user", rest) => {
            let (uid, role) = rest.split_once(' ').unwrap();
            domains::become_user(uid.parse().unwrap());
            play(role);
        }
        ("cpu", rest) => {
            let (cpu, role) = rest.split_once(' ').unwrap();
            stay_on(cpu.parse().unwrap());
            play(role);
        }
        ("crowd-of-users", number) => domains::play_crowd(&socket, number),
        ("within", which) => domains::play_within(which, play),
        ("members", which) => census::play_members(&socket, which),
        ("wait", role) => {
            say("waiting");
            wait_for_go();
            play(role);
        }
        ("hog", _) => hog(),
        ("starving", _) => starving_hog(),
        ("spin", kind) => spin_as(&socket, kind),
        ("named", kind) => {
            name_block(gettid().as_raw() as u32);
            spin_as(&socket, kind);
        }
        ("lived", rest) => {
            let (life, kind) = rest.split_once(' ').unwrap();
            live(life.parse().unwrap());
            spin_as(&socket, kind);
        }
        ("called", name) => {
            name_block(name.parse().unwrap());
            spin_as(&socket, "held");
        }
        ("stand", place) => stand(&socket, place),
        ("yield", held) => yield_in_turn(&socket, held.parse().unwrap(), 0),
        ("hold-in-turn", us) => yield_in_turn(&socket, 1, us.parse().unwrap()),
        ("real-time", role) => {
            be_real_time();
            play(role);
        }
        ("odd-name", _) => register_with_an_odd_name(&socket),
        ("both", other) => register_with_both([&socket, other]),
        ("thread", _) => spin_in_a_thread(&socket),
        ("old-thread", _) => spin_in_an_old_thread(&socket),
        ("fork", _) => spin_in_a_child(&socket),
        ("pid-namespace", _) => spin_in_a_pid_namespace(&socket),
        ("exec", _) => exec(&socket),
        ("spawn", _) => spawn(&socket),
        ("sleep", held) => sleepers::play(&socket, held.parse().unwrap()),
        ("sleep-noted", _) => notes::play_sleep(&socket),
        ("stays", _) => stays::play(&socket),
        ("slices", flags) => slices::play(&socket, flags.parse().unwrap()),
        (role, rest) => play_client(&socket, role, rest),
    }
}

/// The roles that have more to do with the socket than with what the kernel half sees.
fn play_client(socket: &str, role: &str, rest: &str) {
    match (role, rest) {
        ("setuid", cat) => hostile::play_setuid(socket, cat),
        ("saved-id", program) => hostile::play_saved_id(socket, program),
        ("untraceable", _) => hostile::play_untraceable(socket),
        ("fuzz", _) => crate::fuzz::play(socket),
        ("thousand", _) => scale::play_thousand(socket),
        ("lives", _) => scale::play_lives(socket),
        ("serve", _) => scale::play_serve(),
        ("send", kind) => crate::logged::play_send(socket, kind),
        ("crowd", _) => hostile::play_crowd(socket),
        ("successor", _) => census::play_successor(socket),
        ("member", _) => census::play_member(socket),
        ("brood", number) => census::play_brood(socket, number.parse().unwrap()),
        ("wanting", _) => census::play_wanting(socket),
        ("spend", _) => fair::play_spend(socket),
        ("hammer", how) => fair::play_hammer(socket, how),
        ("range", _) => hostile::play_range(socket),
        ("flood", _) => fair::play_flood(socket),
        ("burst", _) => fair::play_burst(socket),
        ("serve-late", files) => fair::play_serve_late(files.parse().unwrap()),
        ("mixed", _) => fair::play_mixed(socket),
        ("again", what) => fair::play_again(socket, what),
        ("unread", uid) => hostile::play_unread(socket, uid.parse().unwrap()),
        ("few-files", _) => hostile::play_few_files(),
        ("many-threads", _) => hostile::play_many_threads(socket),
        ("exec-of-critical", _) => hostile::play_exec_of_critical(socket),
        ("unprivileged", _) => privileges::play_unprivileged(socket),
        ("least-privilege", _) => privileges::play_least_privilege(),
        ("no-btf", _) => privileges::play_no_btf(),
        _ => panic!("no such role: {role}"),
    }
}

pub fn say(what: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "SAYS {what}").unwrap();
    out.flush().unwrap();
}

pub fn wait_for_go() {
    io::stdin().read_line(&mut String::new()).unwrap();
}

fn thread_pointer() -> u64 {
    let tp: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: on x86-64 Linux the word at the thread pointer is its own address.
    unsafe {
        asm!("mov {}, fs:0", out(reg) tp, options(nostack, readonly, preserves_flags))
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) tp, options(nostack, nomem, preserves_flags))
    };
    tp
}

fn offset_of(block: &Block) -> i64 {
    block.0.get() as i64 - thread_pointer() as i64
}

pub fn block_offset() -> i64 {
    BLOCK.with(offset_of)
}

pub fn with_block(change: impl FnOnce(&mut fg_thread_block)) {
    // SAFETY: only this thread writes its block, and it holds no other reference to it.
    BLOCK.with(|block| change(unsafe { &mut *block.0.get() }));
}

/// To one of the CPUs we may use, that of the lane: victim and hog meet there.
pub fn pin() {
    let lane: usize = env::var(LANE_ENV).map_or(0, |lane| lane.parse().unwrap());
    let cpus = allowed_cpus();
    stay_on(cpus[lane % cpus.len()]); // one only where it is pinned already
}

pub fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count())
        .filter(|&cpu| allowed.is_set(cpu).unwrap())
        .collect()
}

pub fn stay_on(cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &one).unwrap();
}

/// A register that a window's condition may ask for.
const CONDITION: u32 = if cfg!(target_arch = "aarch64") {
    FG_REG_ARM64_X10
} else {
    FG_REG_CX
};

/// Counts `n` down with `value` in the register CONDITION. Returns the addresses between which it does so: its window is
/// (begin, end].
#[inline(never)] // or each copy would have a window of its own
fn spin(value: u64, n: u64) -> (u64, u64) {
    let (begin, end): (u64, u64);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: touches nothing but its operands.
    unsafe {
        asm!(
            "lea {begin}, [rip + 22f]",
            "lea {end}, [rip + 33f]",
            "22: nop",
            "23: sub {n}, 1",
            "jnz 23b",
            "33: nop",
            begin = out(reg) begin,
            end = out(reg) end,
            n = inout(reg) n => _,
            in("rcx") value,
            options(nostack, nomem),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: touches nothing but its operands.
    unsafe {
        asm!(
            "adr {begin}, 22f",
            "adr {end}, 33f",
            "22: nop",
            "23: subs {n}, {n}, #1",
            "b.ne 23b",
            "33: nop",
            begin = out(reg) begin,
            end = out(reg) end,
            n = inout(reg) n => _,
            in("x10") value,
            options(nostack, nomem),
        );
    }
    (begin, end)
}

pub fn spin_for_ever() -> ! {
    loop {
        spin(0, u64::MAX);
    }
}

fn hog() {
    pin();
    say("ready");
    spin_for_ever();
}

/// Leaves a thread of SCHED_IDLE on its CPU one tick in 30,000, and others one in 90 (see Helper::starve).
fn starving_hog() {
    // SAFETY: no pointers are passed.
    assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) }, 0);
    hog();
}

/// Stays at one instruction: the one at which a window begins, which is outside, or the one at which it ends, which is
/// inside.
fn stand(socket: &str, place: &str) {
    let here: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: touches nothing but its operand.
    unsafe {
        asm!("lea {}, [rip + 44f]", "jmp 55f", "44: jmp 44b", "55:", out(reg) here)
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: touches nothing but its operand.
    unsafe {
        asm!("adr {}, 44f", "b 55f", "44: b 44b", "55:", out(reg) here)
    };
    let (begin, end) = match place {
        "before-window" => (here, here + 64),
        "last-of-window" => (here - 64, here),
        _ => panic!("no such place: {place}"),
    };
    // The second one is elsewhere: the monitor first asks whether an address is near any window.
    let windows = [(begin, end), (here - 4096, here - 4000)].map(|(begin, end)| fg_window {
        begin,
        end,
        mask: 0,
        value: 0,
        reg: FG_REG_NONE,
        pad: 0,
    });
    pin();
    drop(register(socket, block_offset(), &windows));
    say("ready");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: never comes back, and touches nothing.
    unsafe {
        asm!("jmp {}", in(reg) here, options(noreturn))
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: never comes back, and touches nothing.
    unsafe {
        asm!("br {}", in(reg) here, options(noreturn))
    }
}

/// Threads of one CPU that are real-time and yield take turns in a fixed order, whatever else the machine does; without
/// the privilege for it, in some order.
pub fn be_real_time() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the record outlives the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) };
}

/// With so many locks, keeps its CPU for so long and hands it to the next of those that play this role, again and again.
fn yield_in_turn(socket: &str, held: i32, us: u64) {
    be_real_time();
    pin();
    with_block(|block| block.held = held);
    drop(register(socket, block_offset(), &[]));
    say("ready");
    wait_for_go();
    loop {
        let begin = stays::cpu_time();
        while us > 0 && stays::cpu_time() - begin < Duration::from_micros(us) {}
        thread::yield_now();
    }
}

/// What lock words call this thread.
fn name_block(name: u32) {
    with_block(|block| block.self_ = name);
}

/// The same of a thread that has a handle.
fn live(life: u32) {
    name_block(gettid().as_raw() as u32);
    with_block(|block| block.life = life);
}

/// `pending` points to a word that names `owner`.
fn intend(self_: u32, owner: u32) {
    let word = Box::leak(Box::new(owner));
    with_block(|block| {
        block.self_ = self_;
        block.pending = word as *const u32 as u64;
    });
}

fn queue(state: fg_node_state) {
    let node = Box::leak(Box::new(fg_queue_node {
        state,
        ..fg_queue_node::new_zeroed()
    }));
    with_block(|block| block.node = node as *const fg_queue_node as u64);
}

/// Takes on a state, registers, and stays in that state for ever.
#[expect(clippy::too_many_lines, reason = "a table of kinds")]
fn spin_as(socket: &str, kind: &str) {
    let tid = gettid().as_raw() as u32;
    let mut value = 0;
    let mut offset = block_offset();
    let (begin, end) = spin(0, 1);
    let condition = fg_window {
        begin,
        end,
        mask: 0xff,
        value: 7,
        reg: CONDITION,
        pad: 0,
    };
    let mut windows = vec![];
    match kind {
        "idle" => {}
        "held" => with_block(|block| block.held = 1),
        "held twice" => with_block(|block| block.held = 2),
        "foreign unlock" => with_block(|block| block.held = -1),
        "granted" => queue(FG_NODE_GRANTED),
        "waiting" => queue(FG_NODE_WAITING),
        "left" => queue(FG_NODE_LEFT),
        "granted and held" => {
            queue(FG_NODE_GRANTED);
            with_block(|block| block.held = 1);
        }
        "granted and owner" => {
            queue(FG_NODE_GRANTED);
            intend(tid, tid);
        }
        // The bits outside FG_OWNER_MASK are the lock's own.
        "owner" => intend(tid, tid | !FG_OWNER_MASK),
        "not owner" => intend(tid, tid + 1),
        "nobody" => intend(0, 0),
        "node nowhere" => with_block(|block| block.node = 8),
        "second image" => {
            // SAFETY: only this thread writes its block, and no other reference to it exists.
            SECOND_BLOCK.with(|block| unsafe { (*block.0.get()).held = 1 });
            drop(register(socket, offset, &[]));
            offset = SECOND_BLOCK.with(offset_of);
        }
        "window" => windows.push(fg_window {
            reg: FG_REG_NONE,
            ..condition
        }),
        "window elsewhere" => windows.push(fg_window {
            begin: end,
            end: end + 64,
            reg: FG_REG_NONE,
            ..condition
        }),
        "window true" => {
            windows.push(condition);
            value = 0x107;
        }
        "window false" => {
            windows.push(condition);
            value = 0x708;
        }
        _ => panic!("no such kind: {kind}"),
    }
    pin();
    drop(register(socket, offset, &windows));
    say("ready");
    loop {
        spin(value, u64::MAX);
    }
}

/// Its name is not UTF-8, as is a file's name that was cut in the middle of a character.
fn register_with_an_odd_name(socket: &str) {
    nix::sys::prctl::set_name(c"caf\xc3").unwrap();
    drop(register(socket, block_offset(), &[]));
    say("registered");
}

/// Registers with two monitors at the same moment.
fn register_with_both(sockets: [&str; 2]) {
    let together = Barrier::new(sockets.len());
    thread::scope(|scope| {
        for socket in sockets {
            scope.spawn(|| {
                together.wait();
                drop(register(socket, block_offset(), &[]));
            });
        }
    });
    say("ready");
    wait_for_go();
}

/// Another thread than the one that registered holds the lock.
fn spin_in_a_thread(socket: &str) {
    pin();
    drop(register(socket, block_offset(), &[]));
    let holder = thread::spawn(|| {
        with_block(|block| block.held = 1);
        say("ready");
        spin_for_ever()
    });
    holder.join().unwrap();
}

/// A thread that is older than the registration holds the lock.
fn spin_in_an_old_thread(socket: &str) {
    let socket = socket.to_owned();
    pin();
    let main = thread::current();
    thread::spawn(move || {
        with_block(|block| block.held = 1);
        main.unpark();
        spin_for_ever()
    });
    thread::park();
    drop(register(&socket, block_offset(), &[]));
    say("ready");
    loop {
        thread::park();
    }
}

/// A forked child is born holding the lock.
fn spin_in_a_child(socket: &str) {
    pin();
    with_block(|block| block.held = 1);
    drop(register(socket, block_offset(), &[]));
    // SAFETY: the child calls nothing that could need a lock of another thread: it only spins.
    match unsafe { fork_to_die_together() } {
        ForkResult::Child => spin_for_ever(),
        ForkResult::Parent { child } => {
            say(&child.to_string());
            wait_for_go();
            kill(child, Signal::SIGKILL).unwrap();
            waitpid(child, None).unwrap();
            say("done");
            wait_for_go();
        }
    }
}

/// As in a container: its PID there is 1, and no number it could tell would mean anything to the monitor.
fn spin_in_a_pid_namespace(socket: &str) {
    unshare(CloneFlags::CLONE_NEWPID).unwrap();
    // SAFETY: the child only uses its own memory and descriptors; no other thread of this process does anything.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            die_with(Pid::from_raw(0)); // of another namespace: has no number here
            assert_eq!(std::process::id(), 1);
            name_block(gettid().as_raw() as u32);
            wait_for_go();
            spin_as(socket, "held");
        }
        ForkResult::Parent { child } => {
            say(&child.to_string());
            waitpid(child, None).unwrap();
        }
    }
}

/// Says so once it runs, and stays until its input ends.
fn another_program() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "echo SAYS another program; read line"]);
    command
}

fn exec(socket: &str) {
    drop(register(socket, block_offset(), &[]));
    say("ready");
    wait_for_go();
    let error = another_program().exec();
    panic!("exec: {error}");
}

/// Spawns a program the way most programs do (posix_spawn: a vfork child that execs).
fn spawn(socket: &str) {
    drop(register(socket, block_offset(), &[]));
    let mut child = another_program().spawn().unwrap();
    say(&child.id().to_string());
    child.wait().unwrap();
}
