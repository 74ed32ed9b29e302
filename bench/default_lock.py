#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The default lock beside the others, in every scene that it is meant for.

    bench/default_lock.py [--out docs/measurements/default-lock-scenes] [--budget SECONDS] [--only SCENE]
        [--rounds N]

Rounds are interleaved and kept one by one in build/default-lock.jsonl; started again, the script goes on where it was
stopped (exit status 75: there is more to do). Writes OUT.json and OUT.md. Before each round fg-handover says how far
apart the CPUs are just then: a host that moves virtual CPUs between one core and two makes two machines of one, so
medians are taken of each apart. Runs under a Preemption Monitor: it starts itself again under `flexguard run`."""
import json
import os
import statistics
import sys
from typing import NamedTuple

sys.dont_write_bytecode = True
import rounds

NEAR_NS = 120  # between what a line takes within a core (under 60 here) and between cores (over 200)
PEERS = ["posix", "futex", "flexguard-sosp25", "nsync", "tbb-spin"]

UNMONITORED = " unmonitored"  # after the name of a lock: it finds no monitor


class Scene(NamedTuple):
    locks: list
    seconds: float
    options: dict  # of fg-bench
    workload: str = "shm"


def scenes():
    """By name. The rounds that are kept know a lock by its place in the list."""
    out = contended()
    for name in ("2 threads", "8 threads", "64 threads", "8 threads, 1000 cycles between", "8 threads, 8 hogs",
                 "2 threads, 2 hogs", "8 threads, sections of 100 us"):
        without = ["flexguard", "flexguard" + UNMONITORED, "posix", "tbb-spin"]
        out[name + ", without a monitor"] = out[name]._replace(locks=without)
    out["uncontended, inlined"] = Scene(["flexguard", "posix", "tbb-spin"], 0, {}, "uncontended")
    out["uncontended, interposer"] = Scene(["flexguard", *PEERS[:3]], 0, {}, "pthread-uncontended")
    return out


def contended():
    few, most = ["flexguard", "posix", "nsync", "tbb-spin"], ["flexguard", *PEERS]
    out = {}
    for threads in (1, 2, 4, 8, 32, 64):
        out[f"{threads} threads"] = Scene(most, 1.0, {"threads": threads})
    out["8 threads, same lock again"] = Scene(["flexguard", "flexguard", "posix", "posix"], 0.4, {"threads": 8})
    for threads in (2, 8):
        for cycles in (300, 1000, 3000, 10000, 100000):
            name = f"{threads} threads, {cycles} cycles between"
            out[name] = Scene(few, 0.25, {"threads": threads, "cycles-between": cycles})
    for lines in (20, 200):
        out[f"8 threads, {lines} lines"] = Scene(few, 0.25, {"threads": 8, "lines": lines})
    for us, cycles in ((1, 2600), (10, 26000), (100, 260000)):
        out[f"8 threads, sections of {us} us"] = Scene(few, 0.25, {"threads": 8, "section-cycles": cycles})
    for threads, hogs in ((2, 1), (2, 2), (2, 8), (8, 1), (8, 2), (8, 8)):
        out[f"{threads} threads, {hogs} hogs"] = Scene(few, 0.4, {"threads": threads, "hogs": hogs})
    for locks in (1000, 1000000):
        out[f"8 threads, {locks} locks"] = Scene(few, 0.25, {"threads": 8, "locks": locks, "lines": 1})
    for threads in (2, 8):
        out[f"{threads} threads, hash table"] = Scene(few, 0.4, {"threads": threads}, "hashtable")
    # With 1 s a round of 8 s is 8 sections, and ends 8 s later: each thread has one more turn.
    for us, seconds in ((1000, 0.5), (20000, 0.5), (1000000, 8)):
        name = f"8 threads, holder sleeps {us} us"
        out[name] = Scene(["flexguard", "posix"], seconds, {"threads": 8, "hold-sleep-us": us})
    return out


MEASURES = {
    "ops/ms": lambda r: r["throughput_ops_per_ms"],
    "fairness": lambda r: r["fairness_normalised"],
    "longest ms": lambda r: r["longest_wait_ns"] / 1e6,
    "wait mean ns": lambda r: r["wait_ns"]["mean"],
    "wait p99 ns": lambda r: r["wait_ns"]["p99"],
    "wait p99.9 ns": lambda r: r["wait_ns"]["p999"],
    "CPU ns/op": lambda r: r["cpu_seconds"] * 1e9 / max(r["ops"], 1),
    "preempted": lambda r: r["preempted_holders"],
    "bytes a lock": lambda r: r["memory"].get("per_lock_bytes", r["memory"]["lock_bytes"]),
    "grown by MB": lambda r: r["memory"]["rss_growth_bytes"] / 1e6,
}

UNCONTENDED = {
    "best ns": lambda r: r["ns_per_pair"],
    "median ns": lambda r: r["median_ns_per_pair"],
}


def measures_of(workload):
    return UNCONTENDED if workload.endswith("uncontended") else MEASURES


def uncontended(prefix, workload, lock):
    """A lock that is asked for by pthread_mutex_lock comes by the interposer."""
    command = [rounds.program(prefix, "fg-bench"), workload]
    if workload == "uncontended":
        command += ["--lock", lock]
    else:
        command = [os.path.join(prefix, "bin/flexguard"), "run", "--lock", lock, "--", *command]
    return json.loads(rounds.output(command))


def contend(prefix, scene, lock, environment):
    """A round beside the monitor, or without any where the lock's name says so. Whether it was so is in the result."""
    name = lock.removesuffix(UNMONITORED)
    environment = environment | ({"FLEXGUARD_SOCKET": ""} if name != lock else {})
    options = {"lock": name, "seconds": scene.seconds, "warmup": 0.1} | scene.options
    result = rounds.fg_bench(prefix, scene.workload, environment, **options)
    if result["monitor"] != (name == lock):
        sys.exit(f"{lock}: a monitor: {result['monitor']}")
    return result


