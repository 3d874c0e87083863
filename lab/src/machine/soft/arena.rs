//! The memory of a software machine: real host memory that bears physical addresses.
//!
//! One reservation spans from the first frame of the first region to the last frame of the last; holes
//! between regions are not readable, so that an access to one is stopped by the host. The window is
//! that reservation: physical address plus a constant. Frames behind a record window are moved out of it.

use super::record_window::RecordWindows;
use crate::os::memory::Reservation;
use interleaf::units::{PAGE_SHIFT, PAGE_SIZE, Pfn, PfnRange, PhysAddr};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

/// What memory holds before the library gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// [`DIRTY_BYTE`] in every byte: present, and wrong wherever code forgot to write.
    Dirty,
    /// Zeroes that the host brings in at the first touch.
    Untouched,
    /// The same by base pages: for memory of which little is touched.
    Sparse,
    /// Zeroes, brought in before the arena is handed out.
    Present,
}

/// The byte that [`Fill::Dirty`] memory holds.
pub const DIRTY_BYTE: u8 = 0xA5;

/// Real memory at physical addresses. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct Arena {
    memory: Reservation,
    first: PhysAddr,
    regions: Arc<[PfnRange]>,
    record_windows: Arc<RecordWindows>,
}

impl Arena {
    /// Memory for `regions`, which are not empty, ascend and do not overlap.
    ///
    /// # Errors
    /// What the host says, or that the regions are not as they should be.
    pub fn new(regions: &[PfnRange], fill: Fill) -> io::Result<Self> {
        let ordered = regions.is_sorted_by(|a, b| a.end <= b.start) && regions.iter().all(|r| !r.is_empty());
        let (Some(first), Some(last), true) = (regions.first(), regions.last(), ordered) else {
            return Err(io::Error::other("regions must be non-empty, ascending and disjoint"));
        };
        let frames = usize::try_from(last.end.0 - first.start.0).map_err(io::Error::other)?;
        let memory = Reservation::new(frames << PAGE_SHIFT)?;
        let arena = Self {
            memory,
            first: first.start.addr(),
            regions: regions.into(),
            record_windows: Arc::default(),
        };
        arena.regions.iter().try_for_each(|&region| arena.prepare(region, fill))?;
        Ok(arena)
    }

    /// One region of `frames` frames from physical address `first`.
    ///
    /// # Errors
    /// As [`Arena::new`].
    pub fn flat(first: Pfn, frames: u64, fill: Fill) -> io::Result<Self> {
        Self::new(&[PfnRange::new(first, first.add(frames))], fill)
    }

    /// The regions, ascending.
    pub fn regions(&self) -> &[PfnRange] {
        &self.regions
    }

    /// Where the byte at physical address `at` lies.
    ///
    /// # Panics
    /// Where the address lies outside of the arena.
    #[inline]
    pub fn window(&self, at: PhysAddr) -> NonNull<u8> {
        let offset = at.0.wrapping_sub(self.first.0) as usize;
        assert!(offset < self.memory.len_bytes(), "no memory at a physical address");
        // SAFETY: the offset lies within the reservation.
        unsafe { self.memory.start().add(offset) }
    }

    /// Where a block of `len_bytes` bytes from `at` lies.
    ///
    /// # Panics
    /// Where a part of it lies outside of the arena.
    #[inline]
    pub fn block(&self, at: PhysAddr, len_bytes: usize) -> NonNull<u8> {
        let offset = at.0.wrapping_sub(self.first.0) as usize;
        let end = offset.checked_add(len_bytes);
        assert!(end.is_some_and(|end| end <= self.memory.len_bytes()), "block outside of memory");
        // SAFETY: the offset lies within the reservation, or is its end for an empty block.
        unsafe { self.memory.start().add(offset) }
    }

    /// The physical address of a byte of the window.
    ///
    /// # Panics
    /// Where the pointer lies outside of the arena.
    #[inline]
    pub fn phys_of(&self, at: NonNull<u8>) -> PhysAddr {
        let offset = at.addr().get().wrapping_sub(self.memory.start().addr().get());
        assert!(offset < self.memory.len_bytes(), "not an address of the window");
        PhysAddr(self.first.0 + offset as u64)
    }

    /// Reserves a record window. `None` where the host refuses.
    pub(super) fn reserve_record_window(&self, len_bytes: usize) -> Option<NonNull<u8>> {
        self.record_windows.reserve(len_bytes).ok()
    }

    /// Moves frames behind a record window, from `at` on. False where the host refuses.
    ///
    /// # Panics
    /// Where `at` is no page of a window, or the frames are no memory.
    ///
    /// # Safety
    /// Nothing borrows from the frames, or from that part of the window, or uses them meanwhile.
    pub(super) unsafe fn map_record_window(&self, at: NonNull<u8>, frames: PfnRange) -> bool {
        assert!(self.regions.iter().any(|region| region.covers(frames)), "{frames:?} is no memory");
        // SAFETY: the caller's promise is the same; regions are open.
        unsafe { self.record_windows.map(at, frames, &self.memory, self.offset_of(frames)) }
    }

    /// The frame behind an address of a record window.
    pub fn frame_behind(&self, at: NonNull<u8>) -> Option<Pfn> {
        self.record_windows.frame_behind(at)
    }

    /// Moves all frames behind record windows back to their place, and gives the windows up.
    ///
    /// # Safety
    /// Nothing borrows from the windows, or uses them any more.
    pub(super) unsafe fn dissolve_record_windows(&self) {
        let back = |window: &Reservation, offset: usize, frames: PfnRange| {
            let part = offset..offset + frames.len() as usize * PAGE_SIZE;
            // SAFETY: the caller's promise; the frames were moved away, and are not in use.
            let moved = unsafe { self.memory.move_here(self.offset_of(frames), window, part) };
            moved.expect("what was moved can be moved back");
        };
        self.record_windows.dissolve(back);
    }

    /// Bytes from the start of the reservation to the first of the frames.
    fn offset_of(&self, frames: PfnRange) -> usize {
        (frames.start.addr().0 - self.first.0) as usize
    }

    fn prepare(&self, region: PfnRange, fill: Fill) -> io::Result<()> {
        let start = (region.start.addr().0 - self.first.0) as usize;
        let len_bytes = region.len() as usize * PAGE_SIZE;
        self.memory.open(start..start + len_bytes)?;
        match fill {
            Fill::Untouched => Ok(()),
            Fill::Sparse => self.memory.keep_to_base_pages(start..start + len_bytes),
            Fill::Present => self.memory.populate(start..start + len_bytes),
            Fill::Dirty => {
                // SAFETY: the part was opened just now and no other code has a reference to the arena yet.
                unsafe { self.memory.start().add(start).write_bytes(DIRTY_BYTE, len_bytes) };
                Ok(())
            }
        }
    }
}

#[cfg(test)]
#[path = "tests/arena.rs"]
mod tests;
