//! What a pin asks of a locked table.

use super::{LeafBits, LockedTable};
use crate::frame::{FrameMeta, Kind};
use crate::machine::{Entry, Machine};
use crate::units::{Access, Pfn, Rights};

impl<M: Machine> LockedTable<'_, M> {
    /// The frame that `slot` maps, if the page keeps that frame while somebody has a reference to it: user
    /// memory that is *exclusive*, or memory of an object; and if the entry has the rights. `None` for the
    /// zero page, for shared frames, and for frames that the entry does not own.
    ///
    /// It stays so as long as this table is locked.
    pub(crate) fn pinnable(&self, slot: usize, needs: Rights) -> Option<Pfn> {
        let Entry::Leaf(leaf) = self.entry(slot) else { return None };
        let state = self.mapped_meta(slot).map(FrameMeta::state)?;
        let is_kept = match state.kind() {
            Kind::User => state.is_exclusive() || mutant!("pin.shared-frame-pinned"),
            kind => kind == Kind::File,
        };
        (is_kept && leaf.rights.contains(needs)).then_some(leaf.pfn)
    }

    /// The frame that `slot` maps, if the entry allows loads: the zero page, a shared frame or any other of
    /// the library's. `None` for frames that the entry does not own.
    pub(crate) fn readable(&self, slot: usize) -> Option<Pfn> {
        let Entry::Leaf(leaf) = self.entry(slot) else { return None };
        let is_known = leaf.owned || leaf.pfn == self.table.tree.memory.zero_frame();
        (is_known && leaf.rights.contains(Rights::READ)).then_some(leaf.pfn)
    }

    /// Notes in the entry what is done through a pin: the stores of a device set no bit. What is written is
    /// not to be discarded any more.
    pub(crate) fn note_pinned(&mut self, slot: usize, access: Access) {
        let stores = access == Access::Write && !mutant!("pin.dirty-not-set");
        if stores {
            self.set_lazyfree(slot, false);
        }
        self.adjust(slot, |leaf| {
            let bits = LeafBits::of(leaf).used(leaf.dirty || stores);
            (bits != LeafBits::of(leaf)).then_some(bits)
        });
    }
}
