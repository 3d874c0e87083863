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
//! A block in use has the record of its first frame, and one reference for all of its entries. It is
//! *exclusive*, or several spaces have a huge entry of it, which are counted there. Whoever needs a part of
//! it splits it before; what others have stays a huge entry, of frames that are counted one by one
//! (docs/design/huge-pages.md). Folios of the reserved pool, and of objects, are counted so too; the former
//! are never split, the latter by the slot of their object's index (`object_folio`).

use super::MappedFrame;
use crate::frame::record::{BlockLeaves, LeafDropped};
use crate::frame::{Birth, FrameState, Init, Memory, NotMappedAgain};
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

/// What one huge leaf holds of a block: one of its mappings. Only a table's `install_huge` consumes it;
/// dropping it takes the mapping back; the last one frees the block.
pub struct MappedFolio<'m, M: Machine> {
    /// Invariant: the frames from `pfn` on, as many as this order has, are memory of `memory` in use. They
    /// are a block whose record counts this value as one of its leaves; or they were one, and the record of
    /// each counts this value as one of its entries. They stay as long as that is so.
    memory: &'m Memory<'m, M>,
    pfn: Pfn,
    order: Order,
}

/// The frames of a block that is being split, or was never mapped as one, each as what one entry of a base
/// page holds. Those that are not taken are freed when this is dropped.
pub(crate) struct FolioParts<'m, M: Machine> {
    /// Invariant: of each frame from `next` to `end` one mapping is this value's. Where there is `exclusive`,
    /// the frames belonged to an exclusive block, and their records say nothing of them yet, but for the
    /// first frame's.
    memory: &'m Memory<'m, M>,
    first: Pfn,
    next: Pfn,
    end: Pfn,
    exclusive: Option<ExclusiveBlock>,
    /// Whether this split of a leaf has split the block too.
    has_split_block: bool,
}

/// What the parts of an exclusive block have of it.
#[derive(Clone, Copy)]
struct ExclusiveBlock {
    /// The state of its first frame.
    state: FrameState,
    /// Where it was born.
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
        let exclusive = Some(ExclusiveBlock { state: FrameState::USER_FRAME, birth: Some(birth) });
        FolioParts { memory, first, next: first, end, exclusive, has_split_block: false }
    }

    /// Gives up the block, which is put to a use: its first frame, and its order.
    pub(super) fn into_block(self) -> (&'m Memory<'m, M>, Pfn, Order) {
        let folio = ManuallyDrop::new(self);
        (folio.memory, folio.pfn, folio.order)
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

    /// Splits the block into frames, unless it was split, and gives what this value holds of each. No CPU
    /// translates through the huge entry any more that it was of.
    pub(crate) fn split(self) -> FolioParts<'m, M> {
        let folio = ManuallyDrop::new(self);
        let Self { memory, pfn: first, order } = *folio;
        let meta = memory.meta_of(first);
        let (exclusive, has_split_block) = if meta.state().is_exclusive() {
            let state = meta.split_first();
            let state = if mutant!("split.lazyfree-lost") { FrameState::USER_FRAME } else { state };
            (Some(ExclusiveBlock { state, birth: meta.birth() }), true)
        } else {
            (None, memory.split_shared(first, order))
        };
        let end = first.add(order.frames());
        FolioParts { memory, first, next: first, end, exclusive, has_split_block }
    }
}

impl<M: Machine> FolioParts<'_, M> {
    /// Number of frames that were not taken yet.
    pub fn len(&self) -> u64 {
        self.end.0 - self.next.0
    }

    /// Whether the block was split by this, and not before: by another space that mapped it.
    pub(crate) fn has_split_block(&self) -> bool {
        self.has_split_block
    }
}

