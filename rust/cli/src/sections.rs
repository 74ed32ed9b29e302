// SPDX-License-Identifier: MIT
//! What a manual page says beyond the options: exit status, environment, files, examples.

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
    "1: use a lock although this machine lacks what the lock needs; the lock then works without it.",
);
const LOG_ITEM: (&str, &str) = (
    "RUST_LOG",
    "What the monitor and libbpf log to stderr, such as info, or libbpf=info. The default is warnings.",
);
const RECONNECT_ITEM: (&str, &str) = (
    "FLEXGUARD_RECONNECT",
    "1: the program registers when a monitor is started after the program, or after the program's first monitor ended. \
     Not for programs that put themselves into a sandbox: the sandbox may kill them for the attempt.",
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
                "Choose the lock; print a summary at the end.",
            ),
            (
                "flexguard doctor",
                "Check whether everything works on this machine.",
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
                "... while it was first in a lock's queue.",
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
                "Processes whose locks registered with the monitor. 0: no lock was used, or none was replaced.",
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
                "The value of a count that needs a monitor, where there was none.",
            ),
        ],
    },
    Section {
        title: "SIGNALS",
        items: &[
            (
                "sent to the command",
                "The command passes them on to the program.",
            ),
            (
                "sent by the terminal",
                "They reach the program directly. The command waits for the program and prints the summary.",
            ),
            (
                "SIGKILL",
                "It ends the command alone. The program continues, without the monitor that the command loaded.",
            ),
        ],
    },
    Section {
        title: "EXIT STATUS",
        items: &[
            (
                "as the program",
                "The program's exit status. If a signal ended the program, the command ends by the same signal.",
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
                "The lock's library is put before what the variable holds.",
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
                "Fail rather than run without a monitor.",
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
                "Something is missing: the locks run without the monitor, or do not run at all.",
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
            "Needed to load the monitor; root has both. --status and the programs that the monitor serves need none.",
        )],
    },
    Section {
        title: "EXIT STATUS",
        items: &[
            (
                "0",
                "The monitor was told to end, or the status was printed.",
            ),
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
                "Where the monitor tells the service manager that it is ready (sd_notify).",
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
            ("flexguard monitor", "Serve all programs of the machine."),
            (
                "flexguard monitor --status",
                "Print what has been counted so far.",
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
