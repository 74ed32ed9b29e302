// SPDX-License-Identifier: MIT
//! `flexguard profile`. The profiled program is this test itself, so that every lock it takes is known: Rust's own locks
//! are not pthread's.

use std::cell::UnsafeCell;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::daemon::{Daemon, Process, check_schema, first_cpu, wait_for};
use crate::common::*;
use serde_json::Value;

/// What the program does; unset: it is a test that has nothing to do.
const ROLE: &str = "FLEXGUARD_TEST_PROFILED";
const HELD: Duration = Duration::from_millis(20);

struct Mutex(UnsafeCell<libc::pthread_mutex_t>);
// SAFETY: it is used through pthread's functions alone.
unsafe impl Sync for Mutex {}

impl Mutex {
    const fn new() -> Mutex {
        Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    fn recursive() -> Mutex {
        Mutex(UnsafeCell::new(
            libc::PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
        ))
    }

    fn lock(&self) {
        // SAFETY: it was initialised.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0);
    }

    fn try_lock(&self) -> bool {
        // SAFETY: it was initialised.
        unsafe { libc::pthread_mutex_trylock(self.0.get()) == 0 }
    }

    fn unlock(&self) {
        // SAFETY: it was initialised.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.get()) }, 0);
    }
}

static SHARED: Mutex = Mutex::new();
static OTHER: Mutex = Mutex::new();

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn the_place_that_locks(times: u32) {
    for _ in 0..times {
        SHARED.lock();
        SHARED.unlock();
    }
}

/// 40,000 acquisitions of one mutex by four threads; 8 of another, of which one is by trylock; three that fail.
fn count() {
    thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| the_place_that_locks(10_000))));
    });
    for _ in 0..7 {
        OTHER.lock();
        OTHER.unlock();
    }
    assert!(OTHER.try_lock());
    (0..3).for_each(|_| assert!(!OTHER.try_lock()));
    OTHER.unlock();
}

/// A thread finds the mutex held, and sleeps for at least HELD.
fn contend() {
    static WAITER: AtomicI32 = AtomicI32::new(0);
    SHARED.lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: a query.
            WAITER.store(unsafe { libc::gettid() }, Ordering::Release);
            the_place_that_locks(1);
        });
        // After it has said its number, it sleeps for the mutex alone.
        wait_for("the waiter", || {
            let tid = Some(WAITER.load(Ordering::Acquire)).filter(|&tid| tid != 0)?;
            let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).ok()?;
            (stat.rsplit(") ").next()?.starts_with('S')).then_some(())
        });
        let since = Instant::now();
        while since.elapsed() < HELD {}
        SHARED.unlock();
    });
}

/// Prints how often a wait on a condition variable has returned.
fn wait_on_condition() {
    static GO: AtomicI32 = AtomicI32::new(0);
    let mut cond = libc::PTHREAD_COND_INITIALIZER;
    let cond = &raw mut cond as usize;
    let mut returns = 0;
    SHARED.lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            SHARED.lock();
            GO.store(1, Ordering::Relaxed);
            // SAFETY: the waiter's frame outlives this thread.
            unsafe { libc::pthread_cond_signal(cond as *mut libc::pthread_cond_t) };
            SHARED.unlock();
        });
        while GO.load(Ordering::Relaxed) == 0 {
            // SAFETY: this thread holds the mutex.
            unsafe { libc::pthread_cond_wait(cond as *mut _, SHARED.0.get()) };
            returns += 1;
        }
        SHARED.unlock();
    });
    println!("returns={returns}.");
}

/// The child of a fork is a process of its own.
fn fork() {
    the_place_that_locks(5);
    // SAFETY: the child calls nothing that another thread could have left locked.
    match unsafe { libc::fork() } {
        0 => {
            the_place_that_locks(3);
            // SAFETY: it does not return.
            unsafe { libc::_exit(0) };
        }
        child => {
            // SAFETY: no status is asked for.
            assert_eq!(unsafe { libc::waitpid(child, null_mut(), 0) }, child);
        }
    }
}

fn nest() {
    let mutex = Mutex::recursive();
    for _ in 0..100 {
        (0..3).for_each(|_| mutex.lock());
        (0..3).for_each(|_| mutex.unlock());
    }
}

