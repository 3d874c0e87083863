//! Floor 3: an index of disjoint ranges of pages that lookups read without a lock: an RCU B+tree.
//!
//! A [`RangeIndex`] owns its items, each a [`Ranged`] value that never changes. A reader looks up in a read
//! section and gets `&T` for the life of the section. One writer at a time, under a lock of the user's,
//! replaces items: it [prepares](RangeIndex::prepare) a [`Replacement`], where memory may run out, and then
//! [publishes](Replacement::publish) it, which cannot fail. Memory safety does not hang on that lock: a
//! second edit at the same time panics.
//!
//! # One store
//!
//! A node never changes for lookups, except for the child that a slot points to. A replacement builds new
//! nodes beside the old ones and then stores one word: the slot of the lowest node that has all changes
//! below it, or the root. A lookup that loads the word before that finds all of the old items, one that loads
//! it after finds all of the new ones, and an address that is mapped in both is found at every instant.
//!
//! ```text
//!                    [ 0 | 60 | 90 ]                    replace 62..80 by 62..70, 75..80
//!                   /      |        \
//!       [ 5 20 33 ]   [ 60 62 80 ]   [ 90 97 ]          one leaf is copied, one slot stored:
//!                          x
//!                     [ 60 62 75 80 ]                   full: with one item more, both halves would go into
//!                                                       a copy of the parent, and the store one slot up
//! ```
//!
//! # Invariants
//!
//! The keys of a node divide its pages among its children, holes included, and no item crosses such a border.
//! An item that would, after a neighbour has been removed, is covered by both sides of the border: the edit
//! then covers both children, and copies their parent.
//!
//! Every node but the root has between a quarter of its slots and all of them in use: an edit that leaves
//! fewer merges the node with a neighbour. Empty nodes are removed. So the height is logarithmic, and most
//! replacements copy one leaf.
//!
//! For each child its parent keeps the first page, the last page and the longest gap between two items of the
//! child. These lines are read and written by writers only, in place, along the path to the root as far as
//! they change.
//!
//! | file | holds |
//! |---|---|
//! | `memory` | the memory of nodes and items: the contract [`IndexMemory`] |
//! | `node`, `node_list` | a node and its slots; a writer's list of nodes |
//! | `lookup` | find, by way of the last hit too; next, previous, iteration |
//! | `replace` | a replacement: prepare and publish, with the items that it adds and retires |
//! | `tree_edit` | the edit of one leaf, the common case; the store that publishes an edit |
//! | `levels`, `level_edit` | the edit of several nodes, level by level; of one level |
//! | `path` | the path from the root to a page, for writers |
//! | `gap` | the lowest and the highest gap of a length |
//! | `check` | the check of the invariants |

mod check;
mod gap;
mod level_edit;
mod levels;
mod lookup;
mod memory;
mod node;
mod node_list;
mod path;
mod replace;
#[cfg(test)]
mod tests;
mod tree_edit;

pub use check::IndexStats;
pub use memory::{IndexItem, IndexMemory, NoMemory};
pub use node::IndexNode;
pub use replace::{MAX_NEW, Replacement};

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use crate::sync::{CacheAligned, HitSource, UniqueId};
use crate::units::{Vpn, VpnRange};
use core::fmt;
use core::marker::PhantomData;
use core::mem::needs_drop;

/// Slots in a node, unless a user asks for another number.
pub const FAN_OUT: usize = 16;

/// Items lie below this page: the end of what an index holds. Lookups take any page.
pub const END: Vpn = Vpn(i64::MAX as u64);

/// An upper bound of the height of any tree that fits into memory.
const MAX_HEIGHT: usize = 24;

/// A value that covers a range of pages. An edit asks for the range and the guard once, when the item is put
/// in: whatever an item says later, it is found and removed where it was put.
pub trait Ranged {
    /// The pages; not empty, always the same.
    fn range(&self) -> VpnRange;

    /// Number of pages right below the range that searches for a gap leave free: the guard of a stack.
    fn guard_pages(&self) -> u64 {
        0
    }

    /// Called before the item is unlinked, by the one edit under way: for all items of a replacement before
    /// any of them is unlinked. Twice if the edit does not come to its end. No lock of the index's is held,
    /// and another edit that is prepared here panics.
    fn before_unlink(&self) {}

    /// Accesses each atomic word of the item, which lies at its final address and is not yet shared, so that
    /// the model's shadows of the words are created with it.
    #[cfg(loom)]
    fn touch(&self) {}
}

/// An index of disjoint ranges that owns its items.
///
/// It is made for one memory, which outlives it, and is read under that memory's RCU; both are checked. Items
/// still in it when it is dropped are leaked: the user removes all items first.
///
/// Items are put in through a shared reference, so the type of the items cannot be shortened:
///
/// ```compile_fail,E0308
/// use interleaf::{index::RangeIndex, machine::Cpu};
/// fn shorten<'r, 's, 'm, T, C: Cpu>(
///     index: &'r RangeIndex<'m, &'static T, C>,
/// ) -> &'r RangeIndex<'m, &'s T, C> {
///     index
/// }
/// ```
pub struct RangeIndex<'m, T, C: Cpu, const F: usize = FAN_OUT> {
    /// Address of the root node and, in its low bits, its height; 0: no items. Stored with release, loaded
    /// with acquire.
    root: AtomicUsize<C>,
    /// Identity and version under which CPUs cache their last hits.
    hits: HitSource<C>,
    /// The RCU whose read sections keep nodes and items in memory.
    rcu: UniqueId,
    writer: CacheAligned<WriterWords<C>>,
    /// Items are put in through `&self`: the lifetimes in `T` can be neither shortened nor extended. Nodes
    /// and items are valid as long as their memory.
    _items: PhantomData<(*mut T, &'m ())>,
}

