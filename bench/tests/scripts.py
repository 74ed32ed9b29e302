#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/rounds.py, default_lock.py, default_lock_constants.py: what was measured is not measured again, and what is
reported of rounds is right.

scripts.py FG_BENCH SOURCE_DIR"""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
bench, source = sys.argv[1:]
sys.path.insert(0, source)
import default_lock
import default_lock_constants as constants
import rounds


def expect(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: {found}, not {expected}")


class Stopped(Exception):
    pass


def test_going_on():
    """Stopped in its third round, the fourth never begun, the last line cut off; then started again."""
    plan = [({"scene": s, "round": n}, (s, n)) for n in range(2) for s in "ab"]
    runs = []

    def run(scene, number):
        if len(runs) == 2:
            raise Stopped
        runs.append((scene, number))
        return {"result": len(runs)}

    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "rows")
        expect(rounds.measure(plan, run, path, -1), False, "without a budget")
        try:
            rounds.measure(plan, run, path, 1e9)
            sys.exit("the exception got lost")
        except Stopped:
            pass
        with open(path, "a", encoding="utf-8") as file:
            file.write('{"scene": "a", "rou\n')
        expect(runs, [("a", 0), ("b", 0)], "the first rounds")
        runs.append(None)
        expect(rounds.measure(plan, run, path, 1e9), True, "all")
        expect(runs[3:], [("a", 1), ("b", 1)], "the other rounds")
        expect([r["result"] for r in rounds.kept(path)], [1, 2, 4, 5], "what is kept")
        expect(rounds.to_do(plan, rounds.kept(path)), [], "the rest")


def test_options():
    """fg-bench has every option that a scene gives."""
    for name, scene in default_lock.scenes().items():
        if scene.workload.endswith("uncontended"):
            continue
        usage = subprocess.run([bench, scene.workload, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
        missing = [option for option in scene.options if f"--{option} " not in usage]
        expect(missing, [], f"{name}: options that fg-bench does not have")


def test_table():
    """Near and far are told apart, and each is compared with its own."""
    measures = ["speed", "added later"]
    scene = default_lock.Scene(["flexguard", "posix"], 1, {})
    rows = [
        {"column": column, "handover_ns": ns, "speed": speed}
        for column, ns, speed in ((0, 50, 10), (0, 50, 30), (0, 50, 20), (0, 250, 8), (1, 50, 5), (1, 250, 16))
    ]
    expect(
        list(default_lock.table(rows, scene, measures)),
        [
            ["near", "flexguard", "3", "20", "1.00", "10 – 30", ""],
            ["near", "posix", "1", "5", "0.25", "5 – 5", ""],
            ["far", "flexguard", "1", "8", "1.00", "8 – 8", ""],
            ["far", "posix", "1", "16", "2.00", "16 – 16", ""],
        ],
        "the table",
    )


def test_constants():
    """Every knob of the code is scanned, around its default, where the default lock is."""
    expect(set(constants.KNOBS), set(constants.defaults()), "the knobs")
    expect(set(constants.SCENES) - set(default_lock.scenes()), set(), "scenes that there are not")
    for knob, default in constants.defaults().items():
        values = constants.values(knob, default)
        expect((values.count((default, False)), values.count((default, True))), (1, 1), f"{knob}: defaults")
    expect(constants.values("sleep_us", 70)[2], (70, False), "a default that is not in the list")


def test_ratios():
    """To the default of the same round and the same place; what was not measured is not divided by."""

    def row(us, number, ns, speed, longest=1, again=False):
        shown = dict.fromkeys(constants.SHOWN, 1) | {"ops/ms": speed, "longest ms": longest}
        return {"us": us, "default": 5, "again": again, "round": number, "handover_ns": ns} | shown

    rows = [row(5, 0, 50, 10), row(2, 0, 50, 20), row(5, 0, 50, 11, again=True)]
    rows += [row(5, 1, 50, 100, longest=0), row(2, 1, 50, 50), row(9, 1, 250, 7)]
    rows += [row(5, 2, 250, 4), row(2, 2, 250, 8), row(2, 3, 250, 99)]
    near, far = constants.ratios(rows, "near"), constants.ratios(rows, "far")
    expect({k: v["ops/ms"] for k, v in near.items()}, {(2, False): [2, 0.5], (5, True): [1.1]}, "near")
    expect({k: v["ops/ms"] for k, v in far.items()}, {(2, False): [2]}, "far")
    expect(near[(2, False)]["longest ms"], [1], "a default without a wait")


test_constants()
test_ratios()
test_going_on()
test_options()
test_table()
