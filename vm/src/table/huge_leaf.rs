//! Huge leaves that own a block of frames.
//!
//! Such a leaf owns one mapping of a block of user memory ([`MappedFolio`]): it is written in place where the
//! block is *exclusive*, shared as a whole by fork, and split before anything else happens to a part of it.

use super::{LeafBits, LockedTable, Reuse};
use crate::frame::{FrameState, Kind, MappedFolio, NotMappedAgain};
use crate::machine::{Entry, Format, Leaf, LeafKind, Machine, Marker};
use crate::units::{Order, PAGE_SIZE, PhysAddr, Rights, Vpn, VpnRange};

/// One more mapping of a block, for a leaf of another space.
#[derive(Debug)]
pub(crate) struct SharedHuge<'m, M: Machine> {
    /// The mapping.
    pub folio: MappedFolio<'m, M>,
    /// What the leaf says.
    pub bits: LeafBits,
    /// Whether the first leaf allowed writes: it is to be flushed.
    pub was_writable: bool,
}

impl<'t, M: Machine> LockedTable<'t, M> {
    /// Maps the block by one leaf in a slot that is absent, or marked busy.
    ///
    /// # Panics
    /// Where a leaf of this level does not map as many frames, the slot is the platform's or holds anything
    /// else, or the block is of another memory.
    #[track_caller]
    pub fn install_huge(&mut self, slot: usize, folio: MappedFolio<'_, M>, bits: LeafBits) {
        assert!(
            matches!(self.entry(slot), Entry::Absent | Entry::Marker(Marker::Busy)),
            "something is mapped there"
        );
        self.put_folio(slot, folio, bits);
    }

    /// Maps the block by a leaf in a slot of which the caller has seen that nothing is mapped there.
    ///
    /// # Panics
    /// Where a leaf of this level does not map as many frames, the slot is the platform's, or the block is of
    /// another memory.
    #[track_caller]
    pub(super) fn put_folio(&mut self, slot: usize, folio: MappedFolio<'_, M>, bits: LeafBits) {
        let fits = self.level().leaf_size().is_some_and(|size| size.order() == folio.order());
        assert!(fits, "a leaf of {:?} in a table of {:?}", folio.order(), self.level());
        assert!(!self.table.is_platforms(slot), "a slot of the platform's");
        let pfn = folio.into_entry(self.table.tree.memory);
        self.put(slot, Entry::Leaf(bits.leaf(pfn, LeafKind::OWNED)));
    }

    /// The leaf in `slot`, if it is larger than a base page and owns its frames.
    pub(crate) fn owned_huge_leaf(&self, slot: usize) -> Option<Leaf> {
        if self.level().leaf_size()?.order() == Order::BASE {
            return None;
        }
        self.owned_leaf(slot)
    }

    /// Whether the slot maps a whole folio of an object, which is not one of the reserved pool: the frames
    /// stay the object's, so its entry is cleared where a part of it changes, and faults bring it back.
    pub(crate) fn is_of_object(&self, slot: usize) -> bool {
        let is_objects = |state: FrameState| state.kind() == Kind::File && !state.is_pooled();
        let leaf = self.owned_huge_leaf(slot);
        leaf.is_some_and(|leaf| is_objects(self.table.tree.memory.meta_of(leaf.pfn).state()))
    }

    /// Clears a slot that maps a whole folio of an object. `flush` makes every CPU forget the leaf, before
    /// the table is unlocked (P9): anything may be put there then. `false`, and no change, where the slot
    /// maps none.
    pub(crate) fn drop_object_leaf(&mut self, slot: usize, pages: VpnRange, flush: impl FnOnce()) -> bool {
        if !self.is_of_object(slot) {
            return false;
        }
        let Some(unhooked) = self.unhook(slot, pages.start) else { return false };
        unhooked.put_leaf_after(self.table.tree.memory, || {
            if !mutant!("shared-thp.flush-skipped") {
                flush();
            }
        });
        true
    }

