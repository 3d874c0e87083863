//! A node: fields that lookups read come first, fields that only writers use after them.

use super::IndexItem;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use crate::sync::{Plain, RcuHead};
use crate::units::VpnRange;
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;

/// Key of a vacant slot: above every page. Page numbers lie below it, so that the difference of a page and a
/// key has the sign of their comparison.
pub(super) const VACANT: u64 = super::END.0;

/// A node of the tree: `F` slots. Outside of the index it is memory to allocate and free, with an RCU head.
///
/// | field | in a leaf | in an inner node |
/// |---|---|---|
/// | `keys[i]` | first page of item `i` | first page that child `i` covers; `keys[0]` is 0 |
/// | `pointers[i]` | item | child |
/// | `ends[i]` | end of item `i`, for lookups too | end of the child's last item |
/// | `starts[i]` | start of item `i` less its guard pages | start of the child's first item, likewise |
/// | `gaps[i]` | 0 | the longest gap between two items of the child |
///
/// Once published, keys never change, a slot in use keeps its pointer or gets that of another child with the
/// same pages, and `ends`, `starts`, `gaps` of an inner node change under the writers' lock.
#[repr(C, align(128))]
pub struct IndexNode<C: Cpu, const F: usize> {
    keys: [Plain<u64, C>; F],
    /// A child is stored with release when it is published, and loaded with acquire.
    pointers: [AtomicUsize<C>; F],
    ends: [AtomicU64<C>; F],
    starts: [AtomicU64<C>; F],
    gaps: [AtomicU64<C>; F],
    /// The next node of a writer's list: of nodes built, or of nodes replaced.
    next: AtomicUsize<C>,
    /// Slots in use; never changes once published.
    count: Plain<usize, C>,
    /// While unpublished: the first page that the node covers.
    first_page: u64,
    head: RcuHead,
}

/// A slot in use, with its key and extent. Made in this file only, so that the pointer is that of an item or
/// a node: of a slot in use, of a node, or of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeSlot {
    key: u64,
    /// Address of the item or child.
    pointer: usize,
    extent: Extent,
}

impl NodeSlot {
    /// An item as a slot of its leaf: its range and its guard are those that it has from now on.
    pub(super) fn of_item<T>(item: NonNull<IndexItem<T>>, range: VpnRange, guard_pages: u64) -> Self {
        let start = range.start.0.saturating_sub(guard_pages);
        let extent = Extent { start, end: range.end.0, gap: 0 };
        Self { key: range.start.0, pointer: item.as_ptr().expose_provenance(), extent }
    }

    /// The first page.
    pub(super) fn key(&self) -> u64 {
        self.key
    }

    /// The end of the last page.
    pub(super) fn end(&self) -> u64 {
        self.extent.end
    }

    /// Address of the item or child.
    pub(super) fn pointer(&self) -> usize {
        self.pointer
    }

    /// The same, at a first page no lower than `first_page`.
    pub(super) fn not_before(self, first_page: u64) -> Self {
        Self { key: self.key.max(first_page), ..self }
    }
}

/// First page and end of some items, and the longest gap between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub start: u64,
    pub end: u64,
    pub gap: u64,
}

impl<C: Cpu, const F: usize> IndexNode<C, F> {
    /// The fewest slots in use in a node that is not the root.
    pub(super) const MIN: usize = if F / 4 > 2 { F / 4 } else { 2 };

    /// The head to hand to [`Rcu::retire`](crate::sync::Rcu::retire).
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

    /// Makes an empty node in fresh memory.
    ///
    /// # Safety
    /// The caller alone uses the memory.
    pub(super) unsafe fn init<'a>(memory: NonNull<Self>, first_page: u64) -> &'a mut Self {
        #[cfg(loom)]
        crate::sync::forget(memory.addr().get()..memory.addr().get() + size_of::<Self>());
        let node = memory.as_ptr();
        let zeros = || [const { AtomicU64::new(0) }; F];
        // Field by field: a whole node would be made on the stack, and copied from there. SAFETY: only the
        // caller uses the memory, and its type says that size and alignment fit; all fields are written
        // before the reference is made.
        unsafe {
            (&raw mut (*node).keys).write([const { Plain::new(VACANT) }; F]);
            (&raw mut (*node).pointers).write([const { AtomicUsize::new(0) }; F]);
            (&raw mut (*node).ends).write(zeros());
            (&raw mut (*node).starts).write(zeros());
            (&raw mut (*node).gaps).write(zeros());
            (&raw mut (*node).next).write(AtomicUsize::new(0));
            (&raw mut (*node).count).write(Plain::new(0));
            (&raw mut (*node).first_page).write(first_page);
            (&raw mut (*node).head).write(RcuHead::new());
            &mut *node
        }
    }

    /// Fills the next slots with slots of another node of the same level. This node is not yet published.
    pub(super) fn copy_from(&mut self, other: &Self, slots: Range<usize>) {
        let free = self.count();
        for (nth, slot) in slots.enumerate() {
            self.set(free + nth, other.slot(slot));
        }
    }

