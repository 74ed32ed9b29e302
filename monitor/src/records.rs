// SPDX-License-Identifier: MIT
//! The records behind the BPF maps, generated from `bpf/monitor.h`, and how a registration changes one.

#![allow(non_camel_case_types, dead_code)]

use nix::errno::Errno;

include!(concat!(env!("OUT_DIR"), "/records.rs"));

impl fg_process_record {
    pub fn images(&self) -> &[fg_image] {
        &self.images[..self.n_images as usize]
    }

    /// Is the image in it? Then its threads were walked.
    pub fn has(&self, image: fg_image, flags: u32) -> bool {
        let mut record = *self;
        record.n_images > 0 && record.add(image, flags).is_ok() && record == *self
    }

    /// Adds an image. What is there already is not added again, so registering twice changes nothing; two images
    /// may share one thread block. On error the record is as it was.
    pub fn add(&mut self, image: fg_image, flags: u32) -> Result<(), Errno> {
        let mut record = *self;
        record.flags |= flags;
        let has_block = |other: &fg_image| other.block_offset == image.block_offset;
        let images = &mut record.images[..record.n_images as usize];
        let known = images
            .iter()
            .any(|other| *other == image || (has_block(other) && image.table == 0));
        let bare = images
            .iter_mut()
            .find(|other| has_block(other) && other.table == 0);
        if let Some(bare) = bare.filter(|_| !known) {
            *bare = image;
        } else if !known {
            let slot = record.images.get_mut(record.n_images as usize);
            *slot.ok_or(Errno::ENOSPC)? = image;
            record.n_images += 1;
        }
        *self = record;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    fn image(block_offset: i32, base: u64, table: u32) -> fg_image {
        fg_image {
            base,
            block_offset,
            table,
        }
    }

    #[test]
    fn images_are_appended() {
        let mut record = fg_process_record::new_zeroed();
        let images = [image(-64, 0x4000, 1), image(-128, 0x3000, 2)];
        for image in images {
            record.add(image, 0).unwrap();
        }
        assert_eq!(record.images(), images);
    }

    #[test]
    fn what_one_image_asks_for_the_process_gets() {
        let mut record = fg_process_record::new_zeroed();
        record
            .add(image(-64, 0, 0), FG_WANT_SLICE_FORECAST)
            .unwrap();
        record.add(image(-128, 0, 0), 0).unwrap();
        assert_eq!(record.flags, FG_WANT_SLICE_FORECAST);
    }

    #[test]
    fn a_record_has_what_was_added_and_nothing_else() {
        let mut record = fg_process_record::new_zeroed();
        let added = image(-64, 0x4000, 1);
        assert!(!record.has(added, 0));
        record.add(added, 0).unwrap();
        assert!(record.has(added, 0));
        assert!(record.has(image(-64, 0, 0), 0));
        assert!(!record.has(image(-128, 0x4000, 1), 0));
        assert!(!record.has(image(-64, 0x5000, 1), 0));
        assert!(!record.has(added, FG_WANT_SLICE_FORECAST));
        let before = record;
        record.add(added, 0).unwrap();
        assert_eq!(record, before, "twice is once");
    }

    #[test]
    fn two_images_may_share_a_thread_block() {
        let mut record = fg_process_record::new_zeroed();
        record.add(image(-64, 0, 0), 0).unwrap();
        let images = [image(-64, 0x4000, 1), image(-64, 0x5000, 2)];
        for image in images {
            record.add(image, 0).unwrap();
        }
        assert_eq!(record.images(), images);
    }

    #[test]
    fn a_full_record_refuses_and_stays_as_it_was() {
        let mut record = fg_process_record::new_zeroed();
        for i in 1..=FG_MAX_IMAGES as i32 {
            record.add(image(-64 * i, 0, 0), 0).unwrap();
        }
        let before = record;
        assert_eq!(record.add(image(-4096, 0, 0), 0), Err(Errno::ENOSPC));
        assert_eq!(record, before);
    }
}
