// SPDX-License-Identifier: MIT
//! The process of --pid.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::Path;

use flexguard_launch::failure::{Failure, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A descriptor that means this process, also when its number means another one.
pub struct Target(OwnedFd);

impl Target {
    pub fn find(pid: u32) -> Result<Target> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd >= 0 {
            // SAFETY: the call has just opened it.
            return Ok(Target(unsafe { OwnedFd::from_raw_fd(fd as i32) }));
        }
        let error = io::Error::last_os_error();
        let is_thread = Path::new(&format!("/proc/{pid}")).exists();
        Err(match error.raw_os_error() {
            Some(libc::EINVAL | libc::ENOENT) if is_thread => Failure::new(format_args!(
                "{pid} is the number of a thread, and of no process"
            )),
            Some(libc::ESRCH | libc::EINVAL | libc::ENOENT) => {
                Failure::new(format_args!("there is no process {pid}"))
            }
            _ => Failure::new(format_args!("cannot watch process {pid}: {error}")),
        }
        .advice("`ps` and `flexguard status` list processes"))
    }

    /// Nobody need have waited for it.
    pub fn has_ended(&self) -> bool {
        let mut end = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut end, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_process_has_ended_before_anybody_has_waited_for_it() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let target = Target::find(child.id()).unwrap();
        assert!(!target.has_ended());
        drop(child.stdin.take());
        let begin = Instant::now();
        while !target.has_ended() {
            assert!(begin.elapsed() < Duration::from_secs(60), "it is there");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(Path::new(&format!("/proc/{}", child.id())).exists());
        child.wait().unwrap();
        let gone = Target::find(child.id()).err().unwrap();
        for gone in [gone, Target::find(u32::MAX).err().unwrap()] {
            assert!(format!("{gone:#}").contains("there is no process"));
        }
    }

    #[test]
    fn a_thread_is_no_process() {
        std::thread::spawn(|| {
            // SAFETY: no pointers are passed.
            let tid = unsafe { libc::gettid() } as u32;
            let failure = Target::find(tid).err().unwrap();
            assert!(format!("{failure:#}").contains("of a thread"));
        })
        .join()
        .unwrap();
    }
}
