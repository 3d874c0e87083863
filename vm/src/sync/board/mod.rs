//! Where callers and helpers meet: work on a caller's stack, visited by other CPUs.
//!
//! A helper is a thread that exists before it is needed and waits at its post, one for each CPU. A caller claims posts, offers its
//! work at them, does its own part, and takes the offers back. The work lies on the caller's stack, so nothing is allocated; what
//! makes that right is that a helper looks at it during a *visit* only, and that the caller returns only once every offer is
//! withdrawn, which a visit delays and nothing else does. A helper that has not begun, or pauses between two pieces, is not
//! waited for: its offer is gone when it comes.
//!
//! ```text
//!   caller   claim   offer ............ withdraw? visited: wait     withdraw   give back
//!                      \                    |                          |
//!   helper              visit --- pause   visit ------ leave (or pause)
//! ```
//!
//! The order is that of one word (`word`): offering releases the work to the visit that acquires it, the end of a visit releases
//! what was done to the withdrawal. Both sleep on that word; who changes it looks whether the other sleeps.
//!
//! A helper stands in for its caller: it holds, for the ladder, what the caller held when it offered; and its time is noted at the
//! post, so that the caller is charged with it.

mod lend;
#[cfg(all(test, loom))]
mod loom_tests;
mod post;
mod word;

pub use lend::{Claimed, Then, Visit};
pub use post::{Board, Patience};
