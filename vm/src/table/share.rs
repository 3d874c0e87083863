//! Edits of a locked table for fork and for copies on write.

use super::{LeafBits, LockedTable, UnlinkedTable};
use crate::frame::{FrameMeta, MappedFrame, NotMappedAgain, Unhooked};
use crate::machine::{Entry, Format, Leaf, LeafKind, Machine, Marker};
use crate::sync::atomic::Ordering::*;
use crate::units::{Level, Rights, Vpn, VpnRange};

/// A frame is mapped so often that its mapcount would overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyMappings;

impl<'t, M: Machine> LockedTable<'t, M> {
    /// Maps what `slot` maps in the same slot of `child` too. Afterwards the frame is not *exclusive*, and
    /// neither entry allows writes: a write copies. Returns whether the entry of this table allowed them
    /// before. Nothing where the slot holds no leaf, or one of frames that were given, or a huge one: see
    /// `share_huge`.
    ///
    /// An exclusive frame that somebody else has a reference to is not shared, because it may be pinned: the
    /// slot of `child` is marked busy, for a copy to be put there after the flush. The entry of this table
    /// does not allow writes until then; the frame stays *exclusive*.
    ///
    /// # Errors
    /// Nothing has changed but that the frame may not be *exclusive* any more.
    #[inline(always)]
    pub(crate) fn share_with(
        &mut self,
        slot: usize,
        child: &mut UnlinkedTable<'_, M>,
    ) -> Result<Shared, TooManyMappings> {
        if self.level() != Level::Pte {
            return Ok(Shared::Nothing);
        }
        let seen = self.table.word(slot).load(Relaxed);
        let Entry::Leaf(leaf) = M::Format::decode(seen, Level::Pte) else { return Ok(Shared::Nothing) };
        let memory = self.table.tree.memory;
        if !leaf.owned() {
            if leaf.pfn == memory.zero_frame() {
                child.install_zero(slot, LeafBits::of(leaf));
                return Ok(Shared::ZeroPage);
            }
            if !mutant!("fork.given-frame-counted") {
                return Ok(Shared::Nothing);
            }
        }
        // SAFETY: the entry owns a mapping of the frame, as just checked, and stays as long as its table is
        // locked.
        let frame = match unsafe { memory.map_again(leaf.pfn) } {
            Ok(frame) => frame,
            Err(NotMappedAgain::TooManyMappings) => return Err(TooManyMappings),
            Err(NotMappedAgain::Referenced) => return Ok(self.keep_pinned(slot, leaf, child)),
        };
        let was_writable = leaf.rights.contains(Rights::WRITE) && !mutant!("fork.parent-left-writable");
        // The bits as they were when the right to write went: the hardware sets no *dirty* after that.
        let last = if was_writable { self.write_protect(slot) } else { seen };
        child.install_as(slot, frame, M::Format::write_protected(last, Level::Pte));
        Ok(Shared::Frame { was_writable })
    }

    /// Leaves a frame that may be pinned *exclusive*; see [`share_with`](Self::share_with).
    #[cold]
    #[inline(never)]
    fn keep_pinned(&self, slot: usize, leaf: Leaf, child: &mut UnlinkedTable<'_, M>) -> Shared {
        let was_writable = leaf.rights.contains(Rights::WRITE) && !mutant!("fork.pinned-left-writable");
        if was_writable {
            self.write_protect(slot);
        }
        child.mark_busy(slot);
        Shared::Pinned { was_writable }
    }

    /// Takes the right to write from the leaf in `slot`, which the holder of the lock has seen there. Returns
    /// its word before.
    ///
    /// The hardware writes an entry only to set a bit that is clear, so one whose bits are all set changes by
    /// a plain store, as in `replace`. Relaxed: as [`adjust`](Self::adjust).
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

    /// Makes the user memory that `slot` maps shared: a write needs a copy from now on. `false` where it is
    /// no exclusive user memory, a huge page, or somebody else has a reference to it, a pin among them.
    pub fn share(&self, slot: usize) -> bool {
        self.level() == Level::Pte && self.mapped_meta(slot).is_some_and(FrameMeta::share)
    }