/// More mutexes than the tables have entries.
fn lock_many() {
    let mutexes: Vec<Mutex> = (0..20_000).map(|_| Mutex::new()).collect();
    for _ in 0..2 {
        for mutex in &mutexes {
            mutex.lock();
            mutex.unlock();
        }
    }
}

/// Each thread's block is free for the next one.
fn start_many_threads() {
    for _ in 0..2_000 {
        thread::spawn(|| the_place_that_locks(1)).join().unwrap();
    }
}

#[test]
fn the_profiled_program() {
    match std::env::var(ROLE).as_deref() {
        Err(_) => return,
        Ok("count") => count(),
        Ok("die") => {
            count();
            // SAFETY: no pointers are passed.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        Ok("contend") => contend(),
        Ok("wait") => wait_on_condition(),
        Ok("fork") => fork(),
        Ok("nest") => nest(),
        Ok("many") => lock_many(),
        Ok("threads") => start_many_threads(),
        Ok(role) => panic!("{role}"),
    }
    std::process::exit(23);
}

pub fn profile(role: &str, options: &[&str]) -> Output {
    let mut command = flexguard();
    command.env(ROLE, role).arg("profile").args(options);
    command.arg("--").arg(std::env::current_exe().unwrap());
    command.args(["profile::the_profiled_program", "--exact", "--nocapture"]);
    command.output().expect("the command starts")
}

/// The result, which the schema describes. The program's exit status is the command's.
fn result(role: &str, lock: &str) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--monitor", "off", "--lock", lock, "-o"];
    let output = profile(
        role,
        &[&options[..], &[dir.path().to_str().unwrap()]].concat(),
    );
    let expected = if role == "die" { None } else { Some(23) };
    assert_eq!(output.status.code(), expected, "{}", stderr(&output));
    let result = json(&fs::read_to_string(dir.path().join("profile.json")).unwrap());
    check_schema("profile", std::slice::from_ref(&result));
    assert_eq!(result["lock"], lock);
    (result, stdout(&output))
}

pub fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("{of} is no number"))
}

pub fn locks(process: &Value) -> &Vec<Value> {
    process["locks"].as_array().unwrap()
}

pub fn only(array: &Value) -> &Value {
    let array = array.as_array().unwrap();
    assert_eq!(array.len(), 1, "{array:?}");
    &array[0]
}

fn assert_ordered(times: &Value) {
    let of = |name: &str| number(&times[name]);
    assert!(of("p50_us") <= of("p90_us"), "{times}");
    assert!(of("p90_us") <= of("p99_us"), "{times}");
    assert!(of("p99_us") <= of("max_us"), "{times}");
    assert!(of("total_seconds") > 0.0, "{times}");
}

fn assert_counted(result: &Value) {
    let process = only(&result["processes"]);
    assert_eq!(locks(process).len(), 2, "{process}");
    let of = |acquisitions: u64| {
        let mut locks = locks(process).iter();
        let found = locks.find(|lock| lock["acquisitions"] == acquisitions);
        found.unwrap_or_else(|| panic!("{acquisitions}: {process}"))
    };
    let (shared, other) = (of(40_000), of(8));
    assert_eq!(
        (&shared["failed"], &other["failed"]),
        (&0.into(), &3.into())
    );
    assert_eq!(other["contended"], 0);
    assert!(other["wait"].is_null());
    assert_ordered(&shared["hold"]);
    let place = &shared["sites"][0]["stack"][0];
    assert_eq!(place["symbol"], "the_place_that_locks", "{shared}");
    assert_eq!(process["lost"]["acquisitions"], 0);
}

#[test]
fn all_acquisitions_are_counted_and_their_place_is_named() {
    // mcs-tp has queue nodes, as mcs has, but does not collapse where four threads have two CPUs.
    for lock in ["posix", "flexguard", "mcs-tp"] {
        assert_counted(&result("count", lock).0);
    }
}

#[test]
fn nothing_is_lost_if_a_signal_ends_the_program() {
    assert_counted(&result("die", "posix").0);
    let output = profile("die", &[]);
    assert_eq!(output.status.signal(), Some(libc::SIGKILL));
    let text = stderr(&output);
    assert!(text.contains("the_place_that_locks"), "{text}");
}

