//! Edits of one leaf, of any level: install, dup, own, replace.
//!
//! | edit | for | order 0 |
//! |---|---|---|
//! | [`install`](LockedTable::install) | faults, copies, forks | the level is a constant |
//! | [`dup`](LockedTable::dup) | fork: one mapping more | the same |
//! | [`allow_store`](LockedTable::allow_store) | a store: in place, or not at all | one look |
//! | [`replace_leaf`](LockedTable::replace_leaf) | copy on write, zeros to memory | break before make |
//! | [`replace_by_marker`](LockedTable::replace_by_marker) | a page that is taken away | the same |
//! | `unhook`, `adjust`, `split_leaf` | zap, protect, an end of a range | in files of their own |

use super::class::LeafClass;
use super::content::LeafContent;
use super::{LeafBits, LockedTable, SlotMarker, UnlinkedTable};
use crate::frame::{FolioSize, FrameMeta, Mapped, NotMappedAgain, UserFrame, note_dirty};
use crate::machine::{Entry, FlushRange, Format, Leaf, LeafKind, Machine};
use crate::sync::atomic::Ordering::*;
use crate::units::{Level, PAGE_SIZE, PhysAddr, Rights, Vpn, VpnRange};
use core::mem::ManuallyDrop;

/// One mapping more of what a leaf maps, for a leaf of another space.
#[derive(Debug)]
pub(crate) struct DupLeaf<'m, M: Machine, S: FolioSize> {
    /// The mapping.
    pub mapped: Mapped<'m, M, S>,
    /// The word of the leaf, without the right to write.
    pub word: u64,
    /// Whether the first leaf allowed writes: it is to be flushed.
    pub was_writable: bool,
}

/// A leaf that is out of its slot, whose mapping is put when this is dropped.
pub(crate) struct OldLeaf<'m, M: Machine, S: FolioSize> {
    leaf: Leaf,
    /// `None` where the leaf owned nothing.
    mapped: Option<Mapped<'m, M, S>>,
}

impl<'m, M: Machine, S: FolioSize> OldLeaf<'m, M, S> {
    /// What it said last.
    pub(crate) fn leaf(&self) -> Leaf {
        self.leaf
    }

    /// The mapping, to be handed on.
    pub(super) fn into_mapped(self) -> Option<Mapped<'m, M, S>> {
        self.mapped
    }

    /// What it mapped, to be copied from; `None` for zeros.
    pub(crate) fn user_frame(&self) -> Option<UserFrame<'_, M>> {
        self.mapped.as_ref().map(Mapped::user_frame)
    }
}

impl<'t, M: Machine> LockedTable<'t, M> {
    /// Maps the content by a leaf in a slot that is not present for the hardware.
    ///
    /// # Panics
    /// Where leaves of this level do not map as many frames, the content is of another memory, or, above the
    /// last level, the slot is the platform's or neither absent nor *busy*.
    #[inline(always)]
    #[track_caller]
    pub fn install<T: LeafContent<M>>(&mut self, slot: usize, content: T, bits: LeafBits) {
        let level = content.level().expect("one leaf maps it");
        assert!(self.level() == level, "a leaf of {level:?} in a table of {:?}", self.level());
        // A table of base pages is no root, and its slots own no tables.
        if level != Level::Pte {
            self.assert_free(slot);
        }
        assert!(content.may_be_in(self.tree()), "the tree has no reference to what is mapped");
        let leaf = content.into_leaf(self.tree().memory, bits);
        self.put(slot, Entry::Leaf(leaf));
    }

    #[track_caller]
    fn assert_free(&self, slot: usize) {
        assert!(!self.table.is_platforms(slot), "a slot of the platform's");
        let entry = self.entry(slot);
        let is_free = entry == Entry::Absent || entry == SlotMarker::Busy.entry();
        assert!(is_free, "something is mapped there");
    }

    /// The leaf in `slot`, and what it maps; `None` where there is none, or the slot is the platform's.
    #[inline(always)]
    pub(crate) fn leaf(&self, slot: usize) -> Option<(Leaf, LeafClass)> {
        match self.entry(slot) {
            Entry::Leaf(leaf) if !self.table.is_platforms(slot) => {
                Some((leaf, self.tree().class_of(leaf, self.level())))
            }
            _ => None,
        }
    }

