//! The index of an address space's mappings.
//!
//! Lookups need a read section and nothing else. Whoever replaces mappings, or looks for holes, holds the
//! space's lock (alone to replace); a replacement is prepared, where memory may run out, and then published
//! by one store.

use super::{GUARD_PAGES, Gaps, Vma, VmaAttributes, VmaFlags, VmaState};
use crate::index::{IndexItem, IndexMemory, NoMemory, RangeIndex, Ranged, Replacement};
use crate::machine::Cpu;
use crate::sync::{CpuRef, LastHit, ReadGuard};
use crate::units::{CACHE_LINE, Vpn, VpnRange};

/// Mappings that Linux allows a process, unless it is told otherwise (`vm.max_map_count`).
pub const MAX_MAPPINGS: usize = 65_530;

/// The mappings of an address space.
#[derive(Debug)]
pub struct VmaTree<C: Cpu> {
    index: RangeIndex<Vma<C>, C>,
}

/// A record and its link are one line: a lookup that ends at a record touches it alone.
const fn record_is_one_line<C: Cpu>() {
    assert!(size_of::<IndexItem<Vma<C>>>() == CACHE_LINE);
}

impl<C: Cpu> Ranged for Vma<C> {
    fn range(&self) -> VpnRange {
        self.range()
    }

    fn guard_pages(&self) -> u64 {
        if self.flags().contains(VmaFlags::GROWS_DOWN) { GUARD_PAGES } else { 0 }
    }

    /// Faults that speculate fall back from here on.
    fn before_unlink(&self) {
        if !mutant!("vma.stale-not-marked") {
            self.mark_stale();
        }
    }

    #[cfg(loom)]
    fn touch(&self) {
        let _state = self.is_live();
    }
}

impl<C: Cpu> VmaTree<C> {
    /// No mappings.
    pub fn new() -> Self {
        const { record_is_one_line::<C>() };
        Self { index: RangeIndex::new() }
    }

    /// Number of mappings; stale at once unless the caller holds the space's lock.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is none; stale at once unless the caller holds the space's lock.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The mapping that holds the page.
    #[inline]
    #[track_caller]
    pub fn find<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g Vma<C>> {
        self.index.find(section, vpn)
    }

    /// As [`find`](Self::find), by way of the mapping that this CPU found last.
    #[inline(always)]
    #[track_caller]
    pub fn find_cached<'g, S>(
        &self,
        section: &'g ReadGuard<'_, C>,
        mine: CpuRef<'_, S, C>,
        part: fn(&S) -> &LastHit<C, 1>,
        vpn: Vpn,
    ) -> Option<&'g Vma<C>> {
        self.index.find_cached(section, mine, part, vpn)
    }

    /// The mapping that holds the page, or else the first one above it.
    #[track_caller]
    pub fn at_or_after<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g Vma<C>> {
        self.index.next_at_or_after(section, vpn)
    }

    /// The last mapping that starts below the page; it may hold it.
    #[track_caller]
    pub fn before<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g Vma<C>> {
        self.index.prev_before(section, vpn)
    }

    /// The mappings that hold a page of `range`, ascending. Exact where the caller holds the space's lock.
    pub fn iter<'g>(
        &'g self,
        section: &'g ReadGuard<'g, C>,
        range: VpnRange,
    ) -> impl Iterator<Item = &'g Vma<C>> + 'g {
        self.index.items(section, range)
    }

    /// Whether no page of `range` is mapped; stale at once unless the caller holds the space's lock.
    pub fn is_free(&self, section: &ReadGuard<'_, C>, range: VpnRange) -> bool {
        range.is_empty()
            || self.at_or_after(section, range.start).is_none_or(|vma| vma.range().start >= range.end)
    }

    /// Prepares that all mappings that hold a page of `old` go, and that `new` come: ascending, at most
    /// [`MAX_NEW`](crate::index::MAX_NEW), overlapping nothing that stays. The space's lock is held
    /// alone until the result is published or dropped. Publishing marks the records that go stale first.
    ///
    /// # Errors
    /// There was no memory; nothing has changed.
    pub fn prepare<'a, N: IndexMemory<Vma<C>, C>>(
        &'a self,
        old: VpnRange,
        new: &[Option<(VmaAttributes, VmaState)>],
        memory: &'a N,
    ) -> Result<Replacement<'a, Vma<C>, C, N>, NoMemory> {
        let records = new.iter().flatten().map(|&(attributes, state)| Vma::new(attributes, state));
        self.index.prepare(old, records, memory)
    }

    /// The index, for checkers.
    pub fn index(&self) -> &RangeIndex<Vma<C>, C> {
        &self.index
    }
}

impl<C: Cpu> Default for VmaTree<C> {
    fn default() -> Self {
        Self::new()
    }
}

/// The caller holds the space's lock.
impl<C: Cpu> Gaps for VmaTree<C> {
    fn lowest_gap(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn> {
        self.index.tree().lowest_gap(window, nr_pages, 1)
    }
    fn highest_gap(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn> {
        self.index.tree().highest_gap(window, nr_pages, 1)
    }
}
