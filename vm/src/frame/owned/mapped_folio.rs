//! A block of user memory that one huge entry maps.
//!
//! ```text
//!   ZeroedFolio ── into_mapped ──► MappedFolio ── install_huge ──► a huge leaf
//!                                      ▲                              │ unhook ──► gather: flush, put
//!                                      └── from_entry ◄── split_leaf ─┘
//!                                      │ split
//!                                      ▼
//!                                  FolioParts ──► a MappedFrame for each frame ──► the leaves of a table
//! ```
//!
//! A block whose frames are to be mapped each by an entry of its own becomes its parts at once
//! (`into_parts_at`).
//!
//! A block of anonymous memory in use has one entry, one reference and the record of its first frame; it is
//! *exclusive*. Whatever would share it, or needs a part of it, splits it before (docs/design/huge-pages.md).
//! A folio of an object is mapped by any number of entries, all of its size, which are counted in the record
//! of its first frame as those of one frame are (`frame_ref`); it is not split.

use super::MappedFrame;
use crate::frame::{Birth, Init, Memory};
use crate::machine::Machine;
use crate::units::{NodeId, Order, Pfn};
use core::fmt;
use core::mem::ManuallyDrop;

/// A block of frames that its holder owns alone, put to no use yet, all of whose bytes are zero. Dropping it
/// frees it as zeroed.
pub struct ZeroedFolio<'m, M: Machine> {
    /// Invariant: the block at `pfn` was allocated from `memory` with this order, its record says so, it
    /// was zero then and was not written since, and only this value owns it.
    memory: &'m Memory<'m, M>,
    pfn: Pfn,
    order: Order,
}

/// What one huge leaf holds of a block: all of it. Only a table's `install_huge` consumes it; dropping it
/// takes the mapping back, which frees the block.
pub struct MappedFolio<'m, M: Machine> {
    /// Invariant: the block at `pfn`, of this order, is user memory of `memory`; one mapping that its record
    /// counts is this value's. Of exclusive memory it is the only one, and so is the reference; else as of
    /// [`MappedFrame`].
    memory: &'m Memory<'m, M>,
    pfn: Pfn,
    order: Order,
}

/// The frames of a block that is being split, or was never mapped as one, each as what one entry of a base
/// page holds. Those that are not taken are freed when this is dropped.
pub(crate) struct FolioParts<'m, M: Machine> {
    /// Invariant: the frames from `next` to `end` belonged to the block, and are this value's; their
    /// records say nothing of them yet, but for the first frame of the block.
    memory: &'m Memory<'m, M>,
    first: Pfn,
    next: Pfn,
    end: Pfn,
    lazyfree: bool,
    /// Where the block was born.
    birth: Option<Birth>,
}

impl<'m, M: Machine> ZeroedFolio<'m, M> {
    /// The block, which was just allocated from `memory` as zeroed.
    pub(in crate::frame) fn new(memory: &'m Memory<'m, M>, pfn: Pfn, order: Order) -> Self {
        Self { memory, pfn, order }
    }

    /// First frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// log2 of the number of frames.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The node of the frames.
    pub fn node(&self) -> NodeId {
        self.memory.node_of(self.pfn)
    }

    /// The block as exclusive user memory, for one entry that is going to map all of it.
    pub fn into_mapped(self) -> MappedFolio<'m, M> {
        self.become_mapped(None)
    }

    /// As [`into_mapped`](Self::into_mapped), for an entry of a space: that of the pages from the one of its
    /// birth on.
    pub(crate) fn into_mapped_at(self, birth: Birth) -> MappedFolio<'m, M> {
        self.become_mapped(Some(birth))
    }

    /// The frames of the block as exclusive user memory, for as many entries of a space that are going to map
    /// one each: those of the pages from the one of the birth on.
    pub(crate) fn into_parts_at(self, birth: Birth) -> FolioParts<'m, M> {
        let folio = ManuallyDrop::new(self);
        let Self { memory, pfn: first, order } = *folio;
        memory.meta_of(first).become_first_part(birth);
        let end = first.add(order.frames());
        FolioParts { memory, first, next: first, end, lazyfree: false, birth: Some(birth) }
    }

    fn become_mapped(self, birth: Option<Birth>) -> MappedFolio<'m, M> {
        let folio = ManuallyDrop::new(self);
        MappedFolio::new(folio.memory, folio.pfn, folio.order, birth)
    }
}

