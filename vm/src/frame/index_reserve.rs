//! Objects reserved for an edit of an index that consists of several replacements and must not stop halfway.
//!
//! A replacement that finds no memory in the slab pools takes from the reserve; afterwards the reserve is
//! refilled, if need be with the objects that the replacement retired. So a reserve for one replacement is
//! enough for any number of them.

use super::IndexAllocator;
use crate::index::{FAN_OUT, IndexItem, IndexMemory, IndexNode, MAX_NEW};
use crate::machine::Machine;
use crate::sync::{RcuList, UniqueId};
use core::cell::Cell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Number of nodes in a reserve: three on each of five levels, and a new root. With each level the number of
/// items grows at least by a factor of eight; five levels are enough for the mappings of a process.
const NODES: usize = 16;

/// Number of items in a reserve: more than one replacement takes, as other CPUs may allocate the items that
/// it freed.
const ITEMS: usize = 8;
const _: () = assert!(ITEMS >= MAX_NEW);

type NodePtr<M> = NonNull<IndexNode<<M as Machine>::Cpu, FAN_OUT>>;
type ItemPtr<T> = NonNull<MaybeUninit<IndexItem<T>>>;

/// Memory of an [`IndexAllocator`] with a reserve of objects. Frees them when it is dropped.
pub struct IndexReserve<'a, 'm, T, M: Machine> {
    allocator: IndexAllocator<'a, 'm, T, M>,
    nodes: [Cell<Option<NodePtr<M>>>; NODES],
    items: [Cell<Option<ItemPtr<T>>>; ITEMS],
}

impl<'a, 'm, T, M: Machine> IndexReserve<'a, 'm, T, M> {
    /// Reserves the objects that one replacement may take. `None` if memory does not suffice.
    pub fn new(allocator: IndexAllocator<'a, 'm, T, M>) -> Option<Self> {
        let reserve = Self { allocator, nodes: Default::default(), items: Default::default() };
        reserve.refill().then_some(reserve)
    }

    /// Replaces the objects that were taken. `false` if memory does not suffice.
    pub fn refill(&self) -> bool {
        fn fill<P: Copy>(slots: &[Cell<Option<P>>], mut alloc: impl FnMut() -> Option<P>) -> bool {
            slots.iter().all(|slot| {
                slot.set(slot.get().or_else(&mut alloc));
                slot.get().is_some()
            })
        }
        fill(&self.nodes, || self.allocator.alloc_node()) && fill(&self.items, || self.allocator.alloc_item())
    }
}

/// Takes one of the reserved objects.
fn take<P: Copy>(slots: &[Cell<Option<P>>]) -> Option<P> {
    slots.iter().find_map(Cell::take)
}

// SAFETY: reserved objects came from the allocator and have no other user; the others are the allocator's
// own.
unsafe impl<T, M: Machine> IndexMemory<T, M::Cpu> for IndexReserve<'_, '_, T, M> {
    fn id(&self) -> UniqueId {
        self.allocator.id()
    }

    fn rcu(&self) -> UniqueId {
        self.allocator.rcu()
    }

    fn alloc_node(&self) -> Option<NodePtr<M>> {
        self.allocator.alloc_node().or_else(|| take(&self.nodes))
    }

    unsafe fn free_node(&self, node: NodePtr<M>) {
        // SAFETY: the caller's promise, passed on; all nodes of this memory came from the allocator.
        unsafe { self.allocator.free_node(node) }
    }

    fn node_tag(&self) -> usize {
        self.allocator.node_tag()
    }

    fn alloc_item(&self) -> Option<ItemPtr<T>> {
        self.allocator.alloc_item().or_else(|| take(&self.items))
    }

    unsafe fn free_item(&self, item: NonNull<IndexItem<T>>) {
        // SAFETY: the caller's promise, passed on; all items of this memory came from the allocator.
        unsafe { self.allocator.free_item(item) }
    }

    fn item_tag(&self) -> usize {
        self.allocator.item_tag()
    }

    unsafe fn retire(&self, objects: RcuList) {
        // SAFETY: as above.
        unsafe { self.allocator.retire(objects) }
    }
}

impl<T, M: Machine> Drop for IndexReserve<'_, '_, T, M> {
    fn drop(&mut self) {
        while let Some(node) = take(&self.nodes) {
            // SAFETY: it came from the allocator, and was not used.
            unsafe { self.allocator.free_node(node) }
        }
        while let Some(item) = take(&self.items) {
            // SAFETY: as above.
            unsafe { self.allocator.free_item(item.cast()) }
        }
    }
}

impl<T, M: Machine> fmt::Debug for IndexReserve<'_, '_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.nodes.iter().filter(|slot| slot.get().is_some()).count();
        let items = self.items.iter().filter(|slot| slot.get().is_some()).count();
        write!(f, "{nodes} of {NODES} nodes and {items} of {ITEMS} items reserved")
    }
}