#[test]
fn waits_and_holds_are_timed() {
    let (result, _) = result("contend", "posix");
    let lock = only(&only(&result["processes"])["locks"]);
    assert_eq!(
        (&lock["acquisitions"], &lock["contended"]),
        (&2.into(), &1.into())
    );
    assert_eq!(lock["contended_share"], 0.5);
    let least = HELD.as_secs_f64();
    for times in [&lock["wait"], &lock["hold"]] {
        assert_ordered(times);
        assert!(number(&times["max_us"]) >= least * 1e6, "{times}");
        assert!(number(&times["total_seconds"]) >= least, "{times}");
    }
    // The waiter's place comes first.
    let site = &lock["sites"][0];
    assert_eq!(site["stack"][0]["symbol"], "the_place_that_locks", "{lock}");
    assert!(number(&site["wait_seconds"]) >= least, "{lock}");
}

#[test]
fn waits_on_condition_variables_are_counted_apart() {
    for lock in ["posix", "flexguard"] {
        let (result, said) = result("wait", lock);
        let locks = locks(only(&result["processes"]));
        let of = |kind: &str| locks.iter().find(|lock| lock["kind"] == kind).unwrap();
        let (mutex, cond) = (of("mutex"), of("condition-variable"));
        assert_eq!((locks.len(), &mutex["acquisitions"]), (2, &2.into()));
        let (_, returns) = said.split_once("returns=").unwrap();
        let returns: u64 = returns.split_once('.').unwrap().0.parse().unwrap();
        assert_eq!(mutex["cond_waits"], returns);
        assert_eq!(cond["acquisitions"], returns);
        assert_ordered(&cond["wait"]);
        // The one is static, and has a name; the other is on the stack.
        assert_eq!(mutex["name"], "cli::profile::SHARED");
        assert!(cond["name"].is_null() && cond["hold"].is_null());
    }
}

/// A C program with debug information, of which every lock is known.
const NAMED: &str = r#"
#include <pthread.h>
#include <semaphore.h>
struct part { int filler[6]; pthread_rwlock_t lock; };
static struct { long before; struct part parts[3]; } pool;
static pthread_mutex_t global = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t sem;
static inline __attribute__((always_inline)) void inlined(void)
{
	pthread_mutex_lock(&global);
	pthread_mutex_unlock(&global);
}
__attribute__((noinline)) void f(void) /* also the mangled name of a type */
{
	inlined();
	__asm__ volatile("");
}
int main(void)
{
	pthread_rwlock_init(&pool.parts[2].lock, NULL);
	pthread_rwlock_rdlock(&pool.parts[2].lock);
	pthread_rwlock_rdlock(&pool.parts[2].lock);
	pthread_rwlock_unlock(&pool.parts[2].lock);
	pthread_rwlock_unlock(&pool.parts[2].lock);
	pthread_rwlock_wrlock(&pool.parts[2].lock);
	pthread_rwlock_unlock(&pool.parts[2].lock);
	pthread_barrier_init(&barrier, NULL, 1);
	pthread_barrier_wait(&barrier);
	sem_init(&sem, 0, 2);
	sem_wait(&sem);
	sem_wait(&sem);
	f();
	return 0;
}
"#;

pub fn compiled(source: &str, options: &[&str], to: &std::path::Path) {
    let file = to.with_extension("c");
    fs::write(&file, source).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-g", "-O1", "-fno-omit-frame-pointer", "-pthread", "-o"]);
    cc.arg(to).arg(&file).args(options);
    assert!(cc.status().unwrap().success());
}

#[test]
fn locks_of_every_kind_have_their_names_and_inlined_calls_their_places() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("named");
    compiled(NAMED, &[], &program);
    let output = run(["profile", "--json", "--", program.to_str().unwrap()]);
    let result = json(&stderr(&output));
    check_schema("profile", std::slice::from_ref(&result));
    let locks = locks(only(&result["processes"]));
    assert_eq!(locks.len(), 4, "{result}");
    for (name, kind, acquisitions) in [
        ("global", "mutex", 1),
        ("pool.parts[2].lock", "rw-lock", 3),
        ("barrier", "barrier", 1),
        ("sem", "semaphore", 2),
    ] {
        let lock = locks.iter().find(|lock| lock["name"] == name);
        let lock = lock.unwrap_or_else(|| panic!("{name}: {result}"));
        assert_eq!(lock["kind"], kind);
        assert_eq!(lock["acquisitions"], acquisitions, "{lock}");
    }
    let global = locks.iter().find(|lock| lock["name"] == "global").unwrap();
    let stack = global["sites"][0]["stack"].as_array().unwrap();
    let symbols: Vec<_> = stack.iter().map(|place| &place["symbol"]).collect();
    assert_eq!(symbols[..3], ["inlined", "f", "main"], "{global}");
    let text = stderr(&run(["profile", "--", program.to_str().unwrap()]));
    let kinds = "1 mutex, 1 read-write lock, 1 semaphore, 1 barrier";
    assert!(text.contains(kinds), "{text}");
}

