//! The lowest and the highest gap of a length, in logarithmic time. Exact where no edit is published
//! meanwhile.
//!
//! A gap lies between two items of one child (the parent keeps the longest) or between two children (the
//! parent keeps their ends). So a search goes along a node's children and descends only into a child with a
//! gap that is long enough; only at the two ends of the window may that gap lie outside, which costs one more
//! descent each.
//!
//! If the start is to be aligned, a gap counts as long enough if it is so at any position, as in Linux: `len`
//! and alignment less one page. Only if there is none, the search tries every gap of `len` pages.

use super::node::{Extent, IndexNode};
use super::{RangeIndex, Ranged, RootRef};
use crate::machine::Cpu;
use crate::sync::ReadGuard;
use crate::units::{Vpn, VpnRange};

/// The gap that is searched for.
#[derive(Clone, Copy)]
struct GapSearch {
    window: VpnRange,
    len: u64,
    align: u64,
    /// Shorter gaps are skipped.
    min_len: u64,
}

impl GapSearch {
    /// The pages from `start` to `end` inside the window; `None` if they are too few.
    fn usable(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (start, end) = (start.max(self.window.start.0), end.min(self.window.end.0));
        (end.checked_sub(start)? >= self.min_len).then_some((start, end))
    }

    fn lowest(&self, start: u64, end: u64) -> Option<u64> {
        let (start, end) = self.usable(start, end)?;
        let at = start.checked_next_multiple_of(self.align)?;
        (at.checked_add(self.len)? <= end).then_some(at)
    }

    fn highest(&self, start: u64, end: u64) -> Option<u64> {
        let (start, end) = self.usable(start, end)?;
        let at = end.checked_sub(self.len)?;
        let at = at - at % self.align;
        (at >= start).then_some(at)
    }

    /// Whether a child may contain a gap that is long enough.
    fn may_be_in(&self, child: Extent) -> bool {
        child.gap >= self.min_len && child.start < self.window.end.0 && child.end > self.window.start.0
    }
}

impl<T: Ranged, C: Cpu, const F: usize> RangeIndex<'_, T, C, F> {
    /// The start of the lowest gap of `len` pages in `window`, a multiple of `align` pages. Guard pages of an
    /// item belong to no gap. Stale at once unless the user keeps writers out.
    #[track_caller]
    pub fn lowest_gap(
        &self,
        section: &ReadGuard<'_, C>,
        window: VpnRange,
        len: u64,
        align: u64,
    ) -> Option<Vpn> {
        self.search(section, window, len, align, |root, search| {
            let mut prev_end = 0;
            // SAFETY: a root with its height; it stays as long as the section, which `root` borrows.
            let inside =
                root.and_then(|root| unsafe { lowest(root.node, root.height, search, &mut prev_end) });
            inside.or_else(|| search.lowest(prev_end, u64::MAX))
        })
    }

    /// The start of the highest gap of `len` pages in `window`, a multiple of `align` pages. Guard pages of
    /// an item belong to no gap. Stale at once unless the user keeps writers out.
    #[track_caller]
    pub fn highest_gap(
        &self,
        section: &ReadGuard<'_, C>,
        window: VpnRange,
        len: u64,
        align: u64,
    ) -> Option<Vpn> {
        self.search(section, window, len, align, |root, search| {
            let mut next_start = u64::MAX;
            // SAFETY: as in `lowest_gap`.
            let inside =
                root.and_then(|root| unsafe { highest(root.node, root.height, search, &mut next_start) });
            inside.or_else(|| search.highest(0, next_start))
        })
    }

    #[track_caller]
    fn search(
        &self,
        section: &ReadGuard<'_, C>,
        window: VpnRange,
        len: u64,
        align: u64,
        find: impl Fn(Option<RootRef<'_, C, F>>, GapSearch) -> Option<u64>,
    ) -> Option<Vpn> {
        let align = align.max(1);
        if len == 0 {
            return None;
        }
        let sufficient = len.checked_add(align - 1)?;
        let search = GapSearch { window, len, align, min_len: sufficient };
        let root = self.root(section);
        let found = find(root, search);
        let retry = found.is_none() && align > 1;
        let found = if retry { find(root, GapSearch { min_len: len, ..search }) } else { found };
        found.map(Vpn)
    }
}

/// Searches the gaps before each item below `node`, ascending. `prev_end` is the end of the item before
/// them, and then of the last one. Recursion is as deep as the tree.
///
/// # Safety
/// `node` is one of level `height` of a tree, found in a read section of the index's RCU that lasts until
/// this returns.
unsafe fn lowest<C: Cpu, const F: usize>(
    node: &IndexNode<C, F>,
    height: usize,
    search: GapSearch,
    prev_end: &mut u64,
) -> Option<u64> {
    for at in 0..node.count() {
        let extent = node.extent(at);
        if *prev_end >= search.window.end.0 {
            return None;
        }
        let here = search.lowest(*prev_end, extent.start);
        if here.is_some() {
            return here;
        }
        if height > 0 && search.may_be_in(extent) {
            // SAFETY: above level 0 slots in use hold children, of the level below; the read section lasts,
            // says the caller.
            let below = unsafe { lowest(node.child(at), height - 1, search, prev_end) };
            if below.is_some() {
                return below;
            }
        }
        *prev_end = extent.end;
    }
    None
}

/// The same, descending: the gaps after each item; `next_start` is the start of the item after them, and then
/// of the first.
///
/// # Safety
/// As for [`lowest`].
unsafe fn highest<C: Cpu, const F: usize>(
    node: &IndexNode<C, F>,
    height: usize,
    search: GapSearch,
    next_start: &mut u64,
) -> Option<u64> {
    for at in (0..node.count()).rev() {
        let extent = node.extent(at);
        if *next_start <= search.window.start.0 {
            return None;
        }
        let here = search.highest(extent.end, *next_start);
        if here.is_some() {
            return here;
        }
        if height > 0 && search.may_be_in(extent) {
            // SAFETY: as in `lowest`.
            let below = unsafe { highest(node.child(at), height - 1, search, next_start) };
            if below.is_some() {
                return below;
            }
        }
        *next_start = extent.start;
    }
    None
}
