// SPDX-License-Identifier: MIT
//! The sections of `flexguard bench` and its subcommands.

use super::{
    FORCE_ITEM, LOG_ITEM, OWN_EXIT, PREFIX_ITEM, SOCKET_FILE, SOCKET_ITEM, Section, TUNE_ITEM,
};

pub const BENCH: &[Section] = &[
    Section {
        title: "STATISTICS",
        items: &[
            (
                "rounds",
                "Every round runs everything once, in an order that rotates, so that what disturbs the machine hits all alike.",
            ),
            (
                "median (low-high)",
                "The interval holds the true median with at least 95 % confidence. It is made of order statistics (7 rounds: all \
                 of them, 98 %; fewer than 6 never reach 95 %), and assumes nothing about the distribution.",
            ),
            (
                "ratio",
                "How many times as good as the first one in the same round: above 1 is better, whatever is measured.",
            ),
            (
                "noise",
                "With --noise the first one runs twice in every round, as if it were two. Their difference is the noise: at a \
                 point its own, or the median over all points if that is larger.",
            ),
            (
                "better, worse",
                "The intervals do not overlap, and the medians differ by more than the noise. Else: unclear (they overlap), within \
                 noise, or too few rounds. A winner is better than everybody.",
            ),
            (
                "round N stands apart",
                "An outlier: over 3.5 robust standard deviations from the median. It counts like the others.",
            ),
            (
                "two modes",
                "The rounds fall into two groups of two or more, four times as far apart as the wider is wide, with medians 10 % or \
                 more apart. Of values with one mode fewer than 1 in 100 draws of seven look so.",
            ),
        ],
    },
    Section {
        title: "EXAMPLES",
        items: &[
            (
                "flexguard bench shm --locks all --threads 1x,4x --noise",
                "All locks on one contended lock.",
            ),
            (
                "flexguard bench exec --locks posix,flexguard -- ./job",
                "A program of yours.",
            ),
            (
                "flexguard bench paper --quick",
                "Every figure of the paper, in ten minutes.",
            ),
        ],
    },
];

const BENCH_EXIT: Section = Section {
    title: "EXIT STATUS",
    items: &[
        ("0", "Every run went well."),
        ("1", "A run failed; the results so far were printed."),
        (
            "126, 127",
            "The program cannot be executed, or is not there.",
        ),
        OWN_EXIT[0],
        OWN_EXIT[1],
        (
            "interrupted",
            "Ends by the signal, after printing the results so far, marked incomplete.",
        ),
    ],
};

const JSON: Section = Section {
    title: "JSON",
    items: &[
        (
            "schema",
            "flexguard-bench/1; docs/design/bench-json.md of the source tree describes every field. It has every measure, the values of \
             every round, and all that the worker said.",
        ),
        (
            "-o FILE",
            "Is written anew after every run, whole: also a kill leaves the results so far, with complete: false.",
        ),
    ],
};

const ENVIRONMENT: Section = Section {
    title: "ENVIRONMENT",
    items: &[PREFIX_ITEM, SOCKET_ITEM, TUNE_ITEM, FORCE_ITEM, LOG_ITEM],
};

const MICRO_COLUMNS: Section = Section {
    title: "COLUMNS",
    items: &[
        (
            "throughput_ops_per_ms",
            "Operations per millisecond, all threads together.",
        ),
        (
            "cs_mean_ns, cs_p50_ns, cs_p99_ns, cs_p999_ns, cs_max_ns",
            "Time to take the lock, run the critical section and release.",
        ),
        (
            "wait_p99_ns, longest_wait_ns",
            "Time to get the lock; of the longest the table shows the longest of all rounds.",
        ),
        (
            "fairness_factor, fairness_normalised",
            "Dice's factor, the share of the busier half of the threads: 0.5 is fair, 1 unfair; normalised so that odd thread \
             counts compare. Over the whole run, whose length is --seconds.",
        ),
        (
            "fairness_1s, fairness_1s_worst, fairness_10s",
            "The same over each second (mean and worst), and over ten; of runs that last as long.",
        ),
        (
            "share_nice_N",
            "With --nice: the part of all operations that the threads of level N did.",
        ),
        (
            "cpu_us_per_op, cpu_seconds",
            "User and system time of the threads.",
        ),
        (
            "spins_per_op, spins_per_s, parks_per_s",
            "Turns of the busy-waiting loops, and sleeps.",
        ),
        (
            "preempted_per_s, transitions_per_s",
            "Critical sections whose thread lost its CPU, and turns from spinning to blocking; machine-wide, with a monitor.",
        ),
        (
            "runnable_mean",
            "Threads that were not asleep, with --trace-us.",
        ),
        (
            "lock_bytes, per_lock_bytes, per_thread_bytes, rss_growth_bytes",
            "Memory: the object, what a used lock takes in all, what each thread adds; and how much the process grew.",
        ),
        (
            "ratio",
            "Throughput over that of the first lock in the same round.",
        ),
    ],
};

const FILES: Section = Section {
    title: "FILES",
    items: &[
        (
            "PREFIX/libexec/flexguard/fg-bench",
            "Runs one round of one lock.",
        ),
        SOCKET_FILE,
    ],
};

