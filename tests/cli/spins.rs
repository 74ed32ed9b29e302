// SPDX-License-Identifier: MIT
//! `flexguard profile --spins`. The program is this test itself: it measures the CPU time that it burns.

use std::hint;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::daemon::{Process, check_schema};
use crate::common::*;
use serde_json::Value;

/// What the program does; unset: it is a test that has nothing to do.
const ROLE: &str = "FLEXGUARD_TEST_SPINS";
const PROGRAM: [&str; 3] = ["spins::the_spinning_program", "--exact", "--nocapture"];

/// Of this thread, or of the whole process.
fn cpu_seconds(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to `time`.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(failed, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// On the CPU that this thread runs on now.
fn pin() -> usize {
    // SAFETY: a query.
    let cpu = unsafe { libc::sched_getcpu() } as usize;
    pin_to(cpu);
    cpu
}

fn pin_to(cpu: usize) {
    // SAFETY: zero is a set without CPUs.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a set, and the call reads it.
    let failed = unsafe {
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set)
    };
    assert_eq!(failed, 0);
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn the_place_that_spins(done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        hint::spin_loop();
    }
}

/// A loop that waits without a spin hint.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn the_place_that_looks(done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {}
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn the_place_that_yields(done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        // SAFETY: no pointers are passed.
        unsafe { libc::sched_yield() };
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn the_place_that_works(done: &AtomicBool) -> u64 {
    let mut x = 1u64;
    while !done.load(Ordering::Relaxed) {
        for i in 0..1000 {
            x = hint::black_box(x.wrapping_mul(i | 1));
        }
    }
    x
}

static IS_OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn end_wait(_signal: libc::c_int) {
    IS_OVER.store(true, Ordering::Relaxed);
}

/// A timer that ends the wait of this thread. No other thread runs for it: that would be a sibling, which may have to
/// wait for a CPU.
fn end_wait_after(time: Duration, clock: libc::clockid_t) -> libc::timer_t {
    IS_OVER.store(false, Ordering::Relaxed);
    let mut timer = std::ptr::null_mut();
    // SAFETY: zero is an action and an event without flags, and no interval. The handler may run at any instruction.
    let failed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = end_wait as *const () as usize;
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_notify_thread_id = libc::gettid();
        event.sigev_signo = libc::SIGUSR1;
        let mut when: libc::itimerspec = std::mem::zeroed();
        when.it_value.tv_sec = time.as_secs() as libc::time_t;
        when.it_value.tv_nsec = time.subsec_nanos().into();
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut())
            | libc::timer_create(clock, &mut event, &mut timer)
            | libc::timer_settime(timer, 0, &when, std::ptr::null_mut())
    };
    assert_eq!(failed, 0);
    timer
}

const OWN: libc::clockid_t = libc::CLOCK_THREAD_CPUTIME_ID;

/// CPU time that `wait` takes, whose argument becomes true after `time` of the clock.
fn burn(wait: extern "C" fn(&AtomicBool), time: Duration, clock: libc::clockid_t) -> f64 {
    let timer = end_wait_after(time, clock);
    let before = cpu_seconds(OWN);
    wait(&IS_OVER);
    let burnt = cpu_seconds(OWN) - before;
    // SAFETY: it is the timer made above.
    assert_eq!(unsafe { libc::timer_delete(timer) }, 0);
    burnt
}

/// Waits beside a thread that works, on one CPU, and then alone.
fn wait_beside_a_sibling(wait: extern "C" fn(&AtomicBool)) {
    let cpu = pin();
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let beside = thread::scope(|scope| {
        scope.spawn(|| {
            pin_to(cpu);
            begun.store(true, Ordering::Release);
            the_place_that_works(&done)
        });
        while !begun.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        let beside = burn(wait, Duration::from_millis(600), OWN);
        done.store(true, Ordering::Relaxed);
        beside
    });
    let alone = burn(wait, Duration::from_millis(500), OWN);
    println!("beside={beside};alone={alone};");
}

/// Threads that work, and that sleep for each other.
fn work() {
    let mutex = std::sync::Mutex::new(0u64);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let mut x = mutex.lock().unwrap();
                    (0..2000).for_each(|i| *x = hint::black_box(x.wrapping_mul(i | 1)));
                    drop(x);
                    thread::sleep(Duration::from_micros(200));
                }
            });
        }
        scope.spawn(|| the_place_that_works(&done));
        thread::sleep(Duration::from_secs(2));
        done.store(true, Ordering::Relaxed);
    });
    println!("cpu={};", cpu_seconds(libc::CLOCK_PROCESS_CPUTIME_ID));
}

