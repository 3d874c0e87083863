//! A frame owned as a value.

use super::{FrameRef, MappedFrame, TableFrame, UserFrame};
use crate::frame::{Birth, Init, Kind, Memory};
use crate::machine::Machine;
use crate::units::{NodeId, Order, Pfn};
use core::fmt;
use core::mem::ManuallyDrop;

/// A frame that its holder owns alone, put to no use yet. Dropping it frees the frame. (Linux: a page with
/// one reference, straight from the allocator.)
pub struct Frame<'m, M: Machine> {
    /// Invariant: the frame was allocated from `memory`, its record says `Taken`, and only this value owns
    /// it.
    memory: &'m Memory<'m, M>,
    pfn: Pfn,
}

/// As [`Frame`], and all its bytes are zero: it can only be put to a use, or be dropped, which frees it as
/// zeroed.
pub struct ZeroedFrame<'m, M: Machine> {
    /// Invariant: as of [`Frame`]; and the frame was zero when it was allocated and not written since.
    memory: &'m Memory<'m, M>,
    pfn: Pfn,
}

impl<'m, M: Machine> Frame<'m, M> {
    /// The frame, which was just allocated from `memory`.
    #[inline(always)]
    pub(in crate::frame) fn new(memory: &'m Memory<'m, M>, pfn: Pfn) -> Self {
        Self { memory, pfn }
    }

    pub(super) fn memory(&self) -> &'m Memory<'m, M> {
        self.memory
    }

    /// The number of the frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Copies the bytes of a frame of user memory, of the same memory. Those that are written meanwhile are
    /// copied as they were before or after.
    pub(crate) fn copy_from(&mut self, from: UserFrame<'_, M>) {
        let from = from.pfn_in(self.memory);
        // SAFETY: this value owns the frame copied to, which nobody borrows from. The other one is user
        // memory as long as the call lasts: no code has a Rust object there.
        unsafe { self.memory.machine().copy(from, self.pfn, Order::BASE) };
    }

    /// The frame as exclusive user memory, for one entry that is going to map it: that of the page of its
    /// birth.
    pub(crate) fn into_mapped_at(self, birth: Birth) -> MappedFrame<'m, M> {
        let frame = ManuallyDrop::new(self);
        frame.memory.meta_of(frame.pfn).become_mapped_user(Some(birth));
        MappedFrame::new(frame.memory, frame.pfn)
    }

    /// The frame as user memory, with one reference.
    pub fn into_user(self) -> FrameRef<'m, M> {
        let frame = ManuallyDrop::new(self);
        frame.memory.meta_of(frame.pfn).put_to_use(Kind::User);
        FrameRef::new(frame.memory, frame.pfn)
    }

    /// Gives up ownership as a value. The frame stays allocated until [`from_pfn`](Self::from_pfn) takes it
    /// back.
    pub fn into_pfn(self) -> Pfn {
        ManuallyDrop::new(self).pfn
    }

    /// Takes back the ownership that [`into_pfn`](Self::into_pfn) gave up.
    ///
    /// # Panics
    /// Where the frame is not allocated as a single frame: it was freed, or is of another memory.
    ///
    /// # Safety
    /// `pfn` is what `into_pfn` of a frame of this memory returned, and is taken back once.
    pub unsafe fn from_pfn(memory: &'m Memory<'m, M>, pfn: Pfn) -> Self {
        memory.assert_taken(pfn, Order::BASE);
        Self { memory, pfn }
    }
}

impl<'m, M: Machine> ZeroedFrame<'m, M> {
    /// The frame, which was just allocated from `memory` as zeroed.
    #[inline(always)]
    pub(in crate::frame) fn new(memory: &'m Memory<'m, M>, pfn: Pfn) -> Self {
        Self { memory, pfn }
    }

    /// The number of the frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// The node of the frame.
    pub fn node(&self) -> NodeId {
        self.memory.node_of(self.pfn)
    }

    /// The frame as exclusive user memory, for one entry that is going to map it, of tables that are no
    /// space's: no reverse map leads there.
    pub fn into_mapped(self) -> MappedFrame<'m, M> {
        let frame = ManuallyDrop::new(self);
        frame.memory.meta_of(frame.pfn).become_mapped_user(None);
        MappedFrame::new(frame.memory, frame.pfn)
    }

    /// The frame as exclusive user memory, for one entry that is going to map it: that of the page of its
    /// birth.
    #[inline(always)]
    pub(crate) fn into_mapped_at(self, birth: Birth) -> MappedFrame<'m, M> {
        let frame = ManuallyDrop::new(self);
        frame.memory.meta_of(frame.pfn).become_mapped_user(Some(birth));
        MappedFrame::new(frame.memory, frame.pfn)
    }

    /// The frame as memory of a file, with one reference. `owner` are the object and the offset in it that
    /// its record names.
    pub fn into_file(self, owner: (u64, u64)) -> FrameRef<'m, M> {
        let frame = ManuallyDrop::new(self);
        let meta = frame.memory.meta_of(frame.pfn);
        // Before the kind: a getter that sees the new kind sees the owner too.
        meta.set_owner(owner.0, owner.1);
        meta.put_to_use(Kind::File);
        FrameRef::new(frame.memory, frame.pfn)
    }

    /// The frame as an empty table that no walk reaches.
    pub fn into_table(self) -> TableFrame<'m, M> {
        let frame = ManuallyDrop::new(self);
        frame.memory.meta_of(frame.pfn).put_to_use(Kind::Table);
        TableFrame::new(frame.memory, frame.pfn)
    }
}

impl<'m, M: Machine> From<ZeroedFrame<'m, M>> for Frame<'m, M> {
    fn from(frame: ZeroedFrame<'m, M>) -> Self {
        let frame = ManuallyDrop::new(frame);
        Self { memory: frame.memory, pfn: frame.pfn }
    }
}

impl<M: Machine> Drop for Frame<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.memory.free_frame(self.pfn, Init::Dirty);
    }
}

impl<M: Machine> Drop for ZeroedFrame<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.memory.free_frame(self.pfn, Init::Zeroed);
    }
}

impl<M: Machine> fmt::Debug for Frame<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {:?}", self.pfn)
    }
}

impl<M: Machine> fmt::Debug for ZeroedFrame<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zeroed frame {:?}", self.pfn)
    }
}
