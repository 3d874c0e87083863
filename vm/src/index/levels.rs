//! The edit of several nodes, level by level: the tree is empty, or the leaf of the edit has too many slots
//! then or too few, or the pages lie in several leaves.

use super::level_edit::{Inserted, LevelEdit};
use super::node::IndexNode;
use super::node_list::NodeList;
use super::path::NodePath;
use super::tree_edit::{PublishingStore, TreeEdit};
use super::{IndexMemory, MAX_HEIGHT, NoMemory, Ranged, RootRef};
use crate::machine::Cpu;
use crate::units::{Vpn, VpnRange};
use core::ops::Range;

impl<'a, T: Ranged, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> TreeEdit<'a, T, C, N, F> {
    /// Builds the first nodes of an empty tree.
    pub(super) fn fill_empty_tree(&mut self, new: Inserted<'_>) -> Result<(), NoMemory> {
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
    pub(super) fn replace_levels(
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
pub(super) struct Edges<'a, C: Cpu, const F: usize> {
    left: NodePath<'a, C, F>,
    /// The first slot of the left path's leaf that is removed.
    from: usize,
    right: NodePath<'a, C, F>,
    /// The first slot of the right path's leaf that is kept again.
    to: usize,
}

impl<'a, C: Cpu, const F: usize> Edges<'a, C, F> {
    /// The same for the same pages, as long as the tree does not change.
    pub(super) fn of(root: RootRef<'a, C, F>, pages: VpnRange) -> Self {
        let (left, right) = (NodePath::to(root, pages.start.0), NodePath::to(root, pages.end.0 - 1));
        let (from, to) = (left.node(0).rank_of_end(pages.start.0), right.at(0).slot);
        Self { left, from, right, to }
    }

    /// Visits the leaves, each with its slots that are removed.
    pub(super) fn each_leaf(self, mut visit: impl FnMut(&'a IndexNode<C, F>, Range<usize>)) {
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

/// Whether all items that overlap `pages` overlap `old`.
pub(super) fn removes_only_old<C: Cpu, const F: usize>(
    root: RootRef<'_, C, F>,
    old: VpnRange,
    pages: VpnRange,
) -> bool {
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
