//! Floor 5: page tables. A [`PageTable`] is a tree of [`Table`] pages in frames.
//!
//! | file | holds |
//! |---|---|
//! | `node` | a table page: its entries, lock, and *attached* |
//! | `locked` | a table page whose lock is held: the edits of entries |
//! | `adjust` | leaves whose bits change in place |
//! | `pin` | pins of what entries map, under the table's lock and without |
//! | `leaf` | one leaf of any size: install, dup, own, replace |
//! | `content`, `class` | what a leaf is given; what it maps, and what that decides |
//! | `unhook` | clearing leaves, at once or in two passes |
//! | `unlinked` | a table that is filled before a walk reaches it |
//! | `hugetlb` | entries of hugetlb mappings: reserved, a leaf, poisoned |
//! | `folio_leaves` | leaves of base pages for all frames of a folio |
//! | `huge_zero`, `zero_table` | leaves of the huge zero page; the table that hardware finds in its place |
//! | `collapse` | a huge leaf in the place of a table, whose pages it has copied |
//! | `leaf_bits` | what a leaf says besides its frame |
//! | `tree` | the tree: root, locks, and the version of CPUs' last hits |
//! | `walk` | finding an entry without a lock |
//! | `entries` | lockless movement over a range |
//! | `accessed`, `scan_parts` | accessed bits, cleared without a lock; in read sections of its own |
//! | `array_vec` | a few values, handed on once nothing is held |
//! | `resident` | what the entries of a range hold, counted |
//! | `translate`, `find_frame` | what a page leads to, and which page leads to a frame |
//! | `read_here` | a word that the running program could load, read in any handler |
//! | `relocate` | entries that get another page |
//! | `sweep` | writers' movement over a range, and detaching empty tables |
//! | `pfnmap`, `mapper` | frames that are not the library's, and tables alone that map them |
//! | `pfnmap_leaves`, `split` | leaves of all sizes over a range; the table that replaces a huge leaf |
//! | [`format`](mod@format) | the bits of entries of each architecture, as data |
//!
//! | user | access |
//! |---|---|
//! | readers | [`walk`]: no lock, each entry read once; RCU keeps the tables from being freed |
//! | faults | [`walk_cached`], from the table of the last walk; then lock it, compare the entry, install |
//! | writers | `sweep`: a table at a time under its lock; `detach_tables` removes empty ones |
//!
//! The lock of a table page (one for all, as long as one CPU works on the tree: `sync::AsymmetricLocks`), its
//! *attached* bit and the order in which a table dies are described at [`Table`]; the bits of entries are
//! data, in [`format`](mod@format).

mod accessed;
mod adjust;
mod array_vec;
mod class;
mod collapse;
mod content;
mod entries;
mod find_frame;
mod folio_leaves;
pub mod format;
mod huge_zero;
mod hugetlb;
mod leaf;
mod leaf_bits;
mod locked;
mod mapper;
mod marker;
mod node;
mod pfnmap;
mod pfnmap_leaves;
mod pin;
mod read_here;
mod relocate;
mod resident;
mod scan_parts;
mod split;
mod sweep;
#[cfg(test)]
mod tests;
mod translate;
mod tree;
mod unhook;
mod unlinked;
mod walk;
mod zero_table;

pub use accessed::{AccessedScan, scan_accessed};
pub(crate) use array_vec::ArrayVec;
pub use class::LeafClass;
pub(crate) use class::{AtCut, AtFork, AtPin, AtSharedStore, CountedLeaf};
pub(crate) use collapse::{CollapsedTable, LeafCounts, NotFrozen};
pub use content::{LeafContent, PfnLeaf, ZeroLeaf};
pub use find_frame::{FrameSearch, find_frame};
pub(crate) use huge_zero::HugeZeroKind;
pub(crate) use hugetlb::mark_reserved;
pub(crate) use leaf::{DupLeaf, OldLeaf, Reuse};
pub use leaf_bits::LeafBits;
pub use locked::LockedTable;
pub use mapper::{MapError, Mapper};
pub(crate) use marker::{OnFault, OnFork, fault_rule};
pub use marker::{Poison, SlotMarker, SwapSlot};
pub use node::Table;
pub use pfnmap::PfnMapFrames;
pub(crate) use pfnmap::check_frames;
pub(crate) use pfnmap_leaves::install_pfn_leaves;
pub use pin::FastPinRefusal;
pub use read_here::NotRead;
pub(crate) use relocate::{
    FirstEntries, first_entries, link_tables, put_above, put_all, take_above, take_all,
};
pub use resident::Resident;
pub(crate) use resident::count_resident;
pub(crate) use scan_parts::scan_in_parts;
pub(crate) use split::{SplitLeaf, level_to_split, split_at, tables_to_split};
pub(crate) use sweep::{
    SlotRun, detach_tables, may_cover_table, sweep, sweep_table, sweep_tables, visit_next,
};
#[cfg(test)]
pub(crate) use tests::testing;
pub use translate::{NoTranslation, NoteUse, StaleTranslation, translate, translate_access};
pub use tree::PageTable;
pub(crate) use unlinked::UnlinkedTable;
pub use walk::{EntryRef, is_canonical, walk, walk_cached, walk_on};
