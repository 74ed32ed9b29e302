// SPDX-License-Identifier: MIT
//! The shared page as this process reads it: mapped, because a look-up in its map copies the domains' tables as well.

use std::array;
use std::mem::size_of;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use flexguard_abi::fg_shared;
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use zerocopy::{FromBytes, IntoBytes};

const WORDS: usize = size_of::<fg_shared>() / size_of::<u64>();

/// Mapped from `map` to `drop`.
#[derive(Debug)]
pub struct Page(NonNull<u64>);

// SAFETY: nobody in this process writes the memory, and it is read word by word.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// That of the BPF map `shared`.
    pub fn map(shared: impl AsFd) -> Result<Page, Errno> {
        let size = NonZeroUsize::new(size_of::<fg_shared>()).expect("it has fields");
        let (read, flags) = (ProtFlags::PROT_READ, MapFlags::MAP_SHARED);
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let at = unsafe { mmap(None, size, read, flags, shared, 0) }?;
        Ok(Page(at.cast()))
    }

    /// The page as it is now, each word for itself.
    pub fn now(&self) -> fg_shared {
        // SAFETY: mapped and aligned to a page; of a BPF map, which does not shrink. The kernel may write it meanwhile.
        let words: [u64; WORDS] = array::from_fn(|i| unsafe { self.0.add(i).read_volatile() });
        fg_shared::read_from_bytes(words.as_bytes()).expect("of that size")
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: what `map` has mapped, and nothing refers to it.
        let _ = unsafe { munmap(self.0.cast(), size_of::<fg_shared>()) };
    }
}
