// SPDX-License-Identifier: MIT
//! `--monitor`, an option of every subcommand that runs programs.

use clap::{Args, ValueEnum};
use flexguard_launch::MonitorMode;
use flexguard_launch::attach::REQUIRE_ENV;

#[derive(Debug, Args)]
pub struct MonitorChoice {
    /// Which monitor tells the locks of preemptions
    #[arg(short, long, value_name = "WHEN", value_enum, default_value_t = MonitorArg::Auto)]
    monitor: MonitorArg,
}

impl MonitorChoice {
    pub fn mode(&self) -> MonitorMode {
        let required = std::env::var_os(REQUIRE_ENV).is_some_and(|value| value == "1");
        match self.monitor {
            MonitorArg::Auto if required => MonitorMode::Require,
            MonitorArg::Auto => MonitorMode::Auto,
            MonitorArg::Require => MonitorMode::Require,
            MonitorArg::Off => MonitorMode::Off,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MonitorArg {
    /// Use the machine's monitor if one answers; otherwise load one for this run, if permitted; otherwise use none
    Auto,
    /// As auto, but fail where auto would use none
    Require,
    /// Use none: the locks spin for a while, then block
    Off,
}
