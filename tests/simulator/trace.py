#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What --trace and --lines say of a run, and that it is the same run: trace.py SIMULATOR"""

import json
import re
import subprocess
import sys
import tempfile

COMMON = ["--lock", "flexguard", "--warmup", "0.001", "--seconds", "0.004", "--machine", "cloud-8", "--host-limit", "60"]
CPUS, THREADS, HOLDERS, LINES = 1, 2, 3, 4


def run(workload, *options):
    done = subprocess.run([sys.argv[1], *workload.split(), *COMMON, *options], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def spans(workload):
    """The spans of a run by group and row, and its result."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        traced, _ = run(workload, "--trace", file.name)
        events = json.load(file)["traceEvents"]
    assert traced == run(workload)[0], "the trace changes the run"
    found = {}
    for event in events:
        if event["ph"] == "X":
            row = found.setdefault(event["pid"], {}).setdefault(event["tid"], [])
            row.append((event["ts"], event["ts"] + event["dur"], event["name"]))
    for group in (CPUS, HOLDERS, LINES):
        for row in found.get(group, {}).values():
            row.sort()
            for before, after in zip(row, row[1:]):
                assert before[1] <= after[0] + 0.0021, f"two spans of a row overlap: {before}, {after}"
    return found, json.loads(traced)


def total(rows, kind):
    return sum(end - begin for row in rows.values() for begin, end, name in row if name.startswith(kind))


# 24 threads beside 2 hogs on 8 CPUs, sections of 1 us: each is in the trace, and so is all that the threads ran.
found, result = spans("server --threads 24 --section-us 1 --think-us 20 --hogs 2")
held = [end - begin for row in found[HOLDERS].values() for begin, end, _ in row]
assert len(held) >= result["ops"], f"{len(held)} spans of holding, {result['ops']} operations"
held.sort()
assert 1 <= held[len(held) // 2] < 1.2, f"the median section takes {held[len(held) // 2]} us"
ran = total(found[CPUS], "thread "), total(found[CPUS], "hog ")
assert abs(ran[0] + ran[1] - total(found[THREADS], "runs on CPU")) < 1, "CPUs and threads do not agree"
assert len(found[CPUS]) == 8 and ran[0] > 5 * 5000 and total(found[THREADS], "waits for CPU") > 0

# 8 threads in closed loops: the line that costs most is in the trace, and --lines says how much that is in all.
loops = "shm --threads 8 --cycles-between 0"
found, _ = spans(loops)
lines = re.findall(r"line (\S.*?) +lost +([\d.]+) us, +(\d+) transfers", run(loops, "--lines", "3")[1])
assert len(lines) == 3 and float(lines[0][1]) >= float(lines[1][1]) >= float(lines[2][1]) > 0, lines
name, lost, transfers = lines[0]
traced = [end - begin for row in found[LINES].values() for begin, end, line in row if line == name]
assert 10 < len(traced) <= int(transfers), f"{len(traced)} of {transfers} waits for {name} are in the trace"
assert 0 < sum(traced) <= float(lost) * 1.001, f"{sum(traced)} of {lost} us for {name} are in the trace"
print(f"{len(held)} sections; {len(traced)} of {transfers} waits for {name}, {sum(traced):.0f} of {lost} us")
