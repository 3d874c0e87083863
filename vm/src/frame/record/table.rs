//! All frame records, found by frame number: a subtraction, a comparison, a shift.
//!
//! One array covers the span from the first usable frame to the last, holes included; records of holes stay
//! all-zero, which is [`Kind::Reserved`](crate::frame::Kind::Reserved). 32 bytes for 4 KiB: 0.8 % of memory.
//! A sparse table, by section, would take the array's place behind [`FrameTable::meta`].

use crate::frame::{EarlyAllocator, FrameMeta, Init};
use crate::machine::{Cpu, Machine};
use crate::units::{CACHE_LINE, Order, PAGE_SIZE, Pfn, PfnRange};
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroUsize;
use core::ptr::NonNull;

/// The records of a span of frames.
pub(in crate::frame) struct FrameTable<'m, C: Cpu> {
    records: NonNull<FrameMeta<C>>,
    first: Pfn,
    len: u64,
    _memory: PhantomData<&'m [FrameMeta<C>]>,
}

// SAFETY: records are only shared, and consist of atomics.
unsafe impl<C: Cpu> Sync for FrameTable<'_, C> {}
// SAFETY: moving the handle moves no record.
unsafe impl<C: Cpu> Send for FrameTable<'_, C> {}

impl<'m, C: Cpu> FrameTable<'m, C> {
    const RECORD: usize = {
        assert!(size_of::<FrameMeta<C>>() == 32);
        32
    };

    /// Records for `span`, zeroed. `None` where memory does not suffice.
    pub(in crate::frame) fn carve<M>(from: &mut EarlyAllocator<'_, 'm, M>, span: PfnRange) -> Option<Self>
    where
        M: Machine<Cpu = C>,
    {
        // An even start, so that the frames 2n and 2n + 1 share a line, and a batch that starts even starts a
        // line.
        let span = PfnRange::new(Pfn(span.start.0 & !1), span.end);
        let bytes = usize::try_from(span.len()).ok()?.checked_mul(Self::RECORD)?;
        let (records, init) = from.carve_uninit(Layout::from_size_align(bytes, CACHE_LINE).ok()?)?;
        if init == Init::Dirty {
            // SAFETY: as many bytes were just carved.
            unsafe { records.write_bytes(0, bytes) };
        }
        // Zero is a valid record: atomics that hold 0.
        Some(Self { records: records.cast(), first: span.start, len: span.len(), _memory: PhantomData })
    }

    /// Records for `span` that are not initialised. The records of a block start on a frame of their own.
    ///
    /// # Safety
    /// Unless the memory is zeroed, as the result says, no record is looked up before
    /// [`clear`](FrameTable::clear) or [`clear_blocks`](FrameTable::clear_blocks) has written it.
    pub(in crate::frame) unsafe fn carve_uninit<M>(
        from: &mut EarlyAllocator<'_, 'm, M>,
        span: PfnRange,
    ) -> Option<(Self, Init)>
    where
        M: Machine<Cpu = C>,
    {
        let first = Pfn(span.start.0 & !1);
        let skip = first.0 as usize * Self::RECORD % PAGE_SIZE;
        let len = span.end.0 - first.0;
        let bytes = usize::try_from(len).ok()?.checked_mul(Self::RECORD)?.checked_add(skip)?;
        let (at, init) = from.carve_uninit(Layout::from_size_align(bytes, PAGE_SIZE).ok()?)?;
        // SAFETY: less than what was carved.
        let records = unsafe { at.add(skip) }.cast();
        Some((Self { records, first, len, _memory: PhantomData }, init))
    }

    /// Makes the records of `frames` zero: *reserved*.
    ///
    /// # Safety
    /// The frames are in the span. Their records were not looked up yet, and are not meanwhile.
    pub(in crate::frame) unsafe fn clear(&self, frames: PfnRange) {
        debug_assert!(self.span().covers(frames));
        // SAFETY: within the records carved, as the caller promises.
        let at = unsafe { self.records.add((frames.start.0 - self.first.0) as usize) };
        let bytes = frames.len() as usize * Self::RECORD;
        // SAFETY: as above, and nobody has a reference to them; all bytes zero is a valid record.
        unsafe { at.cast::<u8>().write_bytes(0, bytes) };
        Self::forget(at.addr().get(), bytes);
    }

    /// Makes the records of whole blocks zero, with stores that bypass the CPU's caches.
    ///
    /// # Safety
    /// As [`clear`](FrameTable::clear); the frames are whole blocks of the largest order, and the table was
    /// [carved uninitialised](FrameTable::carve_uninit).
    pub(in crate::frame) unsafe fn clear_blocks<M: Machine<Cpu = C>>(&self, machine: &M, blocks: PfnRange) {
        debug_assert!(self.span().covers(blocks) && blocks.start.is_aligned(Order::MAX));
        // SAFETY: within the records carved, as the caller promises.
        let at = unsafe { self.records.add((blocks.start.0 - self.first.0) as usize) };
        let bytes = blocks.len() as usize * Self::RECORD;
        let first = machine.phys_of(at.cast()).pfn();
        let frames = PfnRange::new(first, first.add((bytes / PAGE_SIZE) as u64));
        // SAFETY: frames of the records carved, to which the caller says that nobody has a reference; all
        // bytes zero is a valid record.
        unsafe { machine.zero_nontemporal(frames) };
        Self::forget(at.addr().get(), bytes);
    }

    /// Tells loom's shadows that the memory was written.
    fn forget(start: usize, bytes: usize) {
        #[cfg(loom)]
        crate::sync::forget(start..start + bytes);
        let _ = (start, bytes);
    }

    /// The record of `pfn`. `None` for a frame outside the span. [`Memory::meta`](crate::frame::Memory::meta)
    /// refuses also frames whose record is not written; all other callers have the number from a zone, a
    /// cache or a value of `owned`, to which a frame comes only after its record was written.
    #[inline(always)]
    pub fn meta(&self, pfn: Pfn) -> Option<&FrameMeta<C>> {
        let index = pfn.0.wrapping_sub(self.first.0);
        // SAFETY: the index is below the number of records carved; any bytes are a valid record, which is
        // atomics; and records are shared for good.
        (index < self.len).then(|| unsafe { self.records.add(index as usize).as_ref() })
    }

    /// The frame whose record holds the byte at `address`.
    pub(in crate::frame) fn pfn_at(&self, address: NonZeroUsize) -> Pfn {
        let offset = address.get() - self.records.addr().get();
        self.first.add((offset / Self::RECORD) as u64)
    }

    /// The frames that have a record.
    pub fn span(&self) -> PfnRange {
        PfnRange::new(self.first, self.first.add(self.len))
    }
}

impl<C: Cpu> fmt::Debug for FrameTable<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameTable of {:?}", self.span())
    }
}
