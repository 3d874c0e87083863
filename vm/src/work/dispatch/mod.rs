//! Where callers and helpers meet: work on a caller's stack, visited by other CPUs.
//!
//! A helper is a thread that exists before it is needed. The work lies on the caller's stack, so nothing is
//! allocated; what makes that right is that a helper looks at it during a *visit* only, and that the caller
//! returns only once nobody can come any more and every visit has ended. A helper that has not begun, or
//! pauses between two pieces, is not waited for: the work is gone when it comes.
//!
//! There are two ways. Work that takes any help is *shown* at the **desk** of the caller's CPU (`desk`), and
//! helpers that have nothing to do look round the desks (`round`):
//!
//! ```text
//!   caller   show   its own part .................. close? visited: wait   .  go on
//!                \                                                      /
//!   helper        . look   enter ------ visit ------------------ leave
//! ```
//!
//! The caller writes a line of its own, and asks nobody: if nobody comes, that was all. Work that wants the
//! helper of one CPU and no other (an ordered queue's) is *lent* to it at its **post** (`lend`): the caller
//! claims the post, offers, withdraws, gives back.
//!
//! ```text
//!   caller   claim   offer ............ withdraw? visited: wait     withdraw   give back
//!                      \                    |                          |
//!   helper              visit --- pause   visit ------ leave (or pause)
//! ```
//!
//! The order is that of one word each (`desk_word`, `word`): showing or offering releases the work to the
//! visit that acquires it. The end of a visit releases what was done to the caller; it is told in that word,
//! or in what is shown. Both sleep on the word; who changes it looks whether the other sleeps.
//!
//! A helper stands in for its caller: it holds, for the ladder, what the caller held; and its time is noted
//! for the caller, who is charged with it.

mod crowd;
mod desk;
#[cfg(all(test, loom))]
mod desk_loom_tests;
mod desk_word;
mod lend;
#[cfg(all(test, loom))]
mod loom_tests;
mod post;
mod round;
mod word;

pub use desk::{Exhibit, HEAD_ROOM, Offer, Terms};
pub use lend::{Then, Visit};
pub use post::{Board, PollLimit};
