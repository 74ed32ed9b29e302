// SPDX-License-Identifier: MIT
//! What a monitor counts of its clients.

use std::sync::atomic::AtomicU64;

use crate::refused::Refusals;

/// What the server has done; read by other threads.
#[derive(Debug, Default)]
pub struct Tally {
    pub registered: AtomicU64,
    pub refusals: Refusals,
    /// Processes for which no domain of their own was free.
    pub without_domain: AtomicU64,
    /// Clients that were refused what makes a program watched.
    pub unmonitored: AtomicU64,
    /// How often it has looked for clients, once a second at least.
    pub looks: AtomicU64,
}
