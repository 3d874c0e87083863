//! Objects put aside for an edit of an index that consists of several replacements and must not stop halfway.
//!
//! A replacement that finds no memory in the pools takes from the reserve; afterwards it is topped up, from
//! what the replacement retired if need be. So a reserve for one replacement is enough for any number of
//! them.

use super::index::IndexStore;
use crate::index::{FAN_OUT, IndexItem, IndexNode, MAX_NEW};
use crate::index::{IndexMemory, NodeMemory};
use crate::machine::Machine;
use crate::sync::RcuList;
use core::cell::Cell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Nodes that one replacement may take: three on each of five levels, and a new root. Each level holds eight
/// times what the one below it does, at least; five are enough for the mappings that a process may have.
const NODES: usize = 16;

/// Items put aside: more than one replacement takes, as other CPUs may be faster to take what it gave back.
const ITEMS: usize = 8;
const _: () = assert!(ITEMS >= MAX_NEW);

type Node<M> = NonNull<IndexNode<<M as Machine>::Cpu, FAN_OUT>>;
type Item<T> = NonNull<MaybeUninit<IndexItem<T>>>;

/// Memory of an [`IndexStore`] with objects put aside. Gives them back when it is dropped.
pub struct IndexReserve<'a, 'm, T, M: Machine> {
    store: IndexStore<'a, 'm, T, M>,
    nodes: [Cell<Option<Node<M>>>; NODES],
    items: [Cell<Option<Item<T>>>; ITEMS],
}

impl<'a, 'm, T, M: Machine> IndexReserve<'a, 'm, T, M> {
    /// Puts aside what one replacement may take. `None` where there is not so much.
    pub fn new(store: IndexStore<'a, 'm, T, M>) -> Option<Self> {
        let reserve = Self { store, nodes: Default::default(), items: Default::default() };
        reserve.top_up().then_some(reserve)
    }

    /// Puts aside again what was taken. `false` where there is not so much.
    pub fn top_up(&self) -> bool {
        fn fill<P: Copy>(slots: &[Cell<Option<P>>], mut alloc: impl FnMut() -> Option<P>) -> bool {
            slots.iter().all(|slot| {
                slot.set(slot.get().or_else(&mut alloc));
                slot.get().is_some()
            })
        }
        fill(&self.nodes, || self.store.alloc_node()) && fill(&self.items, || self.store.alloc_item())
    }
}

/// Takes one of the objects put aside.
fn take<P: Copy>(slots: &[Cell<Option<P>>]) -> Option<P> {
    slots.iter().find_map(Cell::take)
}

// SAFETY: what is put aside came from the store and is nobody else's; the rest is the store's own.
unsafe impl<T, M: Machine> NodeMemory<M::Cpu> for IndexReserve<'_, '_, T, M> {
    fn alloc_node(&self) -> Option<Node<M>> {
        self.store.alloc_node().or_else(|| take(&self.nodes))
    }

    unsafe fn free_node(&self, node: Node<M>) {
        // SAFETY: the caller's promise, passed on; all nodes of this memory came from the store.
        unsafe { self.store.free_node(node) }
    }

    fn node_tag(&self) -> usize {
        self.store.node_tag()
    }

    unsafe fn retire(&self, objects: RcuList) {
        // SAFETY: as above.
        unsafe { self.store.retire(objects) }
    }
}

// SAFETY: as above.
unsafe impl<T, M: Machine> IndexMemory<T, M::Cpu> for IndexReserve<'_, '_, T, M> {
    fn alloc_item(&self) -> Option<Item<T>> {
        self.store.alloc_item().or_else(|| take(&self.items))
    }

    unsafe fn free_item(&self, item: NonNull<IndexItem<T>>) {
        // SAFETY: the caller's promise, passed on; all items of this memory came from the store.
        unsafe { self.store.free_item(item) }
    }

    fn item_tag(&self) -> usize {
        self.store.item_tag()
    }
}

impl<T, M: Machine> Drop for IndexReserve<'_, '_, T, M> {
    fn drop(&mut self) {
        while let Some(node) = take(&self.nodes) {
            // SAFETY: it came from the store, and nobody has used it.
            unsafe { self.store.free_node(node) }
        }
        while let Some(item) = take(&self.items) {
            // SAFETY: as above.
            unsafe { self.store.free_item(item.cast()) }
        }
    }
}

impl<T, M: Machine> fmt::Debug for IndexReserve<'_, '_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.nodes.iter().filter(|slot| slot.get().is_some()).count();
        let items = self.items.iter().filter(|slot| slot.get().is_some()).count();
        write!(f, "{nodes} of {NODES} nodes and {items} of {ITEMS} items put aside")
    }
}
