//! Entries of mappings of the reserved pool: marked *reserved*, a huge leaf, marked *lost*, or absent.
//!
//! ```text
//!   absent ── mark_reserved ──► Reserved ── install_huge ──► leaf ── drop_pool_leaf ──► Reserved, or absent
//! ```
//!
//! An entry that is marked *reserved* has a huge page of the pool set aside for it, which the pool counts.
//! The marker is put there and taken away in this file alone, under the lock of the table, together with what
//! the pool counts for it.
//!
//! Entries of shared memory are never marked: its object counts what is set aside.

use super::given_leaves::table_at;
use super::{LeafBits, LockedTable, MapError, PageTable, SlotRun};
use crate::frame::{Birth, HugeReserve, PoolFolio, PoolTake, TableFrame, Unhooked};
use crate::machine::{Entry, Machine, Marker};
use crate::units::{Level, PageSize, Rights, Vpn, VpnRange};

/// Marks the entries of `pages` as reserved, each of the size of a leaf; all are absent. Each gets one of the
/// pages of `reserve`, which has as many. `alloc` makes empty tables, and is called without a lock.
///
/// # Errors
/// [`MapError::NoMemory`], [`MapError::AlreadyMapped`]; those that were marked until then stay so.
pub(crate) fn mark_reserved<'f, M: Machine + 'f>(
    tree: &PageTable<'_, M>,
    pages: VpnRange,
    size: PageSize,
    reserve: &mut HugeReserve<'_, M>,
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
            table.put(slot, Entry::Marker(Marker::Reserved));
            page = page.add(size.pages());
        }
    }
    Ok(())
}

impl<M: Machine> LockedTable<'_, M> {
    /// Whether the slot maps a folio of the reserved pool, which it owns.
    pub(crate) fn is_of_pool(&self, slot: usize) -> bool {
        self.mapped_meta(slot).is_some_and(|meta| meta.state().is_pooled())
    }

    /// Maps a huge page that was taken from the pool, in a slot that is absent, or marked as reserved where
    /// one was set aside for it, or as busy in a tree that only the caller knows. The page of its birth is
    /// the first of the leaf. False, and the page goes back, where the slot is not so.
    ///
    /// # Panics
    /// As [`install_huge`](Self::install_huge).
    pub(crate) fn install_from_pool(
        &mut self,
        slot: usize,
        folio: PoolFolio<'_, M>,
        birth: Birth,
        bits: LeafBits,
    ) -> bool {
        let is_right = match self.entry(slot) {
            Entry::Marker(Marker::Reserved) => folio.take() == PoolTake::Reserved,
            Entry::Marker(Marker::Busy) | Entry::Absent => folio.take() == PoolTake::Available,
            _ => false,
        };
        if is_right {
            self.put_folio(slot, folio.into_mapped_at(birth), bits);
        }
        is_right
    }

    /// Marks a slot that is absent as *busy* or *lost*, in a tree that only the caller knows.
    pub(crate) fn mark_absent(&mut self, slot: usize, marker: Marker) {
        debug_assert_eq!(self.entry(slot), Entry::Absent, "something is mapped there");
        self.mark(slot, marker);
    }

    /// Replaces the marker *busy* by another one that owns nothing, or by nothing.
    pub(crate) fn replace_busy_mark(&mut self, slot: usize, marker: Option<Marker>) {
        debug_assert_eq!(self.entry(slot), Entry::Marker(Marker::Busy));
        self.replace(slot, marker.map_or(Entry::Absent, Entry::Marker));
    }

    /// Takes the right to write from the leaf in `slot`. Returns whether it had that.
    pub(crate) fn take_write(&self, slot: usize) -> bool {
        let has_it = matches!(self.entry(slot), Entry::Leaf(leaf) if leaf.rights.contains(Rights::WRITE));
        if has_it {
            self.write_protect(slot);
        }
        has_it
    }

    /// Takes the folio out that the slot maps from `page` on, and returns its translation, to be flushed and
    /// freed before this table is unlocked. Where `is_reserving`, a huge page is set aside for the entry
    /// again, and it is marked so; but not where somebody has a reference to the folio and no other is
    /// available. `None`, and no change, where the slot has no folio.
    pub(crate) fn drop_pool_leaf(&mut self, slot: usize, page: Vpn, is_reserving: bool) -> Option<Unhooked> {
        let leaf = self.owned_huge_leaf(slot).filter(|_| self.is_of_pool(slot))?;
        let size = self.level().leaf_size()?;
        let emptied = if is_reserving { Entry::Marker(Marker::Busy) } else { Entry::Absent };
        let Entry::Leaf(last) = self.replace(slot, emptied) else {
            unreachable!("the holder of the lock has seen a leaf")
        };
        if is_reserving {
            // After the entry has changed: a pin that comes later is dropped again.
            let is_reserved = self.tree().memory.reserve_again(size, leaf.pfn);
            self.replace(slot, if is_reserved { Entry::Marker(Marker::Reserved) } else { Entry::Absent });
        }
        Some(Unhooked::frame(VpnRange::new(page, page.add(size.pages())), last))
    }
}

impl<'m, M: Machine> SlotRun<'_, 'm, M> {
    /// Clears the markers *reserved* of the run, and gives up what was set aside for its entries. Returns the
    /// number of leaves of the pool. The mappings of the entries are
    /// gone, or end: nobody installs anything there for them.
    pub fn leave_pool(&mut self) -> u64 {
        let (mut leaves, mut cleared) = (0, 0);
        for slot in self.slots.clone() {
            match self.table.entry(slot) {
                Entry::Leaf(_) => leaves += u64::from(self.table.is_of_pool(slot)),
                Entry::Marker(Marker::Reserved) => {
                    self.table.replace(slot, Entry::Absent);
                    cleared += 1;
                }
                _ => {}
            }
        }
        if let Some(size) = self.table.level().leaf_size() {
            drop(HugeReserve::of_cleared_entries(self.table.tree().memory, size, cleared));
        }
        leaves
    }
}
