//! The index of an address space's mappings.
//!
//! Lookups need a read section. A caller that replaces mappings, or searches for gaps, holds the space's lock
//! (for writing to replace). The records that a replacement removes are marked stale before it is published.

use super::{GUARD_PAGES, Gaps, Vma, VmaFlags};
use crate::index::{RangeIndex, Ranged};
use crate::machine::Cpu;
use crate::sync::ReadGuard;
use crate::units::{Vpn, VpnRange};
use core::fmt;

/// Number of mappings that Linux allows a process by default (`vm.max_map_count`).
pub const MAX_MAPPINGS: usize = 65_530;

/// The mappings of an address space.
pub type VmaTree<'m, C> = RangeIndex<'m, Vma<C>, C>;

impl<C: Cpu> Ranged for Vma<C> {
    fn range(&self) -> VpnRange {
        self.range()
    }

    fn guard_pages(&self) -> u64 {
        if self.flags().contains(VmaFlags::GROWS_DOWN) { GUARD_PAGES } else { 0 }
    }

    /// From the mark on, speculative faults find the record stale.
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

/// The gaps between the mappings of an index. The caller holds the space's lock, or they are stale.
pub struct TreeGaps<'g, 'm, C: Cpu>(pub &'g VmaTree<'m, C>, pub &'g ReadGuard<'g, C>);

impl<C: Cpu> Gaps for TreeGaps<'_, '_, C> {
    fn lowest(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn> {
        self.0.lowest_gap(self.1, window, nr_pages, 1)
    }
    fn highest(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn> {
        self.0.highest_gap(self.1, window, nr_pages, 1)
    }
}

impl<C: Cpu> fmt::Debug for TreeGaps<'_, '_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gaps of {:?}", self.0)
    }
}
