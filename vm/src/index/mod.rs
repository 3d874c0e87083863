//! An index of disjoint ranges that lookups read without a lock: an RCU B+tree.
//!
//! Items are owned by the user, each with a [`Ranged`] of pages that never changes. Whoever is in a read
//! section may look up at any time; one writer at a time replaces items, under a lock of the user's.
//!
//! A node never changes what it says to lookups, but for the child in a slot. A replacement builds new nodes
//! beside the old ones and then stores one word: the slot of the lowest node below which all differs (or the
//! root). Whoever loads the slot before sees all of the old items, whoever loads it after all of the new
//! ones, and an address that is mapped in both is found at every instant.
//!
//! ```text
//!                    [ 0 | 60 | 90 ]                    replace 62..80 by 62..70, 75..80
//!                   /      |        \
//!       [ 5 20 33 ]   [ 60 62 80 ]   [ 90 97 ]          one leaf is copied, one slot stored:
//!                          x
//!                     [ 60 62 75 80 ]                   full: had it not fitted, both halves would go into a copy of
//!                                                       the parent, and the store one slot further up
//! ```
//!
//! The pages are divided among the children of a node by its keys, holes included, and no item crosses such a
//! border. An item that would, after a neighbour has gone, is covered by both sides of the border: the edit
//! then covers both children, and copies their parent.
//!
//! Every node but the root has between a quarter of its slots and all of them in use: an edit that leaves
//! fewer takes the neighbour in. Nodes emptied vanish. So the height is logarithmic, and most replacements
//! copy one leaf.
//!
//! Holes: for each child its parent notes where its items begin and end and the longest hole between two of
//! them. These lines are read and written only by writers, in place, up the path to the root as far as
//! something changes.
//!
//! | file | holds |
//! |---|---|
//! | `node` | a node and its fields |
//! | `lookup` | find, next, previous, iteration |
//! | `leaf` | a replacement within one leaf, which most are |
//! | `path` | where a page is found, on every level, for writers |
//! | `edit` | what one level of the tree becomes |
//! | `replace` | prepare and publish |
//! | `gap` | the lowest and the highest hole |
//! | `owned` | a tree that owns its items |
//! | `check` | recount everything |

mod check;
mod edit;
mod gap;
mod leaf;
mod lookup;
#[cfg(all(test, loom))]
mod loom_tests;
mod node;
mod owned;
#[cfg(test)]
mod owned_testing;
#[cfg(all(test, not(loom)))]
mod owned_tests;
mod path;
#[cfg(test)]
mod recent_tests;
mod replace;
#[cfg(test)]
mod testing;
#[cfg(all(test, not(loom)))]
mod tests;

pub use check::IndexStats;
pub use lookup::Items;
pub use node::IndexNode;
pub use owned::{IndexItem, IndexMemory, MAX_NEW, RangeIndex, Replacement};
pub use replace::Prepared;

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use crate::sync::{CacheAligned, RcuList};
use crate::units::VpnRange;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Slots in a node, where nobody says otherwise.
pub const FAN_OUT: usize = 16;

/// More levels than a tree can have that fits into memory.
const MAX_HEIGHT: usize = 24;

/// The pages of an item. The tree reads them once, when the item is put in.
pub trait Ranged {
    /// The pages; not empty, always the same.
    fn range(&self) -> VpnRange;

    /// Pages right below that searches for a hole leave free: the guard of a stack.
    fn guard_pages(&self) -> u64 {
        0
    }

    /// The item is about to be unlinked. Said once, with the writers' lock held, of all that go before any is
    /// unlinked; not of items in a [`RangeTree`] that owns none.
    fn before_unlink(&self) {}

    /// The item lies where it stays and nobody else sees it yet: its words are touched, so that their shadows
    /// come to be with it.
    #[cfg(loom)]
    fn touch(&self) {}
}

/// There was no memory. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// Where nodes come from.
///
/// # Safety
/// `alloc_node` returns memory that is valid for a node and that nobody else uses until it is given to
/// `free_node`, or a grace period has passed since it was given to `retire` with the tag for nodes.
pub unsafe trait NodeMemory<C: Cpu, const F: usize = FAN_OUT> {
    /// Memory for a node, whatever it contains.
    fn alloc_node(&self) -> Option<NonNull<IndexNode<C, F>>>;

