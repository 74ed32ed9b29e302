// SPDX-License-Identifier: MIT
//! What things cost on this machine, in nanoseconds: the least of many batches, which other work disturbs least, and for
//! wake-ups the first quartile.

use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flexguard_launch::failure::{Context, Result};

use super::line::Line;
use super::topology::{DISTANCES, Topology};

#[repr(align(128))]
struct Alone<T>(T);

const BATCHES: usize = 400;
const BATCH: u32 = 200;
/// What takes longer to wake up had other work on its CPU.
const LONGEST_EXIT: f64 = 500_000.0;
const SPANS: u32 = 200;
const TRIPS: u32 = 100;

pub(super) fn measure(topology: &Topology) -> Result<Vec<Line>> {
    pin(topology.cpus[0])?;
    let mut lines = alone();
    lines.extend(transfers(topology)?);
    lines.extend(readers(topology)?);
    lines.extend(switches(topology, &lines)?);
    lines.extend(system());
    Ok(lines)
}

fn pin(cpu: usize) -> Result<()> {
    // SAFETY: a set of no CPUs is zeros; the number is one of the allowed ones, within the set.
    let pinned = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set)
    };
    match pinned {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()).context(format_args!("cannot run on CPU {cpu}")),
    }
}

/// Nanoseconds of one `step`, in the fastest batch.
fn least(mut step: impl FnMut()) -> f64 {
    let mut batch = || {
        let start = Instant::now();
        (0..BATCH).for_each(|_| step());
        start.elapsed().as_nanos() as f64 / f64::from(BATCH)
    };
    (0..BATCHES).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

fn quartile(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 4]
}

/// The shortest of so many spans that the thread itself measures.
fn shortest(spans: u32, mut span: impl FnMut(u32)) -> f64 {
    let mut one = |i| {
        let start = Instant::now();
        span(i);
        start.elapsed().as_nanos() as f64
    };
    (0..spans).map(&mut one).fold(f64::INFINITY, f64::min)
}

fn futex(word: &AtomicU32, operation: i32, value: u32) -> i64 {
    // SAFETY: the word lives for as long as the call; there is no timeout.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
        )
    }
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__rdtscp, _rdtsc};

    pub fn read() -> u64 {
        // SAFETY: it reads a counter that every x86-64 has.
        unsafe { _rdtsc() }
    }

    pub fn read_ordered() -> u64 {
        let mut cpu = 0;
        // SAFETY: the same; every x86-64 that runs this kernel has rdtscp.
        unsafe { __rdtscp(&mut cpu) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub fn read() -> u64 {
        let count: u64;
        // SAFETY: it reads a counter that user mode may read.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) count) };
        count
    }

    pub fn read_ordered() -> u64 {
        // SAFETY: a barrier changes nothing.
        unsafe { std::arch::asm!("isb") };
        read()
    }
}

/// What needs no other thread.
fn alone() -> Vec<Line> {
    let word = Alone(AtomicU64::new(0));
    let sleepers = Alone(AtomicU32::new(0));
    let gettid = || {
        // SAFETY: this system call has no argument.
        black_box(unsafe { libc::syscall(libc::SYS_gettid) });
    };
    let line = |key, value| Line::new(key, value, "measured");
    let syscall = least(gettid);
    let less = |whole: f64| (whole - syscall).max(1.0);
    let wake = least(|| {
        futex(&sleepers.0, libc::FUTEX_WAKE, 1);
    });
    let refused = least(|| {
        futex(&sleepers.0, libc::FUTEX_WAIT, 1);
    });
    vec![
        line("ghz", ghz()),
        line(
            "hit",
            least(|| word.0.store(black_box(1), Ordering::Relaxed)),
        ),
        line(
            "atomic",
            least(|| {
                black_box(word.0.fetch_add(1, Ordering::SeqCst));
            }),
        ),
        line("pause", least(std::hint::spin_loop)),
        line(
            "counter",
            least(|| {
                black_box(counter::read());
            }),
        ),
        line(
            "ordered",
            least(|| {
                black_box(counter::read_ordered());
            }),
        ),
        line(
            "clock",
            least(|| {
                black_box(Instant::now());
            }),
        ),
        line("syscall", syscall),
        line("futex", less(wake)),
        line("bucket", (refused - wake).max(1.0)),
        line("yield", less(least(thread::yield_now))),
        line("clone", thread_ns()),
    ]
}

fn ghz() -> f64 {
    let (start, before) = (Instant::now(), counter::read());
    thread::sleep(Duration::from_millis(50));
    (counter::read() - before) as f64 / start.elapsed().as_nanos() as f64
}

/// Until a new thread has been made; it ends at once.
fn thread_ns() -> f64 {
    let one = || {
        let start = Instant::now();
        let thread = thread::spawn(|| ());
        let made = start.elapsed().as_nanos() as f64;
        let _ = thread.join();
        made
    };
    (0..50).map(|_| one()).fold(f64::INFINITY, f64::min)
}

/// A line goes to and fro between two CPUs: four transfers, of which two are for the other's read.
fn transfers(topology: &Topology) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (distance, [a, b]) in topology.pairs() {
        let trip = round_trip(a, b)?;
        lines.push(Line::new(
            DISTANCES[distance],
            trip / 4.0,
            &format!("measured: a quarter of a round trip of CPUs {a} and {b}"),
        ));
    }
    pin(topology.cpus[0])?;
    Ok(lines)
}

