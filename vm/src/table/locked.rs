//! A table page whose lock is held: the only one through which entries change.
//!
//! | edit | takes | gives |
//! |---|---|---|
//! | [`install`](LockedTable::install) | a [`LeafContent`](super::LeafContent): a folio's mapping, zeros | |
//! | [`link`](LockedTable::link) | a [`TableFrame`] | |
//! | [`mark`](LockedTable::mark) | | |
//! | [`adjust`](LockedTable::adjust) | | whether the leaf has changed |
//! | `unhook`, `unhook_each` | | an [`Unhooked`], which a gather flushes and then frees |
//! | `put_each_pending` | a flush that has ended | |
//! | `detach` | a child, empty | a [`DetachedTable`] |
//!
//! So an entry owns what it points to, and what it owned leaves it as a value. A frame by its number cannot
//! be mapped:
//!
//! ```compile_fail,E0133
//! # use interleaf::{machine::*, table::*};
//! fn forge<M: Machine>(table: &mut LockedTable<'_, M>, leaf: Leaf) {
//!     table.set_entry(0, Entry::Leaf(leaf)); // unsafe
//! }
//! ```
//!
//! ```compile_fail,E0308
//! # use interleaf::{machine::*, table::*, units::Pfn};
//! fn forge<M: Machine>(table: &mut LockedTable<'_, M>, frame: Pfn, bits: LeafBits) {
//!     table.install(0, frame, bits);
//! }
//! ```
//!
//! An embedder that builds a tree of its own, of memory that is not the library's, writes entries by the
//! `unsafe` [`set_entry`](LockedTable::set_entry).

use super::{PageTable, SlotMarker, Table};
use crate::frame::{DetachedTable, FrameMeta, FrameState, Init, SLOTS_PER_PART, TableFrame};
use crate::machine::{Entry, Format, Machine};
use crate::sync::atomic::Ordering::*;
use crate::sync::{RawGuard, RawSpinLock};
use crate::units::Level;
use core::fmt;
use core::ops::Range;

/// A table whose lock is held and that is attached. It stays a table as long as this exists: detaching needs
/// its lock.
#[must_use = "the lock is free again once this is dropped"]
pub struct LockedTable<'t, M: Machine> {
    pub(super) table: Table<'t, 't, M>,
    meta: &'t FrameMeta<M::Cpu>,
    held: RawGuard<'t, M::Cpu>,
}

/// Whether models store a word at `level` by a read-modify-write: one that is read again. loom orders a store
/// and a read-modify-write of another thread only where one happens before the other, and so lets the thread
/// that stored find the other's value afterwards: a leaf that a scan has marked idle, in the place of the
/// marker or the table that was stored over it. On no machine does it: a read-modify-write that has read what
/// the store overwrites comes before it. The seeded machine plays the stores.
pub(super) const fn swaps_in_models(word: u64, level: Level) -> bool {
    cfg!(loom) && (word != 0 || !matches!(level, Level::Pte))
}

/// Slots whose use is noted together.
pub(super) const PART: usize = SLOTS_PER_PART;

impl<'t, M: Machine> LockedTable<'t, M> {
    /// The table with its lock held.
    ///
    /// # Safety
    /// `held` is the lock of the table, whose record is `meta`, and the table is attached.
    #[inline(always)]
    pub(super) unsafe fn new(
        table: Table<'t, 't, M>,
        meta: &'t FrameMeta<M::Cpu>,
        held: RawGuard<'t, M::Cpu>,
    ) -> Self {
        Self { table, meta, held }
    }

    /// The table, as long as it is locked.
    pub fn table(&self) -> Table<'_, 't, M> {
        self.table
    }

    /// The level of the table's entries.
    #[inline(always)]
    pub fn level(&self) -> Level {
        self.table.level()
    }

    pub(super) fn tree(&self) -> &'t PageTable<'t, M> {
        self.table.tree
    }

