//! The edit of a tree: builds nodes beside it, then publishes them by one store.
//!
//! Nine of ten edits change one leaf, whose copy takes its place:
//!
//! ```text
//!   the leaf    [ a b | x x | c d ]       kept, removed, kept
//!   its copy    [ a b | n   | c d ]       the new items are inserted between
//! ```
//!
//! The leaf covers all pages that change, and the copy is neither too full nor (unless it is the root) too
//! empty. Such an edit descends once and keeps only the slot that points to the leaf. A leaf that is the root
//! and loses its last item gets no copy. All other edits go level by level (`levels`).

use super::level_edit::Inserted;
use super::levels::{Edges, removes_only_old};
use super::node::{IndexNode, NodeSlot};
use super::node_list::NodeList;
use super::path::SlotRef;
use super::{END, EditGuard, IndexItem, IndexMemory, NoMemory, RangeIndex, Ranged, RootRef};
use crate::machine::Cpu;
use crate::sync::RcuList;
use crate::sync::atomic::Ordering::*;
use crate::units::{Vpn, VpnRange};
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;

/// An edit that is built and not yet part of the tree. If it is dropped, its nodes are freed.
pub(super) struct TreeEdit<'a, T, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> {
    index: &'a RangeIndex<'a, T, C, F>,
    pub(super) memory: &'a N,
    pub(super) store: Option<PublishingStore<'a, C, F>>,
    removed: RemovedItems<'a, C, F>,
    pub(super) built: NodeList,
    pub(super) replaced: NodeList,
    /// Dropped last: until then no node of the tree goes.
    _guard: EditGuard<'a, C>,
}

/// The items that an edit removes.
enum RemovedItems<'a, C: Cpu, const F: usize> {
    /// Some slots of one leaf.
    InLeaf(&'a IndexNode<C, F>, Range<usize>),
    /// Those between the edges of the pages.
    Between(RootRef<'a, C, F>, VpnRange),
    None,
}

/// The one store that publishes an edit.
pub(super) enum PublishingStore<'a, C: Cpu, const F: usize> {
    /// To the root word.
    Root(usize),
    /// To a slot of a node on `level`, on the way to `page`: the node that it points to from then on.
    Slot { parent: SlotRef<'a, C, F>, level: usize, page: u64, node: usize },
}

impl<T: Ranged, C: Cpu, const F: usize> RangeIndex<'_, T, C, F> {
    /// Builds the edit that removes all items which overlap `old` and adds those of `new`. The tree is
    /// untouched.
    ///
    /// All items from the first page that changes to the last are removed: the kept ones end before that or
    /// begin after it.
    ///
    /// # Panics
    /// If another edit is under way. Debug builds also panic if an item that does not overlap `old` would be
    /// removed.
    ///
    /// # Safety
    /// 1. The slots of `new` are of valid items of type `T`, which are the index's from now on if the edit is
    ///    published; their ranges are not empty, ascending, and do not overlap.
    /// 2. `memory` is the one that the index was made for.
    pub(super) unsafe fn edit<'a, N: IndexMemory<T, C, F>>(
        &'a self,
        old: VpnRange,
        new: &[NodeSlot],
        memory: &'a N,
    ) -> Result<TreeEdit<'a, T, C, N, F>, NoMemory> {
        let guard = self.begin_edit();
        let pages = span(old, new).intersect(VpnRange::new(Vpn(0), END));
        // SAFETY: the edit has the guard, which it drops last.
        let root = unsafe { RootRef::from_word(self.root.load(Acquire)) };
        let Some(root) = root.filter(|_| !pages.is_empty()) else {
            let mut edit = TreeEdit::unchanged(self, memory, RemovedItems::None, guard);
            edit.fill_empty_tree(Inserted::Items(new))?;
            return Ok(edit);
        };
        debug_assert!(removes_only_old(root, old, pages), "a kept item overlaps the new ones");
        if let Some(leaf) = LeafEdit::find(root, pages, new.len()) {
            return self.edit_leaf(leaf, pages, new, memory, guard);
        }
        let mut edit = TreeEdit::unchanged(self, memory, RemovedItems::Between(root, pages), guard);
        edit.replace_levels(root, pages, Inserted::Items(new))?;
        Ok(edit)
    }

    /// An edit within one leaf.
    #[inline(always)]
    fn edit_leaf<'a, N: IndexMemory<T, C, F>>(
        &'a self,
        edit: LeafEdit<'a, C, F>,
        pages: VpnRange,
        new: &[NodeSlot],
        memory: &'a N,
        guard: EditGuard<'a, C>,
    ) -> Result<TreeEdit<'a, T, C, N, F>, NoMemory> {
        if new.is_empty() && edit.removed.is_empty() {
            return Ok(TreeEdit::unchanged(self, memory, RemovedItems::None, guard));
        }
        let (built, store) = if edit.removes_all(new.len()) {
            (NodeList::EMPTY, PublishingStore::Root(0))
        } else {
            let node = memory.alloc_node().ok_or(NoMemory)?;
            // SAFETY: the memory was allocated just now, for a node, and only this function has it. (The
            // first page of the copy is its parent's key, which does not change.)
            let copy = unsafe { IndexNode::init(node, 0) };
            edit.fill(copy, new);
            // SAFETY: the edit frees it, or it is published and the list forgotten.
            let built = unsafe { NodeList::of(copy) };
            let node = built.only();
            let store = match edit.parent {
                Some(parent) => PublishingStore::Slot { parent, level: 1, page: pages.start.0, node },
                None => PublishingStore::Root(RootRef::<C, F>::word(node, 0)),
            };
            (built, store)
        };
        // SAFETY: it stays in the tree until the edit is published, which is when the list ends.
        let replaced = unsafe { NodeList::of(edit.leaf) };
        let removed = RemovedItems::InLeaf(edit.leaf, edit.removed);
        Ok(TreeEdit { index: self, memory, store: Some(store), removed, built, replaced, _guard: guard })
    }
}