fn round_trip(a: usize, b: usize) -> Result<f64> {
    let word = Alone(AtomicU32::new(0));
    let await_value = |value| {
        while word.0.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    pin(a)?;
    thread::scope(|scope| {
        let other = scope.spawn(|| -> Result<()> {
            let pinned = pin(b);
            for i in 0..SPANS * TRIPS {
                await_value(2 * i + 1);
                word.0.store(2 * i + 2, Ordering::Release);
            }
            pinned
        });
        let ns = shortest(SPANS, |span| {
            for i in span * TRIPS..(span + 1) * TRIPS {
                word.0.store(2 * i + 1, Ordering::Release);
                await_value(2 * i + 2);
            }
        }) / f64::from(TRIPS);
        other.join().unwrap_or(Ok(())).map(|()| ns)
    })
}

/// N readers of a line that is written: each reader more makes the round longer by what the line is occupied. It takes
/// four CPUs to see.
fn readers(topology: &Topology) -> Result<Option<Line>> {
    let cpus = topology.neighbours();
    if cpus.len() < 4 {
        return Ok(None);
    }
    let one = broadcast(&cpus[..2])?;
    let all = broadcast(&cpus)?;
    pin(topology.cpus[0])?;
    let occupied = ((all - one) / (cpus.len() - 2) as f64 / 2.0).max(0.1);
    let source = format!(
        "measured: {} readers of a line, against one",
        cpus.len() - 1
    );
    Ok(Some(Line::new("occupied", occupied, &source)))
}

/// A round: the first CPU writes, each other one reads and answers on a line of its own.
fn broadcast(cpus: &[usize]) -> Result<f64> {
    let word = Alone(AtomicU32::new(0));
    let answers: Vec<Alone<AtomicU32>> =
        cpus[1..].iter().map(|_| Alone(AtomicU32::new(0))).collect();
    let await_value = |word: &AtomicU32, value| {
        while word.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    pin(cpus[0])?;
    let reader = |cpu: usize, answer: &Alone<AtomicU32>| {
        let pinned = pin(cpu);
        for i in 1..=SPANS * TRIPS {
            await_value(&word.0, i);
            answer.0.store(i, Ordering::Release);
        }
        pinned
    };
    let reader = &reader;
    thread::scope(|scope| {
        let readers: Vec<_> = cpus[1..]
            .iter()
            .zip(&answers)
            .map(|(cpu, answer)| scope.spawn(move || reader(*cpu, answer)))
            .collect();
        let ns = shortest(SPANS, |span| {
            for i in span * TRIPS + 1..=(span + 1) * TRIPS {
                word.0.store(i, Ordering::Release);
                answers.iter().for_each(|answer| await_value(&answer.0, i));
            }
        }) / f64::from(TRIPS);
        let mut ended = readers.into_iter().map(|r| r.join().unwrap_or(Ok(())));
        ended.try_for_each(|pinned| pinned).map(|()| ns)
    })
}

fn of(lines: &[Line], key: &str) -> f64 {
    lines.iter().find(|l| l.key == key).map_or(0.0, |l| l.value)
}

/// Switches, and wake-ups of a thread on another CPU that has idled for a while.
fn switches(topology: &Topology, known: &[Line]) -> Result<Vec<Line>> {
    let call = ["syscall", "futex", "bucket"];
    let call: f64 = call.iter().map(|key| of(known, key)).sum();
    let switch = (switch_ns() - of(known, "yield") - of(known, "syscall")).max(1.0);
    let mut lines = vec![Line::new(
        "switch",
        switch,
        "measured: two threads that yield on one CPU",
    )];
    let Some((_, [a, b])) = topology.pairs().pop() else {
        return Ok(lines);
    };
    let naps = [
        ("exit_shallow", 30),
        ("exit_middle", 300),
        ("exit_deep", 3000),
    ];
    for (key, idle_us) in naps {
        let (waker, latency) = wake_ns(a, b, Duration::from_micros(idle_us))?;
        if lines.len() == 1 {
            let wake = (waker - call).max(1.0);
            lines.push(Line::new(
                "wake",
                wake,
                "measured: what a futex wake takes the waker, less the call",
            ));
        }
        let exit = (latency - waker - switch).max(0.0);
        let source = format!(
            "measured: from a wake-up to the woken thread, after {idle_us} us of idling, less its parts"
        );
        if exit < LONGEST_EXIT {
            lines.push(Line::new(key, exit, &source));
        }
    }
    pin(topology.cpus[0])?;
    Ok(lines)
}

fn switches_of_this_thread() -> u64 {
    // SAFETY: zeros are a valid value, which the kernel overwrites.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut used);
        used
    };
    (used.ru_nvcsw + used.ru_nivcsw) as u64
}

/// Time for each switch of two threads that yield to each other on this CPU.
fn switch_ns() -> f64 {
    let done = Alone(AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while done.0.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
        });
        let mut least = f64::INFINITY;
        for _ in 0..SPANS {
            let before = switches_of_this_thread();
            let ns = shortest(1, |_| (0..TRIPS).for_each(|_| thread::yield_now()));
            let own = switches_of_this_thread() - before;
            if own >= u64::from(TRIPS) / 2 {
                least = least.min(ns / (2 * own) as f64);
            }
        }
        done.0.store(1, Ordering::Relaxed);
        least
    })
}

