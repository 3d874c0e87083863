//! Items, and memory from the host's heap, for the tests and models of the index.

use crate::index::node::NodeSlot;
use crate::index::{IndexItem, IndexMemory, IndexNode, RangeIndex, Ranged};
use crate::machine::testing::TestCpu;
#[cfg(not(loom))]
use crate::sync::ReadGuard;
use crate::sync::{DeferredFree, Rcu, RcuHead, RcuList, UniqueId};
use crate::units::{Vpn, VpnRange};
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::*};
use std::alloc::{Layout, alloc, dealloc};
use std::boxed::Box;
use std::sync::LazyLock;
use std::vec::Vec;

/// A range, its guard, and a word that is poisoned when the memory is freed.
#[derive(Debug)]
pub struct TestItem {
    pub range: VpnRange,
    /// What it says of its range from the second call on.
    pub lie: Option<VpnRange>,
    pub asked: AtomicU64,
    pub guard: u64,
    pub alive: AtomicU64,
}

/// The word of an item that has not been freed.
pub const ALIVE: u64 = 0x11fe;
/// The tag of retired items; nodes use their fan-out.
const ITEM: usize = 99;

impl Ranged for TestItem {
    fn range(&self) -> VpnRange {
        let first = self.asked.fetch_add(1, Relaxed) == 0;
        self.lie.filter(|_| !first).unwrap_or(self.range)
    }
    fn guard_pages(&self) -> u64 {
        self.guard
    }
}

pub fn pages(start: u64, end: u64) -> VpnRange {
    VpnRange::new(Vpn(start), Vpn(end))
}

/// An item from page `start` up to page `end`.
pub fn value(start: u64, end: u64) -> TestItem {
    let (asked, alive) = (AtomicU64::new(0), AtomicU64::new(ALIVE));
    TestItem { range: pages(start, end), lie: None, asked, guard: 0, alive }
}

/// An item outside of any memory, which is never freed, for edits below the replacement.
pub fn item(start: u64, end: u64) -> NonNull<IndexItem<TestItem>> {
    item_with_guard(start, end, 0)
}

pub fn item_with_guard(start: u64, end: u64, guard: u64) -> NonNull<IndexItem<TestItem>> {
    NonNull::from(Box::leak(Box::new(IndexItem::new(TestItem { guard, ..value(start, end) }))))
}

/// Nodes and items from the host's heap, counted; refuses when told to. Where there is an RCU, `retire`
/// defers to it.
#[derive(Default)]
pub struct HeapMemory<'a> {
    /// Number of nodes allocated and not freed.
    pub nodes: Cell<usize>,
    /// Number of items allocated and not freed.
    pub items: Cell<usize>,
    /// Number of nodes ever allocated.
    pub nodes_allocated: Cell<usize>,
    /// Number of allocations that succeed from now on; `None`: all.
    pub left: Cell<Option<usize>>,
    /// Whether freed items stay as they are, but for `alive`.
    pub keeps_items: bool,
    /// The RCU of the readers; the heap's memory with the same RCU is one memory.
    pub id: Option<UniqueId>,
    pub rcu: Option<&'a Rcu<'a, TestCpu>>,
}

/// The RCU of indexes without readers.
static NO_READERS: LazyLock<UniqueId> = LazyLock::new(UniqueId::new);

impl<'a> HeapMemory<'a> {
    /// Memory that defers to `rcu`.
    pub fn with_rcu(rcu: &'a Rcu<'a, TestCpu>) -> Self {
        Self { rcu: Some(rcu), ..Self::at_once(rcu) }
    }

    /// Memory that is freed at once, though it may be read under `rcu`.
    pub fn at_once(rcu: &Rcu<TestCpu>) -> Self {
        Self { id: Some(rcu.id()), ..Self::default() }
    }

    fn refuses(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.map(|left| left.saturating_sub(1)));
        left == Some(0)
    }

    fn alloc<T>(&self) -> Option<NonNull<T>> {
        if self.refuses() {
            return None;
        }
        // SAFETY: the layout is not empty.
        NonNull::new(unsafe { alloc(Layout::new::<T>()) }.cast())
    }

    fn free_to_heap<const F: usize>(&self, node: NonNull<IndexNode<TestCpu, F>>) {
        self.nodes.set(self.nodes.get() - 1);
        // SAFETY: allocated by `alloc` with this layout; poisoned first, so that a late reader finds nothing
        // in it.
        unsafe {
            node.cast::<u8>().write_bytes(0xdd, size_of::<IndexNode<TestCpu, F>>());
            // A model keeps the poison, so that a late reader is told from one that meets other memory.
            if cfg!(not(loom)) {
                dealloc(node.cast().as_ptr(), Layout::new::<IndexNode<TestCpu, F>>());
            }
        }
    }
}

