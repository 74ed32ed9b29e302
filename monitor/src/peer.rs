// SPDX-License-Identifier: MIT
//! The process at the other end of a connection: a pidfd of its thread-group leader, never a number from a message.
//!
//! A pidfd means the same process in every PID namespace and cannot come to mean another one.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};
use procfs::process::Process;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A file of /proc. `fs::read` begins with 32 bytes, since such a file has no size, and makes eight calls of two: a program
/// that starts waits for them.
fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let (mut bytes, mut length) = (vec![0; 4096], 0);
    loop {
        match file.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(n) => length += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// The process that connected, or an errno for the reply.
pub fn pidfd(stream: &UnixStream, accepted: Ticks) -> Result<OwnedFd, Errno> {
    match getsockopt(stream, sockopt::PeerPidfd) {
        Err(Errno::ENOPROTOOPT) => pidfd_of_credentials(stream, accepted),
        Err(_) => Err(Errno::ESRCH),
        Ok(pidfd) => Ok(pidfd),
    }
}

/// No process that registers has more threads: its record is not there before each of them has one, too.
const MAX_THREADS: u32 = 4096;

/// May the process that speaks on `stream` register the process behind `pidfd`? To be asked once the process's record is tied to
/// the program that it runs. Returns the number of its threads.
///
/// A client can connect, leave a copy of the socket to another process, exec a setuid program, and have the registration
/// sent then. The kernel then names the setuid program as the client, and windows that the attacker chose would reveal its
/// registers bit by bit. So the process must be one that the user who connected could trace anyway: all its ids are that
/// user's, the saved ones included, and it is dumpable. Of a process that is not (it has capabilities from its file, say),
/// the files in /proc/PID belong to root.
pub fn check(stream: &UnixStream, pidfd: BorrowedFd<'_>) -> Result<u32, Errno> {
    let connected = getsockopt(stream, sockopt::PeerCredentials)?;
    let pid = pid_of(pidfd)?;
    let status = read(&format!("/proc/{pid}/status")).map_err(|_| Errno::ESRCH)?;
    // Not the owner of /proc/PID itself, which stays the user's.
    let owner = fs::metadata(format!("/proc/{pid}/status"))
        .map_err(|_| Errno::ESRCH)?
        .uid();
    // Real, effective, saved, and that of the file system.
    let uids: [u32; 4] = numbers(&status, "Uid:")?;
    let gids: [u32; 4] = numbers(&status, "Gid:")?;
    let [threads] = numbers(&status, "Threads:")?;
    if uids.iter().any(|&uid| uid != connected.uid())
        || gids.iter().any(|&gid| gid != connected.gid())
        || owner != connected.uid()
    {
        return Err(Errno::EPERM);
    }
    if threads > MAX_THREADS {
        return Err(Errno::E2BIG);
    }
    Ok(threads)
}

/// The numbers in that line of /proc/PID/status. As a whole the file may be no text: a process gives itself any name.
fn numbers<const N: usize>(status: &[u8], key: &str) -> Result<[u32; N], Errno> {
    let mut lines = status.split(|&byte| byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(key.as_bytes()));
    let words = line.and_then(|line| str::from_utf8(line).ok());
    let numbers: Option<Vec<u32>> =
        words.and_then(|words| words.split_whitespace().map(|w| w.parse().ok()).collect());
    numbers
        .and_then(|numbers| numbers.try_into().ok())
        .ok_or(Errno::ESRCH)
}

fn process(pid: i32) -> Result<Process, Errno> {
    Process::new(pid).map_err(|_| Errno::ESRCH)
}

/// The number of the process in our PID namespace; it may have died since.
pub fn pid_of(pidfd: BorrowedFd<'_>) -> Result<i32, Errno> {
    let info = read(&format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()));
    let info = String::from_utf8(info.map_err(|_| Errno::EIO)?).map_err(|_| Errno::EIO)?;
    let pid = info
        .lines()
        .find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
    pid.filter(|&pid| pid > 0).ok_or(Errno::ESRCH)
}