    /// Counts one more mapping of what the huge leaf in `slot` maps, for a leaf of another space.
    /// Afterwards the block is not *exclusive*, and the leaf of this table does not allow writes. `None`,
    /// and no change, where the slot holds no huge leaf of private memory.
    ///
    /// # Errors
    /// Nothing has changed but that the block may not be *exclusive* any more.
    pub(crate) fn share_huge(&mut self, slot: usize) -> Result<Option<SharedHuge<'t, M>>, NotMappedAgain> {
        if self.is_of_pool(slot) {
            return Ok(None);
        }
        self.share_block(slot)
    }

    /// As [`share_huge`](Self::share_huge), of any block of private memory.
    pub(super) fn share_block(&mut self, slot: usize) -> Result<Option<SharedHuge<'t, M>>, NotMappedAgain> {
        let leaf = self.owned_huge_leaf(slot);
        let Some((leaf, size)) = leaf.zip(self.level().leaf_size()) else { return Ok(None) };
        // SAFETY: the leaf owns a mapping of a block of this order (`install_huge`), and stays as long as its
        // table is locked.
        let folio = unsafe { self.table.tree.memory.map_folio_again(leaf.pfn, size.order()) }?;
        let was_writable = leaf.rights.contains(Rights::WRITE) && !mutant!("thp.fork-left-writable");
        // The bits as they were when the right to write went: the hardware sets no *dirty* after that.
        let last = if was_writable { self.write_protect(slot) } else { self.read(slot) };
        let bits = match M::Format::decode(last, self.level()) {
            Entry::Leaf(last) => LeafBits { rights: last.rights - Rights::WRITE, ..LeafBits::of(last) },
            _ => unreachable!("the holder of the lock has seen a leaf"),
        };
        Ok(Some(SharedHuge { folio, bits, was_writable }))
    }

    /// Whether the block of the huge leaf in `slot` is this space's alone, or can become so because nobody
    /// else has it: afterwards it is *exclusive*. `None` where a store has to split the leaf.
    pub(crate) fn reuse_huge(&mut self, slot: usize) -> Option<Reuse> {
        let meta = self.mapped_meta(slot)?;
        if meta.state().is_exclusive() {
            return Some(Reuse::WasExclusive);
        }
        let order = self.level().leaf_size()?.order();
        let Entry::Leaf(leaf) = self.entry(slot) else { return None };
        let is_alone = meta.try_make_block_exclusive() || self.table.tree.memory.rejoin(leaf.pfn, order);
        is_alone.then_some(Reuse::BecameExclusive)
    }

    /// Copies bytes of `page`, from `offset` on, which the huge leaf in `slot` maps. `false`, and nothing is
    /// copied, where the slot holds no huge leaf that owns its frames and allows loads. The lock is held
    /// meanwhile: no reference is taken, so the block may be split by the next holder.
    ///
    /// # Panics
    /// Where the bytes do not lie in the page.
    pub(crate) fn copy_from_huge(&self, slot: usize, page: Vpn, offset: usize, to: &mut [u8]) -> bool {
        let is_inside = offset.checked_add(to.len()).is_some_and(|end| end <= PAGE_SIZE);
        assert!(is_inside, "{} bytes from {offset} do not lie in a page", to.len());
        let Some(leaf) = self.owned_huge_leaf(slot) else { return false };
        if !leaf.rights.contains(Rights::READ) {
            return false;
        }
        let frame = leaf.pfn.add(page.0 & (self.level().entry_pages() - 1));
        let from = PhysAddr(frame.addr().0 + offset as u64);
        // SAFETY: the bytes lie in a frame of the block, as just checked and masked. The leaf owns the block,
        // which is user memory as long as the table is locked: the library has no Rust object there.
        unsafe { self.table.tree.memory.machine().copy_out(from, to) };
        true
    }
}
