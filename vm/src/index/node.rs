//! A node: what lookups read in its first lines, what only writers use behind.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use crate::sync::{Plain, RcuHead};
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;

/// Key of a slot that holds nothing: above every page.
pub(super) const VACANT: u64 = u64::MAX;

/// A node of the tree: `F` slots. Its user sees memory to hand out and take back, and the link that retires
/// it.
///
/// | field | in a leaf | in an inner node |
/// |---|---|---|
/// | `keys[i]` | first page of item `i` | first page that child `i` answers for; `keys[0]` is 0 |
/// | `slots[i]` | item | child |
/// | `last[i]` | end of item `i`, for lookups too | end of the child's last item |
/// | `first[i]` | start of item `i` less the pages it keeps free below | start of the child's first item, likewise |
/// | `gap[i]` | 0 | the longest hole between two items of the child |
///
/// Once published, keys never change, a slot that holds something holds another child of the same pages or
/// nothing else, and `last`, `first`, `gap` of an inner node change under the writers' lock.
#[repr(C, align(128))]
pub struct IndexNode<C: Cpu, const F: usize> {
    keys: [Plain<u64, C>; F],
    /// A child is stored with release when it is published, and loaded with acquire.
    slots: [AtomicUsize<C>; F],
    last: [AtomicU64<C>; F],
    first: [AtomicU64<C>; F],
    gap: [AtomicU64<C>; F],
    /// Writers' lists: the next node built, or the next node replaced.
    link: AtomicUsize<C>,
    /// Slots in use; never changes once published.
    count: Plain<usize, C>,
    /// While unpublished: the first page that the node answers for.
    low: u64,
    head: RcuHead,
}

/// A slot's content, with what its node notes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub key: u64,
    pub slot: usize,
    pub extent: Extent,
}

/// Where items begin and end, and the longest hole between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub first: u64,
    pub last: u64,
    pub gap: u64,
}

impl<C: Cpu, const F: usize> IndexNode<C, F> {
    /// The fewest entries in a node that is not the root.
    pub(super) const MIN: usize = if F / 4 > 2 { F / 4 } else { 2 };

    /// The link to hand to [`Rcu::retire`](crate::sync::Rcu::retire).
    ///
    /// # Safety
    /// The pointer is to a node's memory.
    pub unsafe fn head(node: NonNull<Self>) -> NonNull<RcuHead> {
        // SAFETY: the field lies inside the node.
        unsafe { node.byte_add(core::mem::offset_of!(Self, head)).cast() }
    }

    /// The node whose [`head`](Self::head) this is.
    ///
    /// # Safety
    /// The pointer came from `head`.
    pub unsafe fn of_head(head: NonNull<RcuHead>) -> NonNull<Self> {
        // SAFETY: the field lies inside the node, and the pointer was made from the node's.
        unsafe { head.byte_sub(core::mem::offset_of!(Self, head)).cast() }
    }

    /// Makes an empty node of fresh memory.
    ///
    /// # Safety
    /// The memory is the caller's alone.
    pub(super) unsafe fn init<'a>(memory: NonNull<Self>, low: u64) -> &'a mut Self {
        #[cfg(loom)]
        crate::sync::forget(memory.addr().get()..memory.addr().get() + size_of::<Self>());
        let node = memory.as_ptr();
        let zeros = || [const { AtomicU64::new(0) }; F];
        // Field by field: a whole node would be made on the stack, and copied from there. SAFETY: the caller
        // has the memory alone, and its type says that size and alignment fit; all fields are written before
        // the reference is made.
        unsafe {
            (&raw mut (*node).keys).write([const { Plain::new(VACANT) }; F]);
            (&raw mut (*node).slots).write([const { AtomicUsize::new(0) }; F]);
            (&raw mut (*node).last).write(zeros());
            (&raw mut (*node).first).write(zeros());
            (&raw mut (*node).gap).write(zeros());
            (&raw mut (*node).link).write(AtomicUsize::new(0));
            (&raw mut (*node).count).write(Plain::new(0));
            (&raw mut (*node).low).write(low);
            (&raw mut (*node).head).write(RcuHead::new());
            &mut *node
        }
    }

    /// Fills the next slots with entries of another node of the same level, while this one is not yet
    /// published.
    pub(super) fn copy_from(&mut self, other: &Self, entries: Range<usize>) {
        let free = self.count();
        for (nth, entry) in entries.enumerate() {
            self.set(free + nth, other.entry(entry));
        }
    }

    /// Fills slot `at`, the next, of a node that is not yet published.
    pub(super) fn set(&mut self, at: usize, entry: Entry) {
        self.count.set(at + 1);
        self.keys[at].set(entry.key);
        self.slots[at].store(entry.slot, Relaxed);
        self.set_extent(at, entry.extent);
    }

