#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Short rounds of one lock: the JSON parses, and its numbers agree with one another.

shm.py FG_BENCH LOCK"""
import json
import subprocess
import sys

bench, lock = sys.argv[1:]


def run(*arguments):
    done = subprocess.run([bench, *arguments], stdout=subprocess.PIPE, timeout=100, check=True)
    return json.loads(done.stdout)


def check(condition, result):
    if not condition:
        sys.exit(f"inconsistent: {json.dumps(result, indent=1)}")


def check_shm(threads, seconds, **options):
    arguments = ["shm", "--lock", lock, "--threads", str(threads), "--seconds", str(seconds), "--warmup", "0.02"]
    for name, value in options.items():
        arguments += ["--" + name.replace("_", "-"), str(value)]
    r = run(*arguments)
    ops = r["per_thread_ops"]
    check(r["lock"] == lock and r["threads"] == threads == len(ops), r)
    check(all(r[name] == value for name, value in options.items()), r)
    check(r["checksum_ok"] is True and sum(ops) == r["ops"], r)
    check(seconds <= r["seconds"] < 10, r)
    check(abs(r["throughput_ops_per_ms"] * r["seconds"] * 1000 - r["ops"]) <= 1 + r["ops"] / 1000, r)
    busier = sum(sorted(ops)[threads // 2 :])
    check(abs(r["fairness_factor"] * r["ops"] - busier) <= 1e-3 * r["ops"] or r["ops"] == 0, r)
    check(0.4999 <= r["fairness_normalised"] <= r["fairness_factor"], r)
    check(0 <= r["sampled_ops"] <= r["ops"], r)
    for times in (r["cs_ns"], r["wait_ns"]):
        check(0 <= times["p50"] <= times["p99"] <= times["p999"] <= times["max"], r)
        check(0 <= times["mean"] <= times["max"], r)
    check(r["wait_ns"]["max"] == r["longest_wait_ns"] <= r["cs_ns"]["max"], r)
    check(0 <= r["cpu_seconds"] < 100 and r["spins"] >= 0 and r["parks"] >= 0, r)
    return r


# Several threads may get nothing done in so short a time, under a spinlock on a busy machine; one alone must.
check_shm(2, 0.1)
check_shm(3, 0.1, lines=5, cycles_between=0, sample=1)
alone = check_shm(1, 0.5, section_cycles=20000, cycles_between=20000)
check(alone["ops"] > 0 and alone["sampled_ops"] > 0, alone)
check(alone["fairness_factor"] == 1 and alone["fairness_normalised"] == 0.5, alone)
check(alone["cs_ns"]["p50"] > alone["wait_ns"]["p50"], alone)
# Each operation lasts 40000 cycles by the options, and no cycle counter runs at 8 GHz.
check(alone["ops"] * 40000 < 8e9 * alone["seconds"], alone)

pairs = run("uncontended", "--lock", lock, "--batches", "50", "--pairs", "1000")
check(pairs["lock"] == lock and 0 < pairs["ns_per_pair"] <= pairs["median_ns_per_pair"], pairs)
