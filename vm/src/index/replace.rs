//! Replacing items: everything that can fail first, then one store.

use super::edit::{Level, New, Nodes};
use super::leaf::{OneLeaf, Slot};
use super::node::IndexNode;
use super::path::{Path, Step};
use super::{MAX_HEIGHT, NoMemory, NodeMemory, RangeTree, Ranged, Root};
use crate::machine::Cpu;
use crate::sync::RcuList;
use crate::sync::atomic::Ordering::*;
use crate::units::{Vpn, VpnRange};
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;

/// A replacement that needs nothing any more. [`Prepared::publish`] makes it visible; dropped, it never was.
#[must_use = "nothing is replaced until this is published"]
pub struct Prepared<'a, T, C: Cpu, N: NodeMemory<C, F>, const F: usize> {
    tree: &'a RangeTree<T, C, F>,
    memory: &'a N,
    change: Option<Change<'a, C, F>>,
    going: Going<'a, C, F>,
    built: Nodes,
    replaced: Nodes,
}

/// The items that go.
enum Going<'a, C: Cpu, const F: usize> {
    /// Some of one leaf.
    In(&'a IndexNode<C, F>, Range<usize>),
    /// Those that overlap the pages, from the leaf on that answers for the first of them.
    Overlapping(Root<'a, C, F>, VpnRange),
    None,
}

/// The one store.
enum Change<'a, C: Cpu, const F: usize> {
    /// Of the root word.
    Root(usize),
    /// Of a slot in a node of `level`, on the way to `page`, and the node it then holds.
    Slot { slot: Slot<'a, C, F>, level: usize, page: u64, node: usize },
}

impl<T: Ranged, C: Cpu, const F: usize> RangeTree<T, C, F> {
    /// Prepares that all items which overlap `old` go and those of `new` come. Builds beside the tree; the
    /// tree is untouched.
    ///
    /// The caller holds the writers' lock until the result is published or dropped. The items of `new` are
    /// ascending and do not overlap each other, nor what stays; no item that stays lies between them, or
    /// between them and `old`.
    ///
    /// # Errors
    /// There was no memory for a node; then nothing has changed.
    ///
    /// # Panics
    /// Where another replacement is prepared at the same time. Debug builds panic where the items are not as
    /// said.
    pub fn prepare<'a, N: NodeMemory<C, F>>(
        &'a self,
        old: VpnRange,
        new: &[NonNull<T>],
        memory: &'a N,
    ) -> Result<Prepared<'a, T, C, N, F>, NoMemory> {
        assert!(self.writing.swap(1, Acquire) == 0, "two writers");
        let pages = hull(old, new);
        // SAFETY: the caller holds the writers' lock for `'a`.
        let root = unsafe { Root::from_word(self.root.load(Acquire)) }.filter(|_| !pages.is_empty());
        let Some(root) = root else {
            let mut prepared = Prepared::blank(self, memory, Going::None);
            prepared.plant(New::Items(new))?;
            return Ok(prepared);
        };
        debug_assert!(only_old_goes(root, old, pages), "an item in the way stays");
        if let Some(edit) = OneLeaf::of(root, pages, new.len()) {
            return self.prepare_leaf(edit, pages, new, memory);
        }
        let mut prepared = Prepared::blank(self, memory, Going::Overlapping(root, old));
        prepared.edit(root, pages, New::Items(new))?;
        Ok(prepared)
    }

    /// A replacement within one leaf.
    #[inline(always)]
    fn prepare_leaf<'a, N: NodeMemory<C, F>>(
        &'a self,
        edit: OneLeaf<'a, C, F>,
        pages: VpnRange,
        new: &[NonNull<T>],
        memory: &'a N,
    ) -> Result<Prepared<'a, T, C, N, F>, NoMemory> {
        if new.is_empty() && edit.going().is_empty() {
            return Ok(Prepared::blank(self, memory, Going::None));
        }
        let Some(node) = memory.alloc_node() else {
            self.writing.store(0, Release);
            return Err(NoMemory);
        };
        // SAFETY: the memory is fresh. Where the copy begins only its parent's key says, and that stays.
        let copy = unsafe { IndexNode::init(node, 0) };
        edit.fill(copy, new);
        let (built, replaced) = (Nodes::one(copy), Nodes::one(edit.leaf));
        let node = built.only();
        let going = Going::In(edit.leaf, edit.going());
        let change = match edit.slot {
            Some(slot) => Change::Slot { slot, level: 1, page: pages.start.0, node },
            None => Change::Root(Root::<C, F>::word(node, 0)),
        };
        Ok(Prepared { tree: self, memory, change: Some(change), going, built, replaced })
    }
}

