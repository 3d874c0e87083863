//! The layout of an address space, and its limits.

use crate::machine::Format;
use crate::units::{VirtAddr, Vpn, VpnRange};
use crate::vma::Areas;

/// Bounds and bases of a space. The embedder chooses; [`Layout::linux`] gives Linux's without randomisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Where mappings may be, and where requests without an address are placed.
    pub areas: Areas,
    /// Start of the heap; brk moves its end.
    pub heap_start: VirtAddr,
    /// Maximum number of mappings. Linux: `vm.max_map_count`.
    pub max_mappings: usize,
    /// Maximum number of pages that a single request may commit (overcommit heuristic: all of memory).
    pub max_commit_pages: u64,
}

impl Layout {
    /// Linux's layout for x86-64 processes, without address space randomisation.
    pub fn linux<F: Format>() -> Self {
        let end = Vpn((1 << (F::ADDRESS_BITS - 1 - 12)) - 1);
        // The stack's room and its gap lie above mmap_base: 8 MiB of stack limit, at least 128 MiB.
        let mmap_base = Vpn(end.0 - (128 << 20 >> 12));
        Self {
            areas: Areas { user: VpnRange::new(Vpn(16), end), mmap_base, legacy_base: Vpn(end.0 / 3) },
            heap_start: VirtAddr(0x5555_5575_6000),
            max_mappings: 65_530,
            max_commit_pages: u64::MAX >> 12,
        }
    }
}
