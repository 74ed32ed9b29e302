// SPDX-License-Identifier: MIT
//! What `flexguard top` shows, and how it is drawn. No terminal is needed for either.

pub mod sample;
pub mod state;
pub mod view;
