//! Floor 5: page tables. A [`PageTable`] is a tree of [`Table`] pages in frames.
//!
//! | who | how |
//! |---|---|
//! | readers | [`walk`]: no lock, each entry read once; RCU keeps the tables from being freed |
//! | faults | walk (or [`walk_cached`], from where the last walk ended), then lock one table page, look again, install |
//! | writers | [`sweep`]: a table at a time under its lock; [`detach_tables`] takes empty ones out |
//!
//! The lock of a table page (one for all, as long as one CPU works on the tree: `sync::AsymmetricLocks`), its *attached*
//! bit and the order in which a table dies are described at [`Table`]; the bits of entries are data, in
//! [`format`](mod@format).

pub mod format;
mod node;
mod sweep;
#[cfg(all(test, not(loom)))]
mod tests;
mod tree;
mod walk;

pub use node::{LockedTable, Table};
pub use sweep::{SlotRun, detach_tables, may_cover_table, sweep};
pub use tree::PageTable;
pub use walk::{EntryRef, is_canonical, walk, walk_cached, walk_on};
