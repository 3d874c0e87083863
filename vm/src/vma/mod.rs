//! Floor 5: mappings, their index, and the decisions about them.
//!
//! A mapping has the access rights and the backing of a range of pages. Faults read mappings without a lock
//! while other threads replace them. Two rules follow:
//!
//! **A mapping never changes; it is replaced.** Its attributes are a plain value, [`VmaAttributes`]. Its
//! record in shared memory, [`Vma`], holds that value, which never changes, and one word that tells whether
//! the record is still valid. A writer marks the old record stale, publishes others in the index, and only
//! then edits entries under the table locks:
//!
//! ```text
//!  writer (space lock held for writing)        fault (no lock held)
//!
//!   decide: which are removed, which added       find the record        live
//!   mark the removed ones stale - - - - - +      prepare a frame
//!   publish the added ones                |      lock the table page
//!   lock table pages, edit entries        + - >  check the record: stale -> find again, or fall back
//!   flush                                        install only if it was live
//! ```
//!
//! Either the fault locks the table page first, sees a live record, and the writer finds the page it
//! installed; or the writer locks it first, and the fault sees the mark.
//!
//! **Decisions are pure.** The effect of a call on a mapping and its neighbours ([`merge()`], [`split()`],
//! [`cut`], [`change()`], [`protect()`], [`reusable_anon`]) is a function from values to values. It allocates
//! nothing, so that a caller first decides, then allocates the new records, and then commits without a way to
//! fail. The rules are Linux's, as /proc/self/maps shows them.
//!
//! | here | what for |
//! |---|---|
//! | [`VmaFlags`], [`FlagAdvice`] | access rights and advice |
//! | [`VmaAttributes`] | the attributes of a mapping, as a value |
//! | [`AnonId`] | identity of its private copies |
//! | [`Backing`], [`BackingWord`], [`ObjectId`] | what it maps; the same as one word; an object's number |
//! | [`HugetlbBacking`], [`PfnBacking`] | what it has of the hugetlb pool; of frames without a record |
//! | [`Policy`], [`PolicyRequest`] | the NUMA nodes that its memory comes from |
//! | [`Vma`], [`VmaState`] | its record: stale, live, busy or frozen |
//! | [`HugePolicy`], [`ThpDisable`], [`order_to_try`] | which pages may be huge |
//! | [`SharedHugePolicy`], [`SharedHugeUse`], [`shared_huge_use`] | huge pages of shared memory |
//! | [`MthpPolicies`], [`MthpPolicy`], [`orders_to_try`], [`OrderSet`] | which mTHP sizes are used where |
//! | [`may_collapse`], [`refuse_counts`], [`CollapseLimits`] | which base pages may become a huge one |
//! | [`merge()`], [`joins`], [`reusable_anon`] | when neighbours become one |
//! | [`split()`], [`cut`], [`change()`], [`Change`] | parts of a mapping; a change to a part of one |
//! | [`protect()`], [`Protection`], [`Charge`] | mprotect, with its commit charge |
//! | [`place()`], [`Placement`], [`Areas`], [`Gaps`] | the address of a mapping without a fixed one |
//! | [`VmaTree`] | the index, a [`RangeIndex`](crate::index::RangeIndex) |
//! | [`check()`], [`Flaw`] | the invariants of a list of mappings |
//!
//! docs/design/vma.md has the drawings.

#![forbid(unsafe_code)]

mod attributes;
mod backing;
mod check;
mod collapse;
mod decide;
mod flags;
mod huge;
mod identity;
mod mthp;
mod policy;
mod record;
mod shared_huge;
mod state_word;
#[cfg(test)]
mod tests;
mod zero;

pub use attributes::{VmaAttributes, same_for_fault};
pub use backing::{Backing, BackingWord, HugetlbBacking, ObjectId, PfnBacking};
pub use check::{Flaw, check};
pub use collapse::{CollapseLimits, CollapseRefusal, RegionCounts, Requester, may_collapse, refuse_counts};
pub use decide::{Areas, Direction, GUARD_PAGES, Gaps, LOW, Placement, Search, place, place_aligned};
pub use decide::{Change, change, change_policy, cut, split};
pub use decide::{Charge, Protection, protect};
pub use decide::{Merged, joins, merge, reusable_anon};
pub(crate) use decide::{inherit, place_preferring};
pub use flags::{FlagAdvice, VmaFlags};
pub(crate) use huge::order_of_fault;
pub use huge::{HugePolicy, ThpDisable, order_to_try, pages_of};
pub use identity::AnonId;
pub(crate) use mthp::orders_of_fault;
pub use mthp::{MthpPolicies, MthpPolicy, OrderSet, orders_to_try};
pub use policy::{Policy, PolicyFlags, PolicyMode, PolicyRequest};
pub(crate) use record::VmaHold;
pub use record::{MAX_MAPPINGS, TreeGaps, Vma, VmaState, VmaTree};
pub(crate) use shared_huge::shared_huge_use_of_fault;
pub use shared_huge::{SharedHugePolicy, SharedHugeUse, shared_huge_use};
pub use zero::ZeroPagePolicy;
