//! The path from the root to a page, for writers: `is_editing` is theirs, which keeps nodes in place.

use super::node::{IndexNode, VACANT};
use super::{MAX_HEIGHT, RootRef};
use crate::machine::Cpu;

/// A slot of a node.
pub(super) struct SlotRef<'a, C: Cpu, const F: usize> {
    pub node: &'a IndexNode<C, F>,
    pub slot: usize,
}

/// For each level, from the root down, the slot through which the next node is reached; on level 0 the slot
/// before which the page would be inserted.
pub(super) struct NodePath<'a, C: Cpu, const F: usize> {
    slots: [Option<SlotRef<'a, C, F>>; MAX_HEIGHT],
    height: usize,
}

impl<C: Cpu, const F: usize> Clone for SlotRef<'_, C, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Cpu, const F: usize> Copy for SlotRef<'_, C, F> {}

impl<C: Cpu, const F: usize> Clone for NodePath<'_, C, F> {
    fn clone(&self) -> Self {
        Self { slots: self.slots, height: self.height }
    }
}

impl<'a, C: Cpu, const F: usize> NodePath<'a, C, F> {
    /// The path to the leaf that covers `page`.
    pub(super) fn to(root: RootRef<'a, C, F>, page: u64) -> Self {
        let page = page.min(VACANT - 1);
        let mut path = Self { slots: [None; MAX_HEIGHT], height: root.height };
        let mut node = root.node;
        for level in (1..=root.height).rev() {
            let slot = node.child_slot(page);
            path.slots[level] = Some(SlotRef { node, slot });
            // SAFETY: on a level above 0 the slots up to the page's hold children, and a `RootRef`'s nodes
            // stay as long as it.
            node = unsafe { node.child(slot) };
        }
        path.slots[0] = Some(SlotRef { node, slot: node.rank(page) });
        path
    }

    /// The root's level; leaves are on level 0.
    pub(super) fn height(&self) -> usize {
        self.height
    }

    /// The slot on a level up to the root's.
    pub(super) fn at(&self, level: usize) -> SlotRef<'a, C, F> {
        self.slots[level].expect("the path has a slot on every level up to the root")
    }

    /// The node on a level.
    pub(super) fn node(&self, level: usize) -> &'a IndexNode<C, F> {
        self.at(level).node
    }

    /// The first page that the node on `level` covers.
    pub(super) fn first_page(&self, level: usize) -> u64 {
        let above = (level + 1..=self.height).map(|level| self.at(level));
        above.into_iter().find(|at| at.slot > 0).map_or(0, |at| at.node.key(at.slot))
    }

    /// Whether the node on `level` is the first of its level.
    pub(super) fn is_first(&self, level: usize) -> bool {
        (level + 1..=self.height).all(|above| self.at(above).slot == 0)
    }

    /// Whether the node on `level` is the last of its level.
    pub(super) fn is_last(&self, level: usize) -> bool {
        (level + 1..=self.height).map(|above| self.at(above)).all(|at| at.slot + 1 == at.node.count())
    }

    /// Moves to the node before the one on `level`; `false` if it is the first of its level. Lower levels are
    /// not moved.
    pub(super) fn move_left(&mut self, level: usize) -> bool {
        self.move_to(level, |at| at.slot.checked_sub(1), |node| node.count() - 1)
    }

    /// Moves to the node after the one on `level`; `false` if it is the last of its level. Lower levels are
    /// not moved.
    pub(super) fn move_right(&mut self, level: usize) -> bool {
        self.move_to(level, |at| Some(at.slot + 1).filter(|&slot| slot < at.node.count()), |_| 0)
    }

    /// Moves to the neighbour of the node on `level`: up to the first level that has a slot beside the
    /// path's, and down from there along the edge.
    fn move_to(
        &mut self,
        level: usize,
        beside: impl Fn(SlotRef<'a, C, F>) -> Option<usize>,
        edge: impl Fn(&IndexNode<C, F>) -> usize,
    ) -> bool {
        let turn = (level + 1..=self.height).find_map(|l| Some((l, beside(self.at(l))?)));
        let Some((turn, slot)) = turn else { return false };
        self.slots[turn] = Some(SlotRef { node: self.node(turn), slot });
        for below in (level..turn).rev() {
            let SlotRef { node, slot } = self.at(below + 1);
            // SAFETY: `slot` is in use, by `beside` or `edge`, in a node above level 0; the nodes stay for
            // `'a`, that of the `RootRef` that the path was made of.
            let node = unsafe { node.child(slot) };
            self.slots[below] = Some(SlotRef { node, slot: if below == level { 0 } else { edge(node) } });
        }
        true
    }
}
