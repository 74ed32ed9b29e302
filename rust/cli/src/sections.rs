// SPDX-License-Identifier: MIT
//! The parts of a manual page that an option parser knows nothing of: exit status, environment, files, examples.

mod bench;

use std::fmt::Write;

pub use bench::*;

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
const FORCE_ITEM: (&str, &str) = (
    "FLEXGUARD_FORCE",
    "1: use a lock although this machine lacks what it needs; it is then the lock without that.",
);
const LOG_ITEM: (&str, &str) = (
    "RUST_LOG",
    "What the monitor and libbpf tell of themselves on stderr, such as info, or libbpf=info; by default warnings.",
);
const RECONNECT_ITEM: (&str, &str) = (
    "FLEXGUARD_RECONNECT",
    "1: the program registers again when its monitor has died and another one was started, or when it is older than the \
     monitor. Not for programs that put themselves into a sandbox: it may kill them for the attempt.",
);
const TUNE_ITEM: (&str, &str) = (
    "FLEXGUARD_TUNE",
    "For researchers, of the default lock alone: NAME=VALUE, separated by commas, read once at the program's start. \
     regime=greedy|leased|any: one way of waiting, or whichever is measured to be better (any). \
     lease_us=50: how long a leased owner may come back before it is the next waiter's turn. \
     rotate_us=100: how often an active thread changes places with a parked one. \
     sample_us=2000: how long a regime is tried before it is judged. \
     yield_us=5: a waiter for which nothing moves offers its CPU after so long, \
     sleep_us=50: and sleeps after so long. Times are in microseconds, up to 10 seconds; what is not understood is \
     ignored. Programs with raised privilege do not read it.",
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
            RECONNECT_ITEM,
            TUNE_ITEM,
            FORCE_ITEM,
            LOG_ITEM,
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
        items: &[PREFIX_ITEM, SOCKET_ITEM, LOG_ITEM],
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
            LOG_ITEM,
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