static HAS_BURNT: AtomicBool = AtomicBool::new(false);

extern "C" fn burn_a_little(_signal: libc::c_int) {
    let before = cpu_seconds(OWN);
    while cpu_seconds(OWN) - before < 0.2 {}
    HAS_BURNT.store(true, Ordering::Relaxed);
}

/// The first thread burns CPU time, then another one, which calls exec: it takes over the number of the first one.
fn exec_by_a_thread() {
    // SAFETY: zero is an action without flags. The handler may run at any instruction.
    let failed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = burn_a_little as *const () as usize;
        let first = libc::getpid();
        libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()) as libc::c_long
            | libc::syscall(libc::SYS_tgkill, first, first, libc::SIGUSR2)
    };
    assert_eq!(failed, 0);
    while !HAS_BURNT.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
    }
    let other = thread::spawn(|| {
        burn(the_place_that_looks, Duration::from_secs(1), OWN);
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(PROGRAM).env(ROLE, "after_exec").exec()
    });
    panic!("{:?}", other.join());
}

#[test]
fn the_spinning_program() {
    match std::env::var(ROLE).as_deref() {
        Err(_) => return,
        Ok("spin") => wait_beside_a_sibling(the_place_that_spins),
        Ok("look") => wait_beside_a_sibling(the_place_that_looks),
        Ok("yield") => {
            println!(
                "alone={};",
                burn(
                    the_place_that_yields,
                    Duration::from_secs(2),
                    libc::CLOCK_MONOTONIC
                )
            );
        }
        Ok("work") => work(),
        Ok("exec") => exec_by_a_thread(),
        Ok("after_exec") => {
            burn(the_place_that_looks, Duration::from_millis(300), OWN);
            println!("cpu={};", cpu_seconds(libc::CLOCK_PROCESS_CPUTIME_ID));
        }
        Ok(role) => panic!("{role}"),
    }
    std::process::exit(23);
}

fn spins(role: &str, options: &[&str]) -> Output {
    let mut command = flexguard();
    command.env(ROLE, role).args(["profile", "--spins"]);
    command.args(options).arg("--");
    command.arg(std::env::current_exe().unwrap());
    command.args(PROGRAM);
    command.output().expect("the command starts")
}

/// The report, and what the program has measured itself.
fn report(role: &str, options: &[&str]) -> (Value, String) {
    let output = spins(role, &[&["--json"], options].concat());
    assert_eq!(output.status.code(), Some(23), "{}", stderr(&output));
    let report = json(&stderr(&output));
    check_schema("profile-spins", std::slice::from_ref(&report));
    assert_eq!(report["lost"], 0);
    (report, stdout(&output))
}

fn said(text: &str, name: &str) -> f64 {
    let (_, rest) = text
        .split_once(&format!("{name}="))
        .unwrap_or_else(|| panic!("{text}"));
    rest.split_once(';').unwrap().0.parse().unwrap()
}

fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("{of} is no number"))
}

fn assert_near(seen: &Value, truth: f64) {
    let seen = number(seen);
    assert!(
        (seen / truth - 1.0).abs() < 0.1,
        "{seen} s were seen of {truth} s"
    );
}

fn function<'a>(report: &'a Value, name: &str) -> &'a Value {
    let functions = report["functions"].as_array().unwrap();
    let found = functions.iter().find(|f| f["function"] == name);
    found.unwrap_or_else(|| panic!("{name}: {report}"))
}

#[test]
fn time_spun_is_that_which_the_program_has_measured() {
    let test = "time_spun_is_that_which_the_program_has_measured";
    if !as_root() || !bpf(test) {
        return;
    }
    let (report, text) = report("spin", &[]);
    let seen = function(&report, "the_place_that_spins");
    assert_eq!(seen["evidence"], "spin_hint");
    assert_near(&seen["sibling_waited_seconds"], said(&text, "beside"));
    assert_near(&seen["none_waited_seconds"], said(&text, "alone"));
    assert_near(
        &report["spins"]["seconds"],
        said(&text, "beside") + said(&text, "alone"),
    );
    assert!(number(&report["cpu_seconds"]) > number(&report["spins"]["seconds"]) * 1.3);
    assert_eq!(report["spins"]["unknown_seconds"], 0.0, "{report}");
}