    /// Takes back a node that no reader has ever seen.
    ///
    /// # Safety
    /// It came from `alloc_node`, and its user has no use for it.
    unsafe fn free_node(&self, node: NonNull<IndexNode<C, F>>);

    /// What [`Rcu`](crate::sync::Rcu) is to keep beside the [`head`](IndexNode::head) of a retired node.
    fn node_tag(&self) -> usize;

    /// Takes back what readers may still hold, through [`Rcu::retire_all`](crate::sync::Rcu::retire_all). May wait
    /// for readers.
    ///
    /// # Safety
    /// All came from this memory, have their kind's tag, and are unlinked.
    unsafe fn retire(&self, objects: RcuList);
}

/// The index. All-zero is empty.
///
/// The pointers handed to [`RangeTree::prepare`] are the user's promise: from publishing until a grace period
/// after the item has been replaced, each points to a `T` that is valid and not mutably borrowed.
pub struct RangeTree<T, C: Cpu, const F: usize = FAN_OUT> {
    /// Address of the root node and, in its low bits, its height; 0: no items. Published with release, loaded
    /// with acquire.
    root: AtomicUsize<C>,
    /// 1 while something is prepared: a second writer at the same time is a bug of the user's. On a line that
    /// lookups do not read.
    writing: CacheAligned<AtomicU32<C>>,
    _items: PhantomData<*const T>,
}

// SAFETY: the tree lends `&T` to any thread; nodes are shared through atomics, under the rules above.
unsafe impl<T: Sync, C: Cpu, const F: usize> Sync for RangeTree<T, C, F> {}
// SAFETY: as above; the tree owns no `T`.
unsafe impl<T: Sync, C: Cpu, const F: usize> Send for RangeTree<T, C, F> {}

/// The root as one word.
struct Root<'a, C: Cpu, const F: usize> {
    node: &'a IndexNode<C, F>,
    height: usize,
}

impl<C: Cpu, const F: usize> Clone for Root<'_, C, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Cpu, const F: usize> Copy for Root<'_, C, F> {}

impl<'a, C: Cpu, const F: usize> Root<'a, C, F> {
    const HEIGHT: usize = 0x1f;

    /// # Safety
    /// The word was loaded from the root, and for `'a` the caller is in a read section begun before it was
    /// replaced, or holds the writers' lock.
    #[inline(always)]
    unsafe fn from_word(word: usize) -> Option<Self> {
        let node = core::ptr::with_exposed_provenance::<IndexNode<C, F>>(word & !Self::HEIGHT);
        // SAFETY: the word is 0 or the address of a node, which the caller says is still there.
        Some(Self { node: unsafe { node.as_ref() }?, height: word & Self::HEIGHT })
    }

    fn word(node: usize, height: usize) -> usize {
        node | height
    }
}

impl<T, C: Cpu, const F: usize> RangeTree<T, C, F> {
    const FITS: () =
        assert!(F >= 4 && MAX_HEIGHT <= Root::<C, F>::HEIGHT && align_of::<IndexNode<C, F>>() > 31);

    /// A tree without items.
    pub const fn new() -> Self {
        const { Self::FITS };
        Self { root: AtomicUsize::new(0), writing: CacheAligned(AtomicU32::new(0)), _items: PhantomData }
    }

    /// Whether there is no item; stale at once unless the caller holds the writers' lock.
    pub fn is_empty(&self) -> bool {
        self.root.load(Relaxed) == 0
    }
}

impl<T, C: Cpu, const F: usize> Default for RangeTree<T, C, F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, C: Cpu, const F: usize> fmt::Debug for RangeTree<T, C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.root.load(Relaxed);
        let levels = if word == 0 { 0 } else { 1 + (word & Root::<C, F>::HEIGHT) };
        write!(f, "RangeTree of {levels} levels")
    }
}

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory")
    }
}

impl core::error::Error for NoMemory {}
