//! Items, node memory and a writer for the tree's tests and models.

use super::{IndexNode, NodeMemory, RangeTree, Ranged};
use crate::machine::testing::TestCpu;
#[cfg(not(loom))]
use crate::sync::ReadGuard;
use crate::sync::{Rcu, RcuHead, RcuList, Reclaim};
use crate::units::{Vpn, VpnRange};
use core::cell::Cell;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc, dealloc};
use std::boxed::Box;
#[cfg(not(loom))]
use std::vec::Vec;

/// An item of the tests.
#[repr(C)]
#[derive(Debug)]
pub struct Item {
    pub head: RcuHead,
    pub span: VpnRange,
    pub guard: u64,
}

impl Ranged for Item {
    fn range(&self) -> VpnRange {
        self.span
    }
    fn guard_pages(&self) -> u64 {
        self.guard
    }
}

pub fn pages(start: u64, end: u64) -> VpnRange {
    VpnRange::new(Vpn(start), Vpn(end))
}

/// An item that lives until the test ends.
pub fn item(start: u64, end: u64) -> NonNull<Item> {
    item_with_guard(start, end, 0)
}

pub fn item_with_guard(start: u64, end: u64, guard: u64) -> NonNull<Item> {
    NonNull::from(Box::leak(Box::new(Item { head: RcuHead::new(), span: pages(start, end), guard })))
}

/// Nodes from the host's heap, counted; refuses when told to. Where there is an RCU, `retire_node` defers to
/// it.
#[derive(Default)]
pub struct Nodes<'a> {
    pub live: Cell<usize>,
    pub allocated: Cell<usize>,
    /// So many more allocations succeed.
    pub left: Cell<Option<usize>>,
    pub rcu: Option<&'a Rcu<TestCpu>>,
}

impl Nodes<'_> {
    fn layout<const F: usize>() -> Layout {
        Layout::new::<IndexNode<TestCpu, F>>()
    }

    fn free<const F: usize>(&self, node: NonNull<IndexNode<TestCpu, F>>) {
        self.live.set(self.live.get() - 1);
        // SAFETY: allocated below with this layout; poisoned first, so that a late reader finds nothing in
        // it.
        unsafe {
            node.cast::<u8>().write_bytes(0xdd, Self::layout::<F>().size());
            // A model keeps the poison, so that a late reader is told from one that meets other memory.
            if cfg!(not(loom)) {
                dealloc(node.cast().as_ptr(), Self::layout::<F>());
            }
        }
    }
}

// SAFETY: the heap's memory, given back at once (the tests that look up meanwhile use an RCU).
unsafe impl<const F: usize> NodeMemory<TestCpu, F> for Nodes<'_> {
    fn alloc_node(&self) -> Option<NonNull<IndexNode<TestCpu, F>>> {
        match self.left.get() {
            Some(0) => return None,
            Some(left) => self.left.set(Some(left - 1)),
            None => {}
        }
        self.live.set(self.live.get() + 1);
        self.allocated.set(self.allocated.get() + 1);
        // SAFETY: the layout is not empty.
        NonNull::new(unsafe { alloc(Self::layout::<F>()) }.cast())
    }

    unsafe fn free_node(&self, node: NonNull<IndexNode<TestCpu, F>>) {
        self.free(node);
    }

    fn node_tag(&self) -> usize {
        F
    }

    unsafe fn retire(&self, mut objects: RcuList) {
        if let Some(rcu) = self.rcu {
            // SAFETY: unlinked, says the caller; nobody else uses their heads.
            unsafe { rcu.defer_all(objects) };
            return;
        }
        while let Some((object, tag)) = objects.pop::<TestCpu>() {
            // SAFETY: tests without an RCU have no readers.
            unsafe { self.reclaim(tag, object) };
        }
    }
}

impl Reclaim for Nodes<'_> {
    unsafe fn reclaim(&self, tag: usize, object: NonNull<RcuHead>) {
        // SAFETY: retired above with the fan-out as tag.
        unsafe {
            match tag {
                4 => self.free::<4>(IndexNode::of_head(object)),
                16 => self.free::<16>(IndexNode::of_head(object)),
                _ => unreachable!("tag {tag}"),
            }
        }
    }
}

/// Replaces and publishes; tests have the memory.
pub fn replace<const F: usize>(
    tree: &RangeTree<Item, TestCpu, F>,
    old: VpnRange,
    new: &[NonNull<Item>],
    nodes: &Nodes<'_>,
) {
    tree.prepare(old, new, nodes).unwrap().publish();
}

/// The spans in the tree, as iteration finds them.
#[cfg(not(loom))]
pub fn spans<const F: usize>(
    tree: &RangeTree<Item, TestCpu, F>,
    section: &ReadGuard<'_, TestCpu>,
) -> Vec<(u64, u64)> {
    tree.items(section, pages(0, u64::MAX)).map(|item| (item.span.start.0, item.span.end.0)).collect()
}