pub const BENCH_SHM: &[Section] = &[
    MICRO_COLUMNS,
    JSON,
    BENCH_EXIT,
    ENVIRONMENT,
    FILES,
    Section {
        title: "EXAMPLES",
        items: &[
            (
                "flexguard bench shm",
                "The default: posix, futex and flexguard, from half a thread to four for each hardware context.",
            ),
            (
                "flexguard bench shm --locks all --threads 8 --rounds 3",
                "A quick look at every lock.",
            ),
            (
                "flexguard bench shm --threads 4x --cycles-between 100,1000,10000 --html report.html",
                "More and less contention, as a page.",
            ),
            (
                "flexguard bench shm -o result.json",
                "Keep what was measured.",
            ),
        ],
    },
];

pub const BENCH_HASHTABLE: &[Section] = &[
    MICRO_COLUMNS,
    JSON,
    BENCH_EXIT,
    ENVIRONMENT,
    FILES,
    Section {
        title: "EXAMPLES",
        items: &[
            (
                "flexguard bench hashtable --threads 0.5x --hogs 0,1x,2x",
                "Beside busy processes (the paper's Fig. 3b).",
            ),
            (
                "flexguard bench hashtable --locks flexguard,peers",
                "Against locks of others that were built in.",
            ),
        ],
    },
];

pub const BENCH_OVERHEAD: &[Section] = &[
    Section {
        title: "COLUMNS",
        items: &[
            (
                "monitor",
                "without: none is loaded. bystander: hackbench has nothing to do with it. registered: hackbench is registered, and \
                 each of its preemptions examined. timed: the kernel clocks the monitor's program, which costs time itself.",
            ),
            (
                "hackbench_seconds",
                "The time that hackbench prints; of timed runs it is timed_seconds, and not compared.",
            ),
            (
                "ns_per_switch",
                "Mean time of the monitor's program for one context switch, by the kernel's BPF statistics.",
            ),
            (
                "switches_per_s",
                "Context switches of the machine, as the monitor saw them.",
            ),
        ],
    },
    JSON,
    BENCH_EXIT,
    ENVIRONMENT,
    Section {
        title: "EXAMPLES",
        items: &[
            (
                "flexguard bench overhead --noise",
                "Scaled to this machine.",
            ),
            (
                "flexguard bench overhead --groups 26 --loops 10000",
                "The paper's own load.",
            ),
        ],
    },
];

pub const BENCH_EXEC: &[Section] = &[
    Section {
        title: "COLUMNS",
        items: &[
            (
                "elapsed_seconds, cpu_seconds",
                "Wall time; user and system CPU time.",
            ),
            (
                "score",
                "With --score or a preset: what the program printed.",
            ),
            (
                "ratio",
                "Of the first lock's time to this one's, or of this one's score to the first lock's: above 1 is better.",
            ),
            (
                "preempted, transitions",
                "Critical sections whose thread lost its CPU, and turns from spinning to blocking, a run; machine-wide, with a \
                 monitor.",
            ),
            (
                "max_rss_kib, switches_per_s",
                "Largest resident set; context switches of the program.",
            ),
        ],
    },
    JSON,
    BENCH_EXIT,
    ENVIRONMENT,
    Section {
        title: "EXAMPLES",
        items: &[
            (
                "flexguard bench exec -- ./job",
                "glibc's mutexes against FlexGuard, 7 rounds.",
            ),
            (
                "flexguard bench exec --preset rocksdb --threads 4x",
                "A well-known program (Debian: rocksdb-tools).",
            ),
            (
                "flexguard bench exec --score 'number of events: *([0-9]+)' -- sysbench threads run",
                "Compare what the program says of itself.",
            ),
        ],
    },
];

pub const BENCH_PAPER: &[Section] = &[
    Section {
        title: "RESULTS",
        items: &[
            ("DIR/report.html", "Everything, for any browser."),
            ("DIR/plots/", "The figures, as SVG and PNG."),
            (
                "DIR/NAME.json",
                "The record of an experiment, written anew after every run. A later call with the same plan, locks, machine and \
                 kernel continues there.",
            ),
        ],
    },
    BENCH_EXIT,
    ENVIRONMENT,
    FILES,
    Section {
        title: "EXAMPLES",
        items: &[
            (
                "flexguard bench paper --plan",
                "What would run, and for how long.",
            ),
            (
                "flexguard bench paper --quick -o results",
                "At most ten minutes on two hardware contexts.",
            ),
            (
                "flexguard bench paper --quick -o results --only shm,overhead",
                "Some of it.",
            ),
        ],
    },
];

pub const BENCH_COMPARE: &[Section] = &[
    Section {
        title: "COLUMNS",
        items: &[
            (
                "ratio",
                "How many times as good it is after: above 1 is better.",
            ),
            (
                "noise",
                "The larger of the two results' noise at that point; 0 if it was not measured.",
            ),
            (
                "verdict",
                "As `flexguard bench` says it. None between different machines, unless --across-machines asks for it.",
            ),
        ],
    },
    Section {
        title: "EXIT STATUS",
        items: &[
            ("0", "They were compared."),
            ("1", "With --check: something got worse."),
            OWN_EXIT[0],
            OWN_EXIT[1],
        ],
    },
    Section {
        title: "EXAMPLES",
        items: &[(
            "flexguard bench compare before.json after.json --check",
            "Fail if anything got worse.",
        )],
    },
];

pub const BENCH_REPORT: &[Section] = &[
    Section {
        title: "EXIT STATUS",
        items: &[("0", "It was written."), OWN_EXIT[0], OWN_EXIT[1]],
    },
    Section {
        title: "EXAMPLES",
        items: &[(
            "flexguard bench report shm.json hashtable.json -o report.html --plots figures",
            "One page of two results, and their figures as files.",
        )],
    },
];
