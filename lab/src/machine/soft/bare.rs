//! Memory that no system has: safe code may fill it.

use super::flavour::Flavour;
use super::machine::SoftMachine;
use interleaf::machine::Format;
use interleaf::units::{Order, PAGE_SIZE, Pfn, PfnRange};
use std::fmt;
use std::ptr::NonNull;
use std::sync::MutexGuard;

/// The memory of a machine that was not given to any system. As long as this lives none is: a claim waits for
/// its end.
pub struct BareMemory<'m, C: Flavour, F: Format> {
    machine: &'m SoftMachine<C, F>,
    /// What was given.
    claims: MutexGuard<'m, Vec<PfnRange>>,
}

impl<C: Flavour, F: Format> SoftMachine<C, F> {
    /// The memory that was not given to any system. Waits for the end of another such value.
    pub fn bare_memory(&self) -> BareMemory<'_, C, F> {
        BareMemory { machine: self, claims: self.claims().lock() }
    }
}

impl<C: Flavour, F: Format> BareMemory<'_, C, F> {
    /// Zeroes a block.
    ///
    /// # Panics
    /// Where a part of it is no memory, or was given to a system.
    pub fn zero(&mut self, pfn: Pfn, order: Order) {
        self.fill(PfnRange::new(pfn, pfn.add(order.frames())), 0);
    }

    /// Writes `byte` to every byte of the frames.
    ///
    /// # Panics
    /// As [`zero`](Self::zero).
    pub fn fill(&mut self, frames: PfnRange, byte: u8) {
        let (at, len_bytes) = self.block(frames);
        // SAFETY: the frames lie in the arena, and no system has them, as `block` has checked: no borrow
        // of them is left. As long as `claims` is locked none gets them, and no other thread is here.
        unsafe { at.write_bytes(byte, len_bytes) };
    }

    /// Copies a frame.
    ///
    /// # Panics
    /// As [`zero`](Self::zero), and where the two are one.
    pub fn copy(&mut self, from: Pfn, to: Pfn) {
        assert!(from != to, "a frame copied to itself");
        let frame = |pfn: Pfn| PfnRange::new(pfn, pfn.add(1));
        let ((from, len_bytes), (to, _)) = (self.block(frame(from)), self.block(frame(to)));
        // SAFETY: both lie in the arena, and no system has them, as `block` has checked; they are different
        // frames, so the bytes do not overlap. As long as `claims` is locked no system gets them, and no
        // other thread is here.
        unsafe { to.copy_from_nonoverlapping(from, len_bytes) };
    }

    /// Where the frames lie, and their bytes.
    fn block(&self, frames: PfnRange) -> (NonNull<u8>, usize) {
        assert!(!self.claims.iter().any(|claim| claim.overlaps(frames)), "frames that a system has");
        let arena = self.machine.arena();
        assert!(arena.regions().iter().any(|region| region.covers(frames)), "frames that are no memory");
        let len_bytes = frames.len() as usize * PAGE_SIZE;
        (arena.block(frames.start.addr(), len_bytes), len_bytes)
    }
}

impl<C: Flavour, F: Format> fmt::Debug for BareMemory<'_, C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory of {:?} but for {:?}", self.machine.arena().regions(), *self.claims)
    }
}
