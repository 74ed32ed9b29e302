#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The default lock beside the others, in every scene that it is meant for.

    bench/default_lock.py [--out docs/measurements/default-lock-scenes] [--budget SECONDS] [--only SCENE]

Rounds are interleaved and kept one by one in build/default-lock.jsonl; started again, the script goes on where it was
stopped (exit status 75: there is more to do). Writes OUT.json and OUT.md. Before each round fg-handover says how far
apart the CPUs are just then: a host that moves virtual CPUs between one core and two makes two machines of one, so
medians are taken of each apart. Runs under a Preemption Monitor: it starts itself again under `flexguard run`."""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import paper_behaviour as common

NEAR_NS = 120  # between what a line takes within a core (under 60 here) and between cores (over 200)
ROUNDS = 7
PEERS = ["posix", "futex", "flexguard-sosp25", "nsync", "tbb-spin"]


def scenes():
    """name -> (locks, seconds, options of fg-bench)"""
    few, most = ["flexguard", "posix", "nsync", "tbb-spin"], ["flexguard", *PEERS]
    out = {}
    for threads in (1, 2, 4, 8, 32, 64):
        out[f"{threads} threads"] = (most, 0.4, {"threads": threads})
    out["8 threads, same lock again"] = (["flexguard", "flexguard", "posix", "posix"], 0.4, {"threads": 8})
    for threads in (2, 8):
        for cycles in (300, 1000, 3000, 10000, 100000):
            name = f"{threads} threads, {cycles} cycles between"
            out[name] = (few, 0.25, {"threads": threads, "cycles-between": cycles})
    for lines in (20, 200):
        out[f"8 threads, {lines} lines"] = (few, 0.25, {"threads": 8, "lines": lines})
    for us, cycles in ((1, 2600), (10, 26000), (100, 260000)):
        out[f"8 threads, sections of {us} us"] = (few, 0.25, {"threads": 8, "section-cycles": cycles})
    for threads, hogs in ((2, 1), (2, 2), (2, 8), (8, 2), (8, 8)):
        out[f"{threads} threads, {hogs} hogs"] = (few, 0.4, {"threads": threads, "hogs": hogs})
    for locks in (1000, 1000000):
        out[f"8 threads, {locks} locks"] = (few, 0.25, {"threads": 8, "locks": locks, "lines": 1})
    for us in (1000, 20000):
        out[f"8 threads, holder sleeps {us} us"] = (["flexguard", "posix"], 0.5, {"threads": 8, "hold-sleep-us": us})
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
}


def round_of(prefix, lock, seconds, options):
    libexec = os.path.join(prefix, "libexec/flexguard")
    command = [f"{libexec}/fg-bench", "shm", "--lock", lock, "--seconds", str(seconds), "--warmup", "0.1"]
    for name, value in options.items():
        command += ["--" + name, str(value)]
    far = float(subprocess.run([f"{libexec}/fg-handover"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    result = json.loads(done.stdout)
    return {"handover_ns": far} | {name: measure(result) for name, measure in MEASURES.items()}


def measure(arguments):
    rows = common.kept(arguments.rows)
    done = {(r["scene"], r["column"], r["round"]) for r in rows}
    plan = [
        (scene, column, lock, number, seconds, options)
        for scene, (locks, seconds, options) in scenes().items()
        if arguments.only in scene
        for number in range(ROUNDS)
        for column, lock in (list(enumerate(locks)) if number % 2 == 0 else list(enumerate(locks))[::-1])
        if (scene, column, number) not in done
    ]
    began = common.time.monotonic()
    with open(arguments.rows, "a", encoding="utf-8") as out:
        for i, (scene, column, lock, number, seconds, options) in enumerate(plan):
            if common.time.monotonic() - began > arguments.budget:
                print(f"{len(plan) - i} rounds are left", file=sys.stderr)
                return False
            if sys.stderr.isatty():
                print(f"\r{i}/{len(plan)} {scene:40}", end="", file=sys.stderr)
            row = {"scene": scene, "column": column, "lock": lock, "round": number}
            out.write(json.dumps(row | round_of(arguments.prefix, lock, seconds, options)) + "\n")
            out.flush()
    return True


def number(x):
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def table(rows, scene):
    """One line for each lock and distance of the CPUs."""
    for place in ("near", "far"):
        base = None
        for column, lock in enumerate(scenes()[scene][0]):
            mine = [r for r in rows if r["scene"] == scene and r["column"] == column]
            mine = [r for r in mine if (r["handover_ns"] < NEAR_NS) == (place == "near")]
            if not mine:
                continue
            middle = {m: statistics.median(r[m] for r in mine) for m in MEASURES}
            speeds = [r["ops/ms"] for r in mine]
            base = base or (middle["ops/ms"] if lock == "flexguard" else None)
            ratio = f"{middle['ops/ms'] / base:.2f}" if base else ""
            cells = [place, lock, str(len(mine)), number(middle["ops/ms"]), ratio]
            cells += [f"{number(min(speeds))} – {number(max(speeds))}"]
            yield cells + [number(middle[m]) for m in list(MEASURES)[1:]]


def report(arguments):
    rows, about = common.kept(arguments.rows), common.machine()
    head = ["CPUs", "lock", "rounds", "ops/ms", "to flexguard", "least – most", *list(MEASURES)[1:]]
    with open(arguments.out + ".json", "w", encoding="utf-8") as file:
        json.dump({"machine": about, "rows": rows}, file)
        file.write("\n")
    with open(arguments.out + ".md", "w", encoding="utf-8") as file:
        print("# The default lock beside the others\n\n    bench/default_lock.py\n", file=file)
        print(f"{about['cpu']}, {about['contexts']} hardware contexts, Linux {about['kernel']}, commit "
              f"{about['commit']}, {about['date']}. {ROUNDS} interleaved rounds, medians. The host moves the two virtual "
              f"CPUs: near: a line took under {NEAR_NS} ns from one to the other just before the round, far: longer. A "
              "round in which they were moved counts where it began.\n", file=file)
        for scene in scenes():
            if not any(r["scene"] == scene for r in rows):
                continue
            print(f"## {scene}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}", file=file)
            for cells in table(rows, scene):
                print(f"| {' | '.join(cells)} |", file=file)
            print(file=file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", default="build", help="where `make` put everything (build)")
    parser.add_argument("--out", default="docs/measurements/default-lock-scenes", help="without suffix")
    parser.add_argument("--rows", default="build/default-lock.jsonl", help="what each round measured")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which to stop for now")
    parser.add_argument("--only", default="", help="scenes whose name contains this")
    parser.add_argument("--report", action="store_true", help="measure nothing, write the report of what there is")
    arguments = parser.parse_args()
    common.beside_a_monitor(arguments)
    if not arguments.report and not measure(arguments):
        sys.exit(common.MORE_TO_DO)
    report(arguments)


if __name__ == "__main__":
    main()
