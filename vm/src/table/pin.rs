//! Pins of the frames that entries map: what a pin asks of a locked table, and a pin without the lock.

use super::{EntryRef, LeafBits, LockedTable};
use crate::frame::{FrameMeta, Kind, Memory, PinnedFrame};
use crate::machine::{Entry, Format, Machine};
use crate::sync::atomic::Ordering::*;
use crate::units::{Access, Level, Pfn, Rights, Vpn};

impl<M: Machine> LockedTable<'_, M> {
    /// The frame that `slot` maps, if the page keeps that frame while there is a reference to it: user
    /// memory that is *exclusive*, or memory of an object where the mapping `shares` it: a private one copies
    /// it when it is stored to. And if the entry has the rights. `None` for the zero page, for shared frames,
    /// and for frames that the entry does not own.
    ///
    /// It stays so as long as this table is locked.
    pub(crate) fn pinnable(&self, slot: usize, needs: Rights, shares: bool) -> Option<Pfn> {
        let Entry::Leaf(leaf) = self.entry(slot) else { return None };
        let state = self.mapped_meta(slot).map(FrameMeta::state)?;
        let is_kept = match state.kind() {
            Kind::User => state.is_exclusive() || mutant!("pin.shared-frame-pinned"),
            kind => kind == Kind::Object && (shares || mutant!("pin.object-page-pinned")),
        };
        (is_kept && leaf.rights.contains(needs)).then_some(leaf.pfn)
    }

    /// The frame that `slot` maps, if the entry allows loads: the zero page, a shared frame or any other of
    /// the library's. `None` for frames that the entry does not own.
    pub(crate) fn readable(&self, slot: usize) -> Option<Pfn> {
        let Entry::Leaf(leaf) = self.entry(slot) else { return None };
        let is_known = leaf.owned() || leaf.pfn == self.table.tree.memory.zero_frame();
        (is_known && leaf.rights.contains(Rights::READ)).then_some(leaf.pfn)
    }

    /// Notes in the entry what is done through a pin: the stores of a device set no bit. What is written is
    /// not to be discarded any more.
    pub(crate) fn note_pinned(&mut self, slot: usize, access: Access) {
        let stores = access == Access::Write && !mutant!("pin.dirty-not-set");
        if stores && !mutant!("pin.left-discardable") {
            self.set_lazyfree(slot, false);
        }
        self.adjust(slot, |leaf| {
            let bits = LeafBits::of(leaf).used(leaf.dirty || stores);
            (bits != LeafBits::of(leaf)).then_some(bits)
        });
    }
}

/// Why a page is not pinned without a lock. Each is one that a pin under the locks may get over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FastPinRefusal {
    /// No leaf: nothing was touched there, or an operation is under way.
    NotPresent,
    /// The entry does not allow the access.
    NotAllowed,
    /// The entry owns no frame: the zero page, and PFN-mapped frames, of any size.
    NotOwned,
    /// A transparent huge page: pins are of base pages, so it is split first.
    Huge,
    /// The frame is not *exclusive*, may be discarded, is an object's and not to be written there, was freed
    /// meanwhile, or has too many references.
    NotPinnable,
    /// The entry changed while the frame was being pinned.
    EntryChanged,
    /// The limit does not allow so many pages.
    OverLimit,
}

impl<M: Machine> EntryRef<'_, '_, M> {
    /// Pins the frame of the leaf that a walk has found, without a lock, if the page keeps the frame while
    /// there is a reference to it. `memory` is the tree's.
    ///
    /// ```text
    ///   entry, as the walk read it ─► reference, if *exclusive* ─► pincount ─► the entry again: the same?
    ///                                 one read-modify-write                     no: drop both
    /// ```
    ///
    /// Holds the second look because of the first reference: what frees the frame, or shares it, changes the
    /// word that the reference is counted in. So from then on the frame is not freed and stays *exclusive*;
    /// and if it was freed before, and is something else now, the reference was counted after that, so the
    /// entry is seen to have changed. No fence is needed: docs/design/pins.md.
    ///
    /// In the leaf sets the bits that the hardware would set for the access, as the hardware does, where they
    /// are not set.
    ///
    /// # Errors
    /// Why not; nothing has changed, but that for a moment the frame may have had a reference more.
    pub(crate) fn try_pin<'m>(
        &self,
        memory: &'m Memory<'m, M>,
        access: Access,
    ) -> Result<PinnedFrame<'m, M>, FastPinRefusal> {
        let Entry::Leaf(leaf) = self.entry() else { return Err(FastPinRefusal::NotPresent) };
        if !leaf.rights.contains(access.needs()) {
            return Err(FastPinRefusal::NotAllowed);
        }
        if !leaf.owned() {
            return Err(FastPinRefusal::NotOwned);
        }
        if self.table.level() != Level::Pte && !mutant!("pin.fast-huge-pinned") {
            return Err(FastPinRefusal::Huge);
        }
        let writable = leaf.rights.contains(Rights::WRITE);
        let pinned = memory.try_pin(leaf.pfn, writable).ok_or(FastPinRefusal::NotPinnable)?;
        let used = M::Format::used(self.word, access == Access::Write && !mutant!("pin.fast-dirty-not-set"));
        let is_same = self.is_same_after_use(used);
        if is_same { Ok(pinned) } else { Err(FastPinRefusal::EntryChanged) }
    }

    /// As [`try_pin`](Self::try_pin), which refused it as huge: pins the frame of `page` in a huge page of
    /// the hugetlb pool.
    ///
    /// # Errors
    /// As of that; [`FastPinRefusal::Huge`] where it is another huge page.
    #[cold]
    #[inline(never)]
    pub(crate) fn try_pin_hugetlb<'m>(
        &self,
        memory: &'m Memory<'m, M>,
        page: Vpn,
        access: Access,
    ) -> Result<PinnedFrame<'m, M>, FastPinRefusal> {
        let Entry::Leaf(leaf) = self.entry() else { return Err(FastPinRefusal::NotPresent) };
        let part = page.0 & (self.table.level().entry_pages() - 1);
        let writable = leaf.rights.contains(Rights::WRITE);
        let pinned = memory.try_pin_part(leaf.pfn, part, writable).ok_or(FastPinRefusal::Huge)?;
        let used = M::Format::used(self.word, access == Access::Write);
        if self.is_same_after_use(used) { Ok(pinned) } else { Err(FastPinRefusal::EntryChanged) }
    }

    /// Whether the entry is what the walk read, and the bits of `used` are set in it now.
    #[inline(always)]
    fn is_same_after_use(&self, used: u64) -> bool {
        let cell = self.table.word(self.slot);
        // Relaxed: the read-modify-write of the reference acquires, and what else is in the entry was
        // acquired by the walk.
        if used == self.word {
            cell.load(Relaxed) == self.word || mutant!("pin.fast-not-compared")
        } else if mutant!("pin.fast-marked-by-store") {
            cell.store(used, Relaxed);
            true
        } else {
            cell.compare_exchange(self.word, used, Relaxed, Relaxed).is_ok()
        }
    }
}
