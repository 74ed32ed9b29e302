// SPDX-License-Identifier: MIT
//! What guests do: the script that each of them runs.

/// What a guest does. Each prints lines `result NAME VALUE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// One kernel thread a virtual CPU, one lock: EuroSys'17's microbenchmark.
    Lock,
    /// The same threads, 16 locks.
    Locks,
    /// The same threads, one lock, each so many operations: how long each takes.
    Turns,
    /// Processes that send messages through pipes.
    Hackbench,
    /// Eight times the processes, which send as many messages in all.
    Crowd,
    /// Processes that make and remove files of one directory in memory.
    Files,
    /// Compilations, one process a virtual CPU, until the time is up: kernbench in small.
    Compile,
}

impl Load {
    pub const ALL: [Self; 7] = [
        Self::Lock,
        Self::Locks,
        Self::Turns,
        Self::Hackbench,
        Self::Crowd,
        Self::Files,
        Self::Compile,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Locks => "locks",
            Self::Turns => "turns",
            Self::Hackbench => "hackbench",
            Self::Crowd => "hackbench-crowd",
            Self::Files => "files",
            Self::Compile => "compile",
        }
    }

    pub fn help(self) -> &'static str {
        match self {
            Self::Lock => "kernel threads, one a virtual CPU, that take one lock",
            Self::Locks => "the same threads, 16 locks",
            Self::Turns => "the same threads, one lock, each so many operations",
            Self::Hackbench => "8 processes that send messages through pipes",
            Self::Crowd => "64 processes that send as many messages",
            Self::Files => "processes that make and remove files of one directory in memory",
            Self::Compile => "one compiler a virtual CPU",
        }
    }

    /// Kernel threads, whose sections and think times can be chosen.
    pub fn is_of_threads(self) -> bool {
        matches!(self, Self::Lock | Self::Locks | Self::Turns)
    }

    /// They stop by the clock; the others have so much to do.
    pub(super) fn is_timed(self) -> bool {
        matches!(self, Self::Lock | Self::Locks | Self::Compile)
    }

    /// That of a name, as scenes have it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|l| l.name() == name)
    }

    /// `section`: of kernel threads, in iterations of an empty loop, some 0.33 ns each.
    pub(super) fn script(self, scale: f64, section: u32) -> String {
        let scaled = |n: f64| (n * scale).ceil().max(1.0) as u64;
        match self {
            Self::Lock => torture(1, section, 1_000_000_000, scaled(2000.0)),
            Self::Locks => torture(16, section, 1_000_000_000, scaled(2000.0)),
            Self::Turns => torture(1, section, scaled(TURNS), TURNS_MS),
            Self::Hackbench => hackbench(1, scaled(2000.0)),
            Self::Crowd => hackbench(8, scaled(2000.0 / 8.0)),
            Self::Files => timed(&format!(
                "for p in $(seq 8); do (i=0; while [ $i -lt {} ]; do : >f$p.$i; i=$((i + 1)); done; rm f$p.*) & done; wait",
                scaled(1000.0)
            )),
            Self::Compile => compile(scaled(2000.0)),
        }
    }
}

/// Operations of a thread: with the fastest lock it has some 15 time slices of 4 ms.
const TURNS: f64 = 200_000.0;

/// A round that takes longer is ended, and has no result.
const TURNS_MS: u64 = 20_000;

/// Twice as long between sections as in them.
fn torture(locks: u32, section: u32, ops: u64, ms: u64) -> String {
    let think = 2 * section;
    format!(
        "echo \"$(nproc) {locks} {section} {think} {ops} {ms} 0\" >/proc/flexguard/torture || exit\n\
         sed 's/^/result /' /proc/flexguard/torture\n"
    )
}

/// Four senders and four receivers a group.
fn hackbench(groups: u32, loops: u64) -> String {
    timed(&format!(
        "hackbench --pipe --process --groups={groups} --fds=4 --loops={loops} >/dev/null"
    ))
}

/// A fixed number of files would take a guest whose lock collapses minutes. What has not been compiled in time is killed.
fn compile(ms: u64) -> String {
    format!(
        "echo '#include <stdio.h>\n#include <stdlib.h>\nint main(void) {{ return puts(getenv(\"A\")); }}' >a.c\n\
         echo 'while cc -O2 -c -o a$1.o a.c; do echo >>compiled; done' >again\n\
         begun=$(date +%s%N)\n\
         timeout -s KILL {}.{:03} sh -c 'for i in $(seq $(nproc)); do sh again $i & done; wait'\n\
         [ $? = 137 ] || exit 1\n\
         echo \"result ns $(($(date +%s%N) - begun))\"\n\
         touch compiled\n\
         echo \"result updates $(wc -l <compiled)\"\n",
        ms / 1000,
        ms % 1000
    )
}

fn timed(command: &str) -> String {
    format!(
        "begun=$(date +%s%N)\n{command}\nstatus=$?\necho \"result ns $(($(date +%s%N) - begun))\"\n[ $status = 0 ] || exit 1\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_run_until_the_time_is_up() {
        let script = Load::Compile.script(0.25, 0);
        assert!(script.contains("timeout -s KILL 0.500 sh -c 'for i in $(seq $(nproc))"));
    }

    #[test]
    fn a_crowd_sends_as_many_messages() {
        let few = Load::Hackbench.script(0.1, 0);
        let many = Load::Crowd.script(0.1, 0);
        assert!(few.contains("--groups=1 --fds=4 --loops=200 "));
        assert!(many.contains("--groups=8 --fds=4 --loops=25 "));
    }

    #[test]
    fn sections_are_followed_by_twice_their_time() {
        let script = Load::Locks.script(0.5, 3000);
        assert!(script.contains("$(nproc) 16 3000 6000 1000000000 1000 0"));
    }
}
