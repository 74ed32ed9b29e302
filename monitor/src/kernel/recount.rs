// SPDX-License-Identifier: MIT
//! The threads that are counted, counted again (bpf/recount.h).

use super::*;
use crate::records::fg_settle_args;

impl Kernel {
    /// Takes threads out of the counter that have died in it, if two recounts, with nothing to disturb them, find so many;
    /// returns how many, and whether it takes another recount to tell.
    pub fn recount(&self) -> Result<(u32, bool), Errno> {
        let moves = || {
            let counts = self.cpu_counts().map_err(|_| Errno::EIO)?;
            let page = self.shared_page();
            let joined = page.preemptions.iter().map(|p| p.holders + p.next_waiters);
            Ok((joined.sum::<u64>(), counts.durations.iter().sum::<u64>()))
        };
        let settle = |begins: bool, quiet: bool| {
            let mut args = fg_settle_args {
                begins: begins.into(),
                quiet: quiet.into(),
                ..fg_settle_args::new_zeroed()
            };
            self.run("fg_settle", Some(args.as_mut_bytes()))?;
            Ok((args.dead, args.again != 0))
        };
        let before = moves()?;
        settle(true, false)?;
        self.iterate("fg_recount", Default::default())?;
        settle(false, moves()? == before)
    }
}
