# SPDX-License-Identifier: MIT
"""What the papers say of their locks, as predicates of bench/paper_behaviour.py's summary; and its report.

A claim compares two medians and says which factor it takes to hold. The least and the most of seven rounds bound the
median with a confidence of 98 %: where the claim holds of the medians but not of these bounds, it is said to hold
within the noise."""

from rounds import interval, number

SLICE_LOCKS = ["tas-slice", "flexguard-slice", "flexguard-sosp25-slice"]
FAIRNESS_LOCKS = ["posix", "futex", "mcs", "shuffle", "malthusian", "flexguard-sosp25", "flexguard"]

SECTION_LOCKS = ["futex", "tas", "tatas", "ticket", "preemptable-ticket", "preemptable-ticket-pv"]

LEAST, MEDIAN, MOST = 0, 1, 2


def nice_weight(nice):
    """The scheduler's, to 3 %: a fifth less with each step."""
    return 1024 * 0.8**nice


def claims():
    """(lock, claim, experiment, (point, lock, measure), how, factor, (point, lock, measure) or None)

    how: "least": first >= factor * second. "most": first <= factor * second. Without a second, against the factor."""
    yield from collapse_claims()
    yield from survival_claims()
    yield from waiting_claims()
    yield from other_claims()


def collapse_claims():
    for lock in ("ticket", "mcs", "clh", "cohort", "cna"):
        at = (("4C", lock, "throughput"), "most", 0.1, ("1C", lock, "throughput"))
        yield (lock, "collapses past the number of contexts (2.1.2): a tenth of its throughput or less", "load", *at)
    for lock in ("tas", "tatas"):
        at = (("4C, long", lock, "throughput"), "most", 0.5, ("4C, long", "futex", "throughput"))
        yield (lock, "collapses (2.1.2); without an order that takes sections of 20,000 cycles", "sections", *at)
    for lock in ("cohort", "cna"):
        for how, factor, bound in (("least", 1 / 3, "a third"), ("most", 3, "three times")):
            at = (("1C", lock, "throughput"), how, factor, ("1C", "mcs", "throughput"))
            yield (lock, f"on one NUMA node it is much like mcs: at {how} {bound} its throughput", "load", *at)
    at = (("4C", "malthusian", "throughput"), "most", 0.5, ("4C", "futex", "throughput"))
    yield ("malthusian", "collapses like MCS when oversubscribed (2.2): half of futex or less", "load", *at)
    at = (("8C", "shuffle", "throughput"), "most", 1 / 1.46, ("8C", "futex", "throughput"))
    yield ("shuffle", "oversubscribed, sections take 46 % longer than under futex (2.2)", "fairness", *at)


def survival_claims():
    pairs = [("preemptable-ticket", "ticket", "recovers where ticket does not (VEE'13)")]
    pairs += [("preemptable-ticket-pv", "ticket", "recovers where ticket does not (VEE'13)")]
    pairs += [("clh-tp", "clh", "survives oversubscription better than clh (2.2)")]
    pairs += [("load-control", "mcs", "adapts to the load (2.2)"), ("glk", "mcs", "adapts to the load (2.2)")]
    pairs += [("bpf-hybrid", "mcs", "switches to blocking (poster)")]
    pairs += [("flexguard-sosp25", "mcs", "switches to blocking (3.2)"), ("flexguard", "mcs", "does not collapse")]
    points = [("2C", "mcs-tp", "mcs", "survives light oversubscription better than mcs (2.2)")]
    points += [(at, *pair) for pair in pairs for at in ("2C", "4C")]
    for at, lock, than, what in points:
        where = ((at, lock, "throughput"), "least", 5, (at, than, "throughput"))
        yield (lock, f"{what}: at {at} 5 times {than}'s throughput", "load", *where)
    for lock in ("glk", "load-control"):
        where = (("1C, hogs", lock, "throughput"), "least", 2, ("1C, hogs", "mcs", "throughput"))
        yield (lock, "sees the load of other processes, too: beside hogs twice mcs's throughput", "load", *where)