/// A replacement within one leaf.
struct LeafEdit<'a, C: Cpu, const F: usize> {
    leaf: &'a IndexNode<C, F>,
    /// The slot that points to the leaf; `None` where it is the root.
    parent: Option<SlotRef<'a, C, F>>,
    /// The slots that are removed; those before and after them are kept.
    removed: Range<usize>,
    count: usize,
}

impl<'a, C: Cpu, const F: usize> LeafEdit<'a, C, F> {
    /// The replacement of the items in `pages`, which are not empty, by `nr_new` items. `None` if it changes
    /// more than one leaf.
    fn find(root: RootRef<'a, C, F>, pages: VpnRange, nr_new: usize) -> Option<Self> {
        let (first, last) = (pages.start.0, pages.end.0 - 1);
        let (mut leaf, mut parent) = (root.node, None);
        for _ in 0..root.height {
            let (node, slot) = (leaf, leaf.child_slot(first));
            // The next child's first page; a vacant key lies above every page.
            if slot + 1 < F && node.key(slot + 1) <= last {
                return None;
            }
            // SAFETY: on a level above 0 the slots up to the page's hold children, and a `RootRef`'s nodes
            // stay as long as it.
            leaf = unsafe { node.child(slot) };
            parent = Some(SlotRef { node, slot });
        }
        let (from, count) = (leaf.rank_of_end(first), leaf.count());
        let to = (from..count).find(|&slot| leaf.key(slot) > last).unwrap_or(count);
        let least = if parent.is_some() { IndexNode::<C, F>::MIN } else { 0 };
        let fits = (least..=F).contains(&(from + nr_new + count - to));
        fits.then_some(Self { leaf, parent, removed: from..to, count })
    }

    /// Whether no item is left, with `nr_new` new ones. Then the leaf is the root.
    fn removes_all(&self, nr_new: usize) -> bool {
        nr_new == 0 && self.removed == (0..self.count)
    }

    /// Fills an empty node with the kept slots and the new items.
    fn fill(&self, copy: &mut IndexNode<C, F>, new: &[NodeSlot]) {
        let Range { start, end } = self.removed;
        copy.copy_from(self.leaf, 0..start);
        for (nth, &slot) in new.iter().enumerate() {
            copy.set(start + nth, slot);
        }
        copy.copy_from(self.leaf, end..self.count);
    }
}

impl<'a, T: Ranged, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> TreeEdit<'a, T, C, N, F> {
    /// An edit for which nothing is built yet.
    fn unchanged(
        index: &'a RangeIndex<'a, T, C, F>,
        memory: &'a N,
        removed: RemovedItems<'a, C, F>,
        guard: EditGuard<'a, C>,
    ) -> Self {
        let (built, replaced) = (NodeList::EMPTY, NodeList::EMPTY);
        Self { index, memory, store: None, removed, built, replaced, _guard: guard }
    }
}

