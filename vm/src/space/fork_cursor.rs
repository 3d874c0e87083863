//! How far a fork of the space has come, for faults; and whether one has taken a page from a collapse.
//!
//! | bits | meaning |
//! |---|---|
//! | 0 | faults allocate late: the space was forked, or is a fork, so its writes may have to copy frames; |
//! | | or they may want folios of several frames |
//! | 1..64 | the first page that the fork under way has not swept; 0: none is under way |
//! | | all ones: a collapse is under way: discards wait, and faults say which pages they take |
//!
//! The cursor is stored under the lock of each table that the fork sweeps, and read under the lock of the
//! table that a fault installs into, so relaxed: a fault that takes the lock of a table after the fork has
//! swept it sees a cursor beyond its page.
//!
//! # Pages that are taken from a collapse
//!
//! A second word holds the first page of the region that is being collapsed, and in bit 0 whether a fault has
//! since given a page of it a frame of its own, or is about to. A fault sets the bit under the lock of the
//! region's table of leaves, where it asks about the cursor. The collapse clears it before it looks at the
//! leaves, each under that lock, and reads it under the lock when it has copied them: while it is clear, no
//! leaf has changed that was looked at. A fault that is not of the region costs the same as beside no
//! collapse, and one compare more.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::{Order, Vpn, VpnRange};
use crate::vma::{MthpPolicies, pages_of};
use core::cell::Cell;
use core::fmt;

const LATE: u64 = 1;
const CURSOR_SHIFT: u32 = 1;

/// Of the cursor: a collapse is under way. Every page is before this one.
const COLLAPSE: u64 = u64::MAX >> CURSOR_SHIFT;
/// Of the collapse's region: a page was taken.
const TAKEN: u64 = 1;

/// The words.
pub(super) struct ForkCursor<C: Cpu> {
    cursor: AtomicU64<C>,
    /// The first page of the region that is being collapsed, and [`TAKEN`].
    collapse: AtomicU64<C>,
}

/// A fork that is under way, until this is dropped.
#[must_use = "the fork has ended once this is dropped"]
pub(super) struct ForkUnderWay<'a, C: Cpu> {
    cursor: &'a ForkCursor<C>,
    /// Whether a mapping was frozen, which is to be thawed before the end.
    has_frozen: Cell<bool>,
}

/// A collapse that is under way, until this is dropped. Calls that lock the space to read and drop contents
/// wait for it as for a fork.
#[must_use = "discards go on once this is dropped"]
pub(super) struct CollapseUnderWay<'a, C: Cpu> {
    cursor: &'a ForkCursor<C>,
    /// The cursor's word before.
    before: u64,
    /// The first page of the region.
    region: u64,
}

impl<C: Cpu> ForkCursor<C> {
    /// Of a space that was never forked, whose faults may want folios of these sizes.
    pub fn new(sizes: MthpPolicies) -> Self {
        let cursor = AtomicU64::new(if sizes.is_never() { 0 } else { LATE });
        Self { cursor, collapse: AtomicU64::new(0) }
    }

    /// Notes that the space is a fork.
    pub fn note_fork(&self) {
        self.cursor.store(LATE, Relaxed);
    }

    /// Whether a write fault is to find out first what it needs, and to allocate that then: writes to the
    /// space may have to copy frames, or may want folios. A hint.
    #[inline(always)]
    pub fn allocates_late(&self) -> bool {
        self.cursor.load(Relaxed) != 0
    }

    /// Whether a fork has swept the page, and has not ended: then no fault may give it a frame. A collapse
    /// that is under way learns that the page is taken. Asked under the lock of the page's table.
    #[inline(always)]
    pub fn is_behind(&self, page: Vpn) -> bool {
        page.0 < self.cursor.load(Relaxed) >> CURSOR_SHIFT
            && !mutant!("fault.fork-cursor-ignored")
            && self.is_behind_fork(page)
    }

    #[cold]
    #[inline(never)]
    fn is_behind_fork(&self, page: Vpn) -> bool {
        if self.cursor.load(Relaxed) >> CURSOR_SHIFT != COLLAPSE {
            return true;
        }
        let region = pages_of(Order::HUGE, page).start.0;
        if !mutant!("collapse.taken-not-noted") {
            // An exchange: the collapse may have ended, and another one begun of another region.
            let _or_noted = self.collapse.compare_exchange(region, region | TAKEN, Relaxed, Relaxed);
        }
        false
    }

    /// Whether a fork or a collapse is under way. Asked under the space's lock.
    pub fn is_under_way(&self) -> bool {
        self.cursor.load(Relaxed) >> CURSOR_SHIFT != 0
    }

    /// Begins a collapse of a region. No fault waits for it. The caller is alone in the space, and keeps
    /// other writers out until the result is dropped.
    pub fn begin_collapse(&self, region: VpnRange) -> CollapseUnderWay<'_, C> {
        let before = self.cursor.load(Relaxed);
        debug_assert!(!self.is_under_way(), "a fork is under way");
        debug_assert_eq!(region, pages_of(Order::HUGE, region.start), "not a region");
        self.collapse.store(region.start.0, Relaxed);
        let word =
            if mutant!("collapse.discards-not-held") { before } else { before | COLLAPSE << CURSOR_SHIFT };
        self.cursor.store(word, Relaxed);
        CollapseUnderWay { cursor: self, before, region: region.start.0 }
    }

    /// Begins a fork. The caller is alone in the space.
    pub fn begin(&self) -> ForkUnderWay<'_, C> {
        let fork = ForkUnderWay { cursor: self, has_frozen: Cell::new(false) };
        // No page below the first is mapped, or it is swept at once.
        fork.advance(Vpn(1));
        fork
    }
}

impl<C: Cpu> ForkUnderWay<'_, C> {
    /// Notes that all pages below `page` were swept. Called under the lock of the table that decides about
    /// the last of them.
    pub fn advance(&self, page: Vpn) {
        self.cursor.cursor.store(page.0 << CURSOR_SHIFT | LATE, Relaxed);
    }

    /// Notes that a mapping was frozen.
    pub fn note_frozen(&self) {
        self.has_frozen.set(true);
    }

    /// Whether one was.
    pub fn has_frozen(&self) -> bool {
        self.has_frozen.get()
    }
}

impl<C: Cpu> Drop for ForkUnderWay<'_, C> {
    fn drop(&mut self) {
        self.cursor.cursor.store(LATE, Relaxed);
    }
}

impl<C: Cpu> CollapseUnderWay<'_, C> {
    /// Forgets which pages were taken: they are looked at now, under the lock of the region's table.
    pub fn forget_taken(&self) {
        self.cursor.collapse.store(self.region, Relaxed);
    }

    /// Whether a page was taken, or is about to be, since [`forget_taken`](Self::forget_taken). Asked under
    /// the lock of the region's table.
    pub fn is_any_taken(&self) -> bool {
        self.cursor.collapse.load(Relaxed) != self.region
    }
}

impl<C: Cpu> Drop for CollapseUnderWay<'_, C> {
    fn drop(&mut self) {
        self.cursor.cursor.store(self.before, Relaxed);
    }
}

impl<C: Cpu> fmt::Debug for ForkCursor<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.cursor.load(Relaxed);
        write!(f, "fork cursor at {:?}, late {}", Vpn(word >> CURSOR_SHIFT), word & LATE)
    }
}
