#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does each lock of the collection behave as its paper says? Measures, and says so.

    bench/paper_behaviour.py [--out docs/results/papers] [--budget SECONDS] [--tiny]

Rounds are interleaved: each round visits every lock at every point before the next begins. Each is kept as soon as it
is done, one JSON object a line in build/paper-behaviour.jsonl; started again, the script goes on where it was stopped,
also after it has used up its budget (exit status 75: there is more to do). Remove that file to begin anew. At the end,
and with --report at any time, it writes OUT.json (medians, least and most) and OUT.md (verdicts and a table for each
measure). What has to hold is said in bench/paper_claims.py. Runs under a Preemption Monitor: it starts itself again
under `flexguard run`."""
import os
import sys

sys.dont_write_bytecode = True
import paper_claims
import rounds


def point(contexts, name=None, **options):
    """So many threads for each hardware context, and options of fg-bench."""
    name = name or f"{contexts}C" + "".join(f" {k}={v}" for k, v in options.items())
    return {"name": name, "threads": max(1, round(rounds.CONTEXTS * contexts)), "options": options}


def experiments(locks, tiny):
    """(name, program, locks, points, rounds, seconds, warm-up)"""
    times = 3 if tiny else 7
    own = [lock for lock in locks if lock not in paper_claims.SLICE_LOCKS]
    fair = [lock for lock in paper_claims.FAIRNESS_LOCKS if lock in locks]
    hogs = point(1, name="1C, hogs", hogs=2 * rounds.CONTEXTS)
    long = point(4, name="4C, long", **{"section-cycles": 20000})
    return [
        ("refusal", "shm", paper_claims.SLICE_LOCKS, [point(1)], 1, 0.1, 0.0),
        ("memory", "shm", own, [point(2), point(2, locks=1000000, lines=1)], 1, 0.1, 0.0),
        ("memory", "shm", ["u-scl"], [point(4, locks=4000000, lines=1)], 1, 1.0, 0.0),
        ("load", "shm", own, [point(1), point(2), point(4), hogs], times, 0.2 if tiny else 0.5, 0.05),
        ("sections", "shm", paper_claims.SECTION_LOCKS, [long], times, 0.4, 0.1),
        ("fairness", "shm", fair, [point(4), point(8)], times, 0.5 if tiny else 2.0, 0.1),
        ("nice", "shm", ["u-scl", "posix"], [point(1, nice="0,5"), point(2, nice="0,3")], times, 1.0, 0.2),
        ("slices", "preempted", ["ticket", "informed", "informed-pv"], [point(2), point(4)], times, 1, 0),
    ]


class Bench:
    """Starts the programs and reads what they print."""

    def __init__(self, arguments):
        self.prefix = arguments.prefix
        self.preempted = arguments.preempted

    def locks(self):
        listed = rounds.output([rounds.program(self.prefix, "fg-bench"), "--list"])
        rows = [line.split("\t") for line in listed.splitlines()]
        return [row[0] for row in rows if row[1] in ("own", "libc")]

    def run(self, program, lock, at, seconds, warmup):
        load = {"load_average": os.getloadavg()[0]}
        try:
            if program == "preempted":
                return load | self.count_preemptions(lock, at, seconds)
            times = {"threads": at["threads"], "seconds": seconds, "warmup": warmup}
            return load | flatten(rounds.fg_bench(self.prefix, program, lock=lock, **times, **at["options"]))
        except rounds.Refused as reason:
            return load | {"refused": str(reason)}

    def count_preemptions(self, lock, at, seconds):
        """tests/slices/preempted.c: who draws a ticket says that it is critical, and the monitor counts."""
        program = os.path.join(self.preempted, f"preempted-{lock}")
        words = rounds.output([program, str(seconds), str(at["threads"]), "2000", "2000"]).split()
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


def to_measure(plan):
    for name, program, locks, points, times, seconds, warmup in plan:
        for number in range(times):
            for at in points:
                for lock in locks:
                    row = {"experiment": name, "lock": lock, "point": at["name"], "round": number}
                    yield row, (program, lock, at, seconds, warmup)


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
                locks[lock] = {n: v[0] if n == "refused" else rounded(v) for n, v in measures.items()}
    return lists


def rounded(values):
    return [round(x, 4) for x in rounds.spread(values)]


def report(out, rows, command):
    about = rounds.machine()
    loads = [row["load_average"] for row in rows]
    about["load_average"] = rounded(loads) if loads else [0, 0, 0]
    about["rounds"] = max((row["round"] for row in rows), default=-1) + 1
    summary = summarise(rows)
    verdicts = paper_claims.judge(summary)
    rounds.write_json(out, {"machine": about, "command": command, "summary": summary, "verdicts": verdicts})
    with open(out + ".md", "w", encoding="utf-8") as file:
        file.write(paper_claims.markdown(about, command, summary, verdicts))
    for verdict in verdicts:
        if verdict["verdict"] != "holds":
            print(f"{verdict['verdict']}: {verdict['claim']}: {verdict['measured']}", file=sys.stderr)


def options():
    parser = rounds.options(__doc__, "paper-behaviour", "paper-behaviour")
    parser.add_argument("--preempted", default="build/.cmake/tests/slices", help="where tests/slices was built")
    parser.add_argument("--tiny", action="store_true", help="3 short rounds: to try the script, not to believe")
    return parser.parse_args()


def main():
    arguments = options()
    rounds.beside_a_monitor(arguments)
    bench = Bench(arguments)
    if arguments.tiny:
        arguments.rows += ".tiny"
    plan = list(to_measure(experiments(bench.locks(), arguments.tiny)))
    if not arguments.report and not rounds.measure(plan, bench.run, arguments.rows, arguments.budget):
        sys.exit(rounds.MORE_TO_DO)
    command = "bench/paper_behaviour.py" + (" --tiny" if arguments.tiny else "")
    report(arguments.out, rounds.kept(arguments.rows), command)


if __name__ == "__main__":
    main()
