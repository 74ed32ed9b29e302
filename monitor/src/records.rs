// SPDX-License-Identifier: MIT
//! The records behind the BPF maps, generated from `bpf/monitor.h`, and how a registration changes one.

#![allow(non_camel_case_types, dead_code)]

use nix::errno::Errno;

use crate::message::Registration;

include!(concat!(env!("OUT_DIR"), "/records.rs"));

impl fg_process_record {
    pub fn block_offsets(&self) -> &[i64] {
        &self.block_offset[..self.n_images as usize]
    }

    pub fn windows(&self) -> &[fg_window] {
        &self.windows[..self.n_windows as usize]
    }

    /// Is the image in it? Then its threads were walked.
    pub fn has(&self, image: &Registration) -> bool {
        let mut record = *self;
        record.n_images > 0 && record.add(image).is_ok() && record == *self
    }

    /// Adds an image. What is there already is not added again, so registering twice changes nothing; two images
    /// may share one thread block. On error the record is as it was.
    pub fn add(&mut self, image: &Registration) -> Result<(), Errno> {
        let mut record = *self;
        record.flags |= image.flags;
        if !record.block_offsets().contains(&image.block_offset) {
            let slot = record.block_offset.get_mut(record.n_images as usize);
            *slot.ok_or(Errno::ENOSPC)? = image.block_offset;
            record.n_images += 1;
        }
        for window in &image.windows {
            if !record.windows().contains(window) {
                let slot = record.windows.get_mut(record.n_windows as usize);
                *slot.ok_or(Errno::ENOSPC)? = *window;
                record.n_windows += 1;
            }
        }
        record.lo = record.windows().iter().map(|w| w.begin).min().unwrap_or(0);
        record.hi = record.windows().iter().map(|w| w.end).max().unwrap_or(0);
        *self = record;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    fn window(begin: u64) -> fg_window {
        fg_window {
            begin,
            end: begin + 8,
            ..Default::default()
        }
    }

    fn image(block_offset: i64, begins: &[u64]) -> Registration {
        Registration {
            block_offset,
            flags: 0,
            windows: begins.iter().map(|&b| window(b)).collect(),
        }
    }

    #[test]
    fn images_are_appended() {
        let mut record = fg_process_record::new_zeroed();
        record.add(&image(-64, &[0x4000, 0x5000])).unwrap();
        record.add(&image(-128, &[0x3000])).unwrap();
        assert_eq!(record.block_offsets(), [-64, -128]);
        assert_eq!(
            record.windows(),
            [window(0x4000), window(0x5000), window(0x3000)]
        );
        assert_eq!((record.lo, record.hi), (0x3000, 0x5008));
    }

    #[test]
    fn what_one_image_asks_for_the_process_gets() {
        let mut record = fg_process_record::new_zeroed();
        let wanting = Registration {
            flags: FG_WANT_SLICE_FORECAST as u64,
            ..image(-64, &[])
        };
        record.add(&wanting).unwrap();
        record.add(&image(-128, &[])).unwrap();
        assert_eq!(record.flags, FG_WANT_SLICE_FORECAST as u64);
    }

    #[test]
    fn the_same_image_again_changes_nothing() {
        let mut record = fg_process_record::new_zeroed();
        record.add(&image(-64, &[0x4000])).unwrap();
        let before = record;
        record.add(&image(-64, &[0x4000])).unwrap();
        assert_eq!(record, before);
    }

    #[test]
    fn a_record_has_what_was_added_and_nothing_else() {
        let mut record = fg_process_record::new_zeroed();
        let added = image(-64, &[0x4000]);
        assert!(!record.has(&added));
        record.add(&added).unwrap();
        assert!(record.has(&added));
        assert!(record.has(&image(-64, &[])));
        assert!(!record.has(&image(-128, &[0x4000])));
        assert!(!record.has(&image(-64, &[0x5000])));
        let asking = Registration {
            flags: FG_WANT_SLICE_FORECAST as u64,
            ..added
        };
        assert!(!record.has(&asking));
    }

    #[test]
    fn two_images_may_share_a_thread_block() {
        let mut record = fg_process_record::new_zeroed();
        record.add(&image(-64, &[0x4000])).unwrap();
        record.add(&image(-64, &[0x5000])).unwrap();
        assert_eq!(record.block_offsets(), [-64]);
        assert_eq!(record.windows().len(), 2);
    }

    #[test]
    fn a_full_record_refuses_and_stays_as_it_was() {
        let mut record = fg_process_record::new_zeroed();
        for i in 1..=FG_MAX_IMAGES as i64 {
            record.add(&image(-64 * i, &[])).unwrap();
        }
        let before = record;
        assert_eq!(record.add(&image(-4096, &[])), Err(Errno::ENOSPC));

        let begins: Vec<u64> = (1..=FG_MAX_WINDOWS as u64 + 1).map(|i| i * 0x100).collect();
        assert_eq!(record.add(&image(-64, &begins)), Err(Errno::ENOSPC));
        assert_eq!(record, before);
    }
}
