// SPDX-License-Identifier: MIT
//! `flexguard bench guests`

use std::path::PathBuf;

use clap::{Args, ValueHint};
use flexguard_bench::guests::{self, Load};
use flexguard_bench::options::{count, distinct, factor};
use flexguard_bench::subject::Subject;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;

use super::common::{ENVIRONMENT, EXIT, JSON, Output, Plan, one_of};
use crate::commands::Subcommand;
use crate::manual::{Section, examples};
use crate::monitor_choice::MonitorChoice;

/// Spinlocks of guest kernels, whose virtual CPUs the host preempts
///
/// The guests are User-Mode Linux: each virtual CPU is a thread of this machine. `lab/guest/build` in the source tree makes their
/// kernels, one a lock.
#[derive(Debug, Args)]
pub struct Guests {
    /// What the guests do
    #[arg(long, value_name = "NAME", default_value = Load::Lock.name(), value_parser = one_of(&Load::ALL, Load::name, Load::help))]
    load: Load,

    /// Spinlocks to compare, or `all` that are built; ratios are to the first
    #[arg(
        short,
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "all"
    )]
    locks: Vec<String>,

    /// Guests at once
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,2,3", value_parser = |s: &str| count(s, 1, 8))]
    guests: Vec<u32>,

    /// Virtual CPUs of each guest
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "2,4,8", value_parser = |s: &str| count(s, 1, 16))]
    vcpus: Vec<u32>,

    /// Busy processes that compete for the CPUs; 2x: two for each hardware context
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "0", value_parser = |s: &str| count(s, 0, 4096))]
    hogs: Vec<u32>,

    /// Further guests that only compute, each with as many virtual CPUs as the others
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "0", value_parser = |s: &str| count(s, 0, 8))]
    burners: Vec<u32>,

    /// How much a run has to do; 1: about two seconds
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    scale: f64,

    /// A quarter of the work, and one guest of 2 and of 8 virtual CPUs
    #[arg(long, conflicts_with_all = ["guests", "vcpus", "scale"])]
    quick: bool,

    /// Count preemptions, spinning and order violations, as the papers do, in kernels of `lab/guest/build --counts`
    #[arg(long)]
    counts: bool,

    /// Where the kernels are [default: $FLEXGUARD_KERNELS/guests, /tmp/flexguard-kernels/guests]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    kernels: Option<PathBuf>,

    #[command(flatten)]
    monitor: MonitorChoice,

    #[command(flatten)]
    plan: Plan,

    #[command(flatten)]
    output: Output,
}

impl Subcommand for Guests {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "COLUMNS",
            items: &[
                (
                    "throughput, seconds",
                    "Operations of all guests per millisecond; the mean of the guests' times.",
                ),
                (
                    "fairness",
                    "The operations of the slowest thread over those of the fastest.",
                ),
                (
                    "taken, stalls_holder, stalls_waiter, waiter_share",
                    "N, Nh, Nw and Nw/(Nh+Nw) of VEE'13, Table 1: a waiter that has made 2,048 spins looks whether the lock is held.",
                ),
                (
                    "psp_holder, psp_waiter, psp_per_million",
                    "Problematic spin preemptions of EuroSys'17: locks and tickets kept from one time slice to another; all of them for \
                     a million acquisitions. They need a monitor.",
                ),
                (
                    "spin_share, queue, overtaken, overtaken_most",
                    "Spinning over CPU time; tickets before one's own, in the mean of the waits; earlier tickets overtaken, in all, \
                     and the most by one thread.",
                ),
                (
                    "thread_ms, deviation, burned",
                    "The mean time of a thread, and its standard deviation over it; the CPUs that guests which only compute have.",
                ),
                (
                    "complete",
                    "The rounds of `turns` that no limit ended: the others have neither thread_ms nor deviation.",
                ),
            ],
        },
        JSON,
        EXIT,
        ENVIRONMENT,
        examples(&[
                (
                    "flexguard bench guests --quick",
                    "Every lock that is built, contended by kernel threads.",
                ),
                (
                    "flexguard bench guests --load hackbench --locks ticket,flexguard --guests 2",
                    "A program in two guests at once.",
                ),
            ]),
    ];

    fn run(self) -> Result<Status> {
        let kernels = self.kernels.unwrap_or_else(guests::default_kernels);
        let subjects = self.locks.iter().map(|lock| Subject::of(lock)).collect();
        let mut guests = guests::Guests::new(self.load, subjects, kernels);
        guests.guests = distinct(&self.guests);
        guests.vcpus = distinct(&self.vcpus);
        guests.hogs = distinct(&self.hogs);
        guests.burners = distinct(&self.burners);
        guests.scale = self.scale;
        if self.quick {
            (guests.guests, guests.vcpus) = (vec![1], vec![2, 8]);
            guests.scale = 0.25;
        }
        guests.counts = self.counts;
        guests.monitor = self.monitor.mode();
        flexguard_bench::run(guests, &self.plan.into(), &self.output.into())
    }
}
