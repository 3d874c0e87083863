//! Folios owned as values: 2^order frames that their holder owns alone, put to no use yet.
//!
//! ```text
//!   Memory::alloc ─► Folio<S, I> ── into_mapped ──► Mapped<S> ── install ──► a leaf
//!                       │ into_user, into_file ─► FrameRef
//!                       │ into_table (one zeroed frame) ─► TableFrame
//!                       └ dropped: free, as dirty or zeroed memory
//! ```
//!
//! Two parameters say at compile time what needs no field: the size `S`, [`Base`] or an [`Order`], and the
//! contents `I`, [`Dirty`] or [`Zeroed`]. A folio of `Base` is two words, as a frame's value always was.

use super::{FrameRef, Mapped, TableFrame, UserFrame};
use crate::frame::record::FrameState;
use crate::frame::{AnonKey, Init, Kind, Memory};
use crate::machine::Machine;
use crate::units::{Level, NodeId, Order, PageSize, Pfn, PfnRange};
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;

mod sealed {
    pub trait SealedFolio {}
    impl SealedFolio for super::Base {}
    impl SealedFolio for crate::units::Order {}
    impl SealedFolio for super::Dirty {}
    impl SealedFolio for super::Zeroed {}
}

/// The size of a folio.
pub trait FolioSize: Copy + fmt::Debug + sealed::SealedFolio {
    /// Whether every value is one of a base page: known to the compiler.
    const IS_BASE: bool;
    /// log2 of the number of frames.
    fn order(self) -> Order;
    /// The level of the tables by one of whose leaves a folio of this size is mapped; `None`: by several.
    fn level(self) -> Option<Level>;
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base;

impl FolioSize for Base {
    const IS_BASE: bool = true;
    #[inline(always)]
    fn order(self) -> Order {
        Order::BASE
    }
    #[inline(always)]
    fn level(self) -> Option<Level> {
        Some(Level::Pte)
    }
}

impl FolioSize for Order {
    const IS_BASE: bool = false;
    #[inline(always)]
    fn order(self) -> Order {
        self
    }
    fn level(self) -> Option<Level> {
        let sizes = [PageSize::Base, PageSize::Huge, PageSize::Giant];
        sizes.into_iter().find(|size| size.order() == self).map(PageSize::level)
    }
}

/// What is known of a folio's bytes.
pub trait Contents: sealed::SealedFolio {
    /// As a value.
    const INIT: Init;
}

/// Nothing.
#[derive(Debug)]
pub enum Dirty {}

/// All are zero, and no call writes them: the value only gives the folio to a use.
#[derive(Debug)]
pub enum Zeroed {}

impl Contents for Dirty {
    const INIT: Init = Init::Dirty;
}

impl Contents for Zeroed {
    const INIT: Init = Init::Zeroed;
}

/// A folio of 2^order frames that its holder owns alone, put to no use yet. Dropping it frees the folio.
/// (Linux: a folio with one reference, straight from the allocator.)
pub struct Folio<'m, M: Machine, S: FolioSize = Order, I: Contents = Dirty> {
    /// Invariant: the folio at `pfn` was allocated from `memory` with this size, its record says `Taken`, and
    /// only this value owns it; where `I` is [`Zeroed`], it was zero then and was not written since.
    memory: &'m Memory<'m, M>,
    pfn: Pfn,
    size: S,
    _contents: PhantomData<I>,
}

/// One frame.
pub type Frame<'m, M> = Folio<'m, M, Base, Dirty>;
/// One frame, all of whose bytes are zero.
pub type ZeroedFrame<'m, M> = Folio<'m, M, Base, Zeroed>;
/// A folio, all of whose bytes are zero.
pub type ZeroedFolio<'m, M> = Folio<'m, M, Order, Zeroed>;

impl<'m, M: Machine, S: FolioSize, I: Contents> Folio<'m, M, S, I> {
    /// The folio, which was just allocated from `memory` with these contents.
    #[inline(always)]
    pub(in crate::frame) fn new(memory: &'m Memory<'m, M>, pfn: Pfn, size: S) -> Self {
        Self { memory, pfn, size, _contents: PhantomData }
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
        self.size.order()
    }

    /// The frames.
    pub fn frames(&self) -> PfnRange {
        PfnRange::new(self.pfn, self.pfn.add(self.order().frames()))
    }

    /// The node of the frames.
    pub fn node(&self) -> NodeId {
        self.memory.node_of(self.pfn)
    }

    /// Gives the folio up: its parts.
    #[inline(always)]
    pub(super) fn into_parts(self) -> (&'m Memory<'m, M>, Pfn, S) {
        let folio = ManuallyDrop::new(self);
        (folio.memory, folio.pfn, folio.size)
    }

    /// The folio as exclusive user memory, for one entry of a space that is going to map all of it: that of
    /// the pages from the one of `key` on.
    #[inline(always)]
    pub(crate) fn into_mapped_at(self, key: AnonKey) -> Mapped<'m, M, S> {
        let (memory, pfn, size) = self.into_parts();
        Mapped::first(memory, (pfn, size), Some(key))
    }
}