/// A lock in allocated memory, and one in a library of which no code is on a call stack.
const ELSEWHERE: &str = r#"
#include <pthread.h>
#include <stdlib.h>
pthread_mutex_t *of_library(void);
__attribute__((noinline)) void first_user(pthread_mutex_t *m)
{
	pthread_mutex_lock(m);
	pthread_mutex_unlock(m);
	__asm__ volatile("");
}
int main(void)
{
	pthread_mutex_t *m = malloc(sizeof(*m));
	pthread_mutex_init(m, NULL);
	first_user(m);
	pthread_mutex_lock(m);
	pthread_mutex_unlock(m);
	pthread_mutex_t *other = of_library();
	pthread_mutex_lock(other);
	pthread_mutex_unlock(other);
	return 0;
}
"#;
const LIBRARY: &str = r#"
#include <pthread.h>
static pthread_mutex_t in_library = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t *of_library(void) { return &in_library; }
"#;

#[test]
fn locks_of_libraries_are_named_and_allocated_ones_by_their_first_use() {
    let dir = tempfile::tempdir().unwrap();
    let (library, program) = (dir.path().join("libelsewhere.so"), dir.path().join("use"));
    compiled(LIBRARY, &["-shared", "-fPIC"], &library);
    let path = library.to_str().unwrap();
    compiled(ELSEWHERE, &[path], &program);
    let output = run(["profile", "--json", "--", program.to_str().unwrap()]);
    let result = json(&stderr(&output));
    check_schema("profile", std::slice::from_ref(&result));
    let locks = locks(only(&result["processes"]));
    assert_eq!(locks.len(), 2, "{result}");
    let of = |acquisitions: u64| {
        let mut locks = locks.iter();
        let found = locks.find(|lock| lock["acquisitions"] == acquisitions);
        found.unwrap_or_else(|| panic!("{acquisitions}: {result}"))
    };
    let (named, allocated) = (of(1), of(2));
    assert_eq!(named["name"], "in_library", "{result}");
    assert!(named["first_use"].is_null() && allocated["name"].is_null());
    assert_eq!(allocated["first_use"][0]["symbol"], "first_user");
    let text = stderr(&run(["profile", "--", program.to_str().unwrap()]));
    assert!(
        text.contains(", first used in first_user (use.c:"),
        "{text}"
    );
}

#[test]
fn a_static_program_is_refused_with_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("static");
    compiled("int main(void) { return 0; }", &["-static"], &program);
    let output = run(["profile", "--", program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(126));
    let said = stderr(&output);
    assert!(said.contains("linked statically"), "{said}");
}

#[test]
fn the_child_of_a_fork_is_counted_apart() {
    let (result, _) = result("fork", "posix");
    let processes = result["processes"].as_array().unwrap();
    let counts = processes.iter().map(|p| &only(&p["locks"])["acquisitions"]);
    let mut counts: Vec<u64> = counts.map(|n| n.as_u64().unwrap()).collect();
    counts.sort();
    assert_eq!(counts, [3, 5]);
}

#[test]
fn each_level_of_a_recursive_mutex_is_an_acquisition() {
    let (result, _) = result("nest", "posix");
    let lock = only(&only(&result["processes"])["locks"]);
    assert_eq!(
        (&lock["acquisitions"], &lock["contended"]),
        (&300.into(), &0.into())
    );
    assert_ordered(&lock["hold"]);
}

