//! The layout of an address space, and its limits.

use super::Error;
use crate::machine::Format;
use crate::units::{VirtAddr, Vpn, VpnRange};
use crate::vma::Areas;

/// Bounds and bases of a space. The embedder chooses; [`Layout::linux`] gives Linux's without randomisation.
///
/// [`AddressSpace::new`](super::AddressSpace::new) refuses a layout that breaks one of these rules:
///
/// 1. The user pages are not empty, and all lie in the lower half of the addresses that the format has.
/// 2. Both bases and the start of the heap lie at or between the ends of the user pages.
/// 3. `max_mappings` is at most half of `usize::MAX`, so that a count may exceed it without overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Where mappings may be, and where requests without an address are placed.
    pub areas: Areas,
    /// Start of the heap; brk moves its end.
    pub heap_start: VirtAddr,
    /// Maximum number of mappings. Linux: `vm.max_map_count`.
    pub max_mappings: usize,
    /// Maximum number of pages that a single request may commit. `None`: the frames of the [`Vm`](super::Vm),
    /// as Linux's overcommit heuristic has it without swap. See [`overcommit`](Self::overcommit).
    pub max_commit_pages: Option<u64>,
}

impl Layout {
    /// Linux's layout for x86-64 processes, without address space randomisation. Where addresses are so short
    /// that the heap does not fit there, it starts at two thirds of them.
    pub fn linux<F: Format>() -> Self {
        let end = Vpn((1 << (F::ADDRESS_BITS - 1 - 12)) - 1);
        // The stack's room and its gap lie above mmap_base: 8 MiB of stack limit, at least 128 MiB.
        let mmap_base = Vpn(end.0 - (128 << 20 >> 12));
        let usual = VirtAddr(0x5555_5575_6000);
        Self {
            areas: Areas { user: VpnRange::new(Vpn(16), end), mmap_base, legacy_base: Vpn(end.0 / 3) },
            heap_start: if usual < end.addr() { usual } else { Vpn(end.0 / 3 * 2).addr() },
            max_mappings: 65_530,
            max_commit_pages: None,
        }
    }

    /// Grants every request, however much larger than memory it is (Linux: `vm.overcommit_memory = 1`).
    pub fn overcommit(self) -> Self {
        Self { max_commit_pages: Some(u64::MAX), ..self }
    }

    /// The whole pages of a range; `None` where it has none, or not all of them lie in user space.
    #[inline]
    pub(super) fn user_range(&self, addr: VirtAddr, len_bytes: u64) -> Option<VpnRange> {
        let range = VpnRange::from_bytes(addr, len_bytes)?;
        (!range.is_empty() && range.end <= self.areas.user.end).then_some(range)
    }

    /// Checks the rules above for spaces of format `F`.
    pub(super) fn check<F: Format>(&self) -> Result<(), Error> {
        let Areas { user, mmap_base, legacy_base } = self.areas;
        let lower_half = Vpn(1 << (F::ADDRESS_BITS - 1 - 12));
        let is_inside = |base: Vpn| user.start <= base && base <= user.end;
        let user_is_valid = user.start < user.end && user.end <= lower_half;
        let bases_are_valid = is_inside(mmap_base) && is_inside(legacy_base);
        // With user pages that are not valid their addresses may wrap; they are refused all the same.
        let heap = user.start.addr()..=user.end.addr();
        let heap_is_valid = heap.contains(&self.heap_start);
        let limits_are_valid = self.max_mappings <= usize::MAX / 2;
        if user_is_valid && bases_are_valid && heap_is_valid && limits_are_valid {
            Ok(())
        } else {
            Err(Error::Invalid)
        }
    }
}
