# SPDX-License-Identifier: MIT
"""What the scripts that measure have in common: rounds that are kept one by one, so that a script that was stopped goes
on where it was, and programs started beside a Preemption Monitor."""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

CONTEXTS = len(os.sched_getaffinity(0))
MORE_TO_DO = 75
MONITORED = "FG_BENCH_MONITORED"


class Refused(Exception):
    """This machine cannot run the lock. Says why."""


def options(description, report, rows):
    """What all the scripts understand. `report` and `rows` name their files."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--prefix", default="build", help="where `make` put everything (build)")
    parser.add_argument("--out", default=f"docs/measurements/{report}", help="without suffix")
    parser.add_argument("--rows", default=f"build/{rows}.jsonl", help="what each round measured")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which to stop for now")
    parser.add_argument("--report", action="store_true", help="measure nothing, write the report of what there is")
    return parser


def beside_a_monitor(arguments):
    """Replaces this process by one that has a monitor, unless it has one already or measures nothing."""
    if os.environ.get(MONITORED) or arguments.report:
        return
    os.environ[MONITORED] = "1"
    flexguard = os.path.join(arguments.prefix, "bin/flexguard")
    under = [flexguard, "run", "--lock", "posix", "--monitor", "require", "--"]
    os.execv(flexguard, under + [sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]])


def output(command, environment=None):
    """What the command prints. Raises Refused; any other failure ends the script."""
    environment = os.environ | (environment or {})
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment)
    if done.returncode == 77:
        raise Refused(done.stderr.strip())
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr}")
    return done.stdout


def program(prefix, name):
    return os.path.join(prefix, "libexec/flexguard", name)


def fg_bench(prefix, workload, environment=None, **its_options):
    """What a round of fg-bench says, parsed. Names of options may have _ where they have -."""
    command = [program(prefix, "fg-bench"), workload]
    for name, value in its_options.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    return json.loads(output(command, environment))


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


def to_do(plan, rows):
    """Those of the plan that no row is about."""
    names = list(plan[0][0]) if plan else []
    done = {tuple(row.get(name) for name in names) for row in rows}
    return [(row, how) for row, how in plan if tuple(row.values()) not in done]


def measure(plan, run, path, budget):
    """The plan is a list of (row, how): what identifies a round, and what `run` needs to measure it. Appends to `path`
    the row and what `run` returned. Returns whether all is measured."""
    rest = to_do(plan, kept(path))
    began = time.monotonic()
    with open(path, "a", encoding="utf-8") as out:
        for i, (row, how) in enumerate(rest):
            elapsed = time.monotonic() - began
            if elapsed > budget:
                print(f"{len(rest) - i} rounds are left", file=sys.stderr)
                return False
            if sys.stderr.isatty():
                left = elapsed / i * (len(rest) - i) if i else 0
                print(f"\r{i}/{len(rest)}, {left:.0f} s left  ", end="", file=sys.stderr)
            out.write(json.dumps(row | run(*how)) + "\n")
            out.flush()
    return True


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


def setting(about):
    """The machine of a report, in words."""
    return (
        f"{about['cpu']}, {about['contexts']} hardware contexts, Linux {about['kernel']}, commit {about['commit']}, "
        f"{about['date']}"
    )


def write_json(out, value):
    with open(out + ".json", "w", encoding="utf-8") as file:
        json.dump(value, file)
        file.write("\n")


def spread(values):
    return [min(values), statistics.median(values), max(values)]


def number(x):
    return f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}"


def interval(values):
    """Of a spread."""
    least, median, most = values
    return f"{number(median)} ({number(least)} – {number(most)})"
