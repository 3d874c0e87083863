//! Floor 5: mappings, their index, and the decisions about them.
//!
//! A mapping says what a range of pages may be used for and what they are filled from. Faults read mappings
//! without a lock while other threads replace them, which decides everything here:
//!
//! **A mapping never changes; it is replaced.** What it says is a plain value, [`VmaAttributes`]. Its record
//! in shared memory, [`Vma`], holds such a value for good, beside one word that says whether it is still
//! true. A writer marks the old record stale, publishes others in the index, and only then edits entries
//! under the table locks:
//!
//! ```text
//!  writer (space lock held for writing)        fault (no lock held)
//!
//!   decide: which are removed, which added       find the record        live
//!   mark the removed ones stale - - - - - +      prepare a frame
//!   publish the added ones                |      lock the table page
//!   lock table pages, edit entries        + - >  look at the record: stale -> look again, or fall back
//!   flush                                        install only where it was live
//! ```
//!
//! Either the fault locks the table page first, sees a live record, and the writer finds the page it
//! installed; or the writer locks it first, and the fault sees the mark.
//!
//! **Decisions are pure.** What a call makes of a neighbourhood ([`merge()`], [`split()`], [`cut`],
//! [`change()`], [`protect()`], [`reusable_anon`]) is a function from values to values. It allocates nothing
//! and has no failures of its own, so that a caller first decides, then reserves the new records, and then
//! commits without a way to fail. The rules are Linux's, as /proc/self/maps shows them.
//!
//! | here | what for |
//! |---|---|
//! | [`VmaFlags`], [`FlagAdvice`] | access rights and advice |
//! | [`VmaAttributes`] | all that a mapping says |
//! | [`AnonId`], [`BackingId`] | whose private copies it holds; what its pages are filled from |
//! | [`Policy`] | which nodes its memory comes from |
//! | [`Vma`], [`VmaState`] | its record: stale, live, busy or frozen |
//! | [`merge()`], [`joins`], [`reusable_anon`] | when neighbours become one |
//! | [`split()`], [`cut`], [`change()`], [`Change`] | what is left of a mapping, and what a change makes of its neighbourhood |
//! | [`protect()`], [`Protection`], [`Charge`] | mprotect, with its commit charge |
//! | [`place()`], [`Placement`], [`Areas`], [`Gaps`] | where a mapping goes that has no address of its own |
//! | [`VmaTree`] | the index, a [`RangeIndex`](crate::index::RangeIndex) |
//! | [`check()`], [`Flaw`] | what is true of every list of mappings |
//!
//! docs/design/vma.md has the drawings.

#![forbid(unsafe_code)]

mod attributes;
mod check;
mod decide;
mod flags;
mod identity;
mod policy;
mod record;
mod state_word;
#[cfg(test)]
mod tests;
mod tree;

pub use attributes::{VmaAttributes, same_for_fault};
pub use check::{Flaw, check};
pub use decide::{Areas, Direction, GUARD_PAGES, Gaps, LOW, Placement, Search, place};
pub use decide::{Change, change, change_policy, cut, split};
pub use decide::{Charge, Protection, protect};
pub use decide::{Merged, joins, merge, reusable_anon};
pub use flags::{FlagAdvice, VmaFlags};
pub use identity::{AnonId, BackingId};
pub use policy::Policy;
pub use record::{Vma, VmaState};
pub use tree::{MAX_MAPPINGS, VmaTree};
