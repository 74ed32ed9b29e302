#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Short rounds of one lock: the JSON parses, and its numbers agree with one another.

round.py FG_BENCH shm|hashtable|ramp|variables|arrivals|conditions|applications|hold_times LOCK"""
import json
import os
import pathlib
import subprocess
import sys
import time

bench, what, lock = sys.argv[1:]


def needs_slice():
    """Whether the lists of locks say that it needs the time-slice extension: no other lock may refuse to run."""
    top = pathlib.Path(__file__).parents[2]
    lists = [(top / name).read_text(encoding="utf-8") for name in ("lib/lock/LOCKS", "lab/locks/LOCKS")]
    return any(line.startswith(lock + "\t") and "needs=slice" in line for line in "".join(lists).splitlines())


def run(*arguments):
    began = time.monotonic()
    done = subprocess.run([bench, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100, text=True)
    took = time.monotonic() - began
    if done.returncode == 77 and needs_slice():  # this kernel cannot run the lock: then it says why, and nothing else
        print(done.stderr)
        sys.exit(0 if "cannot run here: " in done.stderr and not done.stdout else "it refuses without a reason")
    if done.returncode != 0:
        sys.exit(f"{arguments}: exit status {done.returncode}: {done.stdout}{done.stderr}")
    return {**json.loads(done.stdout), "took": took}


def check(condition, result):
    if not condition:
        sys.exit(f"inconsistent: {json.dumps(result, indent=1)}")


def option(name):
    return "--" + name.replace("_", "-")


def round_of(workload, threads, seconds, warmup=0.02, **options):
    arguments = [workload, "--lock", lock, "--threads", str(threads), "--seconds", str(seconds), "--warmup", str(warmup)]
    for name, value in options.items():
        arguments += [option(name)] if value is True else [option(name), str(value)]
    r = run(*arguments)
    ops = r["per_thread_ops"]
    check(r["workload"] == workload and r["lock"] == lock and r["threads"] == threads == len(ops), r)
    check(all(r[name] == value for name, value in options.items() if name in r and name not in ("nice", "ramp")), r)
    check(r["checksum_ok"] is True and sum(ops) == r["ops"], r)
    check(seconds <= r["seconds"] <= r["took"], r)
    check(abs(r["throughput_ops_per_ms"] * r["seconds"] * 1000 - r["ops"]) <= 1 + r["ops"] / 1000, r)
    check(r["voluntary_switches"] >= 0 and r["involuntary_switches"] >= 0, r)
    busier = sum(sorted(ops)[threads // 2 :])
    check(abs(r["fairness_factor"] * r["ops"] - busier) <= 1e-3 * r["ops"] or r["ops"] == 0, r)
    check(0.4999 <= r["fairness_normalised"] <= r["fairness_factor"], r)
    check(0 <= r["sampled_ops"] <= r["ops"], r)
    for times in (r["cs_ns"], r["wait_ns"], r["hold_ns"]):
        check(0 <= times["p50"] <= times["p99"] <= times["p999"] <= times["max"], r)
        check(0 <= times["mean"] <= times["max"], r)
    check(r["wait_ns"]["max"] == r["longest_wait_ns"] <= r["cs_ns"]["max"], r)
    check(abs(r["hold_ns"]["mean"] + r["wait_ns"]["mean"] - r["cs_ns"]["mean"]) <= 0.2 + 1e-6 * r["cs_ns"]["mean"], r)
    check(0 <= r["cpu_seconds"] < 100 and r.get("spins", 0) >= 0 and r.get("parks", 0) >= 0, r)
    check(abs(r["cpu_ns_per_op"] * r["ops"] - r["cpu_seconds"] * 1e9) <= 1e-3 * r["ops"] + 1 or r["ops"] == 0, r)
    memory = r["memory"]
    check(0 < memory["lock_bytes"] <= memory.get("per_lock_bytes", 1e9) and memory.get("per_thread_bytes", 0) >= 0, r)
    check(memory["rss_bytes"] >= memory["lock_bytes"] and r["compiler"], r)
    check(("spins" in r) == ("per_thread_bytes" in memory), r)
    return r


def long_enough(condition, workload, threads, seconds, **options):
    """A round in which the condition came about: on a busy machine a short one may have had next to no CPU."""
    while not condition(r := round_of(workload, threads, seconds, **options)):
        seconds *= 2
        check(seconds < 20, r)
    return r


# Several threads may get nothing done in so short a time, under a spinlock on a busy machine; one alone must. A
# round of one thread cannot tell whether the lock excludes another, so most of these are shorter.
def check_shm():
    round_of("shm", 2, 0.1)
    round_of("shm", 3, 0.1, lines=5, cycles_between=0, sample=1)
    many = round_of("shm", 2, 0.1, lock_count=1000)
    check(many["memory"].get("per_lock_bytes", 0) <= many["memory"]["lock_bytes"] + 512, many)
    alone = long_enough(lambda r: r["sampled_ops"] > 0, "shm", 1, 0.1, section_cycles=20000, cycles_between=20000)
    check(alone["fairness_factor"] == 1 and alone["fairness_normalised"] == 0.5, alone)
    check(alone["cs_ns"]["p50"] > alone["wait_ns"]["p50"], alone)
    # Each operation lasts 40000 cycles by the options, and no cycle counter runs at 8 GHz.
    check(alone["ops"] * 40000 < 8e9 * alone["seconds"], alone)
    pairs = run("uncontended", "--lock", lock, "--batches", "50", "--pairs", "1000")
    check(pairs["lock"] == lock and 0 < pairs["ns_per_pair"] <= pairs["median_ns_per_pair"], pairs)


def check_hashtable():
    round_of("hashtable", 2, 0.1)
    round_of("hashtable", 3, 0.1, buckets=1, keys=7, update_ratio=1, theta=0, shift_ms=0, sample=1)
    alone = round_of("hashtable", 1, 0.05, shift_ms=1)
    check(alone["ops"] > 0, alone)
    # Nearly every operation is on one bucket's lock at a time, and they take turns.
    round_of("hotlock", 2, 0.1)
    shifted = long_enough(lambda r: 0 < r["hottest_share"] < 0.5, "hotlock", 1, 0.3, shift_ms=1)
    check(shifted["buckets"] == 100, shifted)
    steady = round_of("hotlock", 1, 0.05, shift_ms=0)
    check(steady["hottest_share"] > 0.98, steady)


def check_ramp():
    def ramp(workload, threads):
        r = round_of(workload, threads, 0.3, ramp=True)
        steps = r["ramp"]
        check(sum(step["ops"] for step in steps) <= r["ops"], r)
        check(sum(step["seconds"] for step in steps) <= r["seconds"] + 0.001, r)
        return [step["threads"] for step in steps]

    check(ramp("shm", 4) == [1, 2, 3, 4, 3, 2, 1], "4 threads")
    check(ramp("hashtable", 1) == [1], "1 thread")
    many = ramp("shm", 40)
    check(len(many) == 31 and many[0] == many[-1] == 1 and many[15] == 40 and many == many[::-1], many)


def in_group(group):
    """Processes of a process group that are no zombies, by pid."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[2]) == group:
            found.append(int(pid))
    return found


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def wait_for(condition):
    deadline = time.monotonic() + 30
    while not (value := condition()):
        if time.monotonic() > deadline:
            sys.exit("it does not come about")
        time.sleep(0.01)
    return value