impl<T, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> TreeEdit<'_, T, C, N, F> {
    /// Calls `visit` with each item that is removed, in order: those whose slots the edit does not keep.
    pub(super) fn each_removed(&self, mut visit: impl FnMut(NonNull<IndexItem<T>>)) {
        let item = |leaf: &IndexNode<C, F>, slot| {
            NonNull::new(core::ptr::with_exposed_provenance_mut(leaf.pointer(slot)))
        };
        match self.removed {
            RemovedItems::None => {}
            // The common one: the loop is written out, so that the visit is part of it.
            RemovedItems::InLeaf(leaf, ref slots) => {
                for slot in slots.clone() {
                    if let Some(item) = item(leaf, slot) {
                        visit(item);
                    }
                }
            }
            RemovedItems::Between(root, pages) => Edges::of(root, pages).each_leaf(|leaf, slots| {
                slots.filter_map(|slot| item(leaf, slot)).for_each(&mut visit);
            }),
        }
    }

    /// Publishes the edit, by one store, and adds the replaced nodes to `unlinked`. The index can be edited
    /// again when this is dropped.
    pub(super) fn publish_into(&mut self, unlinked: &mut RcuList) {
        match self.store.take() {
            None => return,
            Some(PublishingStore::Root(word)) => self.index.root.store(word, Release),
            Some(PublishingStore::Slot { parent, level, page, node }) => {
                parent.node.replace_child(parent.slot, node);
                // SAFETY: the edit has the guard.
                let root = unsafe { RootRef::<C, F>::from_word(self.index.root.load(Relaxed)) };
                if let Some(root) = root {
                    // SAFETY: `level` is that of a node above the leaves, on the path of this tree to `page`;
                    // the store above has changed a child, and no level.
                    unsafe { update_extents(root, page, level) };
                }
            }
        }
        self.built = NodeList::EMPTY;
        for node in core::mem::replace(&mut self.replaced, NodeList::EMPTY).iter::<C, F>() {
            let (tag, bytes) = (self.memory.node_tag(), size_of::<IndexNode<C, F>>());
            // SAFETY: the store above unlinked it; only this edit uses its head, and it stays until it is
            // freed.
            unsafe { unlinked.push::<C>(IndexNode::head(node), tag, bytes) };
        }
    }
}

/// Updates, from `level` up to the root, the extent of the child on the way to `page`. Returns whether the
/// root's slot changed. Recursion is as deep as the tree.
///
/// # Safety
/// `level` lies above the leaves, and not above the root.
unsafe fn update_extents<C: Cpu, const F: usize>(root: RootRef<'_, C, F>, page: u64, level: usize) -> bool {
    let RootRef { node, height } = root;
    let slot = node.child_slot(page);
    // SAFETY: the root lies above the leaves, as `level` does, so its slots up to the page's hold children;
    // a `RootRef`'s nodes stay as long as it.
    let child = unsafe { node.child(slot) };
    // SAFETY: `level` is at most that of the child, and above the leaves, as the caller says.
    let below = || unsafe { update_extents(RootRef { node: child, height: height - 1 }, page, level) };
    if height > level && !below() {
        return false;
    }
    let total = child.total_extent();
    let changes = node.extent(slot) != total;
    if changes {
        node.set_extent(slot, total);
    }
    changes
}

impl<T, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> Drop for TreeEdit<'_, T, C, N, F> {
    fn drop(&mut self) {
        for node in self.built.iter() {
            // SAFETY: it came from this memory, and was not published.
            unsafe { self.memory.free_node(node) };
        }
    }
}

/// All pages that change.
fn span(old: VpnRange, new: &[NodeSlot]) -> VpnRange {
    let (Some(first), Some(last)) = (new.first(), new.last()) else { return old };
    let pages = VpnRange::new(Vpn(first.key()), Vpn(last.end()));
    if old.is_empty() {
        return pages;
    }
    VpnRange::new(old.start.min(pages.start), old.end.max(pages.end))
}

impl<T, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> fmt::Debug for TreeEdit<'_, T, C, N, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes in place of {}", self.built.len(), self.replaced.len())
    }
}
