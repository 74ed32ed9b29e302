#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Five users fork at the same time, beside a monitor with the limits and options of packaging/kubernetes and 1,024
descriptors.

    forks.py PREFIX LOCK PROGRAM FORKS ROUNDS

FORKS in all; in each of ROUNDS, its share is there at a time. The monitor has to live and to answer, to take less memory
than its limit, and to watch a program of a sixth user afterwards. Root. Ends with 77 where no control group limits memory."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

prefix, lock, program, forks, rounds = sys.argv[1:4] + [int(n) for n in sys.argv[4:6]]
command = f"{prefix}/bin/flexguard"
manifest = pathlib.Path(__file__).parents[2] / "packaging/kubernetes/monitor.yaml"
users = range(71001, 71006)
cgroups = pathlib.Path("/sys/fs/cgroup")
name = f"flexguard-test-forks.{os.getpid()}"
pid_max = pathlib.Path("/proc/sys/kernel/pid_max")
WATCHDOG = 600  # seconds for what takes a few


def fail(why):
    sys.exit(f"forks: {why}")


class Group:
    """Control groups that this check makes, and removes."""

    made = []

    def __init__(self, controller, suffix="", **limits):
        self.path = controller / (name + suffix)
        self.path.mkdir()
        Group.made.append(self.path)
        for file, value in limits.items():
            (self.path / file.replace("__", ".")).write_text(f"{value}\n")

    def read(self, file):
        return (self.path / file).read_text()


def limited(mib):
    """A group with so much memory, and how its use is called there."""
    if (cgroups / "memory/memory.limit_in_bytes").exists():
        return Group(cgroups / "memory", memory__limit_in_bytes=mib << 20), "memory.usage_in_bytes"
    controllers = cgroups / "cgroup.subtree_control"
    if controllers.exists() and "memory" in controllers.read_text().split():
        return Group(cgroups, memory__max=mib << 20), "memory.current"
    sys.exit(77)


def killed(memory):
    """How often the kernel has killed for want of memory in the group."""
    for file in ("memory.oom_control", "memory.events"):
        if (memory.path / file).exists():
            return int(re.search(r"^oom_kill (\d+)", memory.read(file), re.M).group(1))
    return 0


def in_groups(groups):
    def enter():
        for group in groups:
            (group / "cgroup.procs").write_text("0\n")

    return enter


def status():
    asked = subprocess.run([command, "status", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=WATCHDOG)
    if asked.returncode:
        fail(f"the monitor does not answer: {asked.stderr.decode()}")
    return json.loads(asked.stdout)


def watched():
    return len(status()["programs"])


def start_monitor(groups):
    limit = f"ulimit -Sn 1024; exec {command} monitor --domains cgroup"
    monitor = subprocess.Popen(
        ["sh", "-c", limit], stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=in_groups(groups), text=True
    )
    if "ready" not in monitor.stdout.readline():
        print(monitor.stderr.read())
        sys.exit(1 if os.environ.get("FLEXGUARD_REQUIRE_BPF") == "1" else 77)
    return monitor


def start_user(user):
    """In a control group of its own, as in a container."""
    own = []
    if (cgroups / "unified/cgroup.procs").exists():
        own = [Group(cgroups / "unified", f".{user}").path]
    each = forks // len(users)
    return subprocess.Popen(
        [program, str(user), str(each), str(each // rounds), *map(str, own)],
        env=os.environ | {"LD_PRELOAD": f"{prefix}/lib/flexguard/{lock}.so"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def check(running):
    mib = int(re.search(r"limits: {memory: (\d+)Mi}", manifest.read_text()).group(1))
    memory, use = limited(mib)
    groups = [memory.path]
    if (cgroups / "cpu/cpu.shares").exists():
        groups.append(Group(cgroups / "cpu", cpu__shares=102).path)  # 100m
    monitor = start_monitor(groups)
    running.append(monitor)

    def kib():
        return int(memory.read(use)) // 1024

    before, most, largest = kib(), 0, 0
    began = time.monotonic()
    children = [start_user(user) for user in users]
    running.extend(children)
    for _ in range(rounds):
        for child in children:
            child.stdout.readline()
        most, largest = max(most, watched()), max(largest, kib())
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
    if any(child.wait(WATCHDOG) for child in children):
        fail("a program of a user has failed")
    took = time.monotonic() - began
    if monitor.poll() is not None or killed(memory):
        fail(f"the monitor has ended: {monitor.poll()}, {killed(memory)} killed; {largest} KiB of {mib} MiB")
    after, sixth = kib(), start_user(71006)
    running.append(sixth)
    sixth.stdout.readline()
    if not watched():
        fail("the program of a sixth user is not watched")
    sixth.kill()
    monitor.send_signal(signal.SIGTERM)
    if monitor.wait(WATCHDOG):
        fail(f"the monitor ended with {monitor.returncode}: {monitor.stderr.read()}")
    print(f"{forks} forks of {len(users)} users in {took:.1f} s, at most {most} watched at a time:", end=" ")
    print(f"{largest} KiB of the monitor's {mib} MiB (before: {before}, afterwards: {after})")


def main():
    if os.getuid():
        sys.exit(77)
    os.environ["FLEXGUARD_SOCKET"] = f"@{name}"
    signal.alarm(2 * WATCHDOG)
    processes, running = int(pid_max.read_text()), []
    pid_max.write_text(f"{max(processes, forks // rounds + 32768)}\n")
    try:
        check(running)
    finally:
        for process in running:
            process.kill()
            process.wait()
        for group in Group.made:
            until = time.monotonic() + 60
            while (group / "cgroup.procs").read_text() and time.monotonic() < until:
                time.sleep(0.01)
            group.rmdir()
        pid_max.write_text(f"{processes}\n")


main()
