//! How far a fork of the space has come, for faults.
//!
//! | bits | meaning |
//! |---|---|
//! | 0 | faults allocate late: the space was forked, or is a fork, so its writes may have to copy frames; |
//! | | or they may want blocks of several frames |
//! | 1..64 | the first page that the fork under way has not swept; 0: none is under way |
//! | | 1 also while a collapse is under way: no page is behind it, and discards wait |
//!
//! The cursor is stored under the lock of each table that the fork sweeps, and read under the lock of the
//! table that a fault installs into, so relaxed: a fault that takes the lock of a table after the fork has
//! swept it sees a cursor beyond its page.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::Vpn;
use crate::vma::HugeSizes;
use core::fmt;

const LATE: u64 = 1;
const CURSOR_SHIFT: u32 = 1;

/// The word.
pub(super) struct ForkCursor<C: Cpu>(AtomicU64<C>);

/// A fork that is under way, until this is dropped.
#[must_use = "the fork has ended once this is dropped"]
pub(super) struct ForkUnderWay<'a, C: Cpu>(&'a ForkCursor<C>);

/// Discards wait until this is dropped: an operation beside which no contents may be dropped is under way.
#[must_use = "discards go on once this is dropped"]
pub(super) struct DiscardsHeld<'a, C: Cpu> {
    cursor: &'a ForkCursor<C>,
    before: u64,
}

impl<C: Cpu> ForkCursor<C> {
    /// Of a space that was never forked, whose faults may want blocks of these sizes.
    pub fn new(sizes: HugeSizes) -> Self {
        Self(AtomicU64::new(if sizes.is_never() { 0 } else { LATE }))
    }

    /// Notes that the space is a fork.
    pub fn note_fork(&self) {
        self.0.store(LATE, Relaxed);
    }

    /// Whether a write fault is to find out first what it needs, and to allocate that then: writes to the
    /// space may have to copy frames, or may want blocks. A hint.
    #[inline(always)]
    pub fn allocates_late(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// Whether a fork has swept the page, and has not ended. Asked under the lock of the page's table.
    #[inline(always)]
    pub fn is_behind(&self, page: Vpn) -> bool {
        page.0 < self.0.load(Relaxed) >> CURSOR_SHIFT && !mutant!("fault.fork-cursor-ignored")
    }

    /// Whether a fork is under way, or discards are held back. Asked under the space's lock.
    pub fn is_under_way(&self) -> bool {
        self.0.load(Relaxed) >> CURSOR_SHIFT != 0
    }

    /// Holds discards back: calls that lock the space to read and drop contents wait as for a fork. No fault
    /// does. The caller is alone in the space, and keeps other writers out until the result is dropped.
    pub fn hold_discards(&self) -> DiscardsHeld<'_, C> {
        let before = self.0.load(Relaxed);
        debug_assert!(!self.is_under_way(), "a fork is under way");
        if !mutant!("collapse.discards-not-held") {
            self.0.store(before | 1 << CURSOR_SHIFT, Relaxed);
        }
        DiscardsHeld { cursor: self, before }
    }

    /// Begins a fork. The caller is alone in the space.
    pub fn begin(&self) -> ForkUnderWay<'_, C> {
        let fork = ForkUnderWay(self);
        // No page below the first is mapped, or it is swept at once.
        fork.advance(Vpn(1));
        fork
    }
}

impl<C: Cpu> ForkUnderWay<'_, C> {
    /// Notes that all pages below `page` were swept. Called under the lock of the table that decides about
    /// the last of them.
    pub fn advance(&self, page: Vpn) {
        self.0.0.store(page.0 << CURSOR_SHIFT | LATE, Relaxed);
    }
}

impl<C: Cpu> Drop for ForkUnderWay<'_, C> {
    fn drop(&mut self) {
        self.0.0.store(LATE, Relaxed);
    }
}

impl<C: Cpu> Drop for DiscardsHeld<'_, C> {
    fn drop(&mut self) {
        self.cursor.0.store(self.before, Relaxed);
    }
}

impl<C: Cpu> fmt::Debug for ForkCursor<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.0.load(Relaxed);
        write!(f, "fork cursor at {:?}, late {}", Vpn(word >> CURSOR_SHIFT), word & LATE)
    }
}
