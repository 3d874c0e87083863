//! The lowest and the highest hole of a length, in logarithmic time. For writers, who hold the lock.
//!
//! A hole lies between two items of one child, where the parent has noted the longest, or between two
//! children, where the parent has noted the ends. So a search goes along a node's children and down only into
//! one that is known to have a hole long enough; only at the two borders of the search may that hole lie
//! outside, which costs one more descent each.
//!
//! Where the start is to be aligned, a hole counts as long enough when it is so however it lies, as in Linux:
//! `len` and alignment less one page. Only where there is none, the search looks at every hole of `len`
//! pages.

use super::node::{Extent, IndexNode};
use super::{RangeTree, Root};
use crate::machine::Cpu;
use crate::sync::atomic::Ordering::*;
use crate::units::{Vpn, VpnRange};

/// What is looked for.
#[derive(Clone, Copy)]
struct Want {
    within: VpnRange,
    len: u64,
    align: u64,
    /// A hole that is shorter is passed by.
    at_least: u64,
}

impl Want {
    /// The pages from `start` to `end` that may be used, if they are enough.
    fn usable(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (start, end) = (start.max(self.within.start.0), end.min(self.within.end.0));
        (end.checked_sub(start)? >= self.at_least).then_some((start, end))
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

    /// Whether to look into a child.
    fn may_be_in(&self, child: Extent) -> bool {
        child.gap >= self.at_least && child.first < self.within.end.0 && child.last > self.within.start.0
    }
}

impl<T, C: Cpu, const F: usize> RangeTree<T, C, F> {
    /// The start of the lowest hole of `len` pages in `within`, a multiple of `align` pages. Pages that an
    /// item keeps free below it are no hole. The caller holds the writers' lock.
    pub fn lowest_gap(&self, within: VpnRange, len: u64, align: u64) -> Option<Vpn> {
        self.search(within, len, align, |root, want| {
            let mut end_before = 0;
            let inside = root.and_then(|root| lowest(root.node, root.height, want, &mut end_before));
            inside.or_else(|| want.lowest(end_before, u64::MAX))
        })
    }

    /// The start of the highest hole of `len` pages in `within`, a multiple of `align` pages. Pages that an
    /// item keeps free below it are no hole. The caller holds the writers' lock.
    pub fn highest_gap(&self, within: VpnRange, len: u64, align: u64) -> Option<Vpn> {
        self.search(within, len, align, |root, want| {
            let mut start_after = u64::MAX;
            let inside = root.and_then(|root| highest(root.node, root.height, want, &mut start_after));
            inside.or_else(|| want.highest(0, start_after))
        })
    }

    fn search(
        &self,
        within: VpnRange,
        len: u64,
        align: u64,
        search: impl Fn(Option<Root<'_, C, F>>, Want) -> Option<u64>,
    ) -> Option<Vpn> {
        let align = align.max(1);
        if len == 0 {
            return None;
        }
        // SAFETY: the caller holds the writers' lock.
        let root = || unsafe { Root::from_word(self.root.load(Acquire)) };
        let sure = len.checked_add(align - 1)?;
        let want = Want { within, len, align, at_least: sure };
        let found = search(root(), want);
        let again = found.is_none() && align > 1;
        let found = if again { search(root(), Want { at_least: len, ..want }) } else { found };
        found.map(Vpn)
    }
}

/// Looks at the holes before each item below `node`, ascending. `end_before` is the end of the item before
/// them, and then of the last one. Recursion is as deep as the tree.
fn lowest<C: Cpu, const F: usize>(
    node: &IndexNode<C, F>,
    height: usize,
    want: Want,
    end_before: &mut u64,
) -> Option<u64> {
    for at in 0..node.count() {
        let extent = node.extent(at);
        if *end_before >= want.within.end.0 {
            return None;
        }
        let here = want.lowest(*end_before, extent.first);
        if here.is_some() {
            return here;
        }
        if height > 0 && want.may_be_in(extent) {
            // SAFETY: an inner node's slots in use hold children, and the writers' lock is held.
            let below = lowest(unsafe { node.child(at) }, height - 1, want, end_before);
            if below.is_some() {
                return below;
            }
        }
        *end_before = extent.last;
    }
    None
}

/// The same downwards: the holes behind each item; `start_after` is the start of the item behind them, and
/// then of the first.
fn highest<C: Cpu, const F: usize>(
    node: &IndexNode<C, F>,
    height: usize,
    want: Want,
    start_after: &mut u64,
) -> Option<u64> {
    for at in (0..node.count()).rev() {
        let extent = node.extent(at);
        if *start_after <= want.within.start.0 {
            return None;
        }
        let here = want.highest(extent.last, *start_after);
        if here.is_some() {
            return here;
        }
        if height > 0 && want.may_be_in(extent) {
            // SAFETY: as in `lowest`.
            let below = highest(unsafe { node.child(at) }, height - 1, want, start_after);
            if below.is_some() {
                return below;
            }
        }
        *start_after = extent.first;
    }
    None
}
