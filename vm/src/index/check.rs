//! Recounts everything that the tree says about itself. For tests and checkers.

use super::node::{IndexNode, VACANT};
use super::{RangeTree, Ranged, Root};
use crate::machine::Cpu;
use crate::sync::atomic::Ordering::*;

/// What a tree consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Items.
    pub items: usize,
    /// Nodes.
    pub nodes: usize,
    /// Levels.
    pub levels: usize,
}

/// Walks the tree in order; `end` is the end of the last item seen, or the last border passed.
struct Walk {
    census: IndexStats,
    end: u64,
}

impl<T: Ranged, C: Cpu, const F: usize> RangeTree<T, C, F> {
    /// Recounts the tree: order, no overlap, no item across a border, fill, one depth, items' spans as the
    /// leaves say, extents and longest holes as noted. The caller holds the writers' lock.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<IndexStats, &'static str> {
        // SAFETY: the caller holds the writers' lock.
        let root = unsafe { Root::from_word(self.root.load(Acquire)) };
        let Some(Root { node, height }) = root else { return Ok(IndexStats::default()) };
        let mut walk = Walk { census: IndexStats { levels: height + 1, ..IndexStats::default() }, end: 0 };
        require(node.count() >= if height > 0 { 2 } else { 1 }, "a root that need not be")?;
        walk.node::<T, C, F>(node, height, (0, u64::MAX))?;
        Ok(walk.census)
    }
}

fn require(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(otherwise) }
}

impl Walk {
    /// Recursion is as deep as the tree.
    fn node<T: Ranged, C: Cpu, const F: usize>(
        &mut self,
        node: &IndexNode<C, F>,
        height: usize,
        (low, high): (u64, u64),
    ) -> Result<(), &'static str> {
        self.census.nodes += 1;
        let count = node.count();
        require(count == node.rank(VACANT - 1), "a count that is not so")?;
        for at in 0..F {
            let used = node.key(at) != VACANT;
            require(used == (at < count), "keys out of order, or a vacant one between")?;
            require(used == (node.slot(at) != 0), "a key without a slot, or a slot without a key")?;
        }
        for at in 0..count {
            if height == 0 {
                self.item::<T, C, F>(node, at, (low, high))?;
                continue;
            }
            let from = if at == 0 { low } else { node.key(at) };
            let to = if at + 1 < count { node.key(at + 1) } else { high };
            require(from < to && low <= from && to <= high, "borders out of order")?;
            require(at > 0 || node.key(0) == 0, "an inner node's first key")?;
            // SAFETY: an inner node's slots in use hold children, and the writers' lock is held.
            let child = unsafe { node.child(at) };
            require(child.count() >= IndexNode::<C, F>::MIN, "a node with too few entries")?;
            require(child.total() == node.extent(at), "an extent or a longest hole that is not so")?;
            self.node::<T, C, F>(child, height - 1, (from, to))?;
        }
        Ok(())
    }

    fn item<T: Ranged, C: Cpu, const F: usize>(
        &mut self,
        leaf: &IndexNode<C, F>,
        at: usize,
        (low, high): (u64, u64),
    ) -> Result<(), &'static str> {
        self.census.items += 1;
        // SAFETY: a leaf's slots in use hold items, valid while they are in the tree.
        let item: &T = unsafe { &*core::ptr::with_exposed_provenance(leaf.slot(at)) };
        let (span, extent) = (item.range(), leaf.extent(at));
        require(span.start.0 == leaf.key(at) && span.end.0 == leaf.last(at), "an item that moved")?;
        require(extent.first == span.start.0.saturating_sub(item.guard_pages()), "a guard that changed")?;
        require(extent.gap == 0 && !span.is_empty(), "an item without pages")?;
        require(low <= span.start.0 && span.end.0 <= high, "an item across a border")?;
        require(self.end <= span.start.0, "items overlap or are out of order")?;
        self.end = span.end.0;
        Ok(())
    }
}
