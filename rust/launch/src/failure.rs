// SPDX-License-Identifier: MIT
//! How the command says that it failed: what, why, what to do, and with which exit status.

use std::fmt::{self, Display};

/// The command itself failed.
pub const OWN_FAILURE: u8 = 125;
/// The program was found but could not be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// There is no such program.
pub const NOT_FOUND: u8 = 127;

/// What failed, and what the user can do about it.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Failure {
    pub code: u8,
    what: String,
    advice: Option<String>,
}

impl Failure {
    pub fn new(what: impl Display) -> Self {
        Self {
            code: OWN_FAILURE,
            what: what.to_string(),
            advice: None,
        }
    }

    pub fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    pub fn advice(mut self, advice: impl Display) -> Self {
        self.advice = Some(advice.to_string());
        self
    }

    /// The text for stderr: the failure on its first line, the advice indented below.
    pub fn report(&self) -> impl Display + '_ {
        struct Report<'a>(&'a Failure);
        impl Display for Report<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                writeln!(f, "flexguard: {}", self.0.what)?;
                for line in self.0.advice.iter().flat_map(|a| a.lines()) {
                    writeln!(f, "  {line}")?;
                }
                Ok(())
            }
        }
        Report(self)
    }
}

/// Adds to an error what was being attempted.
pub trait Context<T> {
    fn context(self, doing: impl Display) -> Result<T, Failure>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context(self, doing: impl Display) -> Result<T, Failure> {
        self.map_err(|e| Failure::new(format_args!("{doing}: {e}")))
    }
}

pub type Result<T, E = Failure> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_puts_the_advice_below_the_failure() {
        let failure = Failure::new("no such lock").advice("try this\nor that");
        assert_eq!(
            failure.report().to_string(),
            "flexguard: no such lock\n  try this\n  or that\n"
        );
        assert_eq!(failure.code, OWN_FAILURE);
    }
}
