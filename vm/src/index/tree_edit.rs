//! The edit of a tree: builds nodes beside it, then publishes them by one store.

use super::leaf_edit::LeafEdit;
use super::level_edit::{Inserted, LevelEdit};
use super::node::{IndexNode, NodeSlot};
use super::node_list::NodeList;
use super::path::{NodePath, SlotRef};
use super::{END, EditGuard, IndexItem, IndexMemory, MAX_HEIGHT, NoMemory, RangeIndex, Ranged, RootRef};
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
    memory: &'a N,
    store: Option<PublishingStore<'a, C, F>>,
    removed: RemovedItems<'a, C, F>,
    built: NodeList,
    replaced: NodeList,
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
enum PublishingStore<'a, C: Cpu, const F: usize> {
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
        let pages = hull(old, new).intersect(VpnRange::new(Vpn(0), END));
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

    /// Builds the first nodes of an empty tree.
    fn fill_empty_tree(&mut self, new: Inserted<'_>) -> Result<(), NoMemory> {
        if new.len() > 0 {
            let leaves = LevelEdit::new_level(false).build(&new, self.memory, &mut self.built)?;
            self.add_levels(leaves, 0)?;
        }
        Ok(())
    }

    /// Puts levels on top of `nodes` on level `height` until one node is the root.
    fn add_levels(&mut self, mut nodes: NodeList, mut height: usize) -> Result<(), NoMemory> {
        while nodes.len() > 1 {
            let new = Inserted::Nodes(nodes);
            nodes = LevelEdit::new_level(true).build(&new, self.memory, &mut self.built)?;
            height += 1;
        }
        assert!(height < MAX_HEIGHT);
        self.store = Some(PublishingStore::Root(RootRef::<C, F>::word(nodes.only(), height)));
        Ok(())
    }

    /// Replaces nodes level by level, from the leaves upwards, until a store to one slot completes the edit.
    fn replace_levels(
        &mut self,
        root: RootRef<'a, C, F>,
        pages: VpnRange,
        mut new: Inserted<'_>,
    ) -> Result<(), NoMemory> {
        let Edges { mut left, mut from, mut right, mut to } = Edges::of(root, pages);
        for level in 0..=root.height {
            let edit = LevelEdit::between(level, (&mut left, from), (&mut right, to), new.len());
            self.note_replaced(level, &left, &right);
            let total = edit.total(new.len());
            if left.is_first(level) && right.is_last(level) {
                (level + 1..=root.height).for_each(|above| self.note_replaced(above, &left, &right));
                return self.replace_root(level, &edit, new);
            }
            let nodes = edit.build(&new, self.memory, &mut self.built)?;
            let one_for_one = core::ptr::eq(left.node(level), right.node(level)) && nodes.len() == 1;
            if one_for_one && total >= IndexNode::<C, F>::MIN {
                let (parent, page) = (left.at(level + 1), pages.start.0);
                let node = nodes.only();
                self.store = Some(PublishingStore::Slot { parent, level: level + 1, page, node });
                return Ok(());
            }
            (from, to) = (left.at(level + 1).slot, right.at(level + 1).slot + 1);
            new = Inserted::Nodes(nodes);
        }
        Ok(())
    }

    /// Replaces the root, if the edit replaces all nodes on `level`: by an empty tree, by the only child, by
    /// another root, or by a new one on top of several nodes.
    fn replace_root(
        &mut self,
        level: usize,
        edit: &LevelEdit<'a, C, F>,
        new: Inserted<'_>,
    ) -> Result<(), NoMemory> {
        let total = edit.total(new.len());
        if total == 0 {
            self.store = Some(PublishingStore::Root(0));
        } else if let (true, Some(child)) = (level > 0, edit.only_slot(&new)) {
            self.store = Some(PublishingStore::Root(RootRef::<C, F>::word(child.pointer(), level - 1)));
        } else {
            let nodes = edit.build(&new, self.memory, &mut self.built)?;
            self.add_levels(nodes, level)?;
        }
        Ok(())
    }

    /// Adds the nodes on `level` from one path to the other to the replaced ones.
    fn note_replaced(&mut self, level: usize, left: &NodePath<'a, C, F>, right: &NodePath<'a, C, F>) {
        let mut path = left.clone();
        loop {
            // SAFETY: the node stays in the tree until the edit is published, which is when the list ends.
            unsafe { self.replaced.push(path.node(level)) };
            if core::ptr::eq(path.node(level), right.node(level)) || !path.move_right(level) {
                break;
            }
        }
    }
}

/// The places in the leaves at which the pages that change begin and end.
struct Edges<'a, C: Cpu, const F: usize> {
    left: NodePath<'a, C, F>,
    /// The first slot of the left path's leaf that is removed.
    from: usize,
    right: NodePath<'a, C, F>,
    /// The first slot of the right path's leaf that is kept again.
    to: usize,
}

impl<'a, C: Cpu, const F: usize> Edges<'a, C, F> {
    /// The same for the same pages, as long as the tree does not change.
    fn of(root: RootRef<'a, C, F>, pages: VpnRange) -> Self {
        let (left, right) = (NodePath::to(root, pages.start.0), NodePath::to(root, pages.end.0 - 1));
        let (from, to) = (left.node(0).rank_of_end(pages.start.0), right.at(0).slot);
        Self { left, from, right, to }
    }

    /// Visits the leaves, each with its slots that are removed.
    fn each_leaf(self, mut visit: impl FnMut(&'a IndexNode<C, F>, Range<usize>)) {
        let Self { mut left, mut from, right, to } = self;
        loop {
            let leaf = left.node(0);
            let is_last = core::ptr::eq(leaf, right.node(0));
            visit(leaf, from..if is_last { to } else { leaf.count() });
            if is_last || !left.move_right(0) {
                break;
            }
            from = 0;
        }
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
            RemovedItems::InLeaf(leaf, ref slots) => {
                slots.clone().filter_map(|slot| item(leaf, slot)).for_each(visit)
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
            // reclaimed.
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
fn hull(old: VpnRange, new: &[NodeSlot]) -> VpnRange {
    let (Some(first), Some(last)) = (new.first(), new.last()) else { return old };
    let pages = VpnRange::new(Vpn(first.key()), Vpn(last.end()));
    if old.is_empty() {
        return pages;
    }
    VpnRange::new(old.start.min(pages.start), old.end.max(pages.end))
}

/// Whether all items that overlap `pages` overlap `old`.
fn removes_only_old<C: Cpu, const F: usize>(root: RootRef<'_, C, F>, old: VpnRange, pages: VpnRange) -> bool {
    let mut path = NodePath::to(root, pages.start.0);
    loop {
        let leaf = path.node(0);
        for slot in 0..leaf.count() {
            let item = VpnRange::new(Vpn(leaf.key(slot)), Vpn(leaf.end(slot)));
            if item.start >= pages.end {
                return true;
            }
            if item.overlaps(pages) && !item.overlaps(old) {
                return false;
            }
        }
        if !path.move_right(0) {
            return true;
        }
    }
}

impl<T, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> fmt::Debug for TreeEdit<'_, T, C, N, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes in place of {}", self.built.len(), self.replaced.len())
    }
}
