// SPDX-License-Identifier: MIT
//! Images of processes, as records have them: their windows are in a table.

use super::tables::{table_of, windows_of};
use super::*;
use crate::records::{FG_TABLES, fg_table};

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
