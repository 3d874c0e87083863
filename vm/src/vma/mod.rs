//! Floor 5: mappings, their index, and the decisions about them.
//!
//! A mapping says what a range of pages may be used for and what they are filled from. Faults read mappings
//! without a lock while other threads replace them, which decides everything here:
//!
//! **A mapping never changes; it is replaced.** What it says is a plain value, [`VmaAttributes`]. Its record in
//! shared memory, [`Vma`], holds such a value for good, beside one word that says whether it is still true. A
//! writer marks the old record stale, publishes others in the index, and only then edits entries under the
//! table locks:
//!
//! ```text
//!  writer (space lock held alone)              fault (nothing held)
//!
//!   decide: which go, which come                 find the record        live
//!   mark those that go stale    - - - - - +      prepare a frame
//!   publish those that come               |      lock the table page
//!   lock table pages, edit entries        + - >  look at the record: stale -> look again, or fall back
//!   flush                                        install only where it was live
//! ```
//!
//! Either the fault locks the table page first, sees a live record, and the writer finds the page it
//! installed; or the writer does, and the fault sees the mark. There is no third order.
//!
//! **Decisions are pure.** What a call makes of a neighbourhood ([`merge()`], [`split()`], [`cut`],
//! [`change()`], [`protect()`], [`reusable_anon`]) is a function from values to values. It allocates nothing
//! and fails for nothing, so that a caller first decides, then reserves the records that come, and then
//! commits without a way to fail. The rules are Linux's, as /proc/self/maps shows them.
//!
//! | here | what for |
//! |---|---|
//! | [`VmaFlags`], [`FlagAdvice`] | attributes |
//! | [`VmaAttributes`], [`AnonId`], [`BackingId`] | what a mapping says; whose private copies it holds |
//! | [`Policy`] | which nodes its memory comes from |
//! | [`Vma`], [`VmaState`] | its record: stale, live, busy |
//! | [`merge()`], [`joins`], [`reusable_anon`] | when neighbours become one |
//! | [`split()`], [`cut`], [`change()`], [`Change`] | what is left, and what comes |
//! | [`protect()`], [`Protection`], [`Charge`] | mprotect, with the count of promised memory |
//! | [`place()`], [`Placement`], [`Areas`], [`Gaps`] | where a mapping goes that did not say |
//! | [`VmaTree`] | the index |
//! | [`check()`], [`Flaw`] | what is true of every list of mappings |
//!
//! docs/design/vma.md has the drawings.

#![forbid(unsafe_code)]

mod attributes;
mod check;
mod flags;
mod merge;
mod place;
mod policy;
mod protect;
mod record;
mod split;
#[cfg(all(test, not(loom)))]
mod tests;
mod tree;

pub use attributes::{AnonId, BackingId, VmaAttributes, same_for_fault};
pub use check::{Flaw, check};
pub use flags::{FlagAdvice, VmaFlags};
pub use merge::{Merged, joins, merge, reusable_anon};
pub use place::{Areas, Direction, GUARD_PAGES, Gaps, LOW, Placement, Search, place};
pub use policy::Policy;
pub use protect::{Charge, Protection, protect};
pub use record::{Vma, VmaState};
pub use split::{Change, change, change_policy, cut, split};
pub use tree::{MAX_MAPPINGS, VmaTree};
