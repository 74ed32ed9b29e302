// SPDX-License-Identifier: MIT
//! What the page leaves out, and what each of it would cost a switch (docs/results/monitor-cost.md). A fact is a few
//! lines more in the kernel half, which is compiled with them; the kernel says how long it then runs. The fact is only
//! stored, by CPU, in memory that nobody reads: on the page it costs as much, and its readers some more.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use flexguard_monitor::Options;
use libbpf_rs::{Object, ObjectBuilder, libbpf_sys};

use crate::harness::{Running, start};
use crate::mutants::{compiled, serve_edited_with};
use crate::victim::pin;

/// How many rounds, of how many milliseconds for each number.
const ROUNDS_ENV: &str = "FLEXGUARD_ROUNDS";
const ROUND_ENV: &str = "FLEXGUARD_ROUND_MS";

/// What the kernel half would say, and what it takes: declarations, and what is done at each switch. A kernel without
/// group scheduling or quotas lacks some of the fields.
struct Fact {
    says: &'static str,
    declares: &'static str,
    at_switch: &'static str,
}

const FACTS: &[Fact] = &[
    Fact {
        says: "nothing more",
        declares: "",
        at_switch: "",
    },
    Fact {
        says: "how many threads are runnable on the CPU, since its last switch",
        declares:
            "struct rq___fact { unsigned int nr_running; } __attribute__((preserve_access_index));
            static volatile __u32 fact_of_cpu[FG_CPUS * 16];",
        at_switch: "if (bpf_core_field_exists(next->se.cfs_rq->rq))
                fact_of_cpu[(at.cpu % FG_CPUS) * 16] =
                    ((struct rq___fact *)next->se.cfs_rq->rq)->nr_running;",
    },
    Fact {
        says: "how many threads of a process are runnable and off their CPU",
        declares: "static volatile __u32 fact_of_process[1024 * 16];
            static volatile __u8 fact_of_thread[65536];",
        at_switch: "if (runnable && may_be_judged(prev) && judges(process_of(prev, &at), prev)) {
                __sync_fetch_and_add(&fact_of_process[(prev->tgid & 1023) * 16], 1);
                fact_of_thread[prev->pid & 65535] = 1;
            }
            if (fact_of_thread[next->pid & 65535]) {
                fact_of_thread[next->pid & 65535] = 0;
                __sync_fetch_and_add(&fact_of_process[(next->tgid & 1023) * 16], -1);
            }",
    },
    Fact {
        says: "whether the thread that leaves its CPU is throttled",
        declares:
            "struct cfs_rq___fact { int throttle_count; } __attribute__((preserve_access_index));
            static volatile __u32 fact_of_cpu[FG_CPUS * 16];",
        at_switch: "if (bpf_core_field_exists(struct cfs_rq___fact, throttle_count) &&
                runnable && may_be_judged(prev))
                fact_of_cpu[(at.cpu % FG_CPUS) * 16] =
                    ((struct cfs_rq___fact *)prev->se.cfs_rq)->throttle_count;",
    },
    Fact {
        says: "what is left of the quota of the thread's control group",
        declares:
            "struct cfs_bandwidth___fact { __u64 runtime; } __attribute__((preserve_access_index));
            struct task_group___fact { struct cfs_bandwidth___fact cfs_bandwidth; }
                __attribute__((preserve_access_index));
            struct cfs_rq___fact { long long runtime_remaining; struct task_group___fact *tg; }
                __attribute__((preserve_access_index));
            static volatile __u64 fact_of_cpu[FG_CPUS * 8];",
        at_switch: "if (bpf_core_field_exists(struct cfs_rq___fact, runtime_remaining) &&
                may_be_judged(next)) {
                struct cfs_rq___fact *group = (void *)next->se.cfs_rq;
                fact_of_cpu[(at.cpu % FG_CPUS) * 8] =
                    group->tg->cfs_bandwidth.runtime + group->runtime_remaining;
            }",
    },
];

