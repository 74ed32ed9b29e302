#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does each lock of the collection behave as its paper says? Measures, and says so.

    bench/paper_behaviour.py [--out docs/measurements/paper-behaviour] [--budget SECONDS] [--tiny]

Rounds are interleaved: each round visits every lock at every point before the next begins. Each is kept as soon as it
is done, one JSON object a line in build/paper-behaviour.jsonl; started again, the script goes on where it was stopped,
also after it has used up its budget (exit status 75: there is more to do). Remove that file to begin anew. At the end,
and with --report at any time, it writes OUT.json (medians, least and most) and OUT.md (verdicts and a table for each
measure). What has to hold is said in bench/paper_claims.py. Runs under a Preemption Monitor: it starts itself again
under `flexguard run`."""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import paper_claims

CONTEXTS = len(os.sched_getaffinity(0))
MORE_TO_DO = 75
REFUSED = 77


def point(contexts, name=None, **options):
    """So many threads for each hardware context, and options of fg-bench."""
    name = name or f"{contexts}C" + "".join(f" {k}={v}" for k, v in options.items())
    return {"name": name, "threads": max(1, round(CONTEXTS * contexts)), "options": options}


def experiments(locks, tiny):
    """(name, program, locks, points, rounds, seconds, warm-up)"""
    rounds = 3 if tiny else 7
    own = [lock for lock in locks if lock not in ("tas-slice", "flexguard-slice")]
    fair = [lock for lock in paper_claims.FAIRNESS_LOCKS if lock in locks]
    hogs = point(1, name="1C, hogs", hogs=2 * CONTEXTS)
    long = point(4, name="4C, long", **{"section-cycles": 20000})
    return [
        ("refusal", "shm", ["tas-slice", "flexguard-slice"], [point(1)], 1, 0.1, 0.0),
        ("memory", "shm", own, [point(2), point(2, locks=1000000, lines=1)], 1, 0.1, 0.0),
        ("memory", "shm", ["u-scl"], [point(4, locks=4000000, lines=1)], 1, 1.0, 0.0),
        ("load", "shm", own, [point(1), point(2), point(4), hogs], rounds, 0.2 if tiny else 0.5, 0.05),
        ("sections", "shm", paper_claims.SECTION_LOCKS, [long], rounds, 0.4, 0.1),
        ("fairness", "shm", fair, [point(4), point(8)], rounds, 0.5 if tiny else 2.0, 0.1),
        ("nice", "shm", ["u-scl", "posix"], [point(1, nice="0,5"), point(2, nice="0,3")], rounds, 1.0, 0.2),
        ("slices", "preempted", ["ticket", "informed", "informed-pv"], [point(2), point(4)], rounds, 1, 0),
    ]


class Bench:
    """Starts the programs and reads what they print."""

    def __init__(self, arguments):
        self.fg_bench = os.path.join(arguments.prefix, "libexec/flexguard/fg-bench")
        self.preempted = arguments.preempted

    def locks(self):
        listed = subprocess.run([self.fg_bench, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
        rows = [line.split("\t") for line in listed.splitlines()]
        return [row[0] for row in rows if row[1] in ("own", "libc")]

    def run(self, program, lock, at, seconds, warmup):
        if program == "preempted":
            return self.count_preemptions(lock, at, seconds)
        command = [self.fg_bench, "shm", "--lock", lock, "--threads", str(at["threads"])]
        command += ["--seconds", str(seconds), "--warmup", str(warmup)]
        for name, value in at["options"].items():
            command += ["--" + name, str(value)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        if done.returncode == REFUSED:
            return {"refused": done.stderr.strip()}
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr}")
        return flatten(json.loads(done.stdout))

    def count_preemptions(self, lock, at, seconds):
        """tests/slices/preempted.c: who draws a ticket says that it is critical, and the monitor counts."""
        command = [os.path.join(self.preempted, f"preempted-{lock}"), str(seconds), str(at["threads"]), "2000", "2000"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=180)
        if done.returncode == REFUSED:
            return {"refused": done.stderr.strip()}
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr}")
        words = done.stdout.split()
        operations, preempted = int(words[0]), int(words[2])
        return {
            "throughput": operations / seconds / 1000,
            "preempted_per_second": preempted / seconds,
            "preempted_per_million": 1e6 * preempted / max(operations, 1),
        }


def flatten(result):
    """The measures of a round that claims are about."""
    ops = max(result["ops"], 1)
    row = {
        "throughput": result["throughput_ops_per_ms"],
        "cpu_ns_per_op": result["cpu_seconds"] * 1e9 / ops,
        "fairness": result["fairness_normalised"],
        "longest_wait_ms": result["longest_wait_ns"] / 1e6,
        "transitions_per_second": result["mode_transitions_per_second"],
    }
    if "spins" in result:
        row["spins_per_1000"] = 1000 * result["spins"] / ops
        row["parks_per_second"] = result["parks"] / result["seconds"]
    memory = result["memory"]
    row |= {name: memory[name] for name in ("lock_bytes", "per_lock_bytes", "per_thread_bytes") if name in memory}
    row["rss_growth_bytes"] = memory["rss_growth_bytes"]
    levels = result.get("nice", [])
    if len(levels) == 2 and levels[1]["ops"] > 0:
        row["share_ratio"] = levels[0]["ops"] / levels[1]["ops"]
    return row


def key(row):
    return (row["experiment"], row["lock"], row["point"], row["round"])


def kept(path):
    """What earlier runs have measured; a line that was cut off does not count."""
    rows = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                try:
                    rows.append(json.loads(line))
                except json.JSONDecodeError:
                    continue
    return rows


def to_do(plan, done):
    for name, program, locks, points, rounds, seconds, warmup in plan:
        for number in range(rounds):
            for at in points:
                for lock in locks:
                    row = {"experiment": name, "lock": lock, "point": at["name"], "round": number}
                    if key(row) not in done:
                        yield row, (program, lock, at, seconds, warmup)


def measure(bench, plan, path, budget):
    """Returns whether all is measured."""
    done = {key(row) for row in kept(path)}
    rest = list(to_do(plan, done))
    began = time.monotonic()
    with open(path, "a", encoding="utf-8") as out:
        for i, (row, run) in enumerate(rest):
            elapsed = time.monotonic() - began
            if elapsed > budget:
                print(f"{len(rest) - i} rounds are left", file=sys.stderr)
                return False
            left = elapsed / i * (len(rest) - i) if i else 0
            if sys.stderr.isatty():
                print(f"\r{i}/{len(rest)}, {left:.0f} s left  ", end="", file=sys.stderr)
            row["load_average"] = os.getloadavg()[0]
            out.write(json.dumps(row | bench.run(*run)) + "\n")
            out.flush()
    return True


def summarise(rows):
    """experiment -> point -> lock -> measure -> [least, median, most]; of a refusal, its reason."""
    lists = {}
    for row in rows:
        at = lists.setdefault(row["experiment"], {}).setdefault(row["point"], {}).setdefault(row["lock"], {})
        for name, value in row.items():
            if name not in ("experiment", "lock", "point", "round", "load_average"):
                at.setdefault(name, []).append(value)
    for points in lists.values():
        for locks in points.values():
            for lock, measures in locks.items():
                locks[lock] = {n: v[0] if n == "refused" else spread(v) for n, v in measures.items()}
    return lists


def spread(values):
    return [round(x, 4) for x in (min(values), statistics.median(values), max(values))]


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True).stdout.strip()
    return {
        "cpu": model,
        "contexts": CONTEXTS,
        "kernel": platform.release(),
        "commit": commit or "unknown",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def report(out, rows, command):
    about = machine()
    loads = [row["load_average"] for row in rows]
    about["load_average"] = spread(loads) if loads else [0, 0, 0]
    about["rounds"] = max((row["round"] for row in rows), default=-1) + 1
    summary = summarise(rows)
    verdicts = paper_claims.judge(summary)
    with open(out + ".json", "w", encoding="utf-8") as file:
        json.dump({"machine": about, "command": command, "summary": summary, "verdicts": verdicts}, file)
        file.write("\n")
    with open(out + ".md", "w", encoding="utf-8") as file:
        file.write(paper_claims.markdown(about, command, summary, verdicts))
    for verdict in verdicts:
        if verdict["verdict"] != "holds":
            print(f"{verdict['verdict']}: {verdict['claim']}: {verdict['measured']}", file=sys.stderr)


def beside_a_monitor(arguments):
    """Replaces this process by one that has a monitor, unless it has one already."""
    if os.environ.get("FG_PAPER_BEHAVIOUR") or arguments.report:
        return
    os.environ["FG_PAPER_BEHAVIOUR"] = "1"
    flexguard = os.path.join(arguments.prefix, "bin/flexguard")
    under = [flexguard, "run", "--lock", "posix", "--monitor", "require", "--"]
    os.execv(flexguard, under + [sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]])


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", default="build", help="where `make` put everything (build)")
    parser.add_argument("--preempted", default="build/.cmake/tests/slices", help="where tests/slices was built")
    parser.add_argument("--out", default="docs/measurements/paper-behaviour", help="without suffix")
    parser.add_argument("--rows", default="build/paper-behaviour.jsonl", help="what each round measured")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which to stop for now")
    parser.add_argument("--tiny", action="store_true", help="3 short rounds: to try the script, not to believe")
    parser.add_argument("--report", action="store_true", help="measure nothing, write the report of what there is")
    return parser.parse_args()


def main():
    arguments = options()
    beside_a_monitor(arguments)
    bench = Bench(arguments)
    if arguments.tiny:
        arguments.rows += ".tiny"
    plan = experiments(bench.locks(), arguments.tiny)
    complete = arguments.report or measure(bench, plan, arguments.rows, arguments.budget)
    if not complete:
        sys.exit(MORE_TO_DO)
    command = "bench/paper_behaviour.py" + (" --tiny" if arguments.tiny else "")
    report(arguments.out, kept(arguments.rows), command)


if __name__ == "__main__":
    main()
