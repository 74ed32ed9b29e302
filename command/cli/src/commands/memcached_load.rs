// SPDX-License-Identifier: MIT
//! `flexguard memcached-load`: what `bench exec --preset memcached` runs under each lock.

use clap::Args;
use flexguard_bench::memcached;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;

use super::Subcommand;
use crate::manual::Section;

/// A memcached under load, for `bench exec --preset memcached`
#[derive(Debug, Args)]
#[command(hide = true)]
pub struct MemcachedLoad {
    /// The server's threads
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: u32,

    /// How long to put load on it
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
}

impl Subcommand for MemcachedLoad {
    const MANUAL: &'static [Section] = &[];

    fn run(self) -> Result<Status> {
        memcached::run(memcached::Load {
            threads: self.threads,
            seconds: self.seconds,
        })
    }
}