/// Words that only writers use, on another line than lookups read.
struct WriterWords<C: Cpu> {
    /// The memory of all nodes and items.
    memory: UniqueId,
    /// 1 while there is an [`EditGuard`]: a second edit at the same time is a bug of the user's.
    is_editing: AtomicU32<C>,
    /// Number of items. Relaxed: changed with an [`EditGuard`].
    nr_items: AtomicUsize<C>,
}

// SAFETY: the index lends `&T` to any thread; nodes are shared through atomics, under the rules above.
unsafe impl<T: Sync, C: Cpu, const F: usize> Sync for RangeIndex<'_, T, C, F> {}
// SAFETY: the index owns its items through addresses that are valid on every thread.
unsafe impl<T: Send + Sync, C: Cpu, const F: usize> Send for RangeIndex<'_, T, C, F> {}

/// The right to edit an index: `is_editing` is set for its owner. While it exists, only its owner unlinks
/// nodes and items, so those that it finds stay in memory.
struct EditGuard<'a, C: Cpu> {
    writer: &'a WriterWords<C>,
}

impl<C: Cpu> Drop for EditGuard<'_, C> {
    fn drop(&mut self) {
        self.writer.is_editing.store(0, Release);
    }
}

/// The root word, decoded: a node, and its level. Made from the word, by an unsafe function, or of a child
/// and the level below. For `'a` the nodes below it stay in memory: it was found in a read section of the
/// index's RCU, or the index is being edited.
struct RootRef<'a, C: Cpu, const F: usize> {
    node: &'a IndexNode<C, F>,
    height: usize,
}

impl<C: Cpu, const F: usize> Clone for RootRef<'_, C, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Cpu, const F: usize> Copy for RootRef<'_, C, F> {}

impl<'a, C: Cpu, const F: usize> RootRef<'a, C, F> {
    const HEIGHT: usize = 0x1f;

    /// # Safety
    /// The word was loaded from the root. For `'a` the caller is in a read section of the index's RCU that
    /// began before it was loaded, or has an [`EditGuard`].
    #[inline(always)]
    unsafe fn from_word(word: usize) -> Option<Self> {
        let node = core::ptr::with_exposed_provenance::<IndexNode<C, F>>(word & !Self::HEIGHT);
        // SAFETY: a root word is 0 or the address of a node, which is retired only after an edit, of which
        // there is one at a time, has replaced it, and freed a grace period later: it is still there.
        Some(Self { node: unsafe { node.as_ref() }?, height: word & Self::HEIGHT })
    }

    fn word(node: usize, height: usize) -> usize {
        node | height
    }
}

impl<'m, T: Ranged, C: Cpu, const F: usize> RangeIndex<'m, T, C, F> {
    /// An index without items, whose nodes and items will be `memory`'s.
    pub fn new<N: IndexMemory<T, C, F> + 'm>(memory: &N) -> Self {
        const {
            assert!(!needs_drop::<T>(), "items are leaked, never dropped");
            assert!(F >= 4 && MAX_HEIGHT <= RootRef::<C, F>::HEIGHT && align_of::<IndexNode<C, F>>() > 31);
        };
        let (is_editing, nr_items) = (AtomicU32::new(0), AtomicUsize::new(0));
        let writer = CacheAligned(WriterWords { memory: memory.id(), is_editing, nr_items });
        let (root, hits) = (AtomicUsize::new(0), HitSource::new());
        Self { root, hits, rcu: memory.rcu(), writer, _items: PhantomData }
    }

    /// Number of items; stale at once unless the user keeps writers out.
    pub fn len(&self) -> usize {
        self.writer.nr_items.load(Relaxed)
    }

    /// Whether there is no item; stale at once unless the user keeps writers out.
    pub fn is_empty(&self) -> bool {
        self.root.load(Relaxed) == 0
    }

    /// Begins an edit.
    ///
    /// # Panics
    /// If another one is under way.
    fn begin_edit(&self) -> EditGuard<'_, C> {
        let is_editing = self.writer.is_editing.swap(1, Acquire) != 0;
        assert!(!is_editing || mutant!("index.two-writers"), "two writers");
        EditGuard { writer: &self.writer }
    }
}

impl<T, C: Cpu, const F: usize> fmt::Debug for RangeIndex<'_, T, C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.root.load(Relaxed);
        let levels = if word == 0 { 0 } else { 1 + (word & RootRef::<C, F>::HEIGHT) };
        write!(f, "RangeIndex of {} items in {levels} levels", self.writer.nr_items.load(Relaxed))
    }
}