impl<'a, T: Ranged, C: Cpu, N: NodeMemory<C, F>, const F: usize> Prepared<'a, T, C, N, F> {
    /// Nothing prepared yet.
    fn blank(tree: &'a RangeTree<T, C, F>, memory: &'a N, going: Going<'a, C, F>) -> Self {
        Self { tree, memory, change: None, going, built: Nodes::NONE, replaced: Nodes::NONE }
    }

    /// What an empty tree becomes.
    fn plant(&mut self, new: New<'_, T>) -> Result<(), NoMemory> {
        if new.len() > 0 {
            let leaves = Level::fresh(false).build(&new, self.memory, &mut self.built)?;
            self.grow(leaves, 0)?;
        }
        Ok(())
    }

    /// Puts levels on top of `nodes` of level `height` until one node is the root.
    fn grow(&mut self, mut nodes: Nodes, mut height: usize) -> Result<(), NoMemory> {
        while nodes.len() > 1 {
            nodes = Level::fresh(true).build(&New::<T>::Nodes(nodes), self.memory, &mut self.built)?;
            height += 1;
        }
        assert!(height < MAX_HEIGHT);
        self.change = Some(Change::Root(Root::<C, F>::word(nodes.only(), height)));
        Ok(())
    }

    /// Replaces, from the leaves upwards, until one slot makes the difference.
    fn edit(&mut self, root: Root<'a, C, F>, pages: VpnRange, mut new: New<'_, T>) -> Result<(), NoMemory> {
        let mut left = Path::to(root, pages.start.0);
        let mut right = Path::to(root, pages.end.0 - 1);
        let (mut from, mut to) = (left.node(0).rank_of_end(pages.start.0), right.step(0).at);
        for level in 0..=root.height {
            let edited = Level::between(level, (&mut left, from), (&mut right, to), new.len());
            self.replace_between(level, &left, &right);
            let total = edited.total(new.len());
            if left.is_first(level) && right.is_last(level) {
                (level + 1..=root.height).for_each(|above| self.replace_between(above, &left, &right));
                return self.crown(level, &edited, new);
            }
            let nodes = edited.build(&new, self.memory, &mut self.built)?;
            let one_for_one = core::ptr::eq(left.node(level), right.node(level)) && nodes.len() == 1;
            if one_for_one && total >= IndexNode::<C, F>::MIN {
                let Step { node, at } = left.step(level + 1);
                let (slot, page) = (Slot { node, at }, pages.start.0);
                self.change = Some(Change::Slot { slot, level: level + 1, page, node: nodes.only() });
                return Ok(());
            }
            (from, to) = (left.step(level + 1).at, right.step(level + 1).at + 1);
            new = New::Nodes(nodes);
        }
        Ok(())
    }

    /// What the tree becomes where nothing is left beside the edit on `level`: nothing, the only child,
    /// another root, or several nodes under a new one.
    fn crown(&mut self, level: usize, edited: &Level<'a, C, F>, new: New<'_, T>) -> Result<(), NoMemory> {
        let total = edited.total(new.len());
        if total == 0 {
            self.change = Some(Change::Root(0));
        } else if let (true, Some(child)) = (level > 0, edited.only_entry(&new)) {
            self.change = Some(Change::Root(Root::<C, F>::word(child.slot, level - 1)));
        } else {
            let nodes = edited.build(&new, self.memory, &mut self.built)?;
            self.grow(nodes, level)?;
        }
        Ok(())
    }

    /// Notes the nodes of `level` from one path to the other as replaced.
    fn replace_between(&mut self, level: usize, left: &Path<'a, C, F>, right: &Path<'a, C, F>) {
        self.replaced.push(left.node(level));
        if core::ptr::eq(left.node(level), right.node(level)) {
            return;
        }
        let mut path = left.clone();
        while path.go_right(level) {
            self.replaced.push(path.node(level));
            if core::ptr::eq(path.node(level), right.node(level)) {
                break;
            }
        }
    }
}

