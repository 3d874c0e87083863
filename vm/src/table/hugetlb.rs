//! Entries of hugetlb mappings: marked *reserved*, a huge leaf, poisoned, or absent.
//!
//! ```text
//!   absent ─ mark_reserved ─► Reserved ─ use_reserved, install ─► leaf ─ drop_hugetlb_leaf ─► Reserved,
//!                                                                                     or absent
//! ```
//!
//! An entry that is marked *reserved* has a huge page of the pool set aside for it, which the pool counts.
//! The marker is put there and taken away in this file alone, under the lock of the table, together with what
//! the pool counts for it.
//!
//! Entries of shared memory are never marked: its object counts what is set aside.
//!
//! A leaf whose folio is not *exclusive* is one of several, in spaces that forks made of each other:
//!
//! ```text
//!   exclusive ── dup ────► shared ── allow_store ────────► exclusive        the others are gone
//!                             ├───── replace_leaf ───────► a leaf of a copy
//!                             └───── replace_by_marker ──► HugetlbUnmapped   by the reservation's owner
//! ```

use super::class::LeafClass;
use super::pfnmap_leaves::table_at;
use super::{LockedTable, MapError, PageTable, SlotMarker, SlotRun};
use crate::frame::{HugetlbReservation, TableFrame, Unhooked};
use crate::machine::{Entry, Leaf, Machine};
use crate::units::{Level, PageSize, Vpn, VpnRange};

/// The entry of a slot for which the pool keeps a page.
const RESERVED: Entry = SlotMarker::HugetlbReserved.entry();

/// Marks the entries of `pages` as reserved, each of the size of a leaf; all are absent. Each gets one of the
/// pages of `reserve`, which has as many. `alloc` makes empty tables, and is called without a lock.
///
/// # Errors
/// [`MapError::NoMemory`], [`MapError::AlreadyMapped`]; those that were marked until then stay so.
pub(crate) fn mark_reserved<'f, M: Machine + 'f>(
    tree: &PageTable<'_, M>,
    pages: VpnRange,
    size: PageSize,
    reserve: &mut HugetlbReservation<'_, M>,
    mut alloc: impl FnMut() -> Option<TableFrame<'f, M>>,
) -> Result<(), MapError> {
    let (level, mut page) = (size.level(), pages.start);
    while page < pages.end {
        let mut table = table_at(tree, page, level, &mut alloc)?;
        for slot in level.index(page)..Level::ENTRIES {
            if page >= pages.end {
                break;
            }
            let is_free = table.entry(slot) == Entry::Absent && !table.table().is_platforms(slot);
            if !is_free || !reserve.give_to_entry() {
                return Err(MapError::AlreadyMapped);
            }
            table.put(slot, RESERVED);
            page = page.add(size.pages());
        }
    }
    Ok(())
}

impl<'t, M: Machine> LockedTable<'t, M> {
    /// The leaf in `slot`, where it maps a private hugetlb folio that other spaces may map too. It is not
    /// written while there is another reference to it.
    pub(crate) fn shared_hugetlb_leaf(&self, slot: usize) -> Option<Leaf> {
        let (leaf, class) = self.leaf(slot)?;
        (class.is_private_hugetlb() && !self.is_exclusive(slot)).then_some(leaf)
    }

    /// Whether the slot maps a folio of the hugetlb pool, which it owns.
    pub(crate) fn is_hugetlb(&self, slot: usize) -> bool {
        self.mapped_meta(slot).is_some_and(|meta| meta.state().is_hugetlb())
    }

    /// What was set aside for the slot is used now: where it is marked *reserved* it becomes *busy*. The
    /// caller installs a folio that was taken by that right next, under the same lock.
    pub(crate) fn use_reserved(&mut self, slot: usize) {
        if self.entry(slot) == RESERVED {
            self.replace(slot, SlotMarker::Busy.entry());
        }
    }

    /// Marks a slot that is absent, in a tree that only the caller knows.
    pub(crate) fn mark_absent(&mut self, slot: usize, marker: SlotMarker) {
        debug_assert_eq!(self.entry(slot), Entry::Absent, "something is mapped there");
        self.mark(slot, marker);
    }

    /// Takes the folio out that the slot maps from `page` on, and returns its translation, to be flushed and
    /// freed before this table is unlocked. Where `is_reserving`, a huge page is set aside for the entry
    /// again, and it is marked so; but not where there is a reference to the folio, or another space maps
    /// it, and no other is available. `None`, and no change, where the slot has no folio.
    pub(crate) fn drop_hugetlb_leaf(
        &mut self,
        slot: usize,
        page: Vpn,
        is_reserving: bool,
    ) -> Option<Unhooked> {
        let leaf = self.owned_leaf(slot).filter(|_| self.is_hugetlb(slot))?;
        let size = self.level().leaf_size()?;
        if is_reserving {
            // The other holders may be gone: then the folio goes back for this entry.
            self.try_make_exclusive(slot);
        }
        let emptied = if is_reserving { SlotMarker::Busy.entry() } else { Entry::Absent };
        let Entry::Leaf(last) = self.replace(slot, emptied) else {
            unreachable!("the holder of the lock has seen a leaf")
        };
        if is_reserving {
            // After the entry has changed: a pin that comes later is dropped again.
            let is_reserved = self.tree().memory.hugetlb().reserve_again(size, leaf.pfn);
            self.replace(slot, if is_reserved { RESERVED } else { Entry::Absent });
        }
        Some(Unhooked::frame(VpnRange::new(page, page.add(size.pages())), last))
    }
}

impl<'m, M: Machine> SlotRun<'_, 'm, M> {
    /// The entries of the run, above the last level, are about to be cleared: calls `count` with the class of
    /// each leaf that owns a mapping, clears the markers *reserved*, and gives up what was set aside for
    /// their entries. Their mappings are gone, or end: nothing is installed there for them any more.
    pub fn leave(&mut self, mut count: impl FnMut(LeafClass)) {
        let level = self.table.level();
        let mut cleared = 0;
        self.each_used(|table, slot, _| match table.entry(slot) {
            Entry::Leaf(leaf) if leaf.owned() && !table.table().is_platforms(slot) => {
                count(table.tree().class_of(leaf, level));
            }
            RESERVED => {
                table.replace(slot, Entry::Absent);
                cleared += 1;
            }
            _ => {}
        });
        if let Some(size) = level.leaf_size().filter(|_| cleared > 0) {
            drop(HugetlbReservation::of_cleared_entries(self.table.tree().memory, size, cleared));
        }
    }
}