/// Wake-ups considered: a hook of its own, which counts a thread on the CPU that it is woken for; and one that does nothing.
const WAKE_UPS: &str = r#"
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "kernel_types.h"
char dual_license[] SEC("license") = "Dual MIT/GPL";
struct task_struct___fact { int wake_cpu; } __attribute__((preserve_access_index));
static volatile __u32 waiting[1024 * 16];
SEC("tp_btf/sched_wakeup") int BPF_PROG(fact_nothing, struct task_struct *task) { return 0; }
SEC("tp_btf/sched_wakeup") int BPF_PROG(fact_woken, struct task_struct *task)
{
	__sync_fetch_and_add(&waiting[(((struct task_struct___fact *)task)->wake_cpu & 1023) * 16], 1);
	return 0;
}
"#;

pub fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
}

/// A monitor that also says this.
fn serve(fact: &Fact) -> Running {
    const HOOK: &str = "SEC(\"tp_btf/sched_switch\")";
    const LAST: &str = "publish_cpu(prev, next, runnable, at.cpu, all, count);";
    let declared = format!("{}\n{HOOK}", fact.declares);
    let done = format!("{LAST}\n{}", fact.at_switch);
    let options = Options {
        run_time_stats: true,
        ..Options::default()
    };
    serve_edited_with(&[(HOOK, &declared), (LAST, &done)], options)
}

/// Nanoseconds a run of the hook, meanwhile.
fn cost(running: &Running, time: Duration) -> f64 {
    let before = running.stats();
    thread::sleep(time);
    let after = running.stats();
    let runs = after.run_count - before.run_count;
    (after.run_time_ns - before.run_time_ns) as f64 / runs as f64
}

/// Ends threads that go on until the flag is set, also where the test fails meanwhile.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// While `what` is done, two threads of this process, which is not registered, yield one CPU to each other. Each keeps
/// meanwhile what `begin` has given it.
pub fn beside_two_that_yield<K, T>(begin: impl Fn() -> K + Sync, what: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    let yields = || {
        let _kept = begin();
        pin();
        while !ended.load(Ordering::Relaxed) {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        scope.spawn(yields);
        scope.spawn(yields);
        let _ends = Ends(&ended);
        what()
    })
}

/// Run time in ns and runs of a hook.
pub fn counted(object: &Object, name: &str) -> [u64; 2] {
    let program = object.progs().find(|p| p.name() == name).unwrap();
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = size_of_val(&info) as u32;
    // SAFETY: `info` is a bpf_prog_info of `length` bytes whose pointers are null: nothing else is written.
    let result = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_fd().as_raw_fd(), &mut info, &mut length)
    };
    assert_eq!(result, 0);
    [info.run_time_ns, info.run_cnt]
}

/// What a run of each hook takes in ns, meanwhile; and how often the last one ran.
pub fn costs_of_hooks<const N: usize>(
    object: &Object,
    names: [&str; N],
    time: Duration,
) -> ([f64; N], u64) {
    let before = names.map(|name| counted(object, name));
    thread::sleep(time);
    let after = names.map(|name| counted(object, name));
    let more = |i: usize, what: usize| after[i][what] - before[i][what];
    let ns = std::array::from_fn(|i| more(i, 0) as f64 / more(i, 1).max(1) as f64);
    (ns, more(N - 1, 1))
}

/// While `what` is done, two threads wake each other in turn.
fn beside_two_that_wake_each_other<T>(what: impl FnOnce() -> T) -> T {
    let (to_second, from_first) = mpsc::channel();
    let (to_first, from_second) = mpsc::channel();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(
            move || {
                while from_first.recv().is_ok() && to_first.send(()).is_ok() {}
            },
        );
        let ended = &ended;
        // The other thread ends when this one's end of the channel goes.
        scope.spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                to_second.send(()).unwrap();
                from_second.recv().unwrap();
            }
        });
        let _ends = Ends(ended);
        what()
    })
}

