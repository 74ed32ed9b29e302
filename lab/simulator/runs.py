# SPDX-License-Identifier: MIT
"""Runs of the simulator, for the scripts beside this file."""

import csv
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs/results/data"
PROGRAMS = ROOT / "build/.cmake/lab/simulator"


def arguments(usage, fit):
    """The script's arguments, if `fit` takes them. With --help it prints how it is used, and ends."""
    given = sys.argv[1:]
    if given in (["-h"], ["--help"]):
        print(usage)
        sys.exit()
    return given if fit(given) else sys.exit(usage)


def simulate(lock, workload, threads, machine, seconds, warmup=0.006, seed=1, costs=(), host_limit=300, monitored=True,
             trace=None):
    """The worker's object; None: it failed, or took more CPU time than `host_limit` seconds."""
    command = [PROGRAMS / f"fg-sim-{lock}", *workload.split(), "--lock", lock, "--threads", str(threads)]
    command += ["--seconds", str(seconds), "--warmup", str(warmup), "--machine", machine, "--seed", str(seed)]
    command += [part for cost in costs for part in ("--cost", cost)]
    command += [] if monitored else ["--unmonitored"]
    command += ["--trace", trace] if trace else []
    done = subprocess.run([*command, "--host-limit", str(host_limit)], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def throughput(run):
    return run["throughput_ops_per_ms"] if run else 0


def in_parallel(function, jobs):
    """The answers, in the order of the jobs. Interrupted, it begins no other. JOBS run at the same time."""
    pool = ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count())))
    try:
        yield from pool.map(function, jobs)
    finally:
        pool.shutdown(cancel_futures=True)


def write(name, header, rows):
    with (DATA / name).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
