// SPDX-License-Identifier: MIT
//! A line of a machine file: a key, its value, and where that is from.

/// A line of a machine file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) key: String,
    pub(super) value: f64,
    pub(super) source: String,
}

impl Line {
    pub(super) fn new(key: &str, value: f64, source: &str) -> Self {
        Self {
            key: key.into(),
            value,
            source: source.into(),
        }
    }

    /// `key = value # source`
    pub(super) fn read(text: &str) -> Option<Self> {
        let (pair, source) = text.split_once('#').unwrap_or((text, ""));
        let (key, value) = pair.split_once('=')?;
        Some(Self::new(
            key.trim(),
            value.trim().parse().ok()?,
            source.trim(),
        ))
    }
}
