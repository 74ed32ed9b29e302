// SPDX-License-Identifier: MIT
//! What a page of the manual, and the end of its `--help`, say beyond the options: exit status, environment, files,
//! examples.

use std::fmt::Write;

/// A titled list of terms, each with its explanation.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    pub title: &'static str,
    pub items: &'static [(&'static str, &'static str)],
}

pub const fn examples(items: &'static [(&'static str, &'static str)]) -> Section {
    Section {
        title: "EXAMPLES",
        items,
    }
}

pub const OWN_EXIT: [(&str, &str); 2] = [
    (
        "125",
        "The command itself failed; stderr says why and what to do.",
    ),
    ("2", "The command line is wrong."),
];

/// Of a subcommand that runs one program.
pub const PROGRAM_EXIT: Section = Section {
    title: "EXIT STATUS",
    items: &[
        (
            "as the program",
            "The program's exit status. If a signal ended the program, the command ends by the same signal.",
        ),
        OWN_EXIT[0],
        (
            "126",
            "The program cannot be executed; of advise and profile, or can have no lock but its own.",
        ),
        ("127", "There is no such program."),
        OWN_EXIT[1],
    ],
};

pub const PREFIX_ITEM: (&str, &str) = (
    "FLEXGUARD_PREFIX",
    "The installation to use; by default the one that this command is in.",
);
pub const SOCKET_ITEM: (&str, &str) = (
    "FLEXGUARD_SOCKET",
    "The monitor's socket: a path, or @NAME in the abstract namespace. Set but empty: use no monitor.",
);
pub const REQUIRE_ITEM: (&str, &str) = (
    "FLEXGUARD_REQUIRE",
    "1: fail rather than run without a monitor, as with --monitor require, unless --monitor off is given. Each program \
     that the interposer is loaded into at its start then waits longer for a busy monitor, 10 s, and ends with 125 if it cannot register, and says why.",
);
pub const FILTERS_ITEM: (&str, &str) = (
    "FLEXGUARD_FILTERS",
    "How many seccomp filters are no sandbox. The command sets it to the number of its own if that is more. A program \
     below it that is under more runs without the monitor and asks the kernel for nothing that it would not without FlexGuard.",
);
pub const FORCE_ITEM: (&str, &str) = (
    "FLEXGUARD_FORCE",
    "1: use a lock although this machine lacks what the lock needs; the lock then works without it.",
);
pub const LOG_ITEM: (&str, &str) = (
    "RUST_LOG",
    "What the monitor and libbpf log to stderr, such as info, or libbpf=info. The default is warnings.",
);
pub const RECONNECT_ITEM: (&str, &str) = (
    "FLEXGUARD_RECONNECT",
    "1: the program registers when a monitor is started after the program, or after the program's first monitor ended. \
     Not for programs that put themselves into a sandbox: the sandbox may kill them for the attempt. 0: the program never \
     does so, not even if the monitor was too busy for its first registration.",
);
pub const YIELD_ITEM: (&str, &str) = (
    "FLEXGUARD_YIELD",
    "0: the program's sched_yield is the system call, also where it gives another process a time slice. Otherwise it \
     sleeps for 50 us there.",
);
pub const SOCKET_FILE: (&str, &str) = (
    "/run/flexguard/monitor.sock",
    "The socket of the machine's monitor daemon.",
);

/// Of a subcommand that asks the monitor.
pub const SOCKET_ENVIRONMENT: Section = Section {
    title: "ENVIRONMENT",
    items: &[SOCKET_ITEM],
};
pub const SOCKET_FILES: Section = Section {
    title: "FILES",
    items: &[SOCKET_FILE],
};

/// The manual page of `flexguard` itself, beyond its subcommands.
pub const MAIN: &[Section] = &[
    examples(&[
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
    ]),
    Section {
        title: "ENVIRONMENT",
        items: &[PREFIX_ITEM, SOCKET_ITEM, ("NO_COLOR", "Use no colours.")],
    },
    SOCKET_FILES,
];

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
