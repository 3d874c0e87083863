//! A block of frames owned as a value.

use super::{Frame, FrameRef};
use crate::frame::record::FrameState;
use crate::frame::{Init, Kind, Memory};
use crate::machine::Machine;
use crate::units::{Order, Pfn, PfnRange};
use core::fmt;
use core::mem::ManuallyDrop;

/// A block of 2^order frames that its holder owns alone. Dropping it frees the block.
pub struct Folio<'m, M: Machine> {
    /// Invariant: the block at `pfn` was allocated from `memory` with this order, its record says so, and
    /// only this value owns it.
    memory: &'m Memory<'m, M>,
    pfn: Pfn,
    order: Order,
}

impl<'m, M: Machine> Folio<'m, M> {
    /// The block, which was just allocated from `memory`.
    pub(in crate::frame) fn new(memory: &'m Memory<'m, M>, pfn: Pfn, order: Order) -> Self {
        Self { memory, pfn, order }
    }

    pub(super) fn memory(&self) -> &'m Memory<'m, M> {
        self.memory
    }

    /// First frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// log2 of the number of frames.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The frames.
    pub fn frames(&self) -> PfnRange {
        PfnRange::new(self.pfn, self.pfn.add(self.order.frames()))
    }

    /// The block as user memory, with one reference.
    pub fn into_user(self) -> FrameRef<'m, M> {
        let folio = ManuallyDrop::new(self);
        folio.memory.meta_of(folio.pfn).put_to_use(Kind::User);
        FrameRef::new(folio.memory, folio.pfn)
    }

    /// Gives up ownership as a value. The block stays allocated until [`from_pfn`](Self::from_pfn) takes it
    /// back.
    pub fn into_pfn(self) -> Pfn {
        ManuallyDrop::new(self).pfn
    }

    /// Takes back the ownership that [`into_pfn`](Self::into_pfn) gave up.
    ///
    /// # Panics
    /// Where no block of this order was allocated there: it was freed, or is of another memory.
    ///
    /// # Safety
    /// `pfn` is what `into_pfn` of a folio of this order and memory returned, and is taken back once.
    pub unsafe fn from_pfn(memory: &'m Memory<'m, M>, pfn: Pfn, order: Order) -> Self {
        memory.assert_taken(pfn, order);
        Self { memory, pfn, order }
    }

    /// Frees the block, which is known to be zero.
    #[cfg(all(test, not(loom)))]
    pub(in crate::frame) fn free_as_zeroed(self) {
        let folio = ManuallyDrop::new(self);
        folio.memory.free_block(folio.pfn, folio.order, Init::Zeroed);
    }
}

impl<M: Machine> Drop for Folio<'_, M> {
    fn drop(&mut self) {
        if self.order == Order::BASE {
            self.memory.free_frame(self.pfn, Init::Dirty);
        } else {
            self.memory.free_block(self.pfn, self.order, Init::Dirty);
        }
    }
}

impl<'m, M: Machine> From<Frame<'m, M>> for Folio<'m, M> {
    fn from(frame: Frame<'m, M>) -> Self {
        let memory = frame.memory();
        Self { memory, pfn: frame.into_pfn(), order: Order::BASE }
    }
}

impl<M: Machine> Memory<'_, M> {
    /// Panics unless the record says that a block of this order was allocated and is put to no use: the check
    /// at the doors through which ownership comes back as a number.
    #[track_caller]
    pub(super) fn assert_taken(&self, pfn: Pfn, order: Order) {
        let state = self.meta(pfn).map(crate::frame::FrameMeta::state);
        assert_eq!(state, Some(FrameState::taken(order)), "{pfn:?} is not there to be taken back");
    }
}

impl<M: Machine> fmt::Debug for Folio<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "folio {:?} of {:?}", self.pfn, self.order)
    }
}
