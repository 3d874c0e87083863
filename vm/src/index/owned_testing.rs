//! Items, and memory for an index that owns them, for its tests and models.

use super::testing::{Nodes, pages};
use super::{IndexItem, IndexMemory, IndexNode, NodeMemory, Ranged};
use crate::machine::testing::TestCpu;
use crate::sync::{Rcu, RcuHead, RcuList, Reclaim};
use crate::units::VpnRange;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::*};
use std::alloc::{Layout, alloc, dealloc};

/// A range and a word that is poisoned when the memory goes back.
pub struct Piece {
    pub range: VpnRange,
    pub alive: AtomicU64,
}

/// What the word says until then.
pub const ALIVE: u64 = 0x11fe;
/// The tag of retired items; nodes use their fan-out.
const ITEM: usize = 99;

/// A piece from page `start` up to page `end`.
pub fn piece(start: u64, end: u64) -> Piece {
    Piece { range: pages(start, end), alive: AtomicU64::new(ALIVE) }
}

impl Ranged for Piece {
    fn range(&self) -> VpnRange {
        self.range
    }
}

/// Nodes and items from the host's heap, counted.
pub struct Store<'a> {
    pub nodes: Nodes<'a>,
    pub rcu: &'a Rcu<TestCpu>,
    pub items: Cell<usize>,
}

impl<'a> Store<'a> {
    /// Nothing given out yet.
    pub fn new(rcu: &'a Rcu<TestCpu>) -> Self {
        Self { nodes: Nodes { rcu: Some(rcu), ..Nodes::default() }, rcu, items: Cell::new(0) }
    }

    fn strikes(&self) -> bool {
        let left = self.nodes.left.get();
        self.nodes.left.set(left.map(|left| left.saturating_sub(1)));
        left == Some(0)
    }
}

// SAFETY: the nodes' own promise.
unsafe impl NodeMemory<TestCpu> for Store<'_> {
    fn alloc_node(&self) -> Option<NonNull<IndexNode<TestCpu, 16>>> {
        self.nodes.alloc_node()
    }
    unsafe fn free_node(&self, node: NonNull<IndexNode<TestCpu, 16>>) {
        // SAFETY: the caller's promise.
        unsafe { self.nodes.free_node(node) }
    }
    fn node_tag(&self) -> usize {
        NodeMemory::<TestCpu, 16>::node_tag(&self.nodes)
    }
    unsafe fn retire(&self, objects: RcuList) {
        // SAFETY: unlinked, says the caller; nobody else uses their heads.
        unsafe { self.rcu.defer_all(objects) };
    }
}

// SAFETY: the heap's memory, given back after a grace period.
unsafe impl IndexMemory<Piece, TestCpu> for Store<'_> {
    fn alloc_item(&self) -> Option<NonNull<MaybeUninit<IndexItem<Piece>>>> {
        if self.strikes() {
            return None;
        }
        self.items.set(self.items.get() + 1);
        // SAFETY: the layout is not empty.
        let item =
            NonNull::new(unsafe { alloc(Layout::new::<IndexItem<Piece>>()) }.cast::<MaybeUninit<_>>())?;
        #[cfg(loom)]
        crate::sync::forget(item.addr().get()..item.addr().get() + size_of::<IndexItem<Piece>>());
        Some(item)
    }
    unsafe fn free_item(&self, item: NonNull<IndexItem<Piece>>) {
        self.items.set(self.items.get() - 1);
        // SAFETY: allocated above with this layout, and nobody else's now.
        unsafe {
            item.as_ref().value().alive.store(0, Relaxed);
            // A model keeps it as it is otherwise, so that a late reader is told from one that meets other
            // memory.
            if cfg!(not(loom)) {
                item.cast::<u8>().write_bytes(0xdd, size_of::<IndexItem<Piece>>());
                dealloc(item.cast().as_ptr(), Layout::new::<IndexItem<Piece>>());
            }
        }
    }
    fn item_tag(&self) -> usize {
        ITEM
    }
}

impl Reclaim for Store<'_> {
    unsafe fn reclaim(&self, tag: usize, object: NonNull<RcuHead>) {
        // SAFETY: retired with the tag that tells what it is.
        unsafe {
            if tag == ITEM {
                self.free_item(IndexItem::of_head(object));
            } else {
                self.nodes.reclaim(tag, object);
            }
        }
    }
}
