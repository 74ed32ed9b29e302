// SPDX-License-Identifier: MIT
//! The window tables of images (`struct fg_table` of bpf/monitor.h): one for all images of a file, wherever they are
//! loaded, so that a process costs no memory for its windows.
//!
//! An account may have so many that nobody else had before, and when few are left only those with few get more. Tables
//! that no process has are found by the search that finds domains without one.

use std::collections::HashMap;

use flexguard_abi::fg_window;

use zerocopy::{FromZeros, IntoBytes};

use crate::message::Registration;
use crate::records::{FG_TABLES, fg_table};

const MOST_OF_ONE_ACCOUNT: usize = 64;
/// When so many are left, who has FEW gets none.
const LAST: usize = FG_TABLES as usize / 4;
const FEW: usize = 4;

/// The tables that are in use, as the kernel half has them.
#[derive(Debug, Default)]
pub struct Tables {
    pub(super) by_windows: HashMap<Vec<u8>, u32>,
    /// Whose they are, and how many windows they have.
    pub(super) taken: HashMap<u32, (u64, usize)>,
}

/// Where the windows begin, and the table of them, which is nobody's; None: the image has none.
pub(super) fn table_of(image: &Registration) -> Option<(u64, fg_table)> {
    let base = image.windows.iter().map(|window| window.begin).min()?;
    let mut table = fg_table::new_zeroed();
    for (place, window) in table.windows.iter_mut().zip(&image.windows) {
        *place = fg_window {
            begin: window.begin - base,
            end: window.end - base,
            ..*window
        };
    }
    table.n_windows = image.windows.len() as u32;
    table.span = table.windows.iter().map(|window| window.end).max()?;
    Some((base, table))
}

pub(super) fn windows_of(table: &fg_table) -> Vec<u8> {
    table.windows[..table.n_windows as usize]
        .as_bytes()
        .to_vec()
}

impl Tables {
    pub(super) fn may_have_another(&self, account: u64) -> bool {
        let has = self.taken.values().filter(|(of, _)| *of == account).count();
        let left = (FG_TABLES as usize - 1).saturating_sub(self.taken.len());
        left > 0 && has < MOST_OF_ONE_ACCOUNT && (left > LAST || has < FEW)
    }

    pub(super) fn take(&mut self, number: u32, table: &fg_table) {
        self.by_windows.insert(windows_of(table), number);
        let windows = table.n_windows as usize;
        self.taken.insert(number, (table.account, windows));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(begins: &[u64]) -> Registration {
        let window = |&begin: &u64| fg_window {
            begin,
            end: begin + 8,
            ..Default::default()
        };
        Registration {
            block_offset: -64,
            flags: 0,
            windows: begins.iter().map(window).collect(),
        }
    }

    #[test]
    fn the_same_file_at_two_addresses_has_one_table() {
        let (base, table) = table_of(&image(&[0x5000, 0x4000])).unwrap();
        assert_eq!((base, table.n_windows, table.span), (0x4000, 2, 0x1008));
        assert_eq!(
            (table.windows[0].begin, table.windows[0].end),
            (0x1000, 0x1008)
        );
        let (other, same) = table_of(&image(&[0x7000, 0x6000])).unwrap();
        assert_eq!((other, same), (0x6000, table));
        assert_ne!(table_of(&image(&[0x7000, 0x6008])).unwrap().1, table);
        assert!(table_of(&image(&[])).is_none());
    }

    #[test]
    fn who_has_many_tables_leaves_some_to_those_with_few() {
        let mut tables = Tables::default();
        let mut take = |account: u64| {
            let may = tables.may_have_another(account);
            let number = tables.taken.len() as u32 + 1;
            if may {
                tables.taken.insert(number, (account, 1));
            }
            may
        };
        let taken = (0..1000).filter(|_| take(1)).count();
        assert_eq!(taken, MOST_OF_ONE_ACCOUNT);
        for account in 2..14 {
            while take(account) {}
        }
        for account in 14..40 {
            assert!(take(account), "{account}");
        }
    }
}
