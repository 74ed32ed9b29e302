// SPDX-License-Identifier: MIT
//! The lists that clients have asked for, each in a file of its own: of whatever size, it never waits for the client to
//! read it.
//!
//! The memory of such a file is the monitor's for as long as anybody has it open, and a client may keep it open. So a
//! list is withdrawn after a while, and sooner where its user, or all users together, have many: the file is empty from
//! then on, and its mode says so to a client that reads it too late.

use std::collections::VecDeque;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// An honest client reads its list at once.
pub const LIFETIME: Duration = Duration::from_secs(30);
const MOST_OF_ONE_USER: usize = 8;
const MOST: usize = 128;
/// Of all lists together, but the last.
const MOST_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub struct Lists {
    /// By age.
    lists: VecDeque<List>,
    lifetime: Duration,
}

#[derive(Debug)]
struct List {
    account: u64,
    made: Instant,
    bytes: usize,
    file: File,
}

impl Drop for List {
    /// Withdraws it. What fails leaves the memory to the client.
    fn drop(&mut self) {
        let _ = self.file.set_permissions(Permissions::from_mode(0o000)); // first: see was_withdrawn
        let _ = self.file.set_len(0);
    }
}

impl Lists {
    pub fn that_live(lifetime: Duration) -> Lists {
        Lists {
            lists: VecDeque::new(),
            lifetime,
        }
    }

    /// A list for that user.
    pub fn make(&mut self, account: u64, bytes: &[u8]) -> Result<BorrowedFd<'_>, Errno> {
        let error = |error: io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
        self.withdraw_old();
        let mut of_user = self.lists.iter().filter(|list| list.account == account);
        if of_user.nth(MOST_OF_ONE_USER - 1).is_some() {
            let oldest = self.lists.iter().position(|list| list.account == account);
            drop(oldest.and_then(|index| self.lists.remove(index)));
        } else if self.lists.len() >= MOST {
            drop(self.lists.pop_front());
        }
        let taken = |lists: &VecDeque<List>| lists.iter().map(|list| list.bytes).sum::<usize>();
        while !self.lists.is_empty() && taken(&self.lists) + bytes.len() > MOST_BYTES {
            drop(self.lists.pop_front());
        }
        let mut file = new_file()?;
        file.write_all(bytes).map_err(error)?;
        // The client may not write it, nor keep it from being withdrawn.
        let seals = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        self.lists.push_back(List {
            account,
            made: Instant::now(),
            bytes: bytes.len(),
            file,
        });
        Ok(self.lists.back().expect("it is there").file.as_fd())
    }

    /// To be called often.
    pub fn withdraw_old(&mut self) {
        let is_old = |list: &List| list.made.elapsed() >= self.lifetime;
        while self.lists.front().is_some_and(is_old) {
            self.lists.pop_front();
        }
    }
}

/// It cannot be executed, which vm.memfd_noexec may demand. Before Linux 6.3 that could not be said.
fn new_file() -> Result<File, Errno> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let never_executed = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    memfd_create(c"flexguard-list", flags | never_executed)
        .or_else(|_| memfd_create(c"flexguard-list", flags))
        .map(File::from)
}

/// Asked once the file was read: what was read may have been only a part of it.
pub fn was_withdrawn(file: &Metadata) -> bool {
    file.permissions().mode() & 0o777 == 0
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    fn made(lists: &mut Lists, account: u64) -> File {
        let list = lists.make(account, b"a list").unwrap();
        File::from(list.try_clone_to_owned().unwrap())
    }

    /// What a client that keeps a list can still read of it.
    fn left(mut file: &File) -> String {
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(was_withdrawn(&file.metadata().unwrap()), text.is_empty());
        text
    }

    #[test]
    fn who_keeps_lists_keeps_no_memory_but_of_the_last_few() {
        let mut lists = Lists::that_live(LIFETIME);
        let other = made(&mut lists, 2);
        let kept: Vec<_> = (0..1000).map(|_| made(&mut lists, 1)).collect();
        let left_of = |file| !left(file).is_empty();
        assert_eq!(
            kept.iter().filter(|file| left_of(file)).count(),
            MOST_OF_ONE_USER
        );
        assert_eq!(left(kept.last().unwrap()), "a list");
        assert_eq!(left(&other), "a list");
        drop(lists);
        assert_eq!(left(&other), "");
    }

    #[test]
    fn all_users_together_have_so_many_lists() {
        let mut lists = Lists::that_live(LIFETIME);
        let first = made(&mut lists, 0);
        for account in 1..=MOST as u64 {
            made(&mut lists, account);
        }
        assert_eq!((lists.lists.len(), left(&first).len()), (MOST, 0));
    }

    #[test]
    fn all_lists_together_take_so_much_memory() {
        let mut lists = Lists::that_live(LIFETIME);
        let large = vec![b'x'; MOST_BYTES / 4];
        for account in 0..10 {
            lists.make(account, &large).unwrap();
        }
        assert_eq!(lists.lists.len(), 4);
        lists.make(0, &vec![b'x'; 2 * MOST_BYTES]).unwrap();
        assert_eq!(lists.lists.len(), 1, "the last one is made in any case");
    }

    #[test]
    fn a_client_can_neither_write_its_list_nor_keep_it_from_being_withdrawn() {
        let mut lists = Lists::that_live(LIFETIME);
        let mut file = made(&mut lists, 1);
        file.rewind().unwrap(); // what would make it longer is sealed off, too
        assert!(file.write_all(b"!").is_err());
        let seal = FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK);
        assert_eq!(fcntl(&file, seal), Err(Errno::EPERM));
    }

    /// Else a machine may refuse to make it. Linux 6.3 and newer.
    #[test]
    fn a_list_is_not_executable() {
        if !std::path::Path::new("/proc/sys/vm/memfd_noexec").exists() {
            return;
        }
        let list = made(&mut Lists::that_live(LIFETIME), 1);
        let sealed = fcntl(&list, FcntlArg::F_GET_SEALS).unwrap();
        assert_ne!(sealed & libc::F_SEAL_EXEC, 0);
    }

    #[test]
    fn an_old_list_is_withdrawn() {
        let mut lists = Lists::that_live(LIFETIME);
        let (old, new) = (made(&mut lists, 1), made(&mut lists, 1));
        lists.lists[0].made -= LIFETIME;
        lists.withdraw_old();
        assert_eq!((left(&old), left(&new)), (String::new(), "a list".into()));
    }
}
