//! The memory of nodes and items.

use super::{FAN_OUT, IndexNode, Ranged};
use crate::machine::Cpu;
use crate::sync::{RcuHead, RcuList, UniqueId};
use crate::units::VpnRange;
use core::fmt;
use core::mem::{MaybeUninit, offset_of};
use core::ptr::NonNull;

/// An item as it lies in memory: the value, and the RCU head that retires it.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct IndexItem<T> {
    value: T,
    head: RcuHead,
}

/// An allocation failed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// Memory for nodes and items.
///
/// # Safety
/// 1. `alloc_node` and `alloc_item` return memory that is valid for a node or an item and that has no other
///    user until it is given to `free_node` or `free_item`, or a grace period of the RCU [`rcu`](Self::rcu)
///    has passed since it was given to `retire` with the tag of its kind.
/// 2. Until then it stays valid for every lifetime that the type `Self` outlives.
/// 3. `id` and `rcu` return the same at each call. What one memory has allocated may be freed and retired by
///    any other with the same `id`, and both have the same `rcu`.
pub unsafe trait IndexMemory<T, C: Cpu, const F: usize = FAN_OUT> {
    /// Which memory this is: an index is always edited with the one that it was made for.
    fn id(&self) -> UniqueId;

    /// The RCU whose readers `retire` waits for.
    fn rcu(&self) -> UniqueId;

    /// Memory for a node, with any content.
    fn alloc_node(&self) -> Option<NonNull<IndexNode<C, F>>>;

    /// Frees a node that no reader has ever seen.
    ///
    /// # Safety
    /// It came from `alloc_node`, and the caller does not use it any more.
    unsafe fn free_node(&self, node: NonNull<IndexNode<C, F>>);

    /// The tag of a retired node, which [`Rcu`](crate::sync::Rcu) keeps beside its [`head`](IndexNode::head).
    fn node_tag(&self) -> usize;

    /// Memory for an item, with any content.
    fn alloc_item(&self) -> Option<NonNull<MaybeUninit<IndexItem<T>>>>;

    /// Frees an item that no reader has ever seen.
    ///
    /// # Safety
    /// It came from `alloc_item`, and the caller does not use it any more.
    unsafe fn free_item(&self, item: NonNull<IndexItem<T>>);

    /// The tag of a retired item, which [`Rcu`](crate::sync::Rcu) keeps beside its [`head`](IndexItem::head).
    fn item_tag(&self) -> usize;

    /// Frees objects that readers may still hold, after a grace period:
    /// [`Rcu::retire_all`](crate::sync::Rcu::retire_all). May wait for readers.
    ///
    /// # Safety
    /// All came from this memory, have the tag of their kind, and are unlinked.
    unsafe fn retire(&self, objects: RcuList);
}

impl<T> IndexItem<T> {
    /// An item that is in no index.
    pub(super) const fn new(value: T) -> Self {
        Self { value, head: RcuHead::new() }
    }

    /// The value.
    #[inline(always)]
    pub(super) fn value(&self) -> &T {
        &self.value
    }

    /// The head to hand to [`Rcu::retire`](crate::sync::Rcu::retire).
    ///
    /// # Safety
    /// The item is valid memory for an item.
    pub unsafe fn head(item: NonNull<Self>) -> NonNull<RcuHead> {
        // SAFETY: the field lies inside the item.
        unsafe { item.byte_add(offset_of!(Self, head)).cast() }
    }

    /// The item whose [`head`](Self::head) this is.
    ///
    /// # Safety
    /// The pointer came from `head`.
    pub unsafe fn of_head(head: NonNull<RcuHead>) -> NonNull<Self> {
        // SAFETY: the field lies inside the item, and the pointer was made from the item's.
        unsafe { head.byte_sub(offset_of!(Self, head)).cast() }
    }
}

impl<T: Ranged> Ranged for IndexItem<T> {
    #[inline(always)]
    fn range(&self) -> VpnRange {
        self.value.range()
    }

    fn guard_pages(&self) -> u64 {
        self.value.guard_pages()
    }
}

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory")
    }
}

impl core::error::Error for NoMemory {}
