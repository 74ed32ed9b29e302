// SPDX-License-Identifier: MIT
//! How the command says that it failed: what, why, what to do, and with which exit status.

use std::fmt::{self, Display};

/// The command itself failed.
pub const OWN_FAILURE: u8 = 125;
/// The program was found but could not be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// There is no such program.
pub const NOT_FOUND: u8 = 127;

/// What failed and why, what the user can do about it, and the exit status that tells a script. `{}` writes what failed;
/// `{:#}` also writes why, as far as the causes are known.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    error: anyhow::Error,
    advice: Option<String>,
}

impl Failure {
    pub fn new(what: impl Display) -> Self {
        Self {
            code: OWN_FAILURE,
            error: anyhow::Error::msg(what.to_string()),
            advice: None,
        }
    }

    /// What failed, because of `error`. The advice and the exit status of `error` stay in force.
    pub fn because(error: impl Into<anyhow::Error>, what: impl Display) -> Self {
        let error = error.into();
        Self {
            code: error.downcast_ref::<Self>().map_or(OWN_FAILURE, |f| f.code),
            error: error.context(what.to_string()),
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

    /// What the user can do: this failure's own advice, else that of the nearest cause that gives some.
    pub fn find_advice(&self) -> Option<String> {
        let of_cause = |cause: &(dyn std::error::Error + 'static)| {
            let failure = cause.downcast_ref::<Self>().and_then(|f| f.advice.clone());
            let monitor = || cause.downcast_ref::<flexguard_monitor::Error>()?.advice();
            failure.or_else(monitor)
        };
        let own = self.advice.clone();
        own.or_else(|| self.error.chain().find_map(of_cause))
    }

    /// The text for stderr: the failure with its causes on the first line, the advice indented below.
    pub fn report(&self) -> String {
        let advice = self.find_advice().unwrap_or_default();
        let advice: String = advice.lines().map(|line| format!("  {line}\n")).collect();
        format!("flexguard: {self:#}\n{advice}")
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Says what was being attempted when the error came.
pub trait Context<T> {
    fn context(self, doing: impl Display) -> Result<T>;
}

impl<T, E: Into<anyhow::Error>> Context<T> for Result<T, E> {
    fn context(self, doing: impl Display) -> Result<T> {
        self.map_err(|error| Failure::because(error, doing))
    }
}

pub type Result<T, E = Failure> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn report_puts_the_advice_below_the_failure() {
        let failure = Failure::new("no such lock").advice("try this\nor that");
        let report = "flexguard: no such lock\n  try this\n  or that\n";
        assert_eq!(failure.report(), report);
        assert_eq!(failure.code, OWN_FAILURE);
    }

    #[test]
    fn causes_are_kept_and_told_once() {
        let inner: Result<()> =
            Err(io::Error::from_raw_os_error(libc::EACCES)).context("cannot read it");
        let inner = inner.map_err(|f| f.advice("become root").code(NOT_EXECUTABLE));
        let failure = inner.context("cannot start").unwrap_err();
        let text = "flexguard: cannot start: cannot read it: Permission denied (os error 13)\n  become root\n";
        assert_eq!(failure.report(), text);
        assert_eq!(
            (failure.to_string().as_str(), failure.code),
            ("cannot start", NOT_EXECUTABLE)
        );
        let error = anyhow::Error::from(failure);
        assert!(error.chain().last().unwrap().is::<io::Error>());
    }

    #[test]
    fn the_advice_of_the_monitor_reaches_the_user() {
        let missing = "CAP_BPF".into();
        let refused: Result<(), _> = Err(flexguard_monitor::Error::NoPrivilege { missing });
        let report = refused
            .context("cannot start the monitor")
            .unwrap_err()
            .report();
        assert!(
            report.contains("missing CAP_BPF") && report.contains("setcap"),
            "{report}"
        );
    }
}
