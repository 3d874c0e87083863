//! Huge leaves that own a block of frames.
//!
//! Such a leaf owns the one mapping of a block of user memory, which is *exclusive* ([`MappedFolio`]): it
//! is written in place, never shared, and is split before anything else happens to a part of it.

use super::{LeafBits, LockedTable};
use crate::frame::MappedFolio;
use crate::machine::{Entry, Leaf, Machine, Marker};
use crate::units::{Order, PAGE_SIZE, PhysAddr, Rights, Vpn};

impl<M: Machine> LockedTable<'_, M> {
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
        self.put(slot, Entry::Leaf(bits.leaf(pfn, true)));
    }

    /// The leaf in `slot`, if it is larger than a base page and owns its frames.
    pub(crate) fn owned_huge_leaf(&self, slot: usize) -> Option<Leaf> {
        if self.level().leaf_size()?.order() == Order::BASE {
            return None;
        }
        self.owned_leaf(slot)
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