    /// Fills slot `at`, the next, of a node that is not yet published.
    pub(super) fn set(&mut self, at: usize, slot: NodeSlot) {
        self.count.set(at + 1);
        self.keys[at].set(slot.key);
        self.pointers[at].store(slot.pointer, Relaxed);
        self.set_extent(at, slot.extent);
    }

    /// Fills the next slot of a node under construction. `first_page` is given for the first slot of a node
    /// that is not the first of its list. The key of an inner node's first slot is 0: no lookup that reaches
    /// the node looks below it.
    pub(super) fn fill(&mut self, at: usize, slot: NodeSlot, first_page: Option<u64>, is_inner: bool) {
        self.first_page = first_page.unwrap_or(self.first_page);
        let key = if at == 0 && is_inner { 0 } else { slot.key };
        self.set(at, NodeSlot { key, ..slot });
    }

    /// Number of keys at or below `page`: the one search. One key selects the half whose keys are all
    /// compared: little is left to predict, and the other line is not read. Vacant keys lie above every page.
    ///
    /// Signs of differences are added instead of results of comparisons: compilers make of these a mask whose
    /// bits they count, which takes three times as long.
    #[inline(always)]
    pub(super) fn rank(&self, page: u64) -> usize {
        debug_assert!(page < VACANT);
        // -1 if the key lies above the page, else 0.
        let above = |key: &Plain<u64, C>| (page.wrapping_sub(key.get()) as i64 >> 63) as isize;
        let (low, high) = self.keys.split_at(F / 2);
        let in_low = above(&high[0]);
        let (half, end) = if in_low == 0 { (high, F) } else { (low, low.len()) };
        (end as isize + half.iter().map(above).sum::<isize>()) as usize
    }

    /// Number of items of a leaf that end at or below `page`.
    pub(super) fn rank_of_end(&self, page: u64) -> usize {
        let rank = self.rank(page.min(VACANT - 1));
        rank - usize::from(rank > 0 && self.end(rank - 1) > page)
    }

    /// The slot of the child that covers `page`, in an inner node.
    #[inline(always)]
    pub(super) fn child_slot(&self, page: u64) -> usize {
        // `keys[0]` of an inner node is 0.
        self.rank(page).wrapping_sub(1) % F
    }

    /// Number of slots in use.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count.get()
    }

    #[inline(always)]
    pub(super) fn key(&self, at: usize) -> u64 {
        self.keys[at].get()
    }

    /// Address of the item or child; pairs with [`replace_child`](Self::replace_child).
    #[inline(always)]
    pub(super) fn pointer(&self, at: usize) -> usize {
        self.pointers[at].load(Acquire)
    }

    /// The child that a slot of an inner node points to.
    ///
    /// # Safety
    /// The slot holds a child. For `'a` the caller is in a read section of the index's RCU, in which it found
    /// this node, or `is_editing` is set for the caller.
    #[inline(always)]
    pub(super) unsafe fn child<'a>(&self, at: usize) -> &'a Self {
        // SAFETY: the slot holds the address of a node, which the caller says is still there.
        unsafe { &*core::ptr::with_exposed_provenance(self.pointer(at)) }
    }

    /// End of the slot's pages.
    #[inline(always)]
    pub(super) fn end(&self, at: usize) -> u64 {
        self.ends[at].load(Relaxed)
    }

    /// Publishes another child of the same pages: pairs with [`pointer`](Self::pointer).
    pub(super) fn replace_child(&self, at: usize, child: usize) {
        self.pointers[at].store(child, Release);
    }

    /// The extent of a slot. For writers.
    pub(super) fn extent(&self, at: usize) -> Extent {
        Extent {
            start: self.starts[at].load(Relaxed),
            end: self.ends[at].load(Relaxed),
            gap: self.gaps[at].load(Relaxed),
        }
    }

    pub(super) fn set_extent(&self, at: usize, extent: Extent) {
        self.starts[at].store(extent.start, Relaxed);
        self.ends[at].store(extent.end, Relaxed);
        self.gaps[at].store(extent.gap, Relaxed);
    }

    /// A slot in use. For writers.
    pub(super) fn slot(&self, at: usize) -> NodeSlot {
        NodeSlot { key: self.key(at), pointer: self.pointer(at), extent: self.extent(at) }
    }

    /// The extent of the whole node, from those of its slots. A node has at least one. For writers.
    pub(super) fn total_extent(&self) -> Extent {
        let mut total = self.extent(0);
        for next in (1..self.count()).map(|at| self.extent(at)) {
            let between = next.start.saturating_sub(total.end);
            total.gap = total.gap.max(between).max(next.gap);
            total.end = next.end;
        }
        total
    }

    /// This unpublished node as a slot of its parent.
    pub(super) fn as_slot(&self) -> NodeSlot {
        let pointer = (&raw const *self).expose_provenance();
        NodeSlot { key: self.first_page, pointer, extent: self.total_extent() }
    }

    /// The next node of the writer's list that this one is in.
    pub(super) fn next(&self) -> usize {
        self.next.load(Relaxed)
    }

    pub(super) fn set_next(&self, to: usize) {
        self.next.store(to, Relaxed);
    }
}

impl<C: Cpu, const F: usize> fmt::Debug for IndexNode<C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.count()).map(|at| self.slot(at))).finish()
    }
}