/// A time since boot in the unit of /proc/PID/stat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(u64);

impl Ticks {
    pub fn now() -> Result<Ticks, Errno> {
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME)?;
        let per_second = procfs::ticks_per_second();
        let fraction = now.tv_nsec() as u64 * per_second / 1_000_000_000;
        Ok(Ticks(now.tv_sec() as u64 * per_second + fraction))
    }
}

/// Before 6.5 the kernel only tells the peer's PID, and by now that may be another process: the peer connects, dies,
/// and its number is given out again. That process would have started after we accepted the connection. Once the
/// pidfd is open its process cannot change, so its start time settles it. The clock is coarse, but numbers are given
/// out in a circle: none comes back within the tick in which it was lost.
fn pidfd_of_credentials(stream: &UnixStream, accepted: Ticks) -> Result<OwnedFd, Errno> {
    let pid = getsockopt(stream, sockopt::PeerCredentials)?.pid();
    if pid <= 0 {
        return Err(Errno::ESRCH); // it lives in a PID namespace that is not below ours
    }
    let named = Pid::from_raw(pid).ok_or(Errno::ESRCH)?;
    let pidfd =
        pidfd_open(named, PidfdFlags::empty()).map_err(|e| Errno::from_raw(e.raw_os_error()))?;
    if start_time(pid)? > accepted {
        Err(Errno::ESRCH)
    } else {
        Ok(pidfd)
    }
}

fn start_time(pid: i32) -> Result<Ticks, Errno> {
    let stat = process(pid)?.stat().map_err(|_| Errno::ESRCH)?;
    Ok(Ticks(stat.starttime))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::process;

    use super::*;

    #[test]
    fn both_ways_find_the_peer() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let now = Ticks::now().unwrap();
        let me = process::id() as i32;
        for found in [pidfd(&ours, now), pidfd_of_credentials(&ours, now)] {
            assert_eq!(pid_of(found.unwrap().as_fd()), Ok(me));
        }
    }

    #[test]
    fn a_file_is_read_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for length in [0, 1, 4096, 8192, 20_000] {
            let bytes: Vec<u8> = (0..length).map(|i| i as u8).collect();
            fs::write(file.path(), &bytes).unwrap();
            assert_eq!(read(file.path().to_str().unwrap()).unwrap(), bytes);
        }
        assert!(read("/proc/-1/cgroup").is_err());
    }

    #[test]
    fn our_own_peer_speaks_for_itself() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let me = pidfd(&ours, Ticks::now().unwrap()).unwrap();
        assert!(check(&ours, me.as_fd()).unwrap() > 0);
    }

    #[test]
    fn fuzz_status_of_a_process() {
        let own = std::fs::read("/proc/self/status").unwrap();
        flexguard_fuzz::fuzz("proc-status", &[&own], |input| {
            let _ = (numbers::<4>(input, "Uid:"), numbers::<1>(input, "Threads:"));
        });
    }

    #[test]
    fn the_numbers_of_a_process_are_read_whatever_it_calls_itself() {
        let status = b"Name:\t\xff\\nUid:\t7\nUid:\t0\t1\t2\t3\nThreads:\t5\n";
        assert_eq!(numbers(status, "Uid:"), Ok([0, 1, 2, 3]));
        assert_eq!(numbers(status, "Threads:"), Ok([5]));
        assert_eq!(numbers::<4>(status, "Gid:"), Err(Errno::ESRCH));
        assert_eq!(numbers::<3>(status, "Uid:"), Err(Errno::ESRCH));
    }

    #[test]
    fn a_process_younger_than_the_connection_is_not_the_peer() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let before_we_started = Ticks(start_time(process::id() as i32).unwrap().0 - 1);
        assert_eq!(
            pidfd_of_credentials(&ours, before_we_started).unwrap_err(),
            Errno::ESRCH
        );
    }
}
