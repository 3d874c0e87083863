//! The machine's memory, by frame.

use super::SoftMachine;
use super::device;
use super::flavour::Flavour;
use interleaf::machine::{AccessKind, Format, TablePage};
use interleaf::units::{PAGE_SIZE, Pfn, PhysAddr};
use std::ptr::NonNull;

impl<C: Flavour, F: Format> SoftMachine<C, F> {
    /// The block in the window, after the access was reported to the observer.
    #[track_caller]
    pub(super) fn block(&self, at: PhysAddr, len_bytes: usize, kind: AccessKind) -> NonNull<u8> {
        let block = self.arena().block(at, len_bytes);
        if C::OBSERVED {
            C::access(block.addr().get(), len_bytes, kind);
        }
        block
    }

    /// Reads bytes of one frame, `offset + to.len() <= 4096`. Bytes that programs write meanwhile are read as
    /// they were before or after.
    ///
    /// # Panics
    /// If there is no memory, or the bytes leave the frame.
    pub fn read(&self, pfn: Pfn, offset: usize, to: &mut [u8]) {
        assert!(offset <= PAGE_SIZE && to.len() <= PAGE_SIZE - offset, "a read leaves its frame");
        let at = PhysAddr(pfn.addr().0 + offset as u64);
        assert!(self.arena().regions().iter().any(|region| region.contains(pfn)), "no memory at {pfn:?}");
        let from = self.block(at, to.len(), AccessKind::Read);
        // SAFETY: the bytes lie in one frame of a region, which the host has mapped; `to` is borrowed
        // exclusively.
        unsafe { device::copy_out(from, to) };
    }

    /// Writes bytes of one frame, `offset + from.len() <= 4096`.
    ///
    /// # Safety
    /// As for [`Machine::zero`](interleaf::machine::Machine::zero), of the bytes written.
    pub unsafe fn write(&self, pfn: Pfn, offset: usize, from: &[u8]) {
        assert!(offset <= PAGE_SIZE && from.len() <= PAGE_SIZE - offset, "a write leaves its frame");
        let at = PhysAddr(pfn.addr().0 + offset as u64);
        let to = self.block(at, from.len(), AccessKind::Write);
        // SAFETY: the bytes lie in the arena, and are the caller's.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(from).cast(), from.len()) };
    }

    /// The frame `pfn`, seen as a table.
    ///
    /// # Panics
    /// Where the frame lies outside of memory.
    #[inline]
    pub(super) fn table_page(&self, pfn: Pfn) -> &TablePage {
        // SAFETY: the block lies in the arena for the machine's life, as `block` has checked; the page is
        // cells, which give no access by themselves.
        unsafe { self.arena().block(pfn.addr(), PAGE_SIZE).cast::<TablePage>().as_ref() }
    }
}
