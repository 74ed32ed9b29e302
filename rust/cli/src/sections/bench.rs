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
                "Every round runs each subject once, in an order that rotates, so that a disturbance of the machine affects all alike.",
            ),
            (
                "median (low-high)",
                "The interval holds the true median with at least 95 % confidence. It is made of order statistics (of 7 rounds the \
                 least and the most, 98 %; fewer than 6 never reach 95 %), and assumes nothing about the distribution.",
            ),
            (
                "ratio",
                "How many times as good as the first one in the same rounds, with its interval: above 1 is better, whatever is \
                 measured.",
            ),
            (
                "noise",
                "With --noise the first one runs twice in every round, as if it were two: what it differs from itself.",
            ),
            (
                "better, worse",
                "The interval of the ratio excludes 1: Wilcoxon's signed-rank test of the rounds, which calls equal ones different \
                 in at most 5 % of comparisons. Else: unclear, or too few rounds (fewer than 6). A winner is better than each \
                 other.",
            ),
            (
                "round N stands apart",
                "That round is an outlier: over 3.5 robust standard deviations from the median. It counts like the others.",
            ),
        ],
    },
    Section {
        title: "EXAMPLES",
        items: &[
            (
                "flexguard bench shm --locks all --threads 1x,4x --noise",
                "Every lock, contended by all threads.",
            ),
            (
                "flexguard bench exec --locks posix,flexguard -- ./job",
                "Your program.",
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
        ("0", "Every run succeeded."),
        ("1", "A run failed; the results so far were printed."),
        (
            "126, 127",
            "The program cannot be executed, or does not exist.",
        ),
        OWN_EXIT[0],
        OWN_EXIT[1],
        (
            "interrupted",
            "The command prints the results so far, marked incomplete, and ends by the signal.",
        ),
    ],
};

const JSON: Section = Section {
    title: "JSON",
    items: &[
        (
            "schema",
            "flexguard-bench/2; docs/guide/benchmarks.md of the source tree describes it. It holds every measure, the values of every \
             round, where each comes from (commit, build, machine, kernel, distance of the CPUs), and everything that the \
             worker reported.",
        ),
        (
            "-o FILE",
            "The file is rewritten after every run. If the command is killed, the results so far remain, with complete: false.",
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
            "Time to get the lock. longest_wait_ns is the longest of all rounds.",
        ),
        (
            "fairness_factor, fairness_normalised",
            "Dice's factor, the share of the busier half of the threads: 0.5 is fair, 1 unfair. The normalised factor compares \
             odd thread counts with even ones. Over the whole run, whose length is --seconds.",
        ),
        (
            "fairness_1s, fairness_1s_worst, fairness_10s",
            "The same over each second (mean and worst) and over ten seconds, if the run is that long.",
        ),
        (
            "share_nice_N",
            "With --nice: the share of all operations that the threads of nice level N did.",
        ),
        (
            "cpu_us_per_op, cpu_seconds",
            "User and system time of the threads.",
        ),
        (
            "spins_per_op, spins_per_s, parks_per_s",
            "Iterations of the busy-waiting loops; sleeps. Only locks of this project count them.",
        ),
        (
            "preempted_per_s, transitions_per_s",
            "Preempted critical sections, and changes from spinning to blocking. Machine-wide; they need a monitor.",
        ),
        (
            "runnable_mean",
            "With --trace-us: threads that were not asleep.",
        ),
        (
            "lock_bytes, per_lock_bytes, per_thread_bytes, rss_growth_bytes",
            "Memory: the lock object, all that a used lock takes, what each thread adds, and the growth of the process.",
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

/// Of every workload of fg-bench.
pub const BENCH_WORKLOAD: &[Section] = &[
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
                "flexguard bench shm --threads 4x --cycles-between 100,1000,10000 --html report.html -o result.json",
                "More and less contention, as a page; the result is kept.",
            ),
            (
                "flexguard bench hashtable --locks flexguard,peers --threads 0.5x --hogs 0,1x,2x",
                "Against locks of others that were built in, beside busy processes (the paper's Fig. 3b).",
            ),
            (
                "flexguard bench turns --threads 2 --locks posix,flexguard",
                "Two threads that pass a turn by condition variables, under each lock's interposer.",
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
                "without: no monitor is loaded. bystander: a monitor runs, and hackbench is not registered. registered: hackbench is \
                 registered, and each of its preemptions is examined. timed: the kernel also times the monitor's program.",
            ),
            (
                "hackbench_seconds",
                "The time that hackbench prints. Timed runs report it as timed_seconds, which is not compared.",
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
                "The first lock's time over this lock's, or this lock's score over the first lock's: above 1 is better.",
            ),
            (
                "preempted, transitions",
                "Preempted critical sections, and changes from spinning to blocking, for each run. Machine-wide; they need a \
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
                "Compare a score that the program prints.",
            ),
        ],
    },
];

pub const BENCH_FIRST: &[Section] = &[BENCH_EXIT, ENVIRONMENT];

pub const BENCH_PAPER: &[Section] = &[
    Section {
        title: "RESULTS",
        items: &[
            (
                "DIR/report.html",
                "All tables and figures, as one HTML page.",
            ),
            ("DIR/plots/", "The figures, as SVG and PNG."),
            (
                "DIR/NAME.json",
                "The record of one experiment, rewritten after every run. A later call with the same plan, locks, machine and \
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
                "Show what would run, and for how long.",
            ),
            (
                "flexguard bench paper --quick -o results",
                "At most ten minutes on two hardware contexts.",
            ),
            (
                "flexguard bench paper --quick -o results --only shm,overhead",
                "Run two of the experiments.",
            ),
        ],
    },
];

pub const BENCH_SCENES: &[Section] = &[
    Section {
        title: "SCENES",
        items: &[
            (
                "SCENES",
                "PREFIX/share/flexguard/scenes has those that are installed; their names stand for their files.",
            ),
            (
                "DIR/NAME.json",
                "The record of each scene, as of any other benchmark.",
            ),
            (
                "DIR/claims.md, DIR/claims.json",
                "What is claimed of the locks, what was measured, and whether it holds.",
            ),
            (
                "DIR/report.html, DIR/plots",
                "Everything as a page, and the figures.",
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
                "flexguard bench scenes published-locks -o results",
                "Does each lock behave as its paper says?",
            ),
            (
                "flexguard bench scenes ./mine.toml --plan",
                "What a file of one's own would measure.",
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
                "How many times as good the result is after the change: above 1 is better.",
            ),
            (
                "noise",
                "The larger of the two results' noise at that point; 0 if it was not measured.",
            ),
            (
                "verdict",
                "The verdict of `flexguard bench`. There is none between different machines, unless --across-machines is given.",
            ),
        ],
    },
    Section {
        title: "EXIT STATUS",
        items: &[
            ("0", "The results were compared."),
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
        items: &[("0", "The report was written."), OWN_EXIT[0], OWN_EXIT[1]],
    },
    Section {
        title: "EXAMPLES",
        items: &[(
            "flexguard bench report shm.json hashtable.json -o report.html --plots figures",
            "One page of two results, and their figures as files.",
        )],
    },
];
