//! Decisions: pure functions from attributes to attributes, by the rules of Linux.
//!
//! | file | decides |
//! |---|---|
//! | `fork` | what a fork gives the child |
//! | `merge` | when neighbours become one mapping |
//! | `split` | the remainders of a mapping that is cut; the result of a change to a part of one |
//! | `protect` | the result of mprotect, with its commit charge |
//! | `place` | the address of a mapping without a fixed one |

mod fork;
mod merge;
mod place;
mod protect;
mod split;

pub(crate) use fork::inherit;
pub use merge::{Merged, joins, merge, reusable_anon};
pub(crate) use place::place_preferring;
pub use place::{Areas, Direction, GUARD_PAGES, Gaps, LOW, Placement, Search, place, place_aligned};
pub use protect::{Charge, Protection, protect};
pub use split::{Change, change, change_policy, cut, split};