def check_hogs():
    hogged = round_of("shm", 1, 0.3, hogs=2)
    # What the hogs burn is not the workload's: one thread cannot burn more than the time there was.
    check(hogged["hogs"] == 2 and hogged["cpu_seconds"] <= hogged["seconds"] + 0.1, hogged)
    # Hogs are in a group of their own, and a killed worker leaves none behind.
    worker = subprocess.Popen(
        [bench, "shm", "--lock", lock, "--threads", "1", "--seconds", "60", "--hogs", "2"], stdout=subprocess.DEVNULL
    )
    hogs = wait_for(lambda: len(c := children(worker.pid)) == 2 and c)
    wait_for(lambda: sorted(in_group(hogs[0])) == sorted(hogs))
    worker.kill()
    worker.wait()
    wait_for(lambda: not in_group(hogs[0]))


def check_variables():
    check_hogs()
    slept = round_of("shm", 2, 0.5, hold_sleep_us=2000)
    check(0 < slept["ops"] <= slept["seconds"] / 0.002 + 2 and slept["cs_ns"]["p50"] >= 1.9e6, slept)
    sometimes = long_enough(lambda r: r["ops"] > 2000, "shm", 1, 1, hold_sleep_us=2000, hold_sleep_every=1000)
    check(sometimes["cs_ns"]["p50"] < 1.9e6 <= sometimes["cs_ns"]["max"], sometimes)

    shares = round_of("shm", 5, 0.2, nice="0,3,7")
    check([n["nice"] for n in shares["nice"]] == [0, 3, 7], shares)
    check([n["threads"] for n in shares["nice"]] == [2, 2, 1], shares)
    ops = shares["per_thread_ops"]
    check([n["ops"] for n in shares["nice"]] == [ops[0] + ops[3], ops[1] + ops[4], ops[2]], shares)

    busy = round_of("shm", 2, 0.5, trace_us=10000)
    runnable = busy["runnable"]
    check(runnable["interval_us"] == 10000, busy)
    check(1 <= len(runnable["samples"]) == len(runnable["times_us"]) <= 52, busy)
    check(runnable["times_us"] == sorted(runnable["times_us"]) and max(runnable["samples"]) <= 2, busy)
    check(max(runnable["samples"]) >= 1, busy)
    # A thread that sleeps nearly all of the time is not runnable then: but for how long it waits for a CPU in between,
    # and when a sample is taken, is the machine's doing.
    long_enough(lambda r: 0 in r["runnable"]["samples"], "shm", 1, 1, trace_us=10000, hold_sleep_us=300000)

    intervals = round_of("shm", 2, 2.1)["fairness_1s"]
    check(intervals["intervals"] == 2 and 0.5 <= intervals["factor"] <= intervals["worst_factor"] <= 1, intervals)
    check(0.5 <= intervals["normalised"] <= intervals["worst_normalised"] <= 1, intervals)

    large = round_of("shm", 2, 0.2, lock_count=1000000, lines=1)
    check(large["memory"]["rss_bytes"] >= 1000000 * 64, large)


