// SPDX-License-Identifier: MIT
//! The options that all benchmarks share.

use std::path::PathBuf;

use serde::Serialize;

use crate::machine;

/// How often everything runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Plan {
    /// How often everything is measured; six or more are needed to call a winner
    pub rounds: u32,

    /// Rounds that run first and are not recorded
    pub warmup_rounds: u32,

    /// Measure the first subject twice in each round: the difference between the two is the noise
    pub noise: bool,

    /// No more rounds once every ratio to the first subject is known to this share
    pub tell: Option<f64>,
}

/// Where the results go.
#[derive(Debug)]
pub struct Output {
    /// Print JSON instead of the table
    pub json: bool,

    /// Write the JSON to FILE, anew after every run: what was measured survives a kill
    pub output: Option<PathBuf>,

    /// The measures that the table shows, or `all`
    pub columns: Vec<String>,

    /// Write a report that any browser shows, in one file
    pub html: Option<PathBuf>,

    /// Write the results to FILE as CSV or Markdown, as its name ends
    pub export: Option<PathBuf>,

    /// Write every figure as SVG and PNG into DIR
    pub plots: Option<PathBuf>,
}

/// A number of seconds within limits.
pub fn seconds(text: &str, least: f64, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (least..=most).contains(&s) => Ok(s),
        _ => Err(format!("not a number of seconds from {least} to {most}")),
    }
}

/// A share in percent.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(p) if (0.01..=100.0).contains(&p) => Ok(p),
        _ => Err("not a number from 0.01 to 100".into()),
    }
}

/// How much of the usual work.
pub fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(f) if (0.001..=1000.0).contains(&f) => Ok(f),
        _ => Err("not a number from 0.001 to 1000".into()),
    }
}

/// A number of threads, or, as `2x`, so many for each hardware context (rounded, at least one).
pub fn threads(text: &str) -> Result<u32, String> {
    count(text, 1, 4096)
}

/// Those of this machine that this process may use.
pub fn contexts() -> usize {
    machine::contexts()
}

/// A number of threads or processes, or, as `2x`, so many for each hardware context (rounded).
pub fn count(text: &str, least: u32, most: u32) -> Result<u32, String> {
    Count::parse(text, least, most)?.on(machine::contexts())
}

/// Such a number, of a machine that need not be this one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    number: f64,
    of_contexts: bool,
    least: u32,
    most: u32,
}

impl Count {
    pub fn parse(text: &str, least: u32, most: u32) -> Result<Self, String> {
        let factor = text.strip_suffix('x');
        let number: Option<f64> = match factor {
            None => text.parse::<u32>().ok().map(f64::from),
            Some(factor) => factor.parse().ok(),
        };
        let count = |number| Self {
            number,
            of_contexts: factor.is_some(),
            least,
            most,
        };
        let count = count(number.unwrap_or(-1.0));
        let none = count.number == 0.0 && least > 0;
        if number.is_some() && (0.0..=f64::from(most)).contains(&count.number) && !none {
            Ok(count)
        } else {
            Err(count.wrong())
        }
    }

    /// The number on a machine with so many hardware contexts.
    pub fn on(self, contexts: usize) -> Result<u32, String> {
        let n = match self.of_contexts {
            false => self.number as u32,
            true => ((contexts as f64 * self.number).round() as u32).max(self.least),
        };
        if (self.least..=self.most).contains(&n) {
            Ok(n)
        } else {
            Err(self.wrong())
        }
    }

    fn wrong(self) -> String {
        let Self { least, most, .. } = self;
        format!("not a number from {least} to {most}, nor a factor such as 2x")
    }
}

/// Each once, in the order given.
pub fn distinct<T: Copy + PartialEq>(values: &[T]) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(value) {
            seen.push(*value);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_numbers_or_factors() {
        let contexts = machine::contexts() as u32;
        assert_eq!(threads("8"), Ok(8));
        assert_eq!(threads("2x"), Ok(2 * contexts));
        assert_eq!(threads("0.001x"), Ok(1));
        assert_eq!((count("0", 0, 9), count("0x", 0, 9)), (Ok(0), Ok(0)));
        for wrong in ["0", "0x", "-1", "x", "nanx", "infx", "5000", "1.5", ""] {
            assert!(threads(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_factor_is_of_the_machine_that_it_is_for() {
        let twice = Count::parse("2x", 1, 4096).unwrap();
        assert_eq!((twice.on(104), twice.on(2)), (Ok(208), Ok(4)));
        assert!(Count::parse("40x", 1, 4096).unwrap().on(104).is_err());
        assert_eq!(Count::parse("7", 1, 4096).unwrap().on(104), Ok(7));
    }

    #[test]
    fn durations_have_limits() {
        assert_eq!(seconds("0.5", 0.001, 10.0), Ok(0.5));
        for wrong in ["0", "-1", "nan", "inf", "1e9", "1s", ""] {
            assert!(seconds(wrong, 0.001, 10.0).is_err(), "{wrong}");
        }
    }
}
