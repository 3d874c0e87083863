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
//!
//! A leaf whose folio is not *exclusive* is one of several, in spaces that forks made of each other:
//!
//! ```text
//!   exclusive ── share_pool_leaf ──► shared ── reuse_pool_leaf ──► exclusive      the others are gone
//!                                       ├───── replace_by_copy ──► a leaf of a copy
//!                                       └───── lose_pool_leaf ───► Lost           its owner takes it back
//! ```

use super::given_leaves::table_at;
use super::huge_leaf::SharedHuge;
use super::{LeafBits, LockedTable, MapError, PageTable, Reuse, SlotRun};
use crate::frame::{Birth, FrameMeta, HugeReserve, Kind, MappedFolio, NotMappedAgain};
use crate::frame::{PoolFolio, PoolTake, TableFrame, Unhooked};
use crate::machine::{Entry, Leaf, Machine, Marker};
use crate::units::{Level, PageSize, Rights, Vpn, VpnRange};
use core::mem::ManuallyDrop;

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

impl<'t, M: Machine> LockedTable<'t, M> {
    /// As [`share_huge`](Self::share_huge), of a private page of the pool.
    ///
    /// # Errors
    /// As of that.
    pub(crate) fn share_pool_leaf(
        &mut self,
        slot: usize,
    ) -> Result<Option<SharedHuge<'t, M>>, NotMappedAgain> {
        if !self.is_of_private_pool(slot) {
            return Ok(None);
        }
        self.share_block(slot)
    }

    /// Whether the slot maps a folio of the pool that is no object's.
    fn is_of_private_pool(&self, slot: usize) -> bool {
        let state = self.mapped_meta(slot).map(FrameMeta::state);
        state.is_some_and(|state| state.is_pooled() && state.kind() == Kind::User)
    }

    /// The leaf in `slot`, where it maps a private folio of the pool that other spaces may map too. It is
    /// not written while anybody has a reference to it besides.
    pub(crate) fn shared_pool_leaf(&self, slot: usize) -> Option<Leaf> {
        let leaf = self.owned_huge_leaf(slot)?;
        (self.is_of_private_pool(slot) && !self.is_exclusive(slot)).then_some(leaf)
    }

    /// Whether the private folio of the pool that `slot` maps is this space's alone, or can become so because
    /// nobody else has it: afterwards it is *exclusive*. `None` where a store has to copy it, and where the
    /// slot maps none.
    pub(crate) fn reuse_pool_leaf(&mut self, slot: usize) -> Option<Reuse> {
        let meta = self.mapped_meta(slot).filter(|_| self.is_of_private_pool(slot))?;
        if meta.state().is_exclusive() {
            return Some(Reuse::WasExclusive);
        }
        meta.try_make_block_exclusive().then_some(Reuse::BecameExclusive)
    }

    /// Maps a copy of the folio that `slot` maps in its place. `flush` makes every CPU forget the old one,
    /// whose mapping is put after that: until then nobody else finds it exclusive (P9). False, and no change
    /// but that the copy goes back, where the slot has no folio.
    pub(crate) fn replace_by_copy(
        &mut self,
        slot: usize,
        copy: PoolFolio<'_, M>,
        (birth, bits): (Birth, LeafBits),
        flush: impl FnOnce(&Self),
    ) -> bool {
        let install = |table: &mut Self| {
            let is_there = table.install_from_pool(slot, copy, birth, bits);
            debug_assert!(is_there, "a copy is of what is available");
        };
        self.put_leaf_after(slot, Marker::Busy, flush, install)
    }

    /// Takes the folio from the slot, which is marked as *lost*. `flush` makes every CPU forget it. False,
    /// and no change, where the slot has none.
    pub(crate) fn lose_pool_leaf(&mut self, slot: usize, flush: impl FnOnce(&Self)) -> bool {
        self.put_leaf_after(slot, Marker::Lost, flush, |table| {
            if mutant!("pool.lost-page-absent") {
                table.replace(slot, Entry::Absent);
            }
        })
    }

    /// Puts a marker in the place of the folio of `slot`, flushes, finishes the slot, and puts the mapping
    /// that the leaf had. False, and no change, where the slot has no folio.
    fn put_leaf_after(
        &mut self,
        slot: usize,
        marker: Marker,
        flush: impl FnOnce(&Self),
        finish: impl FnOnce(&mut Self),
    ) -> bool {
        let leaf = self.owned_huge_leaf(slot).filter(|_| self.is_of_private_pool(slot));
        let Some((leaf, size)) = leaf.zip(self.level().leaf_size()) else { return false };
        self.replace(slot, Entry::Marker(marker));
        // SAFETY: the leaf owned a mapping of a block of this order (`put_folio`), and was just replaced
        // under the lock of its table.
        let old = unsafe { MappedFolio::from_entry(self.tree().memory, leaf.pfn, size.order()) };
        // Where the flush unwinds, the mapping stays for good.
        let old = ManuallyDrop::new(old);
        flush(self);
        finish(self);
        drop(ManuallyDrop::into_inner(old));
        true
    }

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
    /// again, and it is marked so; but not where somebody has a reference to the folio, or another space maps
    /// it, and no other is available. `None`, and no change, where the slot has no folio.
    pub(crate) fn drop_pool_leaf(&mut self, slot: usize, page: Vpn, is_reserving: bool) -> Option<Unhooked> {
        let leaf = self.owned_huge_leaf(slot).filter(|_| self.is_of_pool(slot))?;
        let size = self.level().leaf_size()?;
        if is_reserving {
            // Nobody else may have it any more: then it is this entry's that it goes back for.
            self.reuse_pool_leaf(slot);
        }
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
