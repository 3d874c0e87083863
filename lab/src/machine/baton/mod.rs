//! The seeded machine: one CPU runs at a time, and a seed decides which.
//!
//! Every access through the door, every fence, `relax`, sleep and wake is a *step*: before it happens the
//! seed may let another CPU run. A run is therefore a function of its seed: same seed, same interleaving, on
//! any host. It is sequentially consistent; what needs weaker orders is for loom.
//!
//! ```text
//!   step  cpu 0                                cpu 1
//!     17  load   space.rs:120 mapping .stale
//!     18                                       update map.rs:88 mapping .stale
//!     19  ...
//! ```
//!
//! A run ends in a [`Verdict`]. Where all CPUs sleep it is a deadlock; where the steps run out, a livelock; a
//! panic on any CPU (a failed check, a broken lock ladder) is a failure too. [`Report`] then prints the last
//! steps, a column for each CPU.
//!
//! CPUs are fibers of one host thread, so a switch costs nanoseconds and a thousand seeds of a small scenario
//! take about a second.

mod cpu;
mod harness;
mod policy;
mod report;
mod scenario;
mod scheduler;
#[cfg(test)]
mod tests;

pub use super::fibers::{Program, Verdict};
pub use cpu::Baton;
pub use harness::Seeded;
pub use report::{Report, Step, StepKind};
pub use scenario::{Options, Schedule, Summary, explore, run_seed};
