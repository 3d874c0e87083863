//! Decisions: pure functions from attributes to attributes, by the rules of Linux.
//!
//! | file | decides |
//! |---|---|
//! | `merge` | when neighbours become one mapping |
//! | `split` | what is left of a mapping that is cut, and what a change to a part makes of its neighbourhood |
//! | `protect` | what mprotect does, with the number of pages that it charges |
//! | `place` | where a mapping goes that has no address of its own |

mod merge;
mod place;
mod protect;
mod split;

pub use merge::{Merged, joins, merge, reusable_anon};
pub use place::{Areas, Direction, GUARD_PAGES, Gaps, LOW, Placement, Search, place};
pub use protect::{Charge, Protection, protect};
pub use split::{Change, change, change_policy, cut, split};
