#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/paper_behaviour.py: every claim is about something that it measures, and verdicts are right.

claims.py FG_BENCH SOURCE_DIR"""
import subprocess
import sys

sys.dont_write_bytecode = True
bench, source = sys.argv[1:]
sys.path.insert(0, source)
import paper_behaviour
import paper_claims

listed = subprocess.run([bench, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
locks = [line.split("\t")[0] for line in listed.splitlines() if line.split("\t")[1] in ("own", "libc")]
plan = paper_behaviour.experiments(locks, tiny=False)
measured = {(name, at["name"], lock) for name, _, which, points, *_ in plan for at in points for lock in which}

for lock, claim, experiment, first, _, _, second in paper_claims.claims():
    for where in filter(None, (first, second)):
        if (experiment, *where[:2]) not in measured:
            sys.exit(f"{lock}: {claim}: nothing measures {where} in {experiment}")
        if not any((table[0], table[1]) == (experiment, where[2]) for table in paper_claims.TABLES + [
            ("load", "transitions_per_second", "in the verdicts only"),
        ]):
            sys.exit(f"{lock}: {claim}: {where[2]} of {experiment} is not shown")
claimed = {lock for lock, *_ in paper_claims.claims()} | set(paper_claims.SLICE_LOCKS)
if set(locks) - claimed:
    sys.exit(f"no claim about {set(locks) - claimed}")

cases = [
    ([10, 12, 14], [1, 2, 3], "least", 3, "holds"),
    ([10, 12, 14], [1, 2, 3], "least", 5, "holds within the noise"),
    ([10, 12, 14], [1, 2, 3], "least", 7, "DOES NOT HOLD"),
    ([1, 2, 3], [10, 12, 14], "most", 0.5, "holds"),
    ([1, 2, 3], [10, 12, 14], "most", 0.2, "holds within the noise"),
    ([1, 2, 3], [10, 12, 14], "most", 0.1, "DOES NOT HOLD"),
]
for a, b, how, factor, expected in cases:
    found = paper_claims.verdict(a, b, how, factor)
    if found != expected:
        sys.exit(f"{a} {how} {factor} * {b}: {found}, not {expected}")
