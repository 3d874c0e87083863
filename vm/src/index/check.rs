//! Checks the invariants of the tree, for tests and checkers.

use super::node::{IndexNode, VACANT};
use super::{IndexItem, RangeIndex, Ranged, RootRef};
use crate::machine::Cpu;
use crate::sync::ReadGuard;

/// Numbers of items, nodes and levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexStats {
    /// Number of items.
    pub items: usize,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of levels.
    pub levels: usize,
}

/// A recount in the order of pages; `end` is the end of the last item counted.
struct Recount {
    stats: IndexStats,
    end: u64,
}

impl<T: Ranged, C: Cpu, const F: usize> RangeIndex<'_, T, C, F> {
    /// Recounts the tree and checks its invariants: order, no overlap, no item across a border, fill, equal
    /// depth, ranges in the leaves equal to the items', extents and longest gaps. No edit is published
    /// meanwhile, or it may find what is not so.
    ///
    /// # Errors
    /// The first broken invariant.
    pub fn check(&self, section: &ReadGuard<'_, C>) -> Result<IndexStats, &'static str> {
        let Some(RootRef { node, height }) = self.root(section) else { return Ok(IndexStats::default()) };
        let stats = IndexStats { levels: height + 1, ..IndexStats::default() };
        let mut recount = Recount { stats, end: 0 };
        require(node.count() >= if height > 0 { 2 } else { 1 }, "a root that need not be")?;
        // SAFETY: a root with its height, of an index of `T`; it stays as long as the section.
        unsafe { recount.node::<T, C, F>(node, height, (0, u64::MAX))? };
        Ok(recount.stats)
    }
}

fn require(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(otherwise) }
}

impl Recount {
    /// Recursion is as deep as the tree.
    ///
    /// # Safety
    /// `node` is one of level `height` of an index of `T`, found in a read section of the index's RCU that
    /// lasts until this returns.
    unsafe fn node<T: Ranged, C: Cpu, const F: usize>(
        &mut self,
        node: &IndexNode<C, F>,
        height: usize,
        (low, high): (u64, u64),
    ) -> Result<(), &'static str> {
        self.stats.nodes += 1;
        let count = node.count();
        require(count == node.rank(VACANT - 1), "a count that is not so")?;
        for at in 0..F {
            let is_used = node.key(at) != VACANT;
            require(is_used == (at < count), "keys out of order, or a vacant one between")?;
            require(
                is_used == (node.pointer(at) != 0),
                "a key without a pointer, or a pointer without a key",
            )?;
        }
        for at in 0..count {
            if height == 0 {
                // SAFETY: a slot in use of a leaf, as level and count say; the rest is the caller's promise.
                unsafe { self.item::<T, C, F>(node, at, (low, high))? };
                continue;
            }
            let from = if at == 0 { low } else { node.key(at) };
            let to = if at + 1 < count { node.key(at + 1) } else { high };
            require(from < to && low <= from && to <= high, "borders out of order")?;
            require(at > 0 || node.key(0) == 0, "an inner node's first key")?;
            // SAFETY: above level 0 slots in use hold children; the read section lasts, says the caller.
            let child = unsafe { node.child(at) };
            require(child.count() >= IndexNode::<C, F>::MIN, "a node with too few slots in use")?;
            require(child.total_extent() == node.extent(at), "a wrong extent or longest gap")?;
            // SAFETY: a child is of the level below; the rest is the caller's promise.
            unsafe { self.node::<T, C, F>(child, height - 1, (from, to))? };
        }
        Ok(())
    }

    /// # Safety
    /// Slot `at` of the leaf is in use; the rest as for [`node`](Self::node).
    unsafe fn item<T: Ranged, C: Cpu, const F: usize>(
        &mut self,
        leaf: &IndexNode<C, F>,
        at: usize,
        (low, high): (u64, u64),
    ) -> Result<(), &'static str> {
        self.stats.items += 1;
        // SAFETY: a leaf's slots in use hold items of `T`, which stay until the read section ends; the caller
        // says that it lasts, and that the slot is such a one.
        let item: &IndexItem<T> = unsafe { &*core::ptr::with_exposed_provenance(leaf.pointer(at)) };
        let (range, extent) = (item.range(), leaf.extent(at));
        require(range.start.0 == leaf.key(at) && range.end.0 == leaf.end(at), "an item that moved")?;
        let start = range.start.0.saturating_sub(item.guard_pages());
        require(extent.start == start, "a guard that changed")?;
        require(extent.gap == 0 && !range.is_empty(), "an item without pages")?;
        require(low <= range.start.0 && range.end.0 <= high, "an item across a border")?;
        require(self.end <= range.start.0, "items overlap or are out of order")?;
        self.end = range.end.0;
        Ok(())
    }
}
