//! Which page leads to a frame, found without a lock: for machine checks.

use super::PageTable;
use super::entries::visit_entries;
use crate::machine::{Entry, Machine};
use crate::sync::ReadGuard;
use crate::units::{Pfn, Vpn, VpnRange};
use core::ops::ControlFlow;

/// The result of a search, which looks at a bounded number of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct FrameSearch {
    /// A page whose entry led to the frame when it was read. Stale at once.
    pub page: Option<Vpn>,
    /// The first page that was not looked at: where the search goes on.
    pub next: Vpn,
}

/// Searches the entries of `range` in order, `most` of them at most, for one that leads to the frame,
/// whatever it allows: up to the first that does. Takes no lock and writes nothing; each entry is read once.
///
/// # Panics
/// As [`walk`](super::walk).
pub fn find_frame<M: Machine>(
    tree: &PageTable<'_, M>,
    pfn: Pfn,
    range: VpnRange,
    most: u64,
    reading: &ReadGuard<'_, M::Cpu>,
) -> FrameSearch {
    let (mut page, mut left) = (None, most);
    if most == 0 {
        return FrameSearch { page, next: range.start };
    }
    let next = visit_entries(tree, range, reading, |found, at| {
        left -= 1;
        if let Entry::Leaf(leaf) = found.entry() {
            let pages = found.table.level().entry_pages();
            let start = Vpn(at.0 & !(pages - 1));
            let inside = pfn.0.wrapping_sub(leaf.pfn.0);
            let is_inside = inside < if mutant!("find.large-leaf-passed-by") { 1 } else { pages };
            page = if leaf.by_table() {
                // All of its pages show the zero page.
                (pfn == tree.memory.zero_frame()).then_some(at)
            } else {
                is_inside.then(|| start.add(inside)).filter(|&page| range.contains(page))
            };
        }
        if left == 0 || page.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    FrameSearch { page, next }
}
