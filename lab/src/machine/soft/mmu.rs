//! The part of a CPU that only the thread on it touches: its root and its TLB.

use super::tlb::Tlb;
use interleaf::units::Pfn;
use std::cell::{Cell, UnsafeCell};

/// State that only the thread that runs on the CPU touches.
#[repr(align(128))]
pub(super) struct Mmu {
    pub(super) root: Cell<Option<Pfn>>,
    pub(super) tlb: UnsafeCell<Tlb>,
    /// A reference to the TLB is in use: another would not be exclusive.
    pub(super) borrowed: Cell<bool>,
}

// SAFETY: an `Mmu` is reached through `SoftMachine::mmu`, which checks that the thread runs on its CPU, or by
// `inspect`, which checks that no other thread runs there. Entering a CPU is an acquire, leaving it a
// release.
unsafe impl Sync for Mmu {}

impl Mmu {
    /// Without a root, and with nothing cached.
    pub(super) fn new() -> Self {
        Self { root: Cell::new(None), tlb: UnsafeCell::new(Tlb::new()), borrowed: Cell::new(false) }
    }
}

/// The one reference to a TLB is in use.
pub(super) struct Borrow<'m>(&'m Cell<bool>);

impl<'m> Borrow<'m> {
    #[inline(always)]
    pub(super) fn of(borrowed: &'m Cell<bool>) -> Self {
        assert!(!borrowed.replace(true), "a TLB is used inside of it");
        Self(borrowed)
    }
}

impl Drop for Borrow<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.set(false);
    }
}