    /// Makes the user memory that `slot` maps exclusive, where no other entry maps it and nobody else has a
    /// reference. `false` for a huge page: see `reuse_huge`.
    pub fn try_make_exclusive(&self, slot: usize) -> bool {
        self.level() == Level::Pte && self.mapped_meta(slot).is_some_and(FrameMeta::try_make_exclusive)
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

    /// The leaf in `slot`, if it owns a mapping of its frame. What the platform has in its slots owns nothing
    /// of the library's, whatever bits it sets.
    pub(crate) fn owned_leaf(&self, slot: usize) -> Option<Leaf> {
        match self.entry(slot) {
            Entry::Leaf(leaf) if leaf.owned() && !self.table.is_platforms(slot) => Some(leaf),
            _ => None,
        }
    }

    /// Maps the frame in a slot that is marked busy. `Err` with the frame where it is not.
    pub(crate) fn replace_busy<'f>(
        &mut self,
        slot: usize,
        frame: MappedFrame<'f, M>,
        bits: LeafBits,
    ) -> Result<(), MappedFrame<'f, M>> {
        if self.entry(slot) != Entry::Marker(Marker::Busy) {
            return Err(frame);
        }
        self.install(slot, frame, bits);
        Ok(())
    }

    /// Links a filled table in a slot that is absent, or holds a marker of the caller's.
    pub(super) fn link_in_place(&mut self, slot: usize, table: UnlinkedTable<'_, M>) {
        let Some((frame, used)) = table.into_parts() else { return };
        self.table.tree.memory.note_used_parts(&frame, used);
        self.put_table(slot, frame);
    }

    /// Whether the user memory that `slot` maps may be written without a copy.
    pub(crate) fn is_exclusive(&self, slot: usize) -> bool {
        self.mapped_meta(slot).is_some_and(|meta| meta.state().is_exclusive())
    }

    /// Gives the leaf in `slot` rights for a store that comes now, where it maps user memory that is
    /// *exclusive*, or can become so because nobody else has it. What was to be discarded is kept, and the
    /// entry has the bits of a store. `None`, and no change, where the store has to copy.
    ///
    /// One look at the entry and one at the record, for all of these questions. A plain store: the hardware
    /// writes an entry only to set bits that this sets too. Release, as [`install`](Self::install): a reader
    /// takes the frame from this word then.
    pub(crate) fn allow_store(&mut self, slot: usize, rights: Rights) -> Option<Reuse> {
        let meta = self.mapped_meta(slot).filter(|_| self.level() == Level::Pte)?;
        let state = meta.state();
        let was_exclusive = state.is_exclusive();
        if !was_exclusive && !meta.try_make_exclusive() && !mutant!("cow.store-to-shared-allowed") {
            return None;
        }
        // Decoded as a whole only here: a store that copies needs no more of it than the frame.
        let Entry::Leaf(leaf) = self.entry(slot) else { return None };
        if state.is_lazyfree() && !mutant!("fault.lazyfree-kept") {
            meta.set_lazyfree(false);
        }
        let bits = LeafBits { rights, ..LeafBits::of(leaf) }.used(true);
        let word = M::Format::encode(Entry::Leaf(bits.leaf(leaf.pfn, LeafKind::OWNED)), Level::Pte);
        self.table.word(slot).store(word, Release);
        Some(if was_exclusive { Reuse::WasExclusive } else { Reuse::BecameExclusive })
    }

    /// Puts the marker *busy* in the place of the leaf in `slot`, which maps `page`. Returns the translation,
    /// to be flushed. `None`, and no change, where the slot holds no leaf of user memory.
    pub(crate) fn replace_by_busy(&mut self, slot: usize, page: Vpn) -> Option<Unhooked> {
        if !matches!(self.entry(slot), Entry::Leaf(leaf) if leaf.owned()) {
            return None;
        }
        match self.replace(slot, Entry::Marker(Marker::Busy)) {
            Entry::Leaf(leaf) => Some(Unhooked::frame(VpnRange::new(page, page.add(1)), leaf)),
            _ => None,
        }
    }
}

/// How [`LockedTable::allow_store`] found the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// It was this space's alone.
    WasExclusive,
    /// Others had it once.
    BecameExclusive,
}

/// What [`LockedTable::share_with`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    /// No leaf.
    Nothing,
    /// The zero page, which nobody writes.
    ZeroPage,
    /// A frame of user memory, and whether its entry allowed writes.
    Frame {
        /// It is to be flushed.
        was_writable: bool,
    },
    /// A frame that may be pinned, and whether its entry allowed writes.
    Pinned {
        /// It is to be flushed.
        was_writable: bool,
    },
}
