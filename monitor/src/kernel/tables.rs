// SPDX-License-Identifier: MIT
//! The window tables of images (`struct fg_table` of bpf/monitor.h): one for all images of a file, wherever they are
//! loaded, so that a process costs no memory for its windows.
//!
//! An account may have so many that nobody else had before, and when few are left only those with few get more. Tables
//! that no process has are found by the search that finds domains without one.

use std::collections::HashMap;

use super::*;
use crate::records::{FG_TABLES, fg_table};

const MOST_OF_ONE_ACCOUNT: usize = 64;
/// When so many are left, who has FEW gets none.
const LAST: usize = FG_TABLES as usize / 4;
const FEW: usize = 4;

/// The tables that are in use, as the kernel half has them.
#[derive(Debug, Default)]
pub struct Tables {
    by_windows: HashMap<Vec<u8>, u32>,
    /// Whose they are, and how many windows they have.
    taken: HashMap<u32, (u64, usize)>,
}

/// Where the windows begin, and the table of them, which is nobody's; None: the image has none.
fn table_of(image: &Registration) -> Option<(u64, fg_table)> {
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

fn windows_of(table: &fg_table) -> Vec<u8> {
    table.windows[..table.n_windows as usize]
        .as_bytes()
        .to_vec()
}

impl Tables {
    fn may_have_another(&self, account: u64) -> bool {
        let has = self.taken.values().filter(|(of, _)| *of == account).count();
        let left = (FG_TABLES as usize - 1).saturating_sub(self.taken.len());
        left > 0 && has < MOST_OF_ONE_ACCOUNT && (left > LAST || has < FEW)
    }

    fn take(&mut self, number: u32, table: &fg_table) {
        self.by_windows.insert(windows_of(table), number);
        let windows = table.n_windows as usize;
        self.taken.insert(number, (table.account, windows));
    }
}

impl Kernel {
    /// Those that a predecessor has left.
    pub(super) fn find_tables(&self) -> Result<(), Error> {
        let mut tables = self.tables.lock().expect("nobody panics with it");
        for number in 1..FG_TABLES {
            let table = self.table(number).map_err(os("reading its tables"))?;
            if table.n_windows > 0 {
                tables.take(number, &table);
            }
        }
        Ok(())
    }

    fn table(&self, number: u32) -> Result<fg_table, Errno> {
        let value = self.table_map.lookup(&number.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(errno)?.ok_or(Errno::EIO)?;
        fg_table::read_from_bytes(&value).map_err(|_| Errno::EIO)
    }

    fn write_table(&self, number: u32, table: &fg_table) -> Result<(), Errno> {
        let written = self
            .table_map
            .update(&number.to_ne_bytes(), table.as_bytes(), MapFlags::ANY);
        written.map_err(errno)
    }

    /// The image as a record has it, if its windows are in a table.
    pub(super) fn known_image(&self, image: &Registration) -> Option<fg_image> {
        let mut known = fg_image {
            base: 0,
            block_offset: image.block_offset as i32,
            table: 0,
        };
        if let Some((base, table)) = table_of(image) {
            known.base = base;
            let tables = self.tables.lock().expect("nobody panics with it");
            known.table = *tables.by_windows.get(&windows_of(&table))?;
        }
        Some(known)
    }

    /// The same; a table is made of its windows if there is none, and held against that account.
    pub(super) fn make_image(&self, image: &Registration, account: u64) -> Result<fg_image, Errno> {
        let Some((_, mut table)) = table_of(image) else {
            return self.known_image(image).ok_or(Errno::EIO);
        };
        if let Some(known) = self.known_image(image) {
            return Ok(known);
        }
        let may = || {
            let tables = self.tables.lock().expect("nobody panics with it");
            tables.may_have_another(account)
        };
        if !(may() || self.free_domains()? && may()) {
            return Err(Errno::EDQUOT);
        }
        let mut tables = self.tables.lock().expect("nobody panics with it");
        let free = (1..FG_TABLES).find(|number| !tables.taken.contains_key(number));
        let number = free.ok_or(Errno::EDQUOT)?;
        table.account = account;
        self.write_table(number, &table)?;
        tables.take(number, &table);
        drop(tables);
        self.known_image(image).ok_or(Errno::EIO)
    }

    /// Lets go of the tables that the search which has just ended found no process with.
    pub(super) fn free_tables(&self) -> Result<(), Errno> {
        let search = self.shared_page().domain_search;
        let mut tables = self.tables.lock().expect("nobody panics with it");
        let taken: Vec<u32> = tables.taken.keys().copied().collect();
        for number in taken {
            if self.table(number)?.searched != search {
                self.write_table(number, &fg_table::new_zeroed())?;
                tables.taken.remove(&number);
                tables.by_windows.retain(|_, of| *of != number);
            }
        }
        Ok(())
    }

    /// How many windows the images of that record have.
    pub fn windows_of(&self, record: &fg_process_record) -> usize {
        let tables = self.tables.lock().expect("nobody panics with it");
        let windows = |image: &fg_image| tables.taken.get(&image.table).map_or(0, |of| of.1);
        record.images().iter().map(windows).sum()
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