    /// Fills the next slot of a node under construction. `low` is said of an entry with which a node begins
    /// that is not the first of its run; an inner node's own first key is 0, as whoever comes here looks at
    /// or above it.
    pub(super) fn fill(&mut self, at: usize, entry: Entry, low: Option<u64>, inner: bool) {
        self.low = low.unwrap_or(self.low);
        let key = if at == 0 && inner { 0 } else { entry.key };
        self.set(at, Entry { key, ..entry });
    }

    /// How many keys are at or below `page`: the one search. One key tells the half, whose keys are all
    /// looked at: little is left to predict, and the other line is left alone. Vacant keys lie above every
    /// page.
    #[inline(always)]
    pub(super) fn rank(&self, page: u64) -> usize {
        debug_assert!(page != VACANT);
        let at_or_below = |key: &Plain<u64, C>| usize::from(key.get() <= page);
        let (low, high) = self.keys.split_at(F / 2);
        let before = at_or_below(&high[0]) * low.len();
        let half = if before == 0 { low } else { high };
        before + half.iter().map(at_or_below).sum::<usize>()
    }

    /// How many items of a leaf end at or below `page`.
    pub(super) fn rank_of_end(&self, page: u64) -> usize {
        let rank = self.rank(page.min(VACANT - 1));
        rank - usize::from(rank > 0 && self.last(rank - 1) > page)
    }

    /// The slot of the child that answers for `page`, in an inner node.
    #[inline(always)]
    pub(super) fn child_of(&self, page: u64) -> usize {
        // `keys[0]` of an inner node is 0.
        self.rank(page).wrapping_sub(1) % F
    }

    /// Number of entries.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count.get()
    }

    #[inline(always)]
    pub(super) fn key(&self, at: usize) -> u64 {
        self.keys[at].get()
    }

    /// What the slot holds; pairs with [`IndexNode::replace_child`].
    #[inline(always)]
    pub(super) fn slot(&self, at: usize) -> usize {
        self.slots[at].load(Acquire)
    }

    /// The child that the slot of an inner node holds, while it is in memory.
    ///
    /// # Safety
    /// The slot holds a child, and for `'a` the caller is in a read section begun before it was replaced, or
    /// holds the writers' lock.
    #[inline(always)]
    pub(super) unsafe fn child<'a>(&self, at: usize) -> &'a Self {
        // SAFETY: the slot holds the address of a node, which the caller says is still there.
        unsafe { &*core::ptr::with_exposed_provenance(self.slot(at)) }
    }

    /// End of the entry's pages.
    #[inline(always)]
    pub(super) fn last(&self, at: usize) -> u64 {
        self.last[at].load(Relaxed)
    }

    /// Publishes another child of the same pages: pairs with [`IndexNode::slot`].
    pub(super) fn replace_child(&self, at: usize, child: usize) {
        self.slots[at].store(child, Release);
    }

    /// Writers: the extent of an entry.
    pub(super) fn extent(&self, at: usize) -> Extent {
        Extent {
            first: self.first[at].load(Relaxed),
            last: self.last[at].load(Relaxed),
            gap: self.gap[at].load(Relaxed),
        }
    }

    pub(super) fn set_extent(&self, at: usize, extent: Extent) {
        self.first[at].store(extent.first, Relaxed);
        self.last[at].store(extent.last, Relaxed);
        self.gap[at].store(extent.gap, Relaxed);
    }

    /// Writers: an entry.
    pub(super) fn entry(&self, at: usize) -> Entry {
        Entry { key: self.key(at), slot: self.slot(at), extent: self.extent(at) }
    }

    /// Writers: the extent of the whole node, from those of its entries. A node has at least one.
    pub(super) fn total(&self) -> Extent {
        let mut total = self.extent(0);
        for next in (1..self.count()).map(|at| self.extent(at)) {
            let between = next.first.saturating_sub(total.last);
            total.gap = total.gap.max(between).max(next.gap);
            total.last = next.last;
        }
        total
    }

    /// Writers: this node as an entry of its parent, while unpublished.
    pub(super) fn as_entry(&self) -> Entry {
        Entry { key: self.low, slot: (&raw const *self).expose_provenance(), extent: self.total() }
    }

    /// Writers: the next node of the list that this one is in.
    pub(super) fn link(&self) -> usize {
        self.link.load(Relaxed)
    }

    pub(super) fn set_link(&self, to: usize) {
        self.link.store(to, Relaxed);
    }
}

impl<C: Cpu, const F: usize> fmt::Debug for IndexNode<C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.count()).map(|at| self.entry(at))).finish()
    }
}
