//! What the entries of a range hold: a count of leaves by size and by what they map.

use super::PageTable;
use super::entries::visit_entries;
use crate::frame::Kind;
use crate::machine::{Entry, Leaf, Machine};
use crate::sync::ReadGuard;
use crate::units::{Level, PageSize, Vpn, VpnRange};
use core::ops::ControlFlow;

/// What the entries of a range of pages hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resident {
    /// Base pages that own a mapping of their frame: private pages, and those of shared memory. (Linux:
    /// `MM_ANONPAGES`, `MM_SHMEMPAGES`.)
    pub base_pages: u64,
    /// Huge pages, of 512 base pages each, that own their folio. (Linux: `AnonHugePages`.)
    pub huge_pages: u64,
    /// Huge leaves of shared memory, but those of the hugetlb pool. (Linux: `ShmemPmdMapped`.)
    pub shared_huge_pages: u64,
    /// Base pages of zeros that show the frame of zeros.
    pub zero_pages: u64,
    /// Huge pages of zeros that show the huge zero page.
    pub huge_zero_pages: u64,
    /// Pages of frames that the embedder gave, base pages of leaves of any size.
    pub pfn_pages: u64,
}

impl Resident {
    /// Resident memory in base pages, as Linux's `VmRSS` counts it: pages of zeros and PFN-mapped frames
    /// count nothing, and pages that two spaces share count in both.
    pub const fn pages(&self) -> u64 {
        self.base_pages + (self.huge_pages + self.shared_huge_pages) * PageSize::Huge.pages()
    }
}

/// Adds what `range` holds to `resident`, of at most `most` entries. Returns the first page that was not
/// looked at. Takes no lock; each entry is as it was when it was read.
///
/// # Panics
/// As [`walk`](super::walk).
pub(crate) fn count_resident<M: Machine>(
    tree: &PageTable<'_, M>,
    range: VpnRange,
    most: u64,
    resident: &mut Resident,
    reading: &ReadGuard<'_, M::Cpu>,
) -> Vpn {
    let mut left = most;
    visit_entries(tree, range, reading, |found, _| {
        left -= 1;
        let level = found.table.level();
        if let Entry::Leaf(leaf) = found.entry() {
            let is_huge = level == Level::Pmd;
            match leaf.owned() {
                true if is_huge && is_of_object(tree, leaf) => resident.shared_huge_pages += 1,
                true if is_huge => resident.huge_pages += 1,
                true => resident.base_pages += level.entry_pages(),
                false if tree.is_huge_zero(leaf, level) => resident.huge_zero_pages += 1,
                false if leaf.pfn == tree.memory.zero_frame() => resident.zero_pages += 1,
                false => resident.pfn_pages += level.entry_pages(),
            }
        }
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

/// Whether a huge leaf shows a folio of an object that is not one of the hugetlb pool; stale at once.
fn is_of_object<M: Machine>(tree: &PageTable<'_, M>, leaf: Leaf) -> bool {
    let state = tree.memory.meta(leaf.pfn).map(|meta| meta.state());
    state.is_some_and(|state| state.kind() == Kind::Object && !state.is_hugetlb())
}
