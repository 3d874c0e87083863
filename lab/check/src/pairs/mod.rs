//! Every pair of operations, run by two CPUs at once on the seeded machine.
//!
//! ```text
//!   setting     mapping M, touched by both CPUs or not          model, cloned before every run
//!                    │                                                │
//!        cpu 0: operation A, probe     cpu 1: operation B, probe      │ all merges of the two
//!                    │     seed decides which CPU steps next  │       ▼ step by step
//!                    └──────────────► outcome ◄───────────────┘   legal outcomes
//!                                        └──────── is one of ─────────┘
//! ```
//!
//! Memory is private; or shared and mapped in one space; or shared and mapped in two, of which each CPU runs
//! one; or a private mapping of shared memory, which one space maps beside it.
//!
//! The child of a fork is a space that is compared as the others are; the model's is a copy, made at once. So
//! of two stores that a CPU made in order, no child may have the second without the first.
//!
//! An operation is a list of [`Step`]s that are atomic with respect to each other: a call under the space's
//! lock is one, a call that works page by page is one for each page, an access is one, preceded by its fault.
//! The obvious model carries out every merge of the two CPUs' steps; what both CPUs were answered, the map
//! and the pages must be what one of them gives. So nothing written is lost, nothing old is read after a call
//! has returned, no permitted access is refused. Every access checks its frame while it lasts: a CPU never
//! reaches a freed one. Afterwards everything is recounted.
//!
//! Where no model says what may come of a pair, huge pages and the hugetlb pool, a pair is played on a
//! [`scene`], and each CPU asserts what holds whatever the order.

mod allowed;
mod operations;
mod run;
pub mod scene;

pub use operations::{Memory, Operation, Place, Step, Variation};
pub use run::{PairFailure, run_pair};

/// All unordered pairs, an operation with itself among them.
pub fn all() -> impl Iterator<Item = (Operation, Operation)> {
    crate::drive::unordered(Operation::ALL)
}
