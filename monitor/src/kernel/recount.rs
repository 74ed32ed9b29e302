// SPDX-License-Identifier: MIT
//! The threads that are counted, counted again (bpf/recount.h).

use super::*;
use crate::records::fg_settle_args;

impl Kernel {
    /// Takes threads out of the counter that have died in it, if two recounts, with nothing to disturb them, find so many;
    /// returns how many.
    pub fn recount(&self) -> Result<u32, Errno> {
        let moves = || {
            let counts = self.cpu_counts().map_err(|_| Errno::EIO)?;
            let page = self.shared_page();
            let joined = page.preemptions.iter().map(|p| p.holders + p.next_waiters);
            Ok((joined.sum::<u64>(), counts.durations.iter().sum::<u64>()))
        };
        let before = moves()?;
        self.iterate("fg_recount", Default::default())?;
        let mut args = fg_settle_args {
            quiet: (moves()? == before).into(),
            dead: 0,
        };
        self.run("fg_settle", Some(args.as_mut_bytes()))?;
        Ok(args.dead)
    }
}
