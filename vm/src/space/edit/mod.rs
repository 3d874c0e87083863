//! How a writer edits a space: it locks a range, replaces records, then edits entries.
//!
//! | file | holds |
//! |---|---|
//! | `mappings` | [`Mappings`]: what a decision about mappings needs of a space |
//! | `entries` | [`Entries`](entries::Entries): what an edit of entries needs of a space |
//! | `guard` | locks of ranges, and which mappings and entries their holders may touch |
//! | `limits` | how many mappings and pages a writer may add |
//! | `lookup` | reading mappings |
//! | `object_leaves` | leaves that map an object's pages, among others |
//! | `objects` | objects gain and lose the pages of mappings |
//! | `replace` | replacing mappings at one instant |
//! | `split` | [`Split`]: huge leaves that a range cuts |
//! | `hugetlb` | entries of the hugetlb pool, and how they are emptied |
//! | `parallel_zap` | clearing the leaves of large ranges by several CPUs |
//! | `zap` | editing entries: flush, then free; freeing empty tables |
//! | `zap_leaves` | [`Zap`]: clearing the leaves of a range |
//! | `change` | changes of a part of a mapping, and what a refused one leaves |

mod change;
pub(super) mod entries;
mod guard;
mod hugetlb;
mod limits;
mod lookup;
mod mappings;
mod object_leaves;
mod objects;
mod parallel_zap;
mod replace;
mod split;
#[cfg(all(test, not(loom)))]
mod tests;
mod zap;
mod zap_leaves;

pub use guard::{PublishedGuard, RangeGuard, RangeReadGuard, RangeToken};
pub(in crate::space) use mappings::Mappings;
pub(in crate::space) use parallel_zap::part_pages;
pub use replace::VmaEdit;
pub(in crate::space) use split::{Split, SplitReserve};
pub(in crate::space) use zap_leaves::Zap;