/// A thread on CPU `b` sleeps; `a` wakes it when it has slept for `nap`: what the wake takes the waker, and the time until
/// the woken one runs.
fn wake_ns(a: usize, b: usize, nap: Duration) -> Result<(f64, f64)> {
    const WAKES: u32 = 60;
    let (word, ready) = (Alone(AtomicU32::new(0)), Alone(AtomicU32::new(0)));
    let began = Instant::now();
    pin(a)?;
    let (wakes, starts, ends) = thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let pinned = pin(b);
            let ends: Vec<f64> = (0..WAKES)
                .map(|i| {
                    ready.0.store(i + 1, Ordering::Release);
                    while word.0.load(Ordering::Acquire) == i {
                        futex(&word.0, libc::FUTEX_WAIT, i);
                    }
                    began.elapsed().as_nanos() as f64
                })
                .collect();
            (pinned, ends)
        });
        let (mut wakes, mut starts) = (Vec::new(), Vec::new());
        for i in 0..WAKES {
            while ready.0.load(Ordering::Acquire) != i + 1 {
                std::hint::spin_loop();
            }
            let until = Instant::now() + nap;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            word.0.store(i + 1, Ordering::Release);
            starts.push(began.elapsed().as_nanos() as f64);
            futex(&word.0, libc::FUTEX_WAKE, 1);
            wakes.push(began.elapsed().as_nanos() as f64 - starts[i as usize]);
        }
        let (pinned, ends) = sleeper.join().unwrap_or((Ok(()), Vec::new()));
        pinned.map(|()| (wakes, starts, ends))
    })?;
    let latencies = ends.iter().zip(&starts).map(|(end, start)| end - start);
    Ok((quartile(wakes), quartile(latencies.collect())))
}

/// What the kernel says of itself. The slice is what the simulator's scheduler gives, in whole.
fn system() -> Vec<Line> {
    let read = |path: &str| -> Option<f64> {
        let text = fs::read_to_string(path).ok()?;
        text.trim().parse().ok()
    };
    let line = |key: &str, path: &str| Some(Line::new(key, read(path)?, path));
    let slice = line("slice", "/sys/kernel/debug/sched/base_slice_ns");
    let slack = line("slack", "/proc/self/timerslack_ns");
    slice.into_iter().chain(slack).collect()
}