    /// The flush of the leaf in `slot`, which maps `pages`: CPUs are told one of them, as a TLB forgets a
    /// translation whole ([`Machine::flush_range`]); all, where it holds one for each, as of a leaf by table.
    #[inline(always)]
    pub(crate) fn flush_of(&self, slot: usize, pages: VpnRange) -> FlushRange {
        match self.entry(slot) {
            Entry::Leaf(leaf) if !leaf.by_table() || mutant!("zero.table-flushed-as-leaf") => {
                FlushRange::of_leaf(pages)
            }
            _ => FlushRange::of(pages),
        }
    }

    /// The leaf in `slot`, if it owns a mapping of its folio. What the platform has in its slots owns nothing
    /// of the library's, whatever bits it sets.
    #[inline(always)]
    pub(crate) fn owned_leaf(&self, slot: usize) -> Option<Leaf> {
        match self.entry(slot) {
            Entry::Leaf(leaf) if leaf.owned() && !self.table.is_platforms(slot) => Some(leaf),
            _ => None,
        }
    }

    /// Counts one more mapping of the anonymous memory that `slot` maps by a leaf of this size. Afterwards
    /// it is not *exclusive*, and this leaf does not allow writes. `None`, and no change, where the slot
    /// holds no such leaf.
    ///
    /// # Errors
    /// [`NotMappedAgain::Referenced`]: it is exclusive, and there is a reference, perhaps a pin. Nothing
    /// has changed but that it may not be *exclusive* any more.
    #[inline(always)]
    pub(crate) fn dup<S: FolioSize>(
        &mut self,
        slot: usize,
        size: S,
    ) -> Result<Option<DupLeaf<'t, M, S>>, NotMappedAgain> {
        let (Some(level), true) = (size.level(), size.level() == Some(self.level())) else { return Ok(None) };
        let seen = self.table.word(slot).load(Relaxed);
        let Entry::Leaf(leaf) = M::Format::decode(seen, level) else { return Ok(None) };
        let is_owned = leaf.owned() || mutant!("fork.given-frame-counted") && level == Level::Pte;
        if !is_owned || level != Level::Pte && self.table.is_platforms(slot) {
            return Ok(None);
        }
        // SAFETY: the leaf, of this size, owns a mapping of its folio, and stays as long as its table is
        // locked.
        let mapped = unsafe { self.table.tree.memory.map_again(leaf.pfn, size) }?;
        let was_writable = leaf.rights.contains(Rights::WRITE) && !mutant!("fork.parent-left-writable");
        // The bits as they were when the right to write went: the hardware sets no *dirty* after that.
        let last = if was_writable { self.write_protect(slot) } else { seen };
        let word = M::Format::write_protected(last, level);
        Ok(Some(DupLeaf { mapped, word, was_writable }))
    }

    /// Maps the folio in an absent slot by the word of an entry that maps it already.
    pub(crate) fn install_dup<S: FolioSize>(&mut self, slot: usize, dup: DupLeaf<'_, M, S>) {
        let Entry::Leaf(leaf) = M::Format::decode(dup.word, self.level()) else { return };
        self.install(slot, dup.mapped, LeafBits::of(leaf));
    }

    /// Takes the right to write from the leaf in `slot`, which the holder of the lock has seen there. Returns
    /// its word before.
    #[inline(always)]
    pub(super) fn write_protect(&self, slot: usize) -> u64 {
        let (cell, level) = (self.table.word(slot), self.level());
        let old = cell.load(Relaxed);
        debug_assert!(matches!(M::Format::decode(old, level), Entry::Leaf(_)), "a leaf was there");
        if M::Format::used(old, true) == old {
            cell.store(M::Format::write_protected(old, level), Relaxed);
            return old;
        }
        let old = cell.update(Relaxed, Relaxed, |word| Some(M::Format::write_protected(word, level)));
        old.unwrap_or_else(|old| old)
    }

    /// Takes the right to write from the leaf in `slot`. Returns whether it had that.
    pub(crate) fn take_write(&self, slot: usize) -> bool {
        let has_it = matches!(self.entry(slot), Entry::Leaf(leaf) if leaf.rights.contains(Rights::WRITE));
        if has_it && !mutant!("fork.pinned-left-writable") {
            self.write_protect(slot);
        }
        has_it
    }

    /// Makes the user memory that `slot` maps exclusive, where no other entry maps it and there is no other
    /// reference.
    #[inline(always)]
    pub(crate) fn try_make_exclusive(&self, slot: usize) -> bool {
        self.mapped_meta(slot).is_some_and(|meta| self.try_own(slot, meta))
    }

    #[inline(always)]
    fn try_own(&self, slot: usize, meta: &FrameMeta<M::Cpu>) -> bool {
        if self.level() == Level::Pte { meta.try_make_exclusive() } else { self.try_own_folio(slot, meta) }
    }

    #[cold]
    #[inline(never)]
    fn try_own_folio(&self, slot: usize, meta: &FrameMeta<M::Cpu>) -> bool {
        let (Some(size), Entry::Leaf(leaf)) = (self.level().leaf_size(), self.entry(slot)) else {
            return false;
        };
        let is_whole = meta.state().is_hugetlb();
        meta.try_make_folio_exclusive() || !is_whole && self.tree().memory.rejoin(leaf.pfn, size.order())
    }

    /// Whether the user memory that `slot` maps may be written without a copy.
    pub(crate) fn is_exclusive(&self, slot: usize) -> bool {
        self.mapped_meta(slot).is_some_and(|meta| meta.state().is_exclusive())
    }

    /// Gives the leaf in `slot` rights for a store that comes now, where it maps user memory that is
    /// *exclusive*, or can become so because there is no other holder. What was to be discarded is kept, and
    /// the entry has the bits of a store. `None`, and no change, where the store has to copy.
    ///
    /// One look at the entry and one at the record, for all of these questions. A plain store: the hardware
    /// writes an entry only to set bits that this sets too. Release, as [`install`](Self::install): a reader
    /// takes the frame from this word then.
    #[inline(always)]
    pub(crate) fn allow_store(&mut self, slot: usize, rights: Rights) -> Option<Reuse> {
        let meta = self.mapped_meta(slot)?;
        let state = meta.state();
        let was_exclusive = state.is_exclusive();
        if !was_exclusive && !self.try_own(slot, meta) && !mutant!("cow.store-to-shared-allowed") {
            return None;
        }
        let level = self.level();
        let Entry::Leaf(leaf) = self.entry(slot) else { return None };
        if state.is_lazyfree() && !mutant!("fault.lazyfree-kept") {
            meta.set_lazyfree(false);
        }
        let bits = LeafBits { rights, ..LeafBits::of(leaf) }.used(true);
        let word = M::Format::encode(Entry::Leaf(bits.leaf(leaf.pfn, LeafKind::OWNED)), level);
        self.table.word(slot).store(word, Release);
        Some(if was_exclusive { Reuse::WasExclusive } else { Reuse::BecameExclusive })
    }

    /// Break before make (P9): the leaf of this size in `slot` goes, `flush` makes every CPU forget it,
    /// `make` returns what takes its place, and only then the old mapping is put: until then no other owner
    /// of the table's lock finds its folio exclusive. The lock is held meanwhile; a CPU that waits for it
    /// answers flushes. `false`, and no call, where the slot holds no such leaf.
    #[inline(always)]
    pub(crate) fn replace_leaf<S: FolioSize, T: LeafContent<M>>(
        &mut self,
        (slot, size): (usize, S),
        flush: impl FnOnce(&Self),
        make: impl FnOnce(&OldLeaf<'_, M, S>) -> (T, LeafBits),
    ) -> bool {
        let Some(old) = self.take_leaf((slot, size), SlotMarker::Busy) else { return false };
        // Where the flush or the copy unwinds, the mapping stays for good.
        let old = ManuallyDrop::new(old);
        flush(self);
        let (content, bits) = make(&old);
        self.install(slot, content, bits);
        drop(ManuallyDrop::into_inner(old));
        true
    }

    /// Puts a marker that owns nothing in the place of the leaf in `slot`, for good; `flush` makes every CPU
    /// forget it.
    pub(crate) fn replace_by_marker(
        &mut self,
        slot: usize,
        marker: SlotMarker,
        flush: impl FnOnce(&Self),
    ) -> bool {
        let Some(size) = self.level().leaf_size() else { return false };
        let Some(old) = self.take_leaf((slot, size.order()), marker) else { return false };
        let old = ManuallyDrop::new(old);
        flush(self);
        drop(ManuallyDrop::into_inner(old));
        true
    }

    /// Clears the leaf in `slot`; `flush` makes every CPU forget it before the table is unlocked (P9):
    /// anything may be put there then.
    pub(crate) fn clear_leaf_now(&mut self, slot: usize, flush: impl FnOnce()) -> bool {
        let is_done = self.replace_by_marker(slot, SlotMarker::Busy, |_| flush());
        if is_done {
            self.replace(slot, Entry::Absent);
        }
        is_done
    }

    /// Puts a marker in the place of a leaf of this size, which has not been flushed.
    #[inline(always)]
    pub(super) fn take_leaf<S: FolioSize>(
        &mut self,
        (slot, size): (usize, S),
        marker: SlotMarker,
    ) -> Option<OldLeaf<'t, M, S>> {
        let is_leaf = size.level() == Some(self.level()) && matches!(self.entry(slot), Entry::Leaf(_));
        // A table of base pages is no root.
        if !is_leaf || !S::IS_BASE && self.table.is_platforms(slot) {
            return None;
        }
        let Entry::Leaf(leaf) = self.replace(slot, marker.entry()) else {
            unreachable!("the holder of the lock has seen a leaf")
        };
        let memory = self.table.tree.memory;
        // SAFETY: the leaf, which owned a mapping of a folio of its table's level (`install`), and so of this
        // size, was just replaced under the lock of its table, in a slot that is not the platform's.
        let mapped = leaf.owned().then(|| unsafe { Mapped::from_entry(memory, leaf.pfn, size) });
        if let Some(mapped) = &mapped {
            note_dirty(memory.meta_of(mapped.pfn()), leaf.dirty);
        }
        Some(OldLeaf { leaf, mapped })
    }

    /// Copies bytes of `page`, from `offset` on, which the leaf in `slot` maps. `false`, and nothing is
    /// copied, where the slot holds no leaf that owns its frames and allows loads. The lock is held
    /// meanwhile.
    ///
    /// # Panics
    /// Where the bytes do not lie in the page.
    pub(crate) fn copy_from_huge(&self, slot: usize, page: Vpn, offset: usize, to: &mut [u8]) -> bool {
        let is_inside = offset.checked_add(to.len()).is_some_and(|end| end <= PAGE_SIZE);
        assert!(is_inside, "{} bytes from {offset} do not lie in a page", to.len());
        let Some(leaf) = self.owned_leaf(slot) else { return false };
        if !leaf.rights.contains(Rights::READ) {
            return false;
        }
        let frame = leaf.pfn.add(page.0 & (self.level().entry_pages() - 1));
        let from = PhysAddr(frame.addr().0 + offset as u64);
        // SAFETY: the bytes lie in a frame of the folio, as just checked and masked. The leaf owns the folio,
        // which is user memory as long as the table is locked: the library has no Rust object there.
        unsafe { self.table.tree.memory.machine().copy_out(from, to) };
        true
    }

    /// Links a filled table in a slot that is absent, or holds a marker of the caller's.
    pub(super) fn link_in_place(&mut self, slot: usize, table: UnlinkedTable<'_, M>) {
        let Some((frame, used)) = table.into_parts() else { return };
        self.table.tree.memory.note_used_parts(&frame, used);
        self.put_table(slot, frame);
    }

    /// Links a table that was filled before, which is attached from now on. `Err` with the table where the
    /// slot is not absent.
    ///
    /// # Panics
    /// Where the tables below this one are not of the last level.
    pub(crate) fn link_filled<'f>(
        &mut self,
        slot: usize,
        table: UnlinkedTable<'f, M>,
    ) -> Result<(), UnlinkedTable<'f, M>> {
        assert!(self.level().below() == Some(Level::Pte), "a table of leaves below {:?}", self.level());
        if self.entry(slot) != Entry::Absent {
            return Err(table);
        }
        self.link_in_place(slot, table);
        Ok(())
    }
}

/// How [`LockedTable::allow_store`] found the folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// It was this space's alone.
    WasExclusive,
    /// Others had it once.
    BecameExclusive,
}