#[test]
fn what_the_tables_cannot_hold_is_said() {
    let (result, _) = result("many", "posix");
    let process = only(&result["processes"]);
    let counted: u64 = (locks(process).iter())
        .map(|lock| lock["acquisitions"].as_u64().unwrap())
        .sum();
    let lost = process["lost"]["acquisitions"].as_u64().unwrap();
    assert!(counted >= 10_000 && lost >= 10_000, "{counted} {lost}");
    assert_eq!(counted + lost, 40_000);
}

#[test]
fn threads_that_end_leave_their_memory_to_others() {
    let (result, _) = result("threads", "posix");
    let lock = only(&only(&result["processes"])["locks"]);
    assert_eq!(lock["acquisitions"], 2_000);
    assert_eq!(lock["contended"], 0);
    // The one block that they share times 32 acquisitions, then some that stand for 256 each.
    let timed: u64 = (lock["sites"].as_array().unwrap().iter())
        .map(|site| site["acquisitions"].as_u64().unwrap())
        .sum();
    assert_eq!(timed % 256, 32, "{lock}");
}

#[test]
fn the_report_has_graphs_and_a_page_that_fetches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("new/report");
    let output = profile("contend", &["-o", report.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(23), "{}", stderr(&output));
    let read = |name: &str| fs::read_to_string(report.join(name)).unwrap();
    for graph in ["wait.svg", "hold.svg"] {
        let svg = read(graph);
        assert!(svg.contains("<svg ") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("mutex cli::profile::SHARED"), "{graph}");
    }
    assert!(read("wait.svg").contains("the_place_that_locks"));
    let page = read("index.html");
    for part in [
        "<!DOCTYPE html>",
        "the_place_that_locks",
        "srcdoc=",
        "50.0 %",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for fetched in [" src=", "@import", "url(http", "<link", "href=\"http"] {
        assert!(!page.contains(fetched), "{fetched}");
    }
    // Another run in the same directory, in which no thread waits.
    let output = profile("nest", &["-o", report.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(23), "{}", stderr(&output));
    assert!(!report.join("wait.svg").exists() && report.join("hold.svg").exists());
}

#[test]
fn json_and_table_go_to_stderr() {
    let output = profile("contend", &["--json"]);
    check_schema("profile", &[json(&stderr(&output))]);
    assert!(!stdout(&output).contains("flexguard-profile"));
    let text = stderr(&profile("contend", &[]));
    for part in [
        "contended",
        "50.0 %",
        "of waiting: the_place_that_locks",
        "preempted while held: unknown",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = stderr(&run(["profile", "true"]));
    assert!(text.contains("no lock was used"), "{text}");
}

#[test]
fn preempted_holders_are_told() {
    if !as_root() {
        return skipped("preempted_holders_are_told", "needs root");
    }
    if !bpf("preempted_holders_are_told") {
        return;
    }
    let worker = prefix().join("libexec/flexguard/fg-bench");
    let pin = ["taskset", "--cpu-list", &first_cpu()];
    // It takes the CPU for whole time slices, whatever else there is on the machine.
    let mut hog = Command::new(pin[0]);
    hog.args(&pin[1..])
        .args(["sh", "-c", "while :; do :; done"]);
    let _hog = Process::start(&mut hog);
    let mut command = flexguard();
    command.env("FLEXGUARD_SOCKET", "/nonexistent/monitor.sock");
    command.args(words(
        "profile --lock flexguard --monitor require --json --",
    ));
    let args = "shm --lock posix --threads 8 --seconds 2 --warmup 0 --section-cycles 300000";
    let command = command.args(pin).arg(worker).args(args.split(' '));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = json(&stderr(&output));
    check_schema("profile", std::slice::from_ref(&result));
    assert!(result["preemptions_unknown"].is_null(), "{result}");
    let processes = result["processes"].as_array().unwrap();
    let preempted = processes
        .iter()
        .flat_map(locks)
        .map(|lock| &lock["preempted"]);
    let seconds: f64 = preempted
        .map(|preempted| number(&preempted["seconds"]))
        .sum();
    assert!(seconds > 0.0, "{result}");
}

/// There the tracer's process ids would be compared with others.
#[test]
fn in_another_pid_namespace_preemptions_are_unknown() {
    let name = "in_another_pid_namespace_preemptions_are_unknown";
    if !as_root() {
        return skipped(name, "needs root");
    }
    if !bpf(name) {
        return;
    }
    let mut command = Command::new("unshare");
    clean(&mut command);
    command.args(["--pid", "--fork", "--mount-proc", FLEXGUARD, "profile"]);
    command.args("--lock flexguard --monitor require --json true".split(' '));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let why = &json(&stderr(&output))["preemptions_unknown"];
    assert!(
        why.as_str().unwrap().contains("initial PID namespace"),
        "{why}"
    );
}

#[test]
fn what_cannot_be_profiled_is_refused_before_the_program_starts() {
    let dir = tempfile::tempdir().unwrap();
    let started = dir.path().join("started");
    let refused = |options: &[&str], why: &str| {
        let program = ["--", "touch", started.to_str().unwrap()];
        let output = run([&["profile"], options, &program].concat());
        assert_eq!(output.status.code(), Some(125), "{options:?}");
        let said = stderr(&output);
        assert!(said.contains(why), "{said}");
        assert!(!started.exists(), "{options:?}");
    };
    refused(&["--lock", "nonesuch"], "nonesuch");
    refused(
        &["-o", "/dev/null/report"],
        "cannot write the profile to /dev/null/report",
    );
    assert_eq!(run(["profile"]).status.code(), Some(2));
    assert_eq!(
        run(["profile", "/no/such/program"]).status.code(),
        Some(127)
    );
}

#[test]
fn a_process_to_watch_exists_and_comes_without_a_program() {
    let nobody = run(["profile", "--pid", "4194305"]); // above every PID_MAX
    assert_eq!(nobody.status.code(), Some(125));
    assert!(stderr(&nobody).contains("no process 4194305"));
    assert_eq!(
        run(["profile", "--pid", "1", "true"]).status.code(),
        Some(2)
    );
}

#[test]
fn a_running_process_is_watched_from_outside() {
    if !as_root() || !bpf("a_running_process_is_watched_from_outside") {
        return;
    }
    let daemon = Daemon::start();
    let profile = |pid: u32| {
        let mut command = flexguard();
        command
            .args(["profile", "--json", "--pid", &pid.to_string()])
            .env("FLEXGUARD_SOCKET", &daemon.socket)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };
    let mut stranger = profile(std::process::id());
    let stranger = stranger.args(["--seconds", "1"]).output().unwrap();
    assert_eq!(stranger.status.code(), Some(0), "{}", stderr(&stranger));
    let stranger = json(&stdout(&stranger));
    check_schema("profile-attached", std::slice::from_ref(&stranger));
    let why = stranger["preemptions_unknown"].as_str().unwrap();
    assert!(why.contains("does not watch it"), "{why}");
    assert!(stranger["waits_unknown"].is_null(), "{stranger}");

    let worker = daemon.worker("flexguard");
    let totals = || {
        let output = run(["status", "--json", "--socket", &daemon.socket]);
        json(&stdout(&output))["totals"]["preempted_holders"].as_u64()
    };
    wait_for("the worker to register", || totals().filter(|&n| n > 0));
    let report = tempfile::tempdir().unwrap();
    let mut command = profile(worker.pid());
    command.arg("-o").arg(report.path());
    let mut process = Process::start(&mut command);
    let mut note = String::new();
    BufReader::new(process.0.stderr.take().unwrap())
        .read_line(&mut note)
        .unwrap();
    assert!(note.contains("watching process"), "{note}");
    let before = totals().unwrap();
    wait_for("preempted holders", || {
        totals().filter(|&n| n > before + 50)
    });
    process.signal(libc::SIGINT);
    let text = process.said();
    let seen = json(&text);
    check_schema("profile-attached", std::slice::from_ref(&seen));
    let kept = fs::read_to_string(report.path().join("profile.json")).unwrap();
    assert_eq!(json(&kept), seen);
    let graph = fs::read_to_string(report.path().join("preempted.svg")).unwrap();
    assert!(graph.trim_end().ends_with("</svg>"));
    assert!(seen["preemptions_unknown"].is_null(), "{seen}");
    let lock = &seen["locks"][0];
    assert!(lock["holders"]["count"].as_u64().unwrap() > 0, "{seen}");
    assert!(lock["sites"][0]["preempted"]["seconds"].as_f64().unwrap() > 0.0);
}
