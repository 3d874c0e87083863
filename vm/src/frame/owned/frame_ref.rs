//! References to user memory, by count, by mapping and by pin.
//!
//! ```text
//!   Frame ── into_user, into_file ──► FrameRef ── map ──► MappedFrame ──► a leaf entry
//!   number ── Memory::try_get ───────►   │                                   │ unhook
//!                                        └── pin ──► PinnedFrame             ▼
//!                                                                  Unhooked ──► gather: flush, put
//! ```
//!
//! # One joint reference
//!
//! All entries that map a frame hold one reference together, as long as the mapcount is not 0. The caller
//! that raises the mapcount from 0 hands a reference of its own over; that which lowers it to 0 puts one,
//! after the flush. A [`MappedFrame`] says that one entry is counted in the mapcount: the frame stays as long
//! as it is. Only this file, the gather and [`MappedFrame::of_object`], which needs a reference from 0 on only,
//! know how.
//!
//! ```text
//!   CPU 0, its late flush ends      CPU 1, a fault      mapcount   refcount
//!                                   try_get             1          2 -> 3   (an object's, the entries')
//!   remove_mapping: the last                            1 -> 0     3
//!                                   map: the first      0 -> 1     3        keeps its own for them
//!   put                                                 1          3 -> 2
//! ```
//!
//! In the other order CPU 1 finds a mapcount of 1, and puts its own reference; CPU 0 lowers 2 to 1, and puts
//! none. The order of the two read-modify-writes of the mapcount decides.

use super::{Base, MappedFolio, MappedFrame};
use crate::frame::record::FolioLeaves;
use crate::frame::{FrameState, Kind, MAX_PHYS_BITS, Memory};
use crate::machine::Machine;
use crate::units::{Order, PAGE_SHIFT, PAGE_SIZE, Pfn, PhysAddr};
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Range;

/// A counted reference to user memory or memory of an object. Dropping it lowers the refcount; the last
/// reference frees the frame. (Linux: `get_page`, `put_page`.)
pub struct FrameRef<'m, M: Machine> {
    /// Invariant: the frame is user memory of `memory`, and one of its references is this value's.
    memory: &'m Memory<'m, M>,
    pfn: Pfn,
}

/// A reference whose frame is pinned: a fork that comes later does not share it. Dropping it unpins and
/// lowers the refcount. (Linux: `FOLL_PIN`.)
pub struct PinnedFrame<'m, M: Machine> {
    /// Invariant: the frame is one of a folio of user memory of `memory`, of this order; one of the pins of
    /// the folio is this value's.
    memory: &'m Memory<'m, M>,
    frame: PinnedPart,
}

/// A frame of a folio, and the order of the folio above it: one word.
#[derive(Clone, Copy)]
struct PinnedPart(u64);

/// Frame numbers lie below.
const ORDER_SHIFT: u32 = 56;
const _: () = assert!(MAX_PHYS_BITS - PAGE_SHIFT <= ORDER_SHIFT);

impl PinnedPart {
    #[inline(always)]
    const fn new(pfn: Pfn, order: Order) -> Self {
        Self(pfn.0 | (order.0 as u64) << ORDER_SHIFT)
    }

    /// The frame.
    #[inline(always)]
    const fn pfn(self) -> Pfn {
        Pfn(self.0 & ((1 << ORDER_SHIFT) - 1))
    }

    /// The first frame of its folio, which has the counts.
    #[inline(always)]
    const fn head(self) -> Pfn {
        Pfn(self.pfn().0 & (u64::MAX << (self.0 >> ORDER_SHIFT)))
    }
}

/// A frame of user memory, as long as there is a reference or a mapping: its bytes may be copied, and are
/// no Rust object's.
#[derive(Debug)]
pub(crate) struct UserFrame<'a, M: Machine> {
    memory: &'a Memory<'a, M>,
    pfn: Pfn,
}

