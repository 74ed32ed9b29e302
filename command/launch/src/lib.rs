// SPDX-License-Identifier: MIT
//! Starting a program under a lock and a monitor: what `flexguard run` and `flexguard bench` share.
//!
//! | module    | what it holds                                                             |
//! |-----------|---------------------------------------------------------------------------|
//! | `prefix`  | where the parts of the installation are                                   |
//! | `locks`   | the index of locks, and whether this machine has what a lock needs        |
//! | `musl`    | programs of another C library, which no lock can be put into             |
//! | `preload` | the environment that puts a lock's interposer into a program              |
//! | `attach`  | the monitor of a run: the machine's daemon, one of our own, or none       |
//! | `runs`    | the monitor that concurrent runs of root share                            |
//! | `child`   | the program as a child process, waited for together with signals          |
//! | `signals` | signals that are held back while a program runs                           |
//! | `waits`   | variables by which common runtimes wait                                   |
//! | `output`  | stdout and stderr without panics                                          |
//! | `failure` | what failed, why, and what to do                                          |

pub mod attach;
pub mod child;
pub mod failure;
pub mod locks;
pub mod musl;
pub mod output;
pub mod prefix;
mod preload;
pub mod runs;
pub mod signals;
pub mod waits;

pub use attach::MonitorMode;
pub use preload::Preload;
