// SPDX-License-Identifier: MIT
//! The version of a build, as a monitor tells it to clients of another one.

use std::fmt;

/// `major.minor.patch`, 16 bits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version(u64);

impl Version {
    /// Of this build.
    pub const OWN: Version = Version(
        part(env!("CARGO_PKG_VERSION_MAJOR")) << 32
            | part(env!("CARGO_PKG_VERSION_MINOR")) << 16
            | part(env!("CARGO_PKG_VERSION_PATCH")),
    );

    /// None: a monitor that is so old that it does not tell.
    pub fn of_number(number: u64) -> Option<Version> {
        (number != 0).then_some(Version(number))
    }

    pub(crate) const fn number(self) -> u64 {
        self.0
    }
}

const fn part(digits: &str) -> u64 {
    match u64::from_str_radix(digits, 10) {
        Ok(number) if number < 1 << 16 => number,
        _ => panic!("a part of a version has 16 bits"),
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |shift: u32| self.0 >> shift & 0xffff;
        write!(f, "{}.{}.{}", part(32), part(16), part(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_told_as_cargo_tells_it() {
        assert_eq!(Version::OWN.to_string(), env!("CARGO_PKG_VERSION"));
        let told = Version::of_number(12 << 32 | 34 << 16 | 56).unwrap();
        assert_eq!(told.to_string(), "12.34.56");
        assert_eq!(Version::of_number(0), None);
    }
}
