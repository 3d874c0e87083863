//! What the library would do on a machine of many CPUs: workloads and recorded programs in virtual time.
//!
//! ```text
//!   workload, trace ─► system: machine, spaces, a program for each CPU ─► run ─► sample: operations, waits
//!   profile ─────────► costs, halved and doubled ─────────────────────────┘         │
//!                                                      point: rates, percentiles, ranges, waits by name
//!                                                                                  │
//!                                                      conclusion ─► report: text, JSON, SVG
//! ```
//!
//! A crate of its own: the library is compiled here for the machine of virtual time
//! ([`interleaf_lab::machine::sim`]), which the command `interleaf` does without. `interleaf predict` builds
//! and runs it. docs/design/virtual-time.md says how far its numbers go.

#![forbid(unsafe_code)]

pub mod command;
mod conclusion;
mod files;
mod frames;
mod line_limit;
pub mod linux;
mod point;
mod report;
mod sample;
mod subject;
mod system;
pub mod trace;
mod waits;
pub mod workload;

pub use conclusion::Bottleneck;
pub use line_limit::LineLimit;
pub use point::{Point, Ranged};
pub use report::Report;
pub use sample::{Operations, Sample};
pub use system::{Machine, Space, System, Workload, run};
pub use waits::NamedWait;
