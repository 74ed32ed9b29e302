// SPDX-License-Identifier: MIT
//! The parts of a manual page that an option parser knows nothing of: exit status, environment, files, examples.

use std::fmt::Write;

/// A titled list of terms, each with its explanation.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    pub title: &'static str,
    pub items: &'static [(&'static str, &'static str)],
}

const OWN_EXIT: [(&str, &str); 2] = [
    (
        "125",
        "The command itself failed; stderr says why and what to do.",
    ),
    ("2", "The command line is wrong."),
];

const PREFIX_ITEM: (&str, &str) = (
    "FLEXGUARD_PREFIX",
    "The installation to use; by default the one that this command is in.",
);
const SOCKET_ITEM: (&str, &str) = (
    "FLEXGUARD_SOCKET",
    "The monitor's socket: a path, or @NAME in the abstract namespace. Set but empty: use no monitor.",
);
const SOCKET_FILE: (&str, &str) = (
    "/run/flexguard/monitor.sock",
    "The socket of the machine's monitor daemon.",
);

pub const MAIN: &[Section] = &[
    Section {
        title: "EXAMPLES",
        items: &[
            (
                "flexguard run -- ./server",
                "Run a program under the default lock.",
            ),
            (
                "flexguard run --lock mcs --stats -- ./server",
                "Choose the lock; end with what was counted.",
            ),
            (
                "flexguard doctor",
                "See whether this machine can run the whole system.",
            ),
            (
                "flexguard bench exec -- ./job",
                "Compare a program under glibc's mutexes and under FlexGuard.",
            ),
        ],
    },
    Section {
        title: "ENVIRONMENT",
        items: &[PREFIX_ITEM, SOCKET_ITEM, ("NO_COLOR", "Use no colours.")],
    },
    Section {
        title: "FILES",
        items: &[SOCKET_FILE],
    },
];

pub const RUN: &[Section] = &[
    Section {
        title: "SUMMARY",
        items: &[
            ("lock", "The lock that was used."),
            (
                "monitor",
                "active: loaded for this run. active (shared daemon): its counters cover the whole machine. absent: with the reason.",
            ),
            (
                "preempted-critical-sections",
                "How often a thread lost its CPU inside a critical section: the sum of the next two.",
            ),
            ("preempted-holders", "... while it held a lock."),
            (
                "preempted-next-waiters",
                "... while it was next in a lock's queue.",
            ),
            (
                "mode-transitions",
                "How often the locks turned from spinning to blocking.",
            ),
            (
                "missed",
                "Preemptions in a critical section that could not be counted.",
            ),
            ("switches", "Context switches that the monitor looked at."),
            (
                "registered-processes",
                "Processes whose locks reported to the monitor. 0: the locks were not used, or not replaced.",
            ),
            (
                "elapsed-seconds, user-seconds, system-seconds",
                "Wall time and CPU time.",
            ),
            ("max-rss-kib", "The largest resident set."),
            (
                "voluntary-switches, involuntary-switches",
                "Context switches of the program.",
            ),
            (
                "unknown",
                "The value of whatever only an active monitor could have counted.",
            ),
        ],
    },
    Section {
        title: "SIGNALS",
        items: &[
            ("sent to the command", "are passed on to the program."),
            (
                "sent by the terminal",
                "reach the program directly; the command outlives it to print the summary.",
            ),
            (
                "SIGKILL",
                "ends the command alone: the program continues, without a monitor of its own.",
            ),
        ],
    },
    Section {
        title: "EXIT STATUS",
        items: &[
            (
                "as the program",
                "Its exit status; or the command ends by the signal that ended the program.",
            ),
            OWN_EXIT[0],
            ("126", "The program cannot be executed."),
            ("127", "There is no such program."),
            OWN_EXIT[1],
        ],
    },
    Section {
        title: "ENVIRONMENT",
        items: &[
            (
                "LD_PRELOAD",
                "The program's: the lock is put in front of what is there.",
            ),
            SOCKET_ITEM,
            PREFIX_ITEM,
        ],
    },
    Section {
        title: "FILES",
        items: &[
            SOCKET_FILE,
            (
                "PREFIX/lib/flexguard/NAME.so",
                "The lock called NAME, as the program loads it.",
            ),
        ],
    },
    Section {
        title: "EXAMPLES",
        items: &[
            (
                "flexguard run --stats -- pbzip2 -k file",
                "Run pbzip2 and end with the summary.",
            ),
            (
                "flexguard run --stats=json --stats-file s.json -- ./job",
                "Keep the summary for a script.",
            ),
            (
                "flexguard run --lock posix --stats -- ./job",
                "The same program with glibc's own mutexes.",
            ),
            (
                "flexguard run --monitor require -- ./job",
                "Rather fail than run without the monitor.",
            ),
        ],
    },
];