#[test]
fn a_function_that_the_user_names_waits() {
    if !as_root() || !bpf("a_function_that_the_user_names_waits") {
        return;
    }
    let (found, text) = report("look", &["--spin-symbols", "no_such,the_place_that_look*"]);
    let seen = function(&found, "the_place_that_looks");
    assert_eq!(seen["evidence"], "symbol");
    assert_near(&seen["sibling_waited_seconds"], said(&text, "beside"));
    assert_near(&seen["none_waited_seconds"], said(&text, "alone"));
    let (unnamed, _) = report("look", &[]);
    assert!(number(&unnamed["spins"]["seconds"]) < 0.01, "{unnamed}");
}

#[test]
fn a_yield_counts_for_its_caller() {
    if !as_root() || !bpf("a_yield_counts_for_its_caller") {
        return;
    }
    let (report, text) = report("yield", &[]);
    let functions = report["functions"].as_array().unwrap();
    let place = functions
        .iter()
        .find(|f| f["function"] == "the_place_that_yields");
    let seen = place.map_or(0.0, |place| {
        assert_eq!(place["evidence"], "yield");
        number(&place["none_waited_seconds"])
    });
    let truth = said(&text, "alone");
    // Beside other programs a yield leaves it little CPU time, and so few samples, or none: four times their deviation.
    let period = number(&report["period_us"]) / 1e6;
    let chance = 4.0 * (truth * period).sqrt();
    assert!(
        seen > truth * 0.8 - chance && seen < truth * 1.1 + chance,
        "{seen} s were seen of {truth} s"
    );
}

#[test]
fn a_program_that_works_and_sleeps_burns_nothing() {
    if !as_root() || !bpf("a_program_that_works_and_sleeps_burns_nothing") {
        return;
    }
    let (report, text) = report("work", &[]);
    assert_near(&report["cpu_seconds"], said(&text, "cpu"));
    assert!(number(&report["spins"]["seconds"]) < 0.01, "{report}");
    let output = spins("work", &[]);
    let text = stderr(&output);
    assert!(
        text.contains("spinning while a sibling waits for a CPU: 0.0"),
        "{text}"
    );
}

#[test]
fn a_thread_that_calls_exec_brings_its_time_along_once() {
    if !as_root() || !bpf("a_thread_that_calls_exec_brings_its_time_along_once") {
        return;
    }
    let (report, text) = report("exec", &[]);
    assert_near(&report["cpu_seconds"], said(&text, "cpu"));
}

#[test]
fn a_process_that_runs_is_sampled_with_its_children() {
    if !as_root() || !bpf("a_process_that_runs_is_sampled_with_its_children") {
        return;
    }
    // The shell waits; its child spins, and so does one that it starts once it is sampled.
    let program = std::env::current_exe().unwrap();
    let spin = format!(
        "{} spins::the_spinning_program --exact --nocapture",
        program.display()
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{spin} & {spin} & wait")]);
    let shell = Process::start(shell.env(ROLE, "spin").stdout(Stdio::null()));
    let pid = shell.pid().to_string();
    let mut command = flexguard();
    command.args([
        "profile",
        "--spins",
        "--json",
        "--seconds",
        "2",
        "--pid",
        &pid,
    ]);
    let mut sampler = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut note = String::new();
    BufReader::new(sampler.0.stderr.take().unwrap())
        .read_line(&mut note)
        .unwrap();
    assert!(note.contains("sampling process"), "{note}");
    let text = sampler.said();
    let report = json(&text);
    check_schema("profile-spins", std::slice::from_ref(&report));
    assert_eq!(report["pid"], shell.pid());
    let seen = function(&report, "the_place_that_spins");
    let of = |time: &str| number(&seen[time]);
    assert!(
        of("sibling_waited_seconds") > of("none_waited_seconds"),
        "{report}"
    );
    drop(shell);
}

#[test]
fn spins_of_no_process_are_refused() {
    let output = run(["profile", "--spins", "--pid", "4194305"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("there is no process"),
        "{}",
        stderr(&output)
    );
    for others in ["--lock flexguard -- true", "--open a", "--compare a b"] {
        let output = run([&["profile", "--spins"][..], &words(others)].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}
