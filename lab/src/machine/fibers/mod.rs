//! CPUs that are fibers of one host thread: one runs at a time, and a scheduler decides which goes on.
//!
//! The seeded machine ([`baton`](super::baton)) and the machine of virtual time ([`sim`](super::sim)) differ
//! in that decision alone. What they share is here: the fibers, the programs on them, interrupts after the
//! end of a program, and the ways in which a run ends.
//!
//! ```text
//!   host thread     scenario's fiber        fibers of the CPUs
//!   run_scenario ─► builds a system
//!                   run ──────────────────► enter the CPU, the program, interrupts until all have ended
//!                                           go_to(another), ... , go_to(none)
//!                   checks  ◄────────────── leave the CPU
//!   verdict ◄─────────────────────────────  finish: a failure, a deadlock; these stacks never go on
//! ```

#![forbid(unsafe_code)]

mod cpus;
mod random;
mod verdict;

pub(in crate::machine) use cpus::{FiberCpus, Scheduler, Status};
pub(in crate::machine) use random::Random;
pub use verdict::Verdict;

/// What one CPU does.
pub type Program<'a> = Box<dyn FnOnce() + 'a>;