def round_of(prefix, scene, lock, environment=None):
    far = float(rounds.output([rounds.program(prefix, "fg-handover")]))
    if scene.workload.endswith("uncontended"):
        result = uncontended(prefix, scene.workload, lock)
    else:
        result = contend(prefix, scene, lock, environment or {})
    return {"handover_ns": far} | {name: measure(result) for name, measure in measures_of(scene.workload).items()}


def place(row):
    """Where the CPUs were."""
    return "near" if row["handover_ns"] < NEAR_NS else "far"


def alternate(values, number):
    """Forth in one round, back in the next: what drifts hits all alike."""
    return values if number % 2 == 0 else values[::-1]


def plan(arguments):
    for name, scene in scenes().items():
        for number in range(arguments.rounds):
            for column, lock in alternate(list(enumerate(scene.locks)), number):
                row = {"scene": name, "column": column, "lock": lock, "round": number}
                if arguments.only in name:
                    yield row, (arguments.prefix, scene, lock)


def table(rows, scene, measures):
    """One line for each lock and distance of the CPUs."""
    first = measures[0]
    for where in ("near", "far"):
        base = None
        for column, lock in enumerate(scene.locks):
            mine = [r for r in rows if r["column"] == column and place(r) == where]
            if not mine:
                continue
            values = {m: [r[m] for r in mine if m in r] for m in measures}
            least, middle, most = rounds.spread(values[first])
            base = base or (middle if lock == "flexguard" else None)
            cells = [where, lock, str(len(mine)), rounds.number(middle), f"{middle / base:.2f}" if base else ""]
            cells += [f"{rounds.number(least)} – {rounds.number(most)}"]
            yield cells + [rounds.number(statistics.median(values[m])) if values[m] else "" for m in measures[1:]]


NEAR_AND_FAR = (
    f"The host moves the two virtual CPUs: near: a line took under {NEAR_NS} ns from one to the other just before the "
    "round, far: longer. A round in which they were moved counts where it began."
)


def report(arguments):
    rows, about = rounds.kept(arguments.rows), rounds.machine()
    rounds.write_json(arguments.out, {"machine": about, "rows": rows})
    with open(arguments.out + ".md", "w", encoding="utf-8") as file:
        print("# The default lock beside the others\n\n    bench/default_lock.py\n", file=file)
        print(f"{rounds.setting(about)}. {arguments.rounds} interleaved rounds, medians. {NEAR_AND_FAR}\n", file=file)
        for name, scene in scenes().items():
            mine = [r for r in rows if r["scene"] == name]
            if not mine:
                continue
            measures = list(measures_of(scene.workload))
            head = ["CPUs", "lock", "rounds", measures[0], "to flexguard", "least – most", *measures[1:]]
            print(f"## {name}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}", file=file)
            for cells in table(mine, scene, measures):
                print(f"| {' | '.join(cells)} |", file=file)
            print(file=file)


def main():
    parser = rounds.options(__doc__, "default-lock-scenes", "default-lock")
    parser.add_argument("--only", default="", help="scenes whose name contains this")
    parser.add_argument("--rounds", type=int, default=7, help="of each lock in each scene (7)")
    arguments = parser.parse_args()
    rounds.beside_a_monitor(arguments)
    if not arguments.report and not rounds.measure(list(plan(arguments)), round_of, arguments.rows, arguments.budget):
        sys.exit(rounds.MORE_TO_DO)
    report(arguments)


if __name__ == "__main__":
    main()