/// Nanoseconds a switch: of a bystander, and of registered threads that yield to each other.
fn costs(fact: &Fact, time: Duration) -> [f64; 2] {
    let running = serve(fact);
    let mut registered = [(); 2].map(|()| running.ready("yield 0"));
    let bystander = beside_two_that_yield(|| (), || cost(&running, time));
    registered.iter_mut().for_each(|helper| helper.go());
    let own = cost(&running, time);
    registered.iter_mut().for_each(|helper| helper.kill());
    [bystander, own]
}

/// Nanoseconds a wake-up, of the hook that does nothing and of the one that counts; and how many wake-ups there were.
fn costs_of_wake_ups(time: Duration) -> ([f64; 2], u64) {
    let folder = tempfile::tempdir().unwrap();
    let object = compiled(folder.path(), "woken", WAKE_UPS);
    let loaded = ObjectBuilder::default().open_file(object).unwrap().load();
    let loaded = loaded.unwrap();
    let mut links = vec![];
    for program in loaded.progs_mut() {
        links.push(program.attach_trace().unwrap());
    }
    costs_of_hooks(&loaded, ["fact_nothing", "fact_woken"], time)
}

pub fn spread(of: &[f64]) -> String {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
    format!("{:.0} ({least:.0} to {most:.0})", sorted[sorted.len() / 2])
}

/// A table on stdout: medians of rounds in which all facts take turns, with the least and the most, and the same of the
/// differences to the kernel half as it is, round by round.
fn measure(rounds: u64, time: Duration) -> BTreeMap<&'static str, Vec<[f64; 2]>> {
    let mut found: BTreeMap<&str, Vec<[f64; 2]>> = BTreeMap::new();
    for _ in 0..rounds {
        for fact in FACTS {
            found.entry(fact.says).or_default().push(costs(fact, time));
        }
    }
    println!("| what it also says | bystander, ns | more | registered, ns | more |");
    println!("|---|---|---|---|---|");
    for fact in FACTS {
        let (its, plain) = (&found[fact.says], &found[FACTS[0].says]);
        let of = |i: usize| its.iter().map(|c| c[i]).collect::<Vec<f64>>();
        let more = |i: usize| {
            let pairs = its.iter().zip(plain);
            pairs.map(|(a, b)| a[i] - b[i]).collect::<Vec<f64>>()
        };
        println!(
            "| {} | {} | {} | {} | {} |",
            fact.says,
            spread(&of(0)),
            spread(&more(0)),
            spread(&of(1)),
            spread(&more(1))
        );
    }
    found
}

/// Each fact is compiled, passes the verifier and runs; how long is no matter.
#[test]
fn what_is_left_out_can_be_measured() {
    if start().is_none() {
        return;
    }
    let found = measure(1, Duration::from_millis(20));
    assert_eq!(found.len(), FACTS.len());
    let running = serve(&FACTS[0]); // while it lives the kernel keeps the times
    let (ns, _) = beside_two_that_wake_each_other(|| costs_of_wake_ups(Duration::from_millis(50)));
    drop(running);
    let all = found.values().flatten().flatten().chain(&ns);
    assert!(all.clone().all(|ns| *ns >= 0.0), "{:?}", all);
}

#[test]
#[ignore = "measures: docs/results/monitor-cost.md"]
fn measured() {
    let rounds = from_environment(ROUNDS_ENV, 21);
    let time = Duration::from_millis(from_environment(ROUND_ENV, 500));
    measure(rounds, time);
    let running = serve(&FACTS[0]);
    let (mut nothing, mut counts, mut share) = (vec![], vec![], vec![]);
    for _ in 0..rounds {
        let before = running.stats().run_count;
        let (ns, runs) = beside_two_that_wake_each_other(|| costs_of_wake_ups(time));
        nothing.push(ns[0]);
        counts.push(ns[1]);
        share.push(100.0 * runs as f64 / (running.stats().run_count - before) as f64);
    }
    println!(
        "A wake-up: {} ns for a hook that does nothing, {} ns for one that counts; {} wake-ups in 100 switches.",
        spread(&nothing),
        spread(&counts),
        spread(&share)
    );
}