impl<'a, M: Machine> UserFrame<'a, M> {
    pub(super) fn new(memory: &'a Memory<'a, M>, pfn: Pfn) -> Self {
        Self { memory, pfn }
    }
}

impl<M: Machine> UserFrame<'_, M> {
    /// The number of the frame.
    ///
    /// # Panics
    /// Where it is one of another memory.
    #[track_caller]
    pub(in crate::frame) fn pfn_in(&self, memory: &Memory<'_, M>) -> Pfn {
        assert!(memory.is(self.memory), "a frame of another memory");
        self.pfn
    }
}

impl<'m, M: Machine> FrameRef<'m, M> {
    /// The reference of the caller, which gives it up.
    pub(in crate::frame) fn new(memory: &'m Memory<'m, M>, pfn: Pfn) -> Self {
        Self { memory, pfn }
    }

    /// The number of the frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    pub(super) fn memory(&self) -> &'m Memory<'m, M> {
        self.memory
    }

    /// log2 of the number of frames of the folio that it is the first of: 0 but for a huge page's. Stays as
    /// it is until the folio is split; those of the hugetlb pool are never split.
    pub(crate) fn order(&self) -> Order {
        self.memory.meta_of(self.pfn).state().order()
    }

    /// As [`map`](Self::map), of a folio of an object, which one huge entry is going to map.
    pub(crate) fn map_folio(self) -> Result<MappedFolio<'m, M>, Self> {
        let (memory, pfn, order, meta) = (self.memory, self.pfn, self.order(), self.memory.meta_of(self.pfn));
        if meta.state().kind() != Kind::Object || order == Order::BASE {
            return Err(self);
        }
        match meta.add_folio_leaf() {
            Ok(FolioLeaves::FirstOfFolio) => {
                // This reference is that of all leaves from now on.
                let _joint = self.into_pfn();
            }
            Ok(FolioLeaves::Folio) => drop(self),
            Ok(FolioLeaves::Frames) | Err(_) => return Err(self),
        }
        Ok(MappedFolio::of_counted(memory, pfn, order))
    }

    /// What one entry holds that is going to map the frame. `Err` with the reference where the mapcount would
    /// overflow, or the frame is anonymous user memory with another reference, of entries
    /// included: only fork maps that again.
    pub fn map(self) -> Result<MappedFrame<'m, M>, Self> {
        // With one reference there is no entry, because entries have one; and a caller that takes another one
        // now is refused here until this one, which becomes the entries', is gone.
        let state = self.memory.meta_of(self.pfn).state();
        if state.kind() == Kind::User
            && !state.has_one_reference()
            && !mutant!("frame.exclusive-mapped-twice")
        {
            return Err(self);
        }
        let Some(before) = self.memory.meta_of(self.pfn).add_mapping() else { return Err(self) };
        let mapped = MappedFrame::of_counted(self.memory, self.pfn, Base);
        if before == 0 {
            // The first mapping: this reference is that of all entries from now on.
            let _joint = self.into_pfn();
        }
        // Else there is one already, which stays as long as the new mapping is counted: this one is put.
        Ok(mapped)
    }

    /// Pins the frame. What a page has keeps being this frame only where the reference was taken while it was
    /// *exclusive* or an object's, and the page had it after that (`AddressSpace::pin_pages`). `Err` with the
    /// reference where the pincount would overflow.
    pub fn pin(self) -> Result<PinnedFrame<'m, M>, Self> {
        if !self.memory.meta_of(self.pfn).pin() {
            return Err(self);
        }
        let frame = ManuallyDrop::new(self);
        Ok(PinnedFrame { memory: frame.memory, frame: PinnedPart::new(frame.pfn, Order::BASE) })
    }

    /// As [`pin`](Self::pin), of a frame of the folio of the hugetlb pool whose first frame this is: the one
    /// `part` after it, in terms of the folio.
    ///
    /// # Panics
    /// Where the folio has no such frame.
    pub(crate) fn pin_part(self, part: u64) -> Result<PinnedFrame<'m, M>, Self> {
        let state = self.memory.meta_of(self.pfn).state();
        // With the reference the folio stays as it is: those of the pool are never split.
        assert!(state.is_hugetlb() && part < state.order().frames(), "{state:?} has no part {part}");
        let mut pinned = self.pin()?;
        pinned.frame = PinnedPart::new(pinned.frame.pfn().add(part), state.order());
        Ok(pinned)
    }

    /// Copies bytes of the frame, from `offset` on. Those that are written meanwhile are copied as they were
    /// before or after.
    ///
    /// # Panics
    /// Where they do not lie in the frame.
    pub(crate) fn read(&self, offset: usize, to: &mut [u8]) {
        let from = byte_of(self.pfn, offset, to.len());
        // SAFETY: the bytes lie in the frame, as just checked, which is memory that programs use: the library
        // has no Rust object there.
        unsafe { self.memory.machine().copy_out(from, to) };
    }

    /// Stores zeros in bytes of a frame of an object, as a program that maps it might.
    ///
    /// # Panics
    /// Where it is anonymous memory, or they do not lie in the frame.
    pub(crate) fn zero(&self, bytes: Range<usize>) {
        static ZEROS: [u8; PAGE_SIZE] = [0; PAGE_SIZE];
        self.write(bytes.start, &ZEROS[..bytes.len()]);
    }

    /// Stores bytes in a frame of an object, from `offset` on, as a program that maps it might.
    ///
    /// # Panics
    /// As [`zero`](Self::zero).
    pub(crate) fn write(&self, offset: usize, from: &[u8]) {
        let kind = self.memory.meta_of(self.pfn).state().kind();
        assert_eq!(kind, Kind::Object, "private memory has one writer");
        let to = byte_of(self.pfn, offset, from.len());
        // SAFETY: as in `read`: the bytes lie in the frame, which the reference keeps.
        unsafe { self.memory.machine().copy_in(from, to) };
    }

    /// The frame, to be copied from.
    pub(crate) fn user_frame(&self) -> UserFrame<'_, M> {
        UserFrame { memory: self.memory, pfn: self.pfn }
    }

    /// Asserts that the frame is one of `memory`.
    #[track_caller]
    pub(crate) fn assert_of(&self, memory: &Memory<'_, M>) {
        assert!(memory.is(self.memory), "a frame of another memory");
    }

    /// Gives up the reference as a value: the refcount stays as it is until [`from_pfn`](Self::from_pfn)
    /// takes the reference back.
    pub fn into_pfn(self) -> Pfn {
        ManuallyDrop::new(self).pfn
    }

    /// Takes back the reference that [`into_pfn`](Self::into_pfn) gave up.
    ///
    /// # Panics
    /// Where the frame has no references: it was freed, or is of another memory.
    ///
    /// # Safety
    /// `pfn` is what `into_pfn` of a reference to a frame of this memory returned, and is taken back once.
    pub unsafe fn from_pfn(memory: &'m Memory<'m, M>, pfn: Pfn) -> Self {
        let counted = memory.meta(pfn).is_some_and(|meta| meta.state().kind().is_counted());
        assert!(counted, "{pfn:?} has no reference to be taken back");
        Self { memory, pfn }
    }
}

