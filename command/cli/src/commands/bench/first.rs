// SPDX-License-Identifier: MIT
//! `flexguard bench first`

use clap::Args;
use flexguard_bench::first;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;

use super::common::{ENVIRONMENT, EXIT};
use crate::commands::Subcommand;
use crate::manual::Section;

/// What FlexGuard is for: a few real programs under glibc's mutexes and FlexGuard's
///
/// Takes half a minute. Runs sysbench, RocksDB's db_bench, and Kyoto Cabinet's kcutiltest and kccachetest (Debian: sysbench,
/// rocksdb-tools, kyotocabinet-utils) a few times under each of three locks, and prints a table.
#[derive(Debug, Args)]
pub struct First {
    /// How often each program runs under each lock
    #[arg(short, long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

impl Subcommand for First {
    const MANUAL: &'static [Section] = &[EXIT, ENVIRONMENT];

    fn run(self) -> Result<Status> {
        first::run(first::First {
            rounds: self.rounds,
        })
    }
}
