//! Memory for indexes: the pools that the nodes and items of a [`RangeIndex`](crate::index::RangeIndex) come
//! from.

use super::{Memory, Pool};
use crate::index::{FAN_OUT, IndexItem, IndexNode};
use crate::index::{IndexMemory, NodeMemory};
use crate::machine::Machine;
use crate::sync::{Rcu, RcuList};
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Two pools: nodes, and items with their links. Made once; all indexes of the machine with such items share
/// it.
pub struct IndexPools<'m, T, M: Machine> {
    nodes: Pool<'m, IndexNode<M::Cpu, FAN_OUT>, M>,
    items: Pool<'m, IndexItem<T>, M>,
}

/// The pools with the memory they cut and the readers they wait for, as an index wants them.
pub struct IndexStore<'a, 'm, T, M: Machine> {
    pools: &'a IndexPools<'m, T, M>,
    memory: &'a Memory<'m, M>,
    rcu: &'a Rcu<M::Cpu>,
}

impl<'m, T, M: Machine> IndexPools<'m, T, M> {
    /// Empty pools. `None` where memory does not suffice.
    pub fn new(memory: &Memory<'m, M>) -> Option<Self> {
        Some(Self { nodes: Pool::new(memory)?, items: Pool::new(memory)? })
    }

    /// The pools, of `memory`, for indexes that are looked up under `rcu`: always the same two.
    pub fn store<'a>(&'a self, memory: &'a Memory<'m, M>, rcu: &'a Rcu<M::Cpu>) -> IndexStore<'a, 'm, T, M> {
        IndexStore { pools: self, memory, rcu }
    }

    /// Bytes that a node and an item take.
    pub fn object_bytes(&self) -> (usize, usize) {
        (self.nodes.object_bytes(), self.items.object_bytes())
    }

    /// Frames that the pools have now.
    pub fn frames(&self) -> u64 {
        self.nodes.frames() + self.items.frames()
    }

    /// Gives back what frames it can.
    pub fn shrink(&self, memory: &Memory<'m, M>) {
        self.nodes.shrink(memory);
        self.items.shrink(memory);
    }
}

// SAFETY: a pool's objects are valid memory that is nobody else's until freed, or reclaimed after a grace
// period.
unsafe impl<T, M: Machine> NodeMemory<M::Cpu> for IndexStore<'_, '_, T, M> {
    fn alloc_node(&self) -> Option<NonNull<IndexNode<M::Cpu, FAN_OUT>>> {
        Some(self.pools.nodes.alloc(self.memory)?.cast())
    }

    unsafe fn free_node(&self, node: NonNull<IndexNode<M::Cpu, FAN_OUT>>) {
        // SAFETY: it came from this pool, says the caller, and is not used.
        unsafe { self.pools.nodes.free(self.memory, node) }
    }

    fn node_tag(&self) -> usize {
        self.pools.nodes.tag()
    }

    unsafe fn retire(&self, objects: RcuList) {
        // SAFETY: they came from these pools, have their tags and are unlinked, says the caller.
        unsafe { self.rcu.retire_all(self.memory.machine, objects, self.memory) }
    }
}

// SAFETY: as above.
unsafe impl<T, M: Machine> IndexMemory<T, M::Cpu> for IndexStore<'_, '_, T, M> {
    fn alloc_item(&self) -> Option<NonNull<MaybeUninit<IndexItem<T>>>> {
        self.pools.items.alloc(self.memory)
    }

    unsafe fn free_item(&self, item: NonNull<IndexItem<T>>) {
        // SAFETY: it came from this pool, says the caller, and is not used.
        unsafe { self.pools.items.free(self.memory, item) }
    }

    fn item_tag(&self) -> usize {
        self.pools.items.tag()
    }
}

impl<T, M: Machine> fmt::Debug for IndexPools<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nodes: {:?}, items: {:?}", self.nodes, self.items)
    }
}

impl<T, M: Machine> fmt::Debug for IndexStore<'_, '_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pools.fmt(f)
    }
}