impl<'m, M: Machine> MappedFolio<'m, M> {
    /// A block that the caller owned, and gives up, put to use.
    pub(in crate::frame) fn new(
        memory: &'m Memory<'m, M>,
        pfn: Pfn,
        order: Order,
        birth: Option<Birth>,
    ) -> Self {
        memory.meta_of(pfn).become_mapped_block(birth);
        Self { memory, pfn, order }
    }

    /// The mapping of the caller, of a folio of an object, which it gives up.
    pub(super) fn of_counted(memory: &'m Memory<'m, M>, pfn: Pfn, order: Order) -> Self {
        Self { memory, pfn, order }
    }

    /// log2 of the number of frames.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Hands the mapping to an entry of a table of `memory`, which the block must be of.
    #[track_caller]
    pub(crate) fn into_entry(self, memory: &Memory<'_, M>) -> Pfn {
        assert!(memory.is(self.memory), "a block of another memory");
        ManuallyDrop::new(self).pfn
    }

    /// Takes the mapping back that [`into_entry`](Self::into_entry) handed to an entry.
    ///
    /// # Safety
    /// An entry of a table of `memory` owned the mapping of the block, of this order, and was replaced by the
    /// caller under the table's lock: the mapping is nobody else's.
    pub(crate) unsafe fn from_entry(memory: &'m Memory<'m, M>, pfn: Pfn, order: Order) -> Self {
        Self { memory, pfn, order }
    }

    /// Splits the block into frames, each mapped by one entry. No CPU translates through the huge entry
    /// any more.
    pub(crate) fn split(self) -> FolioParts<'m, M> {
        let folio = ManuallyDrop::new(self);
        let Self { memory, pfn: first, order } = *folio;
        let meta = memory.meta_of(first);
        let lazyfree = meta.split_first() && !mutant!("split.lazyfree-lost");
        let birth = meta.birth();
        FolioParts { memory, first, next: first, end: first.add(order.frames()), lazyfree, birth }
    }
}

impl<M: Machine> FolioParts<'_, M> {
    /// Number of frames that were not taken yet.
    pub fn len(&self) -> u64 {
        self.end.0 - self.next.0
    }
}

impl<'m, M: Machine> Iterator for FolioParts<'m, M> {
    type Item = MappedFrame<'m, M>;

    fn next(&mut self) -> Option<MappedFrame<'m, M>> {
        let pfn = self.next;
        if pfn >= self.end {
            return None;
        }
        self.next = pfn.add(1);
        if pfn != self.first {
            let part = pfn.0 - self.first.0;
            let birth = self.birth.map(|block| Birth { page: block.page.add(part), ..block });
            self.memory.meta_of(pfn).become_part(self.lazyfree, birth);
        }
        Some(MappedFrame::new(self.memory, pfn))
    }
}

impl<M: Machine> Drop for FolioParts<'_, M> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl<M: Machine> Drop for ZeroedFolio<'_, M> {
    fn drop(&mut self) {
        self.memory.free_block(self.pfn, self.order, Init::Zeroed);
    }
}

impl<M: Machine> Drop for MappedFolio<'_, M> {
    fn drop(&mut self) {
        self.memory.put_mapping(self.pfn);
    }
}

impl<M: Machine> fmt::Debug for ZeroedFolio<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zeroed folio {:?} of {:?}", self.pfn, self.order)
    }
}

impl<M: Machine> fmt::Debug for MappedFolio<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mapping of {:?} of {:?}", self.pfn, self.order)
    }
}

impl<M: Machine> fmt::Debug for FolioParts<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frames {:?} to {:?} of a split block", self.next, self.end)
    }
}