impl<'m, M: Machine, S: FolioSize, I: Contents> Folio<'m, M, S, I> {
    /// The folio as memory of an object, whose bytes are those of the object or zero.
    pub(super) fn put_to_file(self, owner: (u64, u64)) -> FrameRef<'m, M> {
        let (memory, pfn, size) = self.into_parts();
        let meta = memory.meta_of(pfn);
        // Before the kind: a getter that sees the new kind sees the owner too.
        meta.set_owner(owner.0, owner.1);
        if !S::IS_BASE && size.order() != Order::BASE {
            meta.begin_as_objects();
        } else {
            meta.begin_as_objects_frame();
        }
        let is_put = meta.put_to_use(Kind::Object);
        debug_assert!(is_put, "a folio that was allocated has no use yet");
        FrameRef::new(memory, pfn)
    }
}

impl<'m, M: Machine, S: FolioSize> Folio<'m, M, S, Zeroed> {
    /// The folio as exclusive user memory, for one entry that is going to map it, of tables that are no
    /// space's: no reverse map leads there.
    pub fn into_mapped(self) -> Mapped<'m, M, S> {
        let (memory, pfn, size) = self.into_parts();
        Mapped::first(memory, (pfn, size), None)
    }

    /// The folio as memory of an object, with one reference. `owner` are the object and the page in it that
    /// its record names.
    pub fn into_file(self, owner: (u64, u64)) -> FrameRef<'m, M> {
        self.put_to_file(owner)
    }
}

impl<'m, M: Machine> ZeroedFrame<'m, M> {
    /// The frame as an empty table that no walk reaches.
    pub fn into_table(self) -> TableFrame<'m, M> {
        let (memory, pfn, _) = self.into_parts();
        memory.meta_of(pfn).put_to_use(Kind::Table);
        TableFrame::new(memory, pfn)
    }
}

impl<'m, M: Machine, S: FolioSize> Folio<'m, M, S, Dirty> {
    /// The folio as user memory, with one reference.
    pub fn into_user(self) -> FrameRef<'m, M> {
        let (memory, pfn, _) = self.into_parts();
        memory.meta_of(pfn).put_to_use(Kind::User);
        FrameRef::new(memory, pfn)
    }

    /// Copies the bytes of user memory of the same memory and size. Those that are written meanwhile are
    /// copied as they were before or after.
    pub(crate) fn copy_from(&mut self, from: UserFrame<'_, M>) {
        let from = from.pfn_in(self.memory);
        // SAFETY: this value owns the frames copied to, and no borrow of them exists. The others are user
        // memory as long as the call lasts: no code has a Rust object there.
        unsafe { self.memory.machine().copy(from, self.pfn, self.size.order()) };
    }
}

impl<'m, M: Machine, S: FolioSize> Folio<'m, M, S> {
    /// Gives up ownership as a value. The folio stays allocated until [`from_pfn`](Self::from_pfn) takes it
    /// back.
    pub fn into_pfn(self) -> Pfn {
        self.into_parts().1
    }

    /// Takes back the ownership that [`into_pfn`](Self::into_pfn) gave up.
    ///
    /// # Panics
    /// Where no block of this size was allocated there: it was freed, or is of another memory.
    ///
    /// # Safety
    /// `pfn` is what `into_pfn` of a folio of this size and memory returned, and is taken back once.
    pub unsafe fn from_pfn(memory: &'m Memory<'m, M>, pfn: Pfn, size: S) -> Self {
        memory.assert_taken(pfn, size.order());
        Self::new(memory, pfn, size)
    }
}

impl<M: Machine> Folio<'_, M> {
    /// Frees the folio as one whose bytes are all zero, which the caller knows.
    #[cfg(all(test, not(loom)))]
    pub(in crate::frame) fn free_as_zeroed(self) {
        let (memory, pfn, order) = self.into_parts();
        memory.free_block(pfn, order, Init::Zeroed);
    }
}

impl<'m, M: Machine, S: FolioSize> From<Folio<'m, M, S, Zeroed>> for Folio<'m, M, S, Dirty> {
    fn from(folio: Folio<'m, M, S, Zeroed>) -> Self {
        let (memory, pfn, size) = folio.into_parts();
        Self::new(memory, pfn, size)
    }
}

impl<'m, M: Machine, I: Contents> From<Folio<'m, M, Base, I>> for Folio<'m, M, Order, I> {
    fn from(frame: Folio<'m, M, Base, I>) -> Self {
        let (memory, pfn, _) = frame.into_parts();
        Self::new(memory, pfn, Order::BASE)
    }
}

impl<M: Machine, S: FolioSize, I: Contents> Drop for Folio<'_, M, S, I> {
    #[inline]
    fn drop(&mut self) {
        if self.size.order() == Order::BASE {
            self.memory.free_frame(self.pfn, I::INIT);
        } else {
            self.memory.free_block(self.pfn, self.size.order(), I::INIT);
        }
    }
}

impl<M: Machine> Memory<'_, M> {
    /// Panics unless the record says that a folio of this order was allocated and is put to no use: the check
    /// at the doors through which ownership comes back as a number.
    #[track_caller]
    pub(super) fn assert_taken(&self, pfn: Pfn, order: Order) {
        let state = self.meta(pfn).map(crate::frame::FrameMeta::state);
        assert_eq!(state, Some(FrameState::taken(order)), "{pfn:?} is not there to be taken back");
    }
}

impl<M: Machine, S: FolioSize, I: Contents> fmt::Debug for Folio<'_, M, S, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} folio {:?} of {:?}", I::INIT, self.pfn, self.size.order())
    }
}
