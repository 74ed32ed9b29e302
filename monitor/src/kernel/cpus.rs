// SPDX-License-Identifier: MIT
//! CPUs that are off line. Each CPU writes its own line of the page, and the last that it writes is that it idles.

use std::fs;

use zerocopy::IntoBytes;

use super::Kernel;
use crate::records::fg_off_line_args;

/// A list like `0-3,8`. A CPU that is missing there makes no switches.
const ON_LINE: &str = "/sys/devices/system/cpu/online";

impl Kernel {
    /// Of the CPUs below `cpus_seen`. Clients that look for an idle CPU no longer find one that is off line. Where the
    /// kernel does not say which CPUs are on line, none is taken to be off.
    pub fn publish_cpus_off_line(&self, cpus_seen: u32) {
        let Ok(on_line) = fs::read_to_string(ON_LINE) else {
            return;
        };
        for cpu in off_line(on_line.trim_end(), cpus_seen) {
            let mut args = fg_off_line_args { cpu, pad: 0 };
            if let Err(errno) = self.run("fg_off_line", Some(args.as_mut_bytes())) {
                tracing::debug!(cpu, %errno, "cannot say that a CPU is off line");
            }
        }
    }
}

/// The CPUs below `seen` that the list leaves out. None, if this is no such list.
fn off_line(on_line: &str, seen: u32) -> Vec<u32> {
    let Some(ranges) = on_line.split(',').map(range).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let on_line = |cpu: &u32| {
        ranges
            .iter()
            .any(|&(first, last)| (first..=last).contains(cpu))
    };
    (0..seen).filter(|cpu| !on_line(cpu)).collect()
}

fn range(part: &str) -> Option<(u32, u32)> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::off_line;

    #[test]
    fn cpus_that_the_list_leaves_out_are_off_line() {
        assert_eq!(off_line("0-3", 4), [0; 0]);
        assert_eq!(off_line("0", 4), [1, 2, 3]);
        assert_eq!(off_line("0,2-3,6-1023", 8), [1, 4, 5]);
        assert_eq!(off_line("0-1", 0), [0; 0]);
    }

    #[test]
    fn what_is_no_list_says_of_no_cpu_that_it_is_off_line() {
        for list in ["", "\n", "none", "0-", "0-3,", "-1", "0 1", "4294967296"] {
            assert_eq!(off_line(list, 8), [0; 0], "{list:?}");
        }
    }
}