impl<M: Machine> Memory<'_, M> {
    /// One mapping more of the frames that a huge leaf of this order maps. They are not *exclusive*
    /// afterwards.
    ///
    /// # Errors
    /// The mapcount of the block, or of one of its frames, would overflow; or the block is exclusive and
    /// referenced. Nothing has changed.
    ///
    /// # Safety
    /// A leaf of this order, in a table whose lock the caller holds, owns a mapping of the frames, and stands
    /// until this returns.
    pub(crate) unsafe fn map_folio_again(
        &self,
        pfn: Pfn,
        order: Order,
    ) -> Result<MappedFolio<'_, M>, NotMappedAgain> {
        match self.meta_of(pfn).map_block_again()? {
            BlockLeaves::FirstOfBlock | BlockLeaves::Block => {}
            BlockLeaves::Frames => self.map_each_again(pfn, order)?,
        }
        // Counted, as the invariant says.
        Ok(MappedFolio { memory: self, pfn, order })
    }

    /// Counts an entry more of each frame of a block that was split and that the caller has a leaf of.
    #[cold]
    fn map_each_again(&self, first: Pfn, order: Order) -> Result<(), NotMappedAgain> {
        for part in 0..order.frames() {
            let counted = unmodelled(part, order, || self.meta_of(first.add(part)).add_mapping());
            if counted.is_none() {
                // The caller's leaf keeps them: none of these is the last.
                (0..part).for_each(|part| self.put_mapping(first.add(part)));
                return Err(NotMappedAgain::TooManyMappings);
            }
        }
        Ok(())
    }

    /// Takes the mapping of a huge leaf of this order back, after its flush; the last one puts the reference
    /// of all.
    pub(super) fn put_leaf(&self, pfn: Pfn, order: Order) {
        match self.meta_of(pfn).drop_block_leaf() {
            LeafDropped::Last => self.put(pfn),
            LeafDropped::Others => {}
            LeafDropped::Frames => (0..order.frames()).for_each(|part| {
                let frame = pfn.add(part);
                if unmodelled(part, order, || self.meta_of(frame).remove_mapping()) {
                    self.put(frame);
                }
            }),
        }
    }

    /// Gives each frame of a shared block a record of its own, which counts as many entries as the block has
    /// leaves. `false`, and no change, where that was done. The caller has a leaf of it.
    #[cold]
    fn split_shared(&self, first: Pfn, order: Order) -> bool {
        let meta = self.meta_of(first);
        let Some(leaves) = meta.begin_block_split() else { return false };
        let (birth, block) = (meta.birth(), meta.state());
        let entries = if mutant!("thp.parts-counted-once") { 1 } else { leaves };
        for part in 1..order.frames() {
            let birth = birth.map(|birth| Birth { page: birth.page.add(part), ..birth });
            unmodelled(part, order, || self.meta_of(first.add(part)).become_part(block, entries, birth));
        }
        // Last: until then the first record speaks for all.
        meta.split_first();
        meta.end_block_split(leaves);
        true
    }
}

impl<M: Machine> Memory<'_, M> {
    /// Makes a block of the frames of one that was split, *exclusive*, where a huge leaf alone maps all of
    /// them, and nobody has a reference. The caller holds the lock of the table of that leaf. `false`, and
    /// no change but for *lazyfree*, where that is not so.
    #[cold]
    pub(crate) fn rejoin(&self, first: Pfn, order: Order) -> bool {
        let parts = 1..order.frames();
        let meta = |part| self.meta_of(first.add(part));
        let is_ours = |part| unmodelled(part, order, || meta(part).is_mapped_once());
        if !(0..order.frames()).all(is_ours) {
            return false;
        }
        let block = meta(0).state();
        let nr_rejoined =
            parts.clone().take_while(|&part| unmodelled(part, order, || meta(part).rejoin_part()));
        let end = 1 + nr_rejoined.count() as u64;
        if end == parts.end && meta(0).rejoin_first(order) {
            return true;
        }
        let birth = meta(0).birth();
        for part in 1..end {
            let birth = birth.map(|birth| Birth { page: birth.page.add(part), ..birth });
            unmodelled(part, order, || meta(part).become_part(block, 1, birth));
        }
        false
    }
}

/// Calls `step`, which looks at records that others only refer to, or that nobody else reads. Models look at
/// the first and last parts of a block only: there are too many for a step each.
#[inline(always)]
pub(super) fn unmodelled<R>(part: u64, order: Order, step: impl FnOnce() -> R) -> R {
    #[cfg(loom)]
    if (2..order.frames() - 2).contains(&part) {
        return crate::sync::privately(step);
    }
    let _ = (part, order);
    step()
}

impl<'m, M: Machine> Iterator for FolioParts<'m, M> {
    type Item = MappedFrame<'m, M>;

    fn next(&mut self) -> Option<MappedFrame<'m, M>> {
        let pfn = self.next;
        if pfn >= self.end {
            return None;
        }
        self.next = pfn.add(1);
        if let Some(ExclusiveBlock { state, birth }) = self.exclusive
            && pfn != self.first
        {
            let part = pfn.0 - self.first.0;
            let birth = birth.map(|block| Birth { page: block.page.add(part), ..block });
            self.memory.meta_of(pfn).become_part(state, 1, birth);
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
        self.memory.put_leaf(self.pfn, self.order);
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
