// SPDX-License-Identifier: MIT
//! Locks compared with one another, in interleaved rounds: the library behind `flexguard bench`. It knows nothing of the
//! command's arguments; the command turns them into the plain structs of this crate.
//!
//! | what is measured | |
//! |---|---|
//! | `catalogue` | the workloads of fg-bench and their options, as it tells them |
//! | `micro`, `contention` | the microbenchmarks, which fg-bench runs |
//! | `subject` | what they compare: a lock, its environment, how it gets into the program |
//! | `worker` | how fg-bench is called and how its answer is read |
//! | `simulated` | the same on a simulated machine |
//! | `calibrate` | a machine file of this machine |
//! | `advise` | whether FlexGuard helps a program, from the rounds of `exec` |
//! | `export` | results as CSV and Markdown |
//! | `exec`, `presets`, `memcached` | a program under each lock's interposer |
//! | `overhead` | what the Preemption Monitor costs |
//! | `guests` | spinlocks in guest kernels |
//! | `scene`, `claim` | what to measure, and what is said of it, as data |
//! | `paper` | which of these stand for the figures of the paper |
//! | `workload` | what each of them says of itself: the trait that the rest works with |
//!
//! | how it is measured | |
//! |---|---|
//! | `options` | rounds, outputs, and what numbers they take |
//! | `session` | the rounds: interleaved, resumed, interrupted |
//! | `suite` | several experiments in one directory: the paper, or the scenes of a file |
//! | `distance` | how far apart the CPUs are |
//! | `runner`, `progress` | one run of one program; the bar meanwhile |
//! | `machine` | where it ran, and what was built |
//! | `stats` | estimates, differences, verdicts |
//!
//! | what becomes of it | |
//! |---|---|
//! | `document`, `point`, `measure` | the record: its schema, and what follows from the rounds |
//! | `sink` | files, made sure of before the first run |
//! | `pipeline` | one benchmark from its configuration to its results |
//! | `table`, `prose` | what the terminal shows |
//! | `plot`, `html`, `report` | figures and pages |
//! | `compare` | two records, before and after a change |

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
