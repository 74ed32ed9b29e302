// SPDX-License-Identifier: MIT
//! How much of the machine other programs use while one is measured.

use std::time::Instant;

use procfs::{CurrentSI, KernelStats};

/// From this share of the CPUs on the machine is busy.
const BUSY: f64 = 0.1;

/// CPU time since some moment.
pub struct Others {
    begun: Instant,
    before: Option<f64>,
}

/// How many CPUs others, or the host of a virtual machine, have used in the mean, and how many there are.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    pub cpus: f64,
    pub of: usize,
}

impl Used {
    pub fn is_busy(self) -> bool {
        self.cpus >= BUSY * self.of as f64
    }
}

impl Others {
    pub fn begin() -> Self {
        Self {
            begun: Instant::now(),
            before: seconds_of_others().map(|(seconds, _)| seconds),
        }
    }

    /// None: /proc does not say.
    pub fn used(&self) -> Option<Used> {
        let (seconds, of) = seconds_of_others()?;
        let cpus = (seconds - self.before?) / self.begun.elapsed().as_secs_f64();
        Some(Used {
            cpus: cpus.max(0.0),
            of,
        })
    }
}

/// CPU time of the whole machine, without that of this process and of the children that it has waited for; and its CPUs.
fn seconds_of_others() -> Option<(f64, usize)> {
    let stats = KernelStats::current().ok()?;
    let all = stats.total;
    let of_kernel = [all.irq, all.softirq, all.steal].into_iter().flatten();
    let ticks = all.user + all.nice + all.system + of_kernel.sum::<u64>();
    let seconds = ticks as f64 / procfs::ticks_per_second() as f64;
    let ours = seconds_of(libc::RUSAGE_SELF) + seconds_of(libc::RUSAGE_CHILDREN);
    Some((seconds - ours, stats.cpu_time.len()))
}

fn seconds_of(whom: libc::c_int) -> f64 {
    // SAFETY: all-zero is a valid rusage, and it lives for the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(whom, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Hogs;
    use std::process::Command;

    /// Where all CPUs are busy, what is counted twice exceeds the CPUs' time. A busy process that goes on is another
    /// program; a child that is waited for is not.
    #[test]
    fn only_what_others_use_is_counted() {
        let cpus = KernelStats::current().unwrap().cpu_time.len();
        let _hogs = Hogs::start(cpus as u32).unwrap();
        let others = Others::begin();
        let before = seconds_of(libc::RUSAGE_CHILDREN);
        let script = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done";
        let mut ours = 0.0;
        while ours < 1.0 {
            let ended = Command::new("sh").args(["-c", script]).status();
            assert!(ended.unwrap().success());
            ours = seconds_of(libc::RUSAGE_CHILDREN) - before;
        }
        let used = others.used().unwrap();
        let elapsed = others.begun.elapsed().as_secs_f64();
        let theirs = used.cpus * elapsed;
        assert!(theirs > 0.2 * ours && used.is_busy(), "{used:?}");
        // Ticks are 10 ms on each CPU.
        let all = cpus as f64 * (elapsed + 0.1);
        assert!(theirs + ours < all, "{theirs} + {ours} of {all}");
    }
}
