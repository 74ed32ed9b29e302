#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The default lock's constants: each varied alone, beside the value that it has.

    bench/default_lock_constants.py [--knobs rotate_us,sleep_us] [--rounds N] [--budget SECONDS]

Every round measures all values of a knob in a scene one after the other, the default twice: once as what the others
are compared with, and once more ("again"), which shows what a difference means that is none. A value is compared with
the default of the same round, and only if the CPUs were as far apart then (see default_lock.py). Rounds are kept one by
one in build/default-lock-constants.jsonl; started again, the script goes on where it was stopped (exit status 75: there
is more to do), and measures a knob anew whose default has been changed. Writes OUT.json and OUT.md. Runs under a
Preemption Monitor: it starts itself again under `flexguard run`. All of it takes about ten minutes."""
import os
import re
import statistics
import sys

sys.dont_write_bytecode = True
import default_lock
import rounds

KNOBS = {
    "rotate_us": [50, 100, 200, 400, 1000],
    "sample_us": [1000, 2000, 4000, 8000],
    "yield_us": [0, 2, 5, 10, 20],
    "sleep_us": [20, 50, 100, 200],
    "lease_us": [25, 50, 100, 200],
}
SCENES = [
    "8 threads",
    "64 threads",
    "2 threads, 2 hogs",
    "8 threads, sections of 100 us",
    "8 threads, 1000 cycles between",
]
SECONDS = 0.4
SHOWN = ["ops/ms", "fairness", "longest ms", "CPU ns/op"]
TUNE_C = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../locks/default/tune.c")


def defaults():
    """knob -> what the code has, in us."""
    with open(TUNE_C, encoding="utf-8") as file:
        return {f"{name}_us": int(ns) // 1000 for name, ns in re.findall(r"^\t\.(\w+)_ns = (\d+),", file.read(), re.M)}


def values(knob, default):
    """(microseconds, whether this is the default for the second time)"""
    return [(us, False) for us in sorted({default, *KNOBS[knob]})] + [(default, True)]


def plan(arguments, now):
    """Knobs and scenes take turns, so that there is something of each when it is stopped."""
    scenes = default_lock.scenes()
    for number in range(arguments.rounds):
        for knob in arguments.knobs:
            for name in SCENES:
                scene = scenes[name]._replace(seconds=SECONDS)
                for us, again in default_lock.alternate(values(knob, now[knob]), number):
                    row = {"knob": knob, "default": now[knob], "scene": name, "us": us, "again": again, "round": number}
                    yield row, (arguments.prefix, scene, "flexguard", {"FLEXGUARD_TUNE": f"{knob}={us}"})


def is_default(row):
    return row["us"] == row["default"] and not row["again"]


def ratios(rows, where):
    """{(us, again): {measure: [how many times the default's, for each round]}}, of one knob in one scene. A round of a
    default that measured nothing of a measure is not compared in it."""
    base = {r["round"]: r for r in rows if is_default(r) and default_lock.place(r) == where}
    out = {}
    for row in rows:
        if is_default(row) or row["round"] not in base or default_lock.place(row) != where:
            continue
        lists = out.setdefault((row["us"], row["again"]), {m: [] for m in SHOWN})
        for m in SHOWN:
            if base[row["round"]][m] > 0:
                lists[m].append(row[m] / base[row["round"]][m])
    return dict(sorted(out.items()))


def label(us, again):
    return f"{us} again" if again else str(us)


def factor(found):
    least, middle, most = (f"{x:.2f}" for x in rounds.spread(found))
    return f"× {middle} ({least} – {most})"


def lines_of_scene(rows, scene, where):
    """The default in its own units, then the others as multiples of it."""
    here = [r for r in rows if is_default(r) and default_lock.place(r) == where]
    if here:
        cells = [rounds.interval(rounds.spread([r[m] for r in here])) for m in SHOWN]
        yield [where, scene, f"**{here[0]['us']}**", str(len(here)), *cells]
    for (us, again), lists in ratios(rows, where).items():
        cells = [factor(lists[m]) if lists[m] else "" for m in SHOWN]
        yield [where, scene, label(us, again), str(len(lists["ops/ms"])), *cells]


def lines_of_all(rows, where):
    """The geometric mean of the scenes' medians, and their least and most."""
    found = {}
    for scene in SCENES:
        for value, lists in ratios([r for r in rows if r["scene"] == scene], where).items():
            for m in SHOWN:
                if lists[m]:
                    found.setdefault(value, {}).setdefault(m, []).append(statistics.median(lists[m]))
    for (us, again), lists in sorted(found.items()):
        cells = [mean_factor(lists[m]) if m in lists else "" for m in SHOWN]
        yield [where, f"mean of {len(lists['ops/ms'])} scenes", label(us, again), "", *cells]


def mean_factor(medians):
    return f"× {statistics.geometric_mean(medians):.2f} ({min(medians):.2f} – {max(medians):.2f})"


def table(rows):
    for where in ("near", "far"):
        yield from lines_of_all(rows, where)
        for scene in SCENES:
            yield from lines_of_scene([r for r in rows if r["scene"] == scene], scene, where)


def report(arguments):
    rows, about = rounds.kept(arguments.rows), rounds.machine()
    rounds.write_json(arguments.out, {"machine": about, "rows": rows})
    head = ["CPUs", "scene", "us", "rounds", *SHOWN]
    with open(arguments.out + ".md", "w", encoding="utf-8") as file:
        print("# The default lock's constants\n\n    bench/default_lock_constants.py\n", file=file)
        print(f"{rounds.setting(about)}. Rounds of {SECONDS} s. Bold is the default, with its medians, the least and "
              "the most; the others are multiples of what it had in the same round: medians, the least and the most. "
              "\"Again\" is the default against itself: a difference no greater than that is none. The means are "
              "geometric, of the scenes' medians, with the least and the most of these. "
              f"{default_lock.NEAR_AND_FAR}\n", file=file)
        for knob in KNOBS:
            mine = [r for r in rows if r["knob"] == knob]
            mine = [r for r in mine if r["default"] == mine[-1]["default"]]
            if mine:
                print(f"## {knob}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}", file=file)
                for cells in table(mine):
                    print(f"| {' | '.join(cells)} |", file=file)
                print(file=file)


def chosen(text):
    unknown = set(text.split(",")) - set(KNOBS)
    if unknown:
        raise ValueError(unknown)
    return text.split(",")


def main():
    parser = rounds.options(__doc__, "default-lock-constants", "default-lock-constants")
    parser.add_argument("--knobs", type=chosen, default=list(KNOBS), help="of " + ",".join(KNOBS) + " (all)")
    parser.add_argument("--rounds", type=int, default=7, help="of each value in each scene (7)")
    arguments = parser.parse_args()
    rounds.beside_a_monitor(arguments)
    todo = list(plan(arguments, defaults()))
    if not arguments.report and not rounds.measure(todo, default_lock.round_of, arguments.rows, arguments.budget):
        sys.exit(rounds.MORE_TO_DO)
    report(arguments)


if __name__ == "__main__":
    main()
