//! All frame records, found by frame number: a subtraction, a comparison, a shift.
//!
//! One array covers the span from the first usable frame to the last, holes included; records of holes stay
//! all-zero, which is [`Kind::Reserved`](crate::frame::Kind::Reserved). 32 bytes for 4 KiB: 0.8 % of memory.
//! Behind the array's addresses lies memory of the nodes of the frames, where the platform has a record
//! window (`boot/records`); a lookup does not see which.

use super::{RECORD_BYTES, RecordExtent};
use crate::frame::FrameMeta;
use crate::machine::{Cpu, Machine};
use crate::units::{Order, PAGE_SIZE, Pfn, PfnRange};
use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroUsize;
use core::ptr::NonNull;

/// The records of a span of frames.
pub(in crate::frame) struct FrameTable<'m, C: Cpu> {
    records: NonNull<FrameMeta<C>>,
    first: Pfn,
    len: u64,
    /// Which of them have memory, and where; ascending.
    pub(super) extents: &'m [RecordExtent],
    _memory: PhantomData<&'m [FrameMeta<C>]>,
}

// SAFETY: records are only shared, and consist of atomics.
unsafe impl<C: Cpu> Sync for FrameTable<'_, C> {}
// SAFETY: moving the handle moves no record.
unsafe impl<C: Cpu> Send for FrameTable<'_, C> {}

impl<'m, C: Cpu> FrameTable<'m, C> {
    const RECORD: usize = {
        assert!(size_of::<FrameMeta<C>>() as u64 == RECORD_BYTES);
        size_of::<FrameMeta<C>>()
    };

    /// The first frame that a table for `span` has a record of: an even one, so that the frames 2n and 2n + 1
    /// share a line, and a batch that starts even starts a line.
    pub(in crate::frame) fn first_of(span: PfnRange) -> Pfn {
        Pfn(span.start.0 & !1)
    }

    /// The records of `span`, from [`first_of`](FrameTable::first_of) it on, at `records`.
    ///
    /// # Safety
    /// 1. The records lie there as long as `'m` lasts, and are the table's alone. `extents` says which have
    ///    memory: aligned, readable and writable. The others can be read, and are zero.
    /// 2. Unless the memory is zeroed, no record is looked up before [`clear`](FrameTable::clear) or
    ///    [`clear_blocks`](FrameTable::clear_blocks) has written it.
    pub(in crate::frame) unsafe fn new(
        records: NonNull<FrameMeta<C>>,
        span: PfnRange,
        extents: &'m [RecordExtent],
    ) -> Self {
        let first = Self::first_of(span);
        let is_ordered = extents.is_sorted_by(|a, b| a.frames.end <= b.frames.start);
        debug_assert!(is_ordered && records.is_aligned(), "{extents:?} at {records:?}");
        Self { records, first, len: span.end.0 - first.0, extents, _memory: PhantomData }
    }

    /// Makes the records of `frames` zero: *reserved*. Those that have no memory are zero.
    ///
    /// # Safety
    /// The frames are in the span. Their records were not looked up yet, and are not meanwhile.
    pub(in crate::frame) unsafe fn clear(&self, frames: PfnRange) {
        debug_assert!(self.span().covers(frames));
        for part in self.parts(frames) {
            let (at, bytes) = self.place_of(part);
            // SAFETY: records that have memory (`new`, 1), and there is no reference to them, as the caller
            // promises; all bytes zero is a valid record.
            unsafe { at.write_bytes(0, bytes) };
            Self::forget(at.addr().get(), bytes);
        }
    }

    /// Makes the records of whole blocks zero, with stores that bypass the CPU's caches.
    ///
    /// # Safety
    /// As [`clear`](FrameTable::clear); the frames are whole blocks of the largest order, whose records have
    /// memory, and the records of a block start on a page of their own.
    pub(in crate::frame) unsafe fn clear_blocks<M: Machine<Cpu = C>>(&self, machine: &M, blocks: PfnRange) {
        debug_assert!(self.span().covers(blocks) && blocks.start.is_aligned(Order::MAX));
        debug_assert_eq!(self.parts(blocks).map(PfnRange::len).sum::<u64>(), blocks.len());
        let (at, bytes) = self.place_of(blocks);
        debug_assert!(at.addr().get().is_multiple_of(PAGE_SIZE));
        // SAFETY: whole pages of records, to which there is no reference, says the caller; all bytes
        // zero is a valid record.
        unsafe { machine.zero_nontemporal(at, bytes) };
        Self::forget(at.addr().get(), bytes);
    }

    /// Where the records of `frames`, which the span covers, lie, and their bytes.
    fn place_of(&self, frames: PfnRange) -> (NonNull<u8>, usize) {
        assert!(self.span().covers(frames), "records beyond the table");
        // SAFETY: within the records of the table, as just checked (`new`, 1).
        let at = unsafe { self.records.add((frames.start.0 - self.first.0) as usize) };
        (at.cast(), frames.len() as usize * Self::RECORD)
    }

    /// Tells loom's shadows that the memory was written.
    fn forget(start: usize, bytes: usize) {
        #[cfg(loom)]
        crate::sync::forget(start..start + bytes);
        let _ = (start, bytes);
    }

    /// The record of `pfn`. `None` for a frame outside the span. [`Memory::meta`](crate::frame::Memory::meta)
    /// refuses also frames whose record is not written; all other callers have the number from a zone, a
    /// cache or a value of `owned`, to which a frame comes only after its record was written, or read nothing
    /// of it (`Memory::prefetch`).
    #[inline(always)]
    pub fn meta(&self, pfn: Pfn) -> Option<&FrameMeta<C>> {
        let index = pfn.0.wrapping_sub(self.first.0);
        // SAFETY: the index is below the number of records (`new`, 1); any bytes are a valid record, which is
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
