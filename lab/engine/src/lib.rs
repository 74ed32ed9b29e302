// SPDX-License-Identifier: MIT
//! Locks compared with one another, in interleaved rounds: the library behind `flexguard bench`. It knows nothing of the
//! command's arguments; the command turns them into the plain structs of this crate.
//!
//! **A verdict is made** in `stats/verdict.rs` (which lock is better), in `claim/verdict.rs` (whether a claim holds), and
//! in `advise/judge.rs` (whether FlexGuard helps a program). All three rest on `stats/paired.rs`, the ratio of two locks
//! in the same rounds, and its interval.
//!
//! A file uses only what stands below it here:
//!
//! | | |
//! |---|---|
//! | `first`, `advise`, `paper`, `compare`, `report`, `calibrate` | subcommands of their own; the last writes a machine file |
//! | `scene` | what to measure, from a file; claims about it |
//! | `suite`, `pipeline` | several experiments in a directory; one benchmark from its options to its results |
//! | `html`, `plot`, `export`, `table`, `prose`, `sink` | pages, figures, files, what the terminal shows |
//! | `claim`, `experiment` | what is said of a lock; a workload with its plan and figures |
//! | `session` | the rounds: interleaved, resumed, interrupted |
//! | `micro`, `exec`, `overhead`, `guests` | the workloads, of the trait in `workload` |
//! | `contention`, `catalogue`, `worker`, `simulated`, `presets`, `memcached`, `subject` | what these are made of |
//! | `runner`, `progress`, `options` | one run of one program; the line meanwhile; rounds and outputs |
//! | `document` | the record: its schema, and what follows from the rounds |
//! | `figure`, `measure`, `point`, `machine`, `distance` | the parts of a record |
//! | `stats`, `words` | estimates, ratios, verdicts; numbers as a reader has them |

pub mod advise;
pub mod calibrate;
pub mod catalogue;
pub mod claim;
pub mod compare;
pub mod contention;
mod distance;
mod document;
pub mod exec;
pub mod experiment;
pub mod export;
mod figure;
pub mod first;
pub mod guests;
mod html;
mod launch;
mod machine;
mod measure;
pub mod memcached;
pub mod micro;
pub mod options;
pub mod overhead;
pub mod paper;
mod pipeline;
mod plot;
mod point;
pub mod presets;
mod progress;
mod prose;
pub mod report;
mod runner;
pub mod scene;
mod session;
pub mod simulated;
mod sink;
mod stats;
pub mod subject;
pub mod suite;
mod table;
mod words;
mod worker;
pub mod workload;

pub use html::head as page_head;
pub use pipeline::run;
pub use workload::Workload;
