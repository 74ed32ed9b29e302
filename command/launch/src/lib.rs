// SPDX-License-Identifier: MIT
//! Starting a program under a lock and a monitor: what `flexguard run` and `flexguard bench` share.
//!
//! | module    | what it holds                                                             |
//! |-----------|---------------------------------------------------------------------------|
//! | `prefix`  | where the parts of the installation are                                   |
//! | `locks`   | the index of locks, and whether this machine has what a lock needs        |
//! | `preload` | the environment that puts a lock's interposer into a program              |
//! | `filters` | how many seccomp filters a process is under, and how many are expected    |
//! | `attach`  | the monitor of a run: the machine's daemon, one of our own, or none       |
//! | `runs`    | the monitor that concurrent runs of root share                            |
//! | `child`   | the program as a child process, waited for together with signals          |
//! | `signals` | signals that are held back while a program runs                           |
//! | `unwatchable` | programs into which no lock can be put                               |
//! | `elf`     | files of programs and libraries                                           |
//! | `waits`   | variables by which common runtimes wait                                   |
//! | `output`  | stdout and stderr without panics                                          |
//! | `names`   | what to say of a name that nothing has                                    |
//! | `failure` | what failed, why, and what to do                                          |

pub mod attach;
pub mod child;
pub mod elf;
pub mod failure;
pub mod filters;
pub mod locks;
pub mod names;
pub mod output;
pub mod prefix;
mod preload;
pub mod runs;
pub mod signals;
pub mod unwatchable;
pub mod waits;

pub use attach::MonitorMode;
pub use preload::Preload;