    pub(super) fn held(&self) -> &RawGuard<'t, M::Cpu> {
        &self.held
    }

    /// The table's own lock, which is not what is held where one CPU owns all locks of the tree.
    pub(super) fn own_lock(&self) -> &'t RawSpinLock<M::Cpu> {
        self.meta.table_lock()
    }

    /// The word in `slot`; only accessed and dirty bits may change under the lock: the hardware sets them,
    /// and a [scan](super::scan_accessed) clears accessed ones.
    #[inline(always)]
    pub fn read(&self, slot: usize) -> u64 {
        self.table.word(slot).load(Relaxed)
    }

    /// The entry in `slot`, decoded.
    #[inline(always)]
    pub fn entry(&self, slot: usize) -> Entry {
        M::Format::decode(self.read(slot), self.level())
    }

    /// Fetches a record that a sweep which is at `slot` will come to.
    #[inline(always)]
    pub(crate) fn prefetch_after(&self, slot: usize) {
        self.table.prefetch_after(slot);
    }

    /// The marker in `slot`, if it holds one of a kind that there is.
    pub fn marker(&self, slot: usize) -> Option<SlotMarker> {
        match self.entry(slot) {
            Entry::Marker(marker) => SlotMarker::of(marker),
            _ => None,
        }
    }

    /// The table that `slot` points to, if it does: it is not detached while this one is locked. `None` for
    /// slots of the platform's.
    pub fn child(&self, slot: usize) -> Option<Table<'_, 't, M>> {
        if self.table.is_platforms(slot) {
            return None;
        }
        let Entry::Table(pfn) = self.entry(slot) else { return None };
        // SAFETY: an entry of an attached table points to it, so it is attached; detaching it takes the lock
        // of this table, which is held as long as `self` is borrowed.
        Some(unsafe { Table::at(self.table.tree, pfn, self.level().below()?) })
    }

    /// Links an empty table, which is attached from now on. `Err` with the table where the slot is not
    /// absent.
    ///
    /// # Panics
    /// Where entries of this level point to no tables, the slot is the platform's, or the frame is of another
    /// memory.
    pub fn link<'f>(&mut self, slot: usize, table: TableFrame<'f, M>) -> Result<(), TableFrame<'f, M>> {
        assert!(self.level() != Level::Pte, "a table below a table of the last level");
        assert!(!self.table.is_platforms(slot), "a slot of the platform's");
        if self.entry(slot) != Entry::Absent && !mutant!("table.linked-over-another") {
            return Err(table);
        }
        self.put_table(slot, table);
        Ok(())
    }

    /// Links a table in a slot that is absent, or holds a marker of the caller's.
    pub(super) fn put_table(&mut self, slot: usize, table: TableFrame<'_, M>) {
        debug_assert!(!self.table.is_platforms(slot), "a slot of the platform's");
        let pfn = table.attach(self.table.tree.memory);
        self.put(slot, Entry::Table(pfn));
    }

    /// Puts a marker that owns nothing into a slot that owns nothing: absent, the zero page, or another such
    /// marker. `false`, and no change, where the slot or the marker owns something. A translation that the
    /// slot had may be cached, and is for the caller to flush.
    ///
    /// # Panics
    /// Where the slot is the platform's.
    pub fn mark(&mut self, slot: usize, marker: SlotMarker) -> bool {
        assert!(!self.table.is_platforms(slot), "a slot of the platform's");
        if marker.owns() {
            return false;
        }
        match self.entry(slot) {
            Entry::Marker(there) if SlotMarker::of(there).is_some_and(SlotMarker::owns) => return false,
            Entry::Absent | Entry::Marker(_) => self.put(slot, marker.entry()),
            Entry::Leaf(leaf) if !leaf.owned() => drop(self.replace(slot, marker.entry())),
            Entry::Leaf(_) | Entry::Table(_) => return false,
        }
        true
    }

    /// Writes an entry, whatever it is, into a slot that is not present for the hardware: for trees that the
    /// embedder builds for itself. Release: the table or frame that the entry points to was written before.
    ///
    /// # Safety
    /// 1. What the entry maps may be accessed as the entry allows through every root that reaches this table.
    ///    The embedder keeps it so as long as the entry stands, and flushes before it ends.
    /// 2. An entry of the kind *table* points to a table of `memory` that only this slot points to.
    /// 3. A leaf is not *owned*, nor [by table](crate::machine::LeafKind::BY_TABLE), and no marker is
    ///    [`PendingFree`](SlotMarker::PendingFree). No table that was linked by this call is detached: the
    ///    tree is the embedder's, and no space edits it.
    pub unsafe fn set_entry(&mut self, slot: usize, entry: Entry) {
        self.put(slot, entry);
    }

    /// Writes an entry into a slot that is not present for the hardware. Release: the table or frame that the
    /// entry points to was written before.
    #[inline(always)]
    pub(super) fn put(&mut self, slot: usize, entry: Entry) {
        let word = M::Format::encode(entry, self.level());
        debug_assert!(!self.is_present(slot), "a present entry changes through clear or take_write");
        self.store_word(slot, word);
    }

    /// As [`put`](Self::put), of a word.
    #[inline(always)]
    pub(super) fn store_word(&mut self, slot: usize, word: u64) {
        let (used, part) = (self.meta.used_parts(), 1 << (slot / PART));
        if used & part == 0 && !mutant!("table.use-not-noted") {
            self.meta.set_used_parts(used | part);
        }
        let order = if mutant!("table.install-relaxed") { Relaxed } else { Release };
        self.table.word(slot).store(word, order);
    }

    /// Puts `entry`, which the hardware must not follow, into a slot in use, or clears any; returns the
    /// slot's last value.
    ///
    /// The hardware writes an entry only to set a bit that is clear. So a plain store replaces an entry whose
    /// bits are all set, as after a store to the page. Beside the holder of the lock only a scan may change
    /// it, which clears *accessed*: that is lost, and the page counts as used once more (see `accessed`).
    ///
    /// Relaxed: a reader takes nothing from an entry that is absent or a marker, and trusts it under the lock
    /// only, which orders all changes; a flush has fences of its own, and so has a grace period.
    #[inline(always)]
    pub(super) fn replace(&mut self, slot: usize, entry: Entry) -> Entry {
        let cell = self.table.word(slot);
        let word = M::Format::encode(entry, self.level());
        let mut old = cell.load(Relaxed);
        debug_assert!(
            entry == Entry::Absent || self.meta.used_parts() >> (slot / PART) & 1 == 1,
            "what is put into an absent slot is installed"
        );
        if M::Format::used(old, true) == old && !swaps_in_models(word, self.level()) {
            cell.store(word, Relaxed);
        } else {
            old = cell.swap(word, Relaxed);
        }
        M::Format::decode(old, self.level())
    }

    /// The record of the frame that a leaf in `slot` maps and owns a mapping of: it stays that as long as the
    /// entry stands. `None` for slots of the platform's, whose frames may have none.
    #[inline(always)]
    pub(super) fn mapped_meta(&self, slot: usize) -> Option<&FrameMeta<M::Cpu>> {
        let Entry::Leaf(leaf) = self.entry(slot) else { return None };
        let is_owned = leaf.owned() && !self.table.is_platforms(slot);
        is_owned.then(|| self.table.tree.memory.meta_of(leaf.pfn))
    }

    /// Sets or clears *lazyfree* of the user memory that `slot` maps.
    pub fn set_lazyfree(&self, slot: usize, lazyfree: bool) {
        // Only under this lock is it changed.
        if let Some(meta) = self.mapped_meta(slot)
            && meta.state().is_lazyfree() != lazyfree
        {
            meta.set_lazyfree(lazyfree);
        }
    }

    /// Whether the contents of the user memory that `slot` maps may be discarded: the frame is *lazyfree*,
    /// there is no reference but that of entries, and the entry says that nothing was stored since. One load
    /// tells both of the frame: a pin without a lock finds it *lazyfree*, or has its reference here.
    pub fn is_discardable(&self, slot: usize) -> bool {
        let clean = matches!(self.entry(slot), Entry::Leaf(leaf) if !leaf.dirty);
        let is_free = |state: FrameState| state.is_lazyfree() && state.has_one_reference();
        clean && self.mapped_meta(slot).is_some_and(|meta| is_free(meta.state()))
    }

    /// The first of the slots that is not absent. Skips without reading the parts of the table in which
    /// nothing was installed. There are no slots from [`Level::ENTRIES`] on.
    #[inline(always)]
    pub fn first_used(&self, slots: Range<usize>) -> Option<usize> {
        self.table.first_used(self.used_parts(), slots).map(|(slot, _)| slot)
    }

    /// The parts of the table that may be in use.
    #[inline(always)]
    pub(super) fn used_parts(&self) -> u32 {
        self.meta.used_parts()
    }

    /// Notes that all of the slots are absent: they were cleared under this lock, or found so.
    pub(super) fn note_absent(&mut self, slots: Range<usize>) {
        let (first, end) = (slots.start.div_ceil(PART), slots.end / PART);
        if first < end {
            let parts = ((1u64 << end) - (1u64 << first)) as u32;
            self.meta.set_used_parts(self.meta.used_parts() & !parts);
        }
    }

    /// Detaches `child`, the table that `slot` points to (P5): *attached* first, then the entry. From now on
    /// no CPU installs anything there, and no CPU's last hit is the child. `None`, and no change, where
    /// `slot` points to another table, or the child is in use: it holds more than frames that wait for their
    /// flush, which the gather of the child puts. The caller keeps all other writers out.
    pub(super) fn detach(
        &mut self,
        slot: usize,
        mut child: LockedTable<'t, M>,
    ) -> Option<DetachedTable<'t, M>> {
        if child.note_whether_pending() { self.detach_in_use(slot, child) } else { None }
    }

    /// As [`detach`](Self::detach), of a table of base pages whatever it holds. The gather of the child puts
    /// the frames of its leaves, too. Not of a leaf only, but of the table the hardware must be kept out
    /// until the flush has ended.
    pub(super) fn detach_in_use(
        &mut self,
        slot: usize,
        child: LockedTable<'t, M>,
    ) -> Option<DetachedTable<'t, M>> {
        if self.entry(slot) != Entry::Table(child.table.pfn()) {
            return None;
        }
        let tree = self.table.tree;
        // SAFETY: (1) this slot is the only entry that points to the child; it is cleared below, before the
        // result is returned, under its lock. Walks of the tree are in read sections of its RCU. (2) Slots in
        // parts of the child that are not noted as used are absent, as all edits note under the lock held
        // here; those in the others are absent or pending, or hold entries of base pages.
        let detached = unsafe { tree.memory.detach_table(child.table.pfn(), Init::Zeroed, tree.rcu_id()) };
        debug_assert!(detached.is_some(), "a locked table is attached");
        let too_early = mutant!("table.hits-invalidated-early");
        if too_early {
            tree.hits.invalidate();
        }
        self.replace(slot, Entry::Absent);
        if !too_early && !mutant!("zap.cut-not-noted") {
            tree.hits.invalidate();
        }
        detached
    }

    fn is_present(&self, slot: usize) -> bool {
        match self.entry(slot) {
            Entry::Absent | Entry::Marker(_) => false,
            Entry::Leaf(leaf) => !leaf.rights.is_empty(),
            Entry::Table(_) => true,
        }
    }
}

impl<M: Machine> fmt::Debug for LockedTable<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, locked", self.table)
    }
}