# The limits follow from the times that the options give: a thread alone, and waits that are known.
def check_arrivals():
    alone = round_of("server", 1, 0.3, section_us=100, think_us=400)
    check(0 < alone["ops"] <= 1.2 * alone["seconds"] / 0.0005, alone)
    check(alone["ops"] == alone["sampled_ops"] and alone["cs_ns"]["p50"] >= 95e3, alone)
    asleep = round_of("server", 1, 0.2, section_us=10, think_us=3000, think_sleeps=True, think_uniform=True)
    check(0 < asleep["ops"] and asleep["cpu_seconds"] <= 0.5 * asleep["seconds"], asleep)
    round_of("server", 3, 0.1, section_us=5, think_us=5, lock_count=3)
    phases = round_of("phases", 3, 0.2, section_us=2, sections=10)
    # Each thread is at most one round ahead of or behind another when the measurement ends.
    check(max(phases["per_thread_ops"]) - min(phases["per_thread_ops"]) <= 10, phases)
    check(phases["barriers"] * 30 >= phases["ops"], phases)
    round_of("yielding", 4, 0.1, lock_count=2, stay=10)


# checksum_ok: the result is that of a sequential run.
def check_applications():
    for threads in (1, 3):
        tree = round_of("index", threads, 0.1, keys=5000)
        check(5000 / 2 / 14 < tree["nodes"] < 5000 / 5 + 64, tree)
        picture = round_of("raytrace", threads, 0.1, edge=7, spheres=5)
        check(threads > 1 or tree["ops"] > 0 and (picture["frames"] + 1) * 7 * 7 * 64 >= picture["ops"] > 0, picture)
        stream = round_of("dedup", threads, 0.1, megabytes=1, buckets=1000)
        check(1000 < stream["locks"] < 3000 and 128 < stream["distinct"] <= stream["chunks"], stream)
        known = round_of("dedup", threads, 0.1, megabytes=1, buckets=1000, divide=52)
        check(known["distinct"] == stream["distinct"] <= known["chunks"], known)
        clusters = round_of("streamcluster", threads, 0.1, points=100)
        check(threads > 1 or clusters["barriers"] >= clusters["ops"] > 0, clusters)


