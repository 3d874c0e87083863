//! The number of helpers, and the limit of those at work.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};

/// Counts of a pool's helpers. All are relaxed: they order nothing.
pub(super) struct HelperLimit<C: Cpu> {
    max: AtomicU32<C>,
    /// Helpers in visits, and reserved ones.
    at_work: AtomicU32<C>,
    present: AtomicU32<C>,
    reserved: AtomicU32<C>,
}

impl<C: Cpu> HelperLimit<C> {
    pub(super) const fn new() -> Self {
        Self {
            max: AtomicU32::new(u32::MAX),
            at_work: AtomicU32::new(0),
            present: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
        }
    }

    pub(super) fn set_max(&self, max: u32) {
        self.max.store(max, Relaxed);
    }

    /// Number of helpers that are present and not reserved, at most the limit; may be stale.
    pub(super) fn nr_available_racy(&self) -> u32 {
        let present = self.present.load(Relaxed).saturating_sub(self.reserved.load(Relaxed));
        present.min(self.max.load(Relaxed))
    }

    /// Whether one more helper may be at work; may be stale.
    pub(super) fn has_room_racy(&self) -> bool {
        self.at_work.load(Relaxed) < self.max.load(Relaxed)
    }

    /// Counts a helper that arrives.
    pub(super) fn arrive(&self) {
        self.present.fetch_add(1, Relaxed);
    }

    /// Counts a helper that leaves.
    pub(super) fn depart(&self) {
        self.present.fetch_sub(1, Relaxed);
    }

    /// Counts up to `wanted` helpers as at work, as far as the limit allows. Returns how many.
    pub(super) fn begin(&self, wanted: u32) -> u32 {
        let max = self.max.load(Relaxed);
        let granted = |at_work: u32| wanted.min(max.saturating_sub(at_work));
        let added = |at_work: u32| Some(at_work + granted(at_work)).filter(|&sum| sum > at_work);
        self.at_work.update(Relaxed, Relaxed, added).map_or(0, granted)
    }

    /// Ends what [`begin`](Self::begin) counted, for `count` helpers. True where the limit was reached
    /// before: other helpers may have parked because of it.
    pub(super) fn end(&self, count: u32) -> bool {
        self.at_work.fetch_sub(count, Relaxed) >= self.max.load(Relaxed)
    }

    /// Counts `count` helpers as reserved.
    pub(super) fn reserve(&self, count: u32) {
        self.reserved.fetch_add(count, Relaxed);
    }

    /// Counts `count` helpers as no longer reserved.
    pub(super) fn release(&self, count: u32) {
        self.reserved.fetch_sub(count, Relaxed);
    }
}
