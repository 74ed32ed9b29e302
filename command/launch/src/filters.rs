// SPDX-License-Identifier: MIT
//! Seccomp filters: a program under more than are expected was put into a sandbox, and runs without the monitor
//! (lib/runtime/sandbox.h).

use std::fmt::Display;
use std::fs;

pub const FILTERS_ENV: &str = "FLEXGUARD_FILTERS";
/// That of a container.
pub const WITHOUT_ENV: u32 = 1;

/// How many filters the process is under. None: it has ended, or the kernel has none.
pub fn of(process: impl Display) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let mut lines = status.lines();
    lines
        .find_map(|line| line.strip_prefix("Seccomp_filters:"))?
        .trim()
        .parse()
        .ok()
}

/// The user may expect more filters than `own`, as where the program is started in a container of its own.
pub fn expected(own: u32, inherited: Option<String>) -> u32 {
    let inherited = inherited.and_then(|n| n.trim().parse().ok());
    inherited.map_or(own, |n: u32| n.max(own))
}

#[cfg(test)]
mod tests {
    use super::expected;

    #[test]
    fn more_filters_than_here_may_be_expected() {
        let inherited = |own, number: &str| expected(own, Some(number.to_owned()));
        assert_eq!(expected(2, None), 2);
        assert_eq!(inherited(2, "7"), 7);
        assert_eq!(inherited(2, "1"), 2);
        assert_eq!(inherited(2, "many"), 2);
    }
}