impl<'m, M: Machine> PinnedFrame<'m, M> {
    /// The number of the frame.
    pub fn pfn(&self) -> Pfn {
        self.frame.pfn()
    }
}

impl<M: Machine> PinnedFrame<'_, M> {
    /// Stores bytes in the frame, from `offset` on, as a device does.
    ///
    /// # Panics
    /// Where they do not lie in the frame.
    pub(crate) fn write(&self, offset: usize, from: &[u8]) {
        let to = byte_of(self.frame.pfn(), offset, from.len());
        // SAFETY: as in `FrameRef::read`: the frame is one of a folio of user memory, which the reference
        // keeps.
        unsafe { self.memory.machine().copy_in(from, to) };
    }
}

/// The first of `len` bytes in a frame.
#[track_caller]
pub(super) fn byte_of(pfn: Pfn, offset: usize, len: usize) -> PhysAddr {
    let is_inside = offset.checked_add(len).is_some_and(|end| end <= PAGE_SIZE);
    assert!(is_inside, "{len} bytes from {offset} do not lie in a frame");
    PhysAddr(pfn.addr().0 + offset as u64)
}

impl<M: Machine> Memory<'_, M> {
    /// Takes a reference to user memory or memory of an object. `None` where the frame is not that (any
    /// more), or its refcount would overflow.
    pub fn try_get(&self, pfn: Pfn) -> Option<FrameRef<'_, M>> {
        self.meta(pfn)?.try_get().then(|| FrameRef::new(self, pfn))
    }

    /// Whether [`try_get`](Self::try_get) is refused because as many references are counted as can be; stale
    /// at once.
    pub(crate) fn has_most_references(&self, pfn: Pfn) -> bool {
        self.meta(pfn).is_some_and(|meta| meta.state().has_most_references())
    }

    /// Pins a frame that was found without a lock: what a page has now keeps being this frame. `None` where
    /// it is no user memory (any more), is not *exclusive* or may be discarded; an object's frame is pinned
    /// as it is, where the entry that was found is `writable`: no private mapping shows it then. `None` also
    /// where a count would overflow.
    ///
    /// The caller looks afterwards whether the page still has the frame, and drops the pin if not.
    pub(crate) fn try_pin(&self, pfn: Pfn, writable: bool) -> Option<PinnedFrame<'_, M>> {
        let is_pinned = self.meta(pfn)?.try_get_to_pin(writable);
        is_pinned.then(|| PinnedFrame { memory: self, frame: PinnedPart::new(pfn, Order::BASE) })
    }

    /// As [`try_pin`](Self::try_pin), of the frame `part` of the folio of the hugetlb pool that begins at
    /// `head`. `None` also where there is no such folio (any more).
    pub(crate) fn try_pin_part(&self, head: Pfn, part: u64, writable: bool) -> Option<PinnedFrame<'_, M>> {
        if !has_part(self.meta(head)?.state(), part) {
            return None;
        }
        self.pin_part_if_hugetlb(head, part, writable)
    }

    /// As [`try_pin_part`](Self::try_pin_part), of a frame that was the head of such a folio a moment ago.
    pub(in crate::frame) fn pin_part_if_hugetlb(
        &self,
        head: Pfn,
        part: u64,
        writable: bool,
    ) -> Option<PinnedFrame<'_, M>> {
        let meta = self.meta(head)?;
        if !meta.try_get_to_pin(writable) {
            return None;
        }
        let mut pinned = PinnedFrame { memory: self, frame: PinnedPart::new(head, Order::BASE) };
        // It may be another block than a moment ago; from now on it is this one.
        let state = meta.state();
        if !has_part(state, part) && !mutant!("pin.part-not-rechecked") {
            return None;
        }
        pinned.frame = PinnedPart::new(head.add(part), state.order());
        Some(pinned)
    }

    /// Whether both are one value.
    #[inline(always)]
    pub(in crate::frame) fn is(&self, other: &Memory<'_, M>) -> bool {
        core::ptr::addr_eq(self, other)
    }
}

/// Whether the frame leads a folio of the hugetlb pool that has a frame of that number.
fn has_part(state: FrameState, part: u64) -> bool {
    state.is_hugetlb() && part < state.order().frames()
}

impl<M: Machine> Drop for FrameRef<'_, M> {
    fn drop(&mut self) {
        self.memory.put(self.pfn);
    }
}

impl<M: Machine> Drop for PinnedFrame<'_, M> {
    fn drop(&mut self) {
        self.memory.put_pin(self.frame.head());
    }
}

impl<M: Machine> fmt::Debug for FrameRef<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reference to {:?}", self.pfn)
    }
}

impl<M: Machine> fmt::Debug for PinnedFrame<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pinned {:?}", self.frame.pfn())
    }
}