pub const LIST: &[Section] = &[
    Section {
        title: "EXIT STATUS",
        items: &[("0", "The locks were listed."), OWN_EXIT[0], OWN_EXIT[1]],
    },
    Section {
        title: "ENVIRONMENT",
        items: &[PREFIX_ITEM],
    },
    Section {
        title: "FILES",
        items: &[("PREFIX/share/flexguard/LOCKS", "The index of locks.")],
    },
];

pub const DOCTOR: &[Section] = &[
    Section {
        title: "EXIT STATUS",
        items: &[
            ("0", "The whole system works."),
            (
                "1",
                "Something is missing: the locks run without the monitor, or not at all.",
            ),
            OWN_EXIT[0],
            OWN_EXIT[1],
        ],
    },
    Section {
        title: "ENVIRONMENT",
        items: &[PREFIX_ITEM, SOCKET_ITEM],
    },
    Section {
        title: "FILES",
        items: &[SOCKET_FILE],
    },
];

pub const MONITOR: &[Section] = &[
    Section {
        title: "PRIVILEGE",
        items: &[(
            "CAP_BPF and CAP_PERFMON",
            "to load the monitor (or root). --status and the served programs need none.",
        )],
    },
    Section {
        title: "EXIT STATUS",
        items: &[
            ("0", "It was asked to end, or the status was printed."),
            OWN_EXIT[0],
            OWN_EXIT[1],
        ],
    },
    Section {
        title: "ENVIRONMENT",
        items: &[
            SOCKET_ITEM,
            (
                "NOTIFY_SOCKET",
                "Where to tell the service manager that the monitor is ready (sd_notify).",
            ),
        ],
    },
    Section {
        title: "FILES",
        items: &[SOCKET_FILE],
    },
    Section {
        title: "EXAMPLES",
        items: &[
            ("flexguard monitor", "Serve the machine."),
            (
                "flexguard monitor --status",
                "What has been counted so far.",
            ),
        ],
    },
];

pub const BENCH: &[Section] = &[Section {
    title: "EXAMPLES",
    items: &[
        (
            "flexguard bench shm --locks all --threads 2,8,32",
            "All locks on one contended lock.",
        ),
        (
            "flexguard bench exec --locks posix,flexguard -- ./job",
            "A program of yours.",
        ),
    ],
}];

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

const JSON_COMMON: [(&str, &str); 9] = [
    ("schema", "The name and version of this format."),
    ("complete", "Whether every round of every lock is in."),
    ("command", "The command line."),
    ("date", "When it started (UTC)."),
    (
        "version, commit",
        "Of FlexGuard; the commit only in a working tree.",
    ),
    (
        "machine",
        "cpu, hardware_contexts, memory_kib, kernel, load_average when it started.",
    ),
    ("monitor", "active, shared and a description."),
    ("settings", "Every option's value."),
    (
        "summaries (NAME)",
        "Wherever a value was measured several times: median, min and max; null if it was never measured.",
    ),
];