// SAFETY: the heap's memory, freed at once without an RCU (tests that look up meanwhile have one), else after
// a grace period.
unsafe impl<const F: usize> IndexMemory<TestItem, TestCpu, F> for HeapMemory<'_> {
    fn id(&self) -> UniqueId {
        DeferredFree::id(self)
    }

    fn rcu(&self) -> UniqueId {
        DeferredFree::id(self)
    }

    fn alloc_node(&self) -> Option<NonNull<IndexNode<TestCpu, F>>> {
        let node = self.alloc()?;
        self.nodes.set(self.nodes.get() + 1);
        self.nodes_allocated.set(self.nodes_allocated.get() + 1);
        Some(node)
    }

    unsafe fn free_node(&self, node: NonNull<IndexNode<TestCpu, F>>) {
        self.free_to_heap(node);
    }

    fn node_tag(&self) -> usize {
        F
    }

    fn alloc_item(&self) -> Option<NonNull<MaybeUninit<IndexItem<TestItem>>>> {
        let item = self.alloc::<MaybeUninit<IndexItem<TestItem>>>()?;
        self.items.set(self.items.get() + 1);
        #[cfg(loom)]
        crate::sync::forget(item.addr().get()..item.addr().get() + size_of::<IndexItem<TestItem>>());
        Some(item)
    }

    unsafe fn free_item(&self, item: NonNull<IndexItem<TestItem>>) {
        self.items.set(self.items.get() - 1);
        // SAFETY: allocated above with this layout, and without a user now.
        unsafe {
            item.as_ref().value().alive.store(0, Relaxed);
            // A model keeps it as it is otherwise, so that a late reader is told from one that meets other
            // memory.
            if cfg!(not(loom)) && !self.keeps_items {
                item.cast::<u8>().write_bytes(0xdd, size_of::<IndexItem<TestItem>>());
                dealloc(item.cast().as_ptr(), Layout::new::<IndexItem<TestItem>>());
            }
        }
    }

    fn item_tag(&self) -> usize {
        ITEM
    }

    unsafe fn retire(&self, mut objects: RcuList) {
        if let Some(rcu) = self.rcu {
            // SAFETY: unlinked, says the caller; nothing else uses their heads.
            unsafe { rcu.defer_all(objects, self) };
            return;
        }
        while let Some((object, tag)) = objects.pop::<TestCpu>() {
            // SAFETY: tests without an RCU have no readers.
            unsafe { self.free_deferred(tag, object) };
        }
    }
}

// SAFETY: all of one id free to the host's heap, from which all objects come.
unsafe impl DeferredFree for HeapMemory<'_> {
    fn id(&self) -> UniqueId {
        self.id.unwrap_or(*NO_READERS)
    }

    unsafe fn free_deferred(&self, tag: usize, object: NonNull<RcuHead>) {
        // SAFETY: retired with the tag of its kind, for nodes the fan-out.
        unsafe {
            match tag {
                4 => self.free_to_heap::<4>(IndexNode::of_head(object)),
                16 => self.free_to_heap::<16>(IndexNode::of_head(object)),
                ITEM => IndexMemory::<_, _, 16>::free_item(self, IndexItem::of_head(object)),
                _ => unreachable!("tag {tag}"),
            }
        }
    }
}

/// The items as slots, with what they say of themselves now.
pub fn slots(items: &[NonNull<IndexItem<TestItem>>]) -> Vec<NodeSlot> {
    // SAFETY: items of the tests are never freed.
    let value = |item: &NonNull<IndexItem<TestItem>>| unsafe { item.as_ref() }.value();
    items.iter().map(|item| NodeSlot::of_item(*item, value(item).range, value(item).guard)).collect()
}

/// Edits the tree and publishes; tests have the memory. Removed items are not retired.
pub fn replace<const F: usize>(
    tree: &RangeIndex<'_, TestItem, TestCpu, F>,
    old: VpnRange,
    new: &[NonNull<IndexItem<TestItem>>],
    memory: &HeapMemory<'_>,
) {
    let mut unlinked = RcuList::new();
    // SAFETY: items of the test, in order, which are never freed; the memory is the tree's.
    let edit = unsafe { tree.edit(old, &slots(new), memory) };
    edit.unwrap().publish_into(&mut unlinked);
    // SAFETY: nodes of this memory, unlinked just now.
    unsafe { IndexMemory::<_, _, F>::retire(memory, unlinked) };
}

/// The ranges in the tree, as iteration finds them.
#[cfg(not(loom))]
pub fn ranges<const F: usize>(
    tree: &RangeIndex<'_, TestItem, TestCpu, F>,
    section: &ReadGuard<'_, TestCpu>,
) -> Vec<(u64, u64)> {
    tree.iter(section, pages(0, u64::MAX)).map(|item| (item.range.start.0, item.range.end.0)).collect()
}
