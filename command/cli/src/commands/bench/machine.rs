// SPDX-License-Identifier: MIT
//! `flexguard bench machine`

use std::path::PathBuf;

use clap::{Args, ValueHint};
use flexguard_bench::calibrate;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;

use super::common::ENVIRONMENT;
use crate::commands::Subcommand;
use crate::manual::Section;

/// Measure this machine, and write a machine file for --machine
///
/// On a quiet machine, in seconds. Costs that user mode cannot measure are those of the nearest shipped machine, marked.
#[derive(Debug, Args)]
pub struct Machine {
    /// Where the machine file goes [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

impl Subcommand for Machine {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "MEASURED",
            items: &[
                (
                    "sockets, complexes, cores, threads",
                    "Of the CPUs that the process may use, from /sys/devices/system/cpu.",
                ),
                (
                    "hit, atomic, pause, counter, ordered, clock, syscall, bucket, yield, clone, ghz",
                    "What one thread does alone: the fastest of 400 batches.",
                ),
                (
                    "hyperthread, complex, socket, remote",
                    "A line that goes to and fro between two CPUs at each distance that there is.",
                ),
                (
                    "occupied",
                    "A line with one reader and with all readers of a socket; from four CPUs on.",
                ),
                (
                    "wake, switch, exit_shallow, exit_middle, exit_deep",
                    "A futex wake, two threads that yield to each other, and wake-ups of a CPU that has idled for 30, 300 and 3000 us.",
                ),
                (
                    "slice, slack",
                    "What the kernel says; the first needs root.",
                ),
            ],
        },
        ENVIRONMENT,
        Section {
            title: "EXAMPLES",
            items: &[(
                "flexguard bench machine -o here.toml && flexguard bench shm --machine ./here.toml",
                "This machine, measured and then simulated.",
            )],
        },
    ];

    fn run(self) -> Result<Status> {
        calibrate::run(self.output.as_deref())
    }
}