# The times are those of sections, not of what is computed between them, which takes most of an operation. The first
# sections take long, since their lines are in no cache.
def check_hold_times():
    stream = long_enough(lambda r: r["ops"] > 2000, "dedup", 1, 0.1, megabytes=1, buckets=1000)
    check(stream["hold_ns"]["p99"] < stream["cpu_ns_per_op"], stream)


def check_conditions():
    # The threads of a ring count by turns.
    turns = round_of("turns", 4, 0.05, ring=2)
    for ring in (turns["per_thread_ops"][:2], turns["per_thread_ops"][2:]):
        check(turns["ops"] > 0 and max(ring) - min(ring) <= 1, turns)
    ring = round_of("turns", 3, 0.05, ring=3, one_condition=True, after_unlock=True)["per_thread_ops"]
    check(max(ring) - min(ring) <= 1, ring)
    for threads, stages, capacity in ((2, 2, 1), (6, 3, 4)):
        moved = round_of("pipeline", threads, 0.05, stages=stages, capacity=capacity)
        check(moved["ops"] > 0, moved)
    group = round_of("writegroup", 4, 0.05, think_us=5)
    check(0 < group["groups"] and group["ops"] > 0, group)
    tasks = round_of("pool", 4, 0.05, producers=2)
    check(tasks["per_thread_ops"][:2] == [0, 0] and tasks["ops"] > 0, tasks)
    idle = round_of("pool", 300, 0.05, think_us=2000, think_sleeps=True)
    check(idle["ops"] > 0, idle)
    seen = round_of("broadcast", 5, 0.05)
    check(seen["per_thread_ops"][0] == 0 and seen["ops"] > 0, seen)
    late = round_of("timed", 4, 0.05, timeout_us=1000, conditions=2)
    read = round_of("rwlock", 4, 0.05, reads=80, section_us=1, lock_count=2)
    check(read["ops"] > 0, read)
    spun = round_of("spinlock", 4, 0.05, section_us=1, think_us=1)
    check(spun["ops"] > 0, spun)
    for threads, places, tokens in ((2, 2, 1), (6, 3, 4), (4, 1, 2)):
        passed = round_of("tokens", threads, 0.05, places=places, tokens=tokens)
        check(passed["ops"] > 0, passed)
    met = round_of("barrier", 3, 0.05, work_us=5)
    check(met["ops"] > 0 and met["phases"] > 0 and len(set(met["per_thread_ops"])) == 1, met)
    check(0 < late["ops"] <= 4 * late["seconds"] / 0.001 + 4, late)


CHECKS = {
    "shm": check_shm,
    "ramp": check_ramp,
    "hashtable": check_hashtable,
    "variables": check_variables,
    "arrivals": check_arrivals,
    "applications": check_applications,
    "hold_times": check_hold_times,
    "conditions": check_conditions,
}
CHECKS[what]()