pub const BENCH_SHM: &[Section] = &[
    Section {
        title: "COLUMNS",
        items: &[
            ("threads, lock", "What ran."),
            (
                "ops/ms",
                "Critical sections per millisecond, all threads together: median, and (min-max) of the rounds.",
            ),
            (
                "ratio",
                "Throughput over that of the first lock at the same thread count.",
            ),
            (
                "cs ns, p99",
                "Time to take the lock, run the critical section and release: mean and 99th percentile.",
            ),
            (
                "fairness",
                "Dice's factor: the share of the busier half of the threads; 0.5 is fair, 1 unfair.",
            ),
            (
                "longest wait",
                "The longest time that any thread waited for the lock, in any round.",
            ),
            (
                "preempted",
                "Critical sections in which the thread lost its CPU, a round. Machine-wide with a shared daemon.",
            ),
        ],
    },
    Section {
        title: "JSON",
        items: &[
            JSON_COMMON[0],
            JSON_COMMON[1],
            JSON_COMMON[2],
            JSON_COMMON[3],
            JSON_COMMON[4],
            JSON_COMMON[5],
            JSON_COMMON[6],
            JSON_COMMON[7],
            (
                "results[]",
                "One a thread count and lock: threads, lock, and the summaries throughput_ops_per_ms, cs_mean_ns, cs_p99_ns, \
                 fairness_factor, longest_wait_ns, cpu_seconds, preempted_critical_sections, mode_transitions.",
            ),
            JSON_COMMON[8],
            (
                "results[].rounds[]",
                "What was measured, in the order of the rounds: round (from 0), worker (the object that fg-bench printed), \
                 preempted_critical_sections, mode_transitions.",
            ),
            (
                "failures[]",
                "Runs that failed: round, threads, lock, reason.",
            ),
        ],
    },
    BENCH_EXIT,
    Section {
        title: "ENVIRONMENT",
        items: &[PREFIX_ITEM, SOCKET_ITEM],
    },
    Section {
        title: "FILES",
        items: &[
            (
                "PREFIX/libexec/flexguard/fg-bench",
                "Runs one round of one lock.",
            ),
            SOCKET_FILE,
        ],
    },
    Section {
        title: "EXAMPLES",
        items: &[
            (
                "flexguard bench shm",
                "The default: 1 to 8 threads, posix, futex and flexguard.",
            ),
            (
                "flexguard bench shm --locks all --threads 8 --rounds 3",
                "A quick look at every lock.",
            ),
            (
                "flexguard bench shm -o result.json",
                "Keep what was measured.",
            ),
        ],
    },
];

pub const BENCH_EXEC: &[Section] = &[
    Section {
        title: "COLUMNS",
        items: &[
            ("lock", "What ran."),
            ("time s", "Wall time: median, and (min-max) of the rounds."),
            (
                "ratio",
                "Of the first lock's time to this one's, or of this one's score to the first lock's: above 1 is faster.",
            ),
            ("score", "With --score: what the program printed."),
            ("cpu s", "User and system CPU time."),
            (
                "preempted critical sections",
                "How often a thread lost its CPU in one, a round.",
            ),
            (
                "spin->block transitions",
                "How often the locks turned from spinning to blocking, a round.",
            ),
        ],
    },
    Section {
        title: "JSON",
        items: &[
            JSON_COMMON[0],
            JSON_COMMON[1],
            JSON_COMMON[2],
            JSON_COMMON[3],
            JSON_COMMON[4],
            JSON_COMMON[5],
            JSON_COMMON[6],
            JSON_COMMON[7],
            (
                "results[]",
                "One a lock: lock, and the summaries elapsed_seconds, cpu_seconds, score, ratio (round by round against the \
                 first lock), preempted_critical_sections, mode_transitions.",
            ),
            JSON_COMMON[8],
            (
                "results[].rounds[]",
                "What was measured, in the order of the rounds.",
            ),
            ("failures[]", "Runs that failed: round, lock, reason."),
        ],
    },
    BENCH_EXIT,
    Section {
        title: "ENVIRONMENT",
        items: &[PREFIX_ITEM, SOCKET_ITEM],
    },
    Section {
        title: "EXAMPLES",
        items: &[
            (
                "flexguard bench exec -- ./job",
                "glibc's mutexes against FlexGuard, 7 rounds.",
            ),
            (
                "flexguard bench exec --score 'events per second: *([0-9.]+)' -- sysbench mutex run",
                "Compare what the program says of itself.",
            ),
        ],
    },
];

pub const COMPLETIONS: &[Section] = &[Section {
    title: "EXAMPLES",
    items: &[(
        "flexguard completions bash > ~/.local/share/bash-completion/completions/flexguard",
        "Install them for bash.",
    )],
}];

/// The sections as the end of a `--help` text.
pub fn help(sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        let _ = writeln!(text, "{}:", section.title);
        for (term, explanation) in section.items {
            let _ = writeln!(text, "  {term}\n          {explanation}");
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}