def waiting_claims():
    """Who spins and who sleeps, by the locks' own counters."""
    long = "4C, long"
    yield ("preemptable-ticket-pv", "halts (VEE'13, 5.2): it parks", "sections") + parks(long, "preemptable-ticket-pv")
    at = ((long, "preemptable-ticket-pv", "cpu_ns_per_op"), "most", 0.8, (long, "preemptable-ticket", "cpu_ns_per_op"))
    yield ("preemptable-ticket-pv", "so it burns less CPU than the spinning form: 0.8 times", "sections", *at)
    for lock in ("futex", "backoff"):
        yield (lock, "never spins (2.2, 5.6)", "load", ("4C", lock, "spins_per_1000"), "most", 0, None)
    yield ("spin-park", "spins first (2.2)", "load", ("4C", "spin-park", "spins_per_1000"), "least", 0.01, None)
    for lock in ("futex", "backoff", "spin-park", "glk", "load-control", "bpf-hybrid", "flexguard-sosp25"):
        yield (lock, "oversubscribed, it parks", "load") + parks("4C", lock)
    for lock in ("futex", "posix"):
        at = (("4C", lock, "throughput"), "least", 0.25, ("1C", lock, "throughput"))
        yield (lock, "is stable (2.1.1): a quarter of its throughput at least", "load", *at)
    at = (("4C", "bpf-hybrid", "transitions_per_second"), "least", 1, None)
    yield ("bpf-hybrid", "because critical sections are preempted: how often a second", "load", *at)


def parks(point, lock):
    """At least once a second."""
    return (point, lock, "parks_per_second"), "least", 1, None


def other_claims():
    for lock in ("shuffle", "malthusian"):
        for other in FAIRNESS_LOCKS:
            if other not in ("shuffle", "malthusian", "mcs"):
                at = (("8C", lock, "fairness"), "least", 1, ("8C", other, "fairness"))
                yield (lock, f"is one of the two unfair ones (5.5): more so than {other}", "fairness", *at)
    for at, nice in (("1C nice=0,5", 5), ("2C nice=0,3", 3)):
        ratio = nice_weight(0) / nice_weight(nice)
        share = (at, "u-scl", "share_ratio")
        words = f"shares by weight (EuroSys'20): nice 0 gets {ratio:.2f} times what nice {nice} gets, to 20 %"
        yield ("u-scl", words + ", at least", "nice", share, "least", 0.8 * ratio, None)
        yield ("u-scl", words + ", at most", "nice", share, "most", 1.2 * ratio, None)
    for lock in ("informed", "informed-pv"):
        for at in ("2C", "4C"):
            where = ((at, "ticket", "preempted_per_million"), "least", 5, (at, lock, "preempted_per_million"))
            yield (lock, f"cuts preemptions with lock or ticket (EuroSys'17): at {at}, 5 times", "slices", *where)
            where = ((at, lock, "throughput"), "least", 5, (at, "ticket", "throughput"))
            yield (lock, f"and so gets more done (EuroSys'17): at {at}, 5 times", "slices", *where)


def judge(summary):
    """A list of {lock, claim, measured, verdict}."""
    verdicts = []
    for lock, claim, experiment, first, how, factor, second in claims():
        a = find(summary, experiment, first)
        b = find(summary, experiment, second) if second else [1, 1, 1]
        if not a or not b:
            verdicts.append({"lock": lock, "claim": claim, "measured": "nothing", "verdict": "not measured"})
            continue
        verdicts.append({"lock": lock, "claim": claim, "measured": words(a, b, first, second)})
        verdicts[-1]["verdict"] = verdict(a, b, how, factor)
    for point, locks in summary.get("refusal", {}).items():
        for lock, measures in locks.items():
            reason = measures.get("refused")
            row = {"lock": lock, "claim": "is refused where the kernel has no time-slice extension"}
            row["measured"] = (reason or f"it ran at {point}: this kernel has it").splitlines()[0]
            verdicts.append(row | {"verdict": "holds" if reason else "not measured"})
    return verdicts


