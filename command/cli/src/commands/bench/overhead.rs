// SPDX-License-Identifier: MIT
//! `flexguard bench overhead`

use clap::Args;
use flexguard_bench::overhead;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;

use super::common::{ENVIRONMENT, EXIT, JSON, Output, Plan};
use crate::commands::Subcommand;
use crate::manual::{Section, examples};

/// What the Preemption Monitor costs (section 5.4)
///
/// hackbench, whose processes do little but wake one another, runs without the monitor, beside it, and registered with it.
/// Separate runs tell how many nanoseconds the monitor's program takes of every context switch.
#[derive(Debug, Args)]
pub struct Overhead {
    /// Groups of senders and receivers; by default one for every four hardware contexts
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    groups: Option<u32>,

    /// Senders, and as many receivers, in a group
    #[arg(long, value_name = "COUNT", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1000))]
    fds: u32,

    /// Messages from every sender to every receiver
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    loops: u32,

    /// Bytes of a message
    #[arg(long, value_name = "BYTES", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65536))]
    size: u32,

    #[command(flatten)]
    plan: Plan,

    #[command(flatten)]
    output: Output,
}

impl Subcommand for Overhead {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "COLUMNS",
            items: &[
                (
                    "monitor",
                    "without: no monitor is loaded. bystander: a monitor runs, and watches another process. registered: hackbench is \
                     registered, and each switch of it is examined. timed: the kernel also times the monitor's program. unused: no \
                     process has registered; this is about what the kernel takes to call the program and to time it.",
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
        EXIT,
        ENVIRONMENT,
        examples(&[
                (
                    "flexguard bench overhead --noise",
                    "Scaled to this machine.",
                ),
                (
                    "flexguard bench overhead --groups 26 --loops 10000",
                    "The paper's own load.",
                ),
            ]),
    ];

    fn run(self) -> Result<Status> {
        let hackbench = overhead::Overhead::new(self.groups, self.fds, self.loops, self.size);
        flexguard_bench::run(hackbench, &self.plan.into(), &self.output.into())
    }
}
