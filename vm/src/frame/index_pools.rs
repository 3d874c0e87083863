//! Memory for indexes: pools of nodes and items for a [`RangeIndex`](crate::index::RangeIndex).

use super::{BoundSlabPool, Memory, SlabPool};
use crate::index::{FAN_OUT, IndexItem, IndexMemory, IndexNode};
use crate::machine::Machine;
use crate::sync::{Rcu, RcuList, UniqueId};
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Two pools: of nodes, and of items with their RCU heads. Made once, for all indexes of such items on a
/// machine.
pub struct IndexPools<'m, T, M: Machine> {
    id: UniqueId,
    /// The RCU whose readers look the indexes up.
    rcu: UniqueId,
    nodes: SlabPool<'m, IndexNode<M::Cpu, FAN_OUT>, M>,
    items: SlabPool<'m, IndexItem<T>, M>,
}

/// Allocates from the pools, with the memory for their frames and the RCU for their readers.
pub struct IndexAllocator<'a, 'm, T, M: Machine> {
    /// That of the pools.
    id: UniqueId,
    nodes: BoundSlabPool<'a, 'm, IndexNode<M::Cpu, FAN_OUT>, M>,
    items: BoundSlabPool<'a, 'm, IndexItem<T>, M>,
    memory: &'a Memory<'m, M>,
    rcu: &'a Rcu<'a, M::Cpu>,
}

impl<'m, T, M: Machine> IndexPools<'m, T, M> {
    /// Empty pools, for indexes that are looked up under `rcu`. `None` if memory does not suffice.
    pub fn new(memory: &Memory<'m, M>, rcu: &Rcu<M::Cpu>) -> Option<Self> {
        let (nodes, items) = (SlabPool::new(memory)?, SlabPool::new(memory)?);
        Some(Self { id: UniqueId::new(), rcu: rcu.id(), nodes, items })
    }

    /// The allocator over these pools.
    ///
    /// # Panics
    /// If the pools were made for another memory or another RCU.
    pub fn allocator<'a>(
        &'a self,
        memory: &'a Memory<'m, M>,
        rcu: &'a Rcu<'a, M::Cpu>,
    ) -> IndexAllocator<'a, 'm, T, M> {
        assert!(rcu.id() == self.rcu, "the pools are for indexes of another RCU");
        let (nodes, items) = (self.nodes.with(memory), self.items.with(memory));
        IndexAllocator { id: self.id, nodes, items, memory, rcu }
    }

    /// Bytes that a node and an item take.
    pub fn object_bytes(&self) -> (usize, usize) {
        (self.nodes.object_bytes(), self.items.object_bytes())
    }

    /// Number of frames that the pools have now.
    pub fn frames(&self) -> u64 {
        self.nodes.frames() + self.items.frames()
    }

    /// Frees the frames that hold no object.
    pub fn shrink(&self, memory: &Memory<'m, M>) {
        self.nodes.with(memory).shrink();
        self.items.with(memory).shrink();
    }
}

// SAFETY: (1) an object of a pool is valid memory that has no other user until it is freed, or reclaimed
// after a grace period. (2) It lies in the memory that the allocator borrows. (3) All allocators of the same
// pools have one RCU, as `IndexPools::allocator` checks.
unsafe impl<T, M: Machine> IndexMemory<T, M::Cpu> for IndexAllocator<'_, '_, T, M> {
    #[inline(always)]
    fn id(&self) -> UniqueId {
        self.id
    }

    #[inline(always)]
    fn rcu(&self) -> UniqueId {
        self.rcu.id()
    }

    fn alloc_node(&self) -> Option<NonNull<IndexNode<M::Cpu, FAN_OUT>>> {
        Some(self.nodes.alloc()?.cast())
    }

    // Of an edit that is given up: inlined, it would keep the drop of an edit from being so.
    #[inline(never)]
    unsafe fn free_node(&self, node: NonNull<IndexNode<M::Cpu, FAN_OUT>>) {
        // SAFETY: it came from this pool, says the caller, and is not used.
        unsafe { self.nodes.free(node) }
    }

    fn node_tag(&self) -> usize {
        self.nodes.tag()
    }

    fn alloc_item(&self) -> Option<NonNull<MaybeUninit<IndexItem<T>>>> {
        self.items.alloc()
    }

    #[inline(never)]
    unsafe fn free_item(&self, item: NonNull<IndexItem<T>>) {
        // SAFETY: it came from this pool, says the caller, and is not used.
        unsafe { self.items.free(item) }
    }

    fn item_tag(&self) -> usize {
        self.items.tag()
    }

    unsafe fn retire(&self, objects: RcuList) {
        // SAFETY: they came from these pools, have their tags and are unlinked, says the caller.
        unsafe { self.rcu.retire_all(self.memory.machine, objects, self.memory) }
    }
}

impl<T, M: Machine> fmt::Debug for IndexPools<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nodes: {:?}, items: {:?}", self.nodes, self.items)
    }
}

impl<T, M: Machine> fmt::Debug for IndexAllocator<'_, '_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nodes: {:?}, items: {:?}", self.nodes, self.items)
    }
}