def find(summary, experiment, where):
    point, lock, measure = where
    return summary.get(experiment, {}).get(point, {}).get(lock, {}).get(measure)


def verdict(a, b, how, factor):
    if how == "least":
        holds, clearly = a[MEDIAN] >= factor * b[MEDIAN], a[LEAST] >= factor * b[MOST]
    else:
        holds, clearly = a[MEDIAN] <= factor * b[MEDIAN], a[MOST] <= factor * b[LEAST]
    return "holds" if clearly else "holds within the noise" if holds else "DOES NOT HOLD"


def words(a, b, first, second):
    if not second:
        return interval(a)
    return f"{interval(a)} against {interval(b)}" + (f" at {second[0]}" if second[0] != first[0] else "")


TABLES = [
    ("load", "throughput", "Operations a millisecond"),
    ("load", "cpu_ns_per_op", "CPU nanoseconds burnt for an operation"),
    ("load", "spins_per_1000", "Spin iterations for 1,000 operations"),
    ("load", "parks_per_second", "Futex waits and sleeps a second"),
    ("load", "longest_wait_ms", "Longest wait, ms"),
    ("sections", "throughput", "Operations a millisecond, sections of 20,000 cycles"),
    ("sections", "cpu_ns_per_op", "CPU nanoseconds burnt for an operation in those rounds"),
    ("sections", "parks_per_second", "Futex waits and sleeps a second in those rounds"),
    ("fairness", "fairness", "Fairness, normalised (0.5 fair, 1 unfair)"),
    ("fairness", "throughput", "Operations a millisecond in those rounds"),
    ("nice", "share_ratio", "Operations of the first nice level for one of the second"),
    ("slices", "preempted_per_million", "Preempted with the lock or a ticket, for a million operations"),
    ("slices", "throughput", "Operations a millisecond in those rounds"),
    ("memory", "per_lock_bytes", "Bytes for a lock, with what it took from a pool"),
    ("memory", "per_thread_bytes", "Bytes of queue nodes for a thread"),
    ("memory", "rss_growth_bytes", "Growth of the resident set, bytes: stacks and locks"),
]


def markdown(machine, command, summary, verdicts):
    lines = ["# Does each lock behave as its paper says?", "", f"    {command}", ""]
    lines += [
        f"{machine['cpu']}, {machine['contexts']} hardware contexts (C), Linux {machine['kernel']}, commit "
        f"{machine['commit']}, {machine['date']}; {machine['rounds']} interleaved rounds, load average "
        f"{number(machine['load_average'][MEDIAN])} (the rounds' own threads included). The shm workload: 2 cache "
        "lines, 100 cycles between sections; a Preemption Monitor runs. Numbers are medians, in brackets the least and "
        "the most of all rounds. 4C: four threads for each context; hogs: beside twice as many busy processes as "
        "contexts. What holds of the medians but not of these bounds "
        "holds within the noise. Sections in brackets are the FlexGuard paper's unless another paper is named.",
        "",
        "## Verdicts",
        "",
        "| lock | claim | measured | verdict |",
        "|---|---|---|---|",
    ]
    lines += [f"| {v['lock']} | {v['claim']} | {v['measured']} | {v['verdict']} |" for v in verdicts]
    for experiment, measure, title in TABLES:
        lines += table(summary.get(experiment, {}), measure, title)
    return "\n".join(lines) + "\n"


def table(points, measure, title):
    locks = []
    for at in points.values():
        locks += [lock for lock in at if lock not in locks and measure in at[lock]]
    if not locks:
        return []
    lines = ["", f"## {title}", "", "| lock | " + " | ".join(points) + " |", "|---" * (len(points) + 1) + "|"]
    for lock in locks:
        cells = [points[at].get(lock, {}).get(measure) for at in points]
        lines.append(f"| {lock} | " + " | ".join(interval(c) if c else "" for c in cells) + " |")
    return lines