impl<T, C: Cpu, N: NodeMemory<C, F>, const F: usize> Prepared<'_, T, C, N, F> {
    /// Shows each item that goes, in order.
    pub(super) fn each_going(&self, mut show: impl FnMut(NonNull<T>)) {
        let item =
            |leaf: &IndexNode<C, F>, at| NonNull::new(core::ptr::with_exposed_provenance_mut(leaf.slot(at)));
        match self.going {
            Going::None => {}
            Going::In(leaf, ref going) => going.clone().filter_map(|at| item(leaf, at)).for_each(show),
            Going::Overlapping(root, old) => {
                let mut path = Path::to(root, old.start.0);
                let mut is_more = !old.is_empty();
                while is_more {
                    let leaf = path.node(0);
                    let overlaps = |at: &usize| leaf.key(*at) < old.end.0 && leaf.last(*at) > old.start.0;
                    (0..leaf.count()).filter(overlaps).filter_map(|at| item(leaf, at)).for_each(&mut show);
                    is_more = leaf.key(leaf.count() - 1) < old.end.0 && path.go_right(0);
                }
            }
        }
    }

    /// Makes the replacement visible, by one store, and retires the old nodes. Cannot fail.
    pub fn publish(self) {
        let (memory, mut gone) = (self.memory, RcuList::new());
        self.unlink_into(&mut gone);
        // SAFETY: all are nodes of the tree, so of this memory, and were unlinked just now.
        unsafe { memory.retire(gone) };
    }

    /// Makes the replacement visible, by one store, and adds the old nodes to what is to be retired.
    pub(super) fn unlink_into(mut self, gone: &mut RcuList) {
        match self.change.take() {
            None => return,
            Some(Change::Root(word)) => self.tree.root.store(word, Release),
            Some(Change::Slot { slot, level, page, node }) => {
                slot.node.replace_child(slot.at, node);
                // SAFETY: the writers' lock is held as long as the replacement is prepared.
                let root = unsafe { Root::<C, F>::from_word(self.tree.root.load(Relaxed)) };
                if let Some(root) = root {
                    note_extents(root, page, level);
                }
            }
        }
        self.built = Nodes::NONE;
        for node in self.replaced.iter::<C, F>() {
            // SAFETY: the store above unlinked it; nobody else uses its head, and it stays until it is
            // reclaimed.
            unsafe { gone.push::<C>(IndexNode::head(node), self.memory.node_tag()) };
        }
    }
}

/// Notes from `level` up to the root where the items of the new child on the way to `page` begin and end, and
/// its longest hole. Says whether the root notes another than before. Recursion is as deep as the tree.
fn note_extents<C: Cpu, const F: usize>(root: Root<'_, C, F>, page: u64, level: usize) -> bool {
    let Root { node, height } = root;
    let at = node.child_of(page);
    // SAFETY: an inner node's slots up to the page's hold children, and the writers' lock is held.
    let child = unsafe { node.child(at) };
    if height > level && !note_extents(Root { node: child, height: height - 1 }, page, level) {
        return false;
    }
    let total = child.total();
    let changes = node.extent(at) != total;
    if changes {
        node.set_extent(at, total);
    }
    changes
}

impl<T, C: Cpu, N: NodeMemory<C, F>, const F: usize> Drop for Prepared<'_, T, C, N, F> {
    fn drop(&mut self) {
        for node in self.built.iter() {
            // SAFETY: it came from this memory, and was not published.
            unsafe { self.memory.free_node(node) };
        }
        self.tree.writing.store(0, Release);
    }
}

/// All pages that change.
fn hull<T: Ranged>(old: VpnRange, new: &[NonNull<T>]) -> VpnRange {
    // SAFETY: the user promised that the items handed in are valid.
    let span = |item: &NonNull<T>| unsafe { item.as_ref() }.range();
    debug_assert!(
        new.windows(2).all(|pair| span(&pair[0]).end <= span(&pair[1]).start),
        "items out of order"
    );
    let (Some(first), Some(last)) = (new.first().map(span), new.last().map(span)) else { return old };
    if old.is_empty() {
        return VpnRange::new(first.start, last.end);
    }
    VpnRange::new(old.start.min(first.start), old.end.max(last.end))
}

/// Whether all items that overlap `pages` overlap `old`.
fn only_old_goes<C: Cpu, const F: usize>(root: Root<'_, C, F>, old: VpnRange, pages: VpnRange) -> bool {
    let mut path = Path::to(root, pages.start.0);
    loop {
        let leaf = path.node(0);
        for at in 0..leaf.count() {
            let item = VpnRange::new(Vpn(leaf.key(at)), Vpn(leaf.last(at)));
            if item.start >= pages.end {
                return true;
            }
            if item.overlaps(pages) && !item.overlaps(old) {
                return false;
            }
        }
        if !path.go_right(0) {
            return true;
        }
    }
}

impl<T, C: Cpu, N: NodeMemory<C, F>, const F: usize> fmt::Debug for Prepared<'_, T, C, N, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes in place of {}", self.built.len(), self.replaced.len())
    }
}
