//! The edit of one level of the tree.
//!
//! On each level an edit replaces the nodes from one path to another, both included. Their slots outside of
//! the edited pages are kept; new slots are inserted between:
//!
//! ```text
//!   merged neighbour     left path's node      right path's node   merged neighbour
//!   [ a b c ]            [ d e | x x ]   ...   [ x | y z ]         [ ... ]
//!   a b c                  d e          new        y z
//! ```
//!
//! These slots are distributed over as few nodes as hold them: evenly, unless the new slots lie at one end,
//! where the next insertion is likely too: the node at that end gets the fewest, and the others stay as full
//! as they are. If one node replaces one, a store to one slot completes the edit; otherwise the new nodes are
//! inserted on the next level.

use super::node::{IndexNode, NodeSlot};
use super::node_list::NodeList;
use super::path::NodePath;
use super::{IndexMemory, NoMemory};
use crate::machine::Cpu;

/// The items or nodes inserted on a level.
pub(super) enum Inserted<'n> {
    /// Items, on the lowest level.
    Items(&'n [NodeSlot]),
    /// The nodes built on the level below.
    Nodes(NodeList),
}

/// Slots of a node that are kept.
struct KeptSlots<'a, C: Cpu, const F: usize> {
    node: &'a IndexNode<C, F>,
    from: usize,
    to: usize,
    /// Key of slot 0, which inner nodes do not have.
    first_page: u64,
}

/// The nodes replaced on a level, and their kept slots.
pub(super) struct LevelEdit<'a, C: Cpu, const F: usize> {
    before: [Option<KeptSlots<'a, C, F>>; 2],
    after: [Option<KeptSlots<'a, C, F>>; 2],
    /// First page that the replaced nodes cover.
    first_page: u64,
    is_inner: bool,
}

impl<C: Cpu, const F: usize> KeptSlots<'_, C, F> {
    fn slots(&self) -> impl Iterator<Item = NodeSlot> {
        (self.from..self.to).map(|at| match self.node.slot(at) {
            slot if at == 0 => slot.not_before(self.first_page),
            slot => slot,
        })
    }
}

impl Inserted<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Inserted::Items(items) => items.len(),
            Inserted::Nodes(nodes) => nodes.len(),
        }
    }

    fn slots<C: Cpu, const F: usize>(&self) -> impl Iterator<Item = NodeSlot> {
        let (items, nodes) = match *self {
            Inserted::Items(items) => (items, NodeList::EMPTY),
            Inserted::Nodes(nodes) => (&[][..], nodes),
        };
        // SAFETY: the list's iterator returns nodes that are in memory.
        let nodes = nodes.iter::<C, F>().map(|node| unsafe { node.as_ref() }.as_slot());
        items.iter().copied().chain(nodes)
    }
}

impl<'a, C: Cpu, const F: usize> LevelEdit<'a, C, F> {
    /// A level that the tree does not have yet.
    pub(super) fn new_level(is_inner: bool) -> Self {
        Self { before: [None, None], after: [None, None], first_page: 0, is_inner }
    }

    /// The nodes on `level` from `left`'s to `right`'s, without the slots from `from` in `left`'s up to `to`
    /// in `right`'s. If the kept slots and `nr_new` more are too few, one of the paths moves to a neighbour,
    /// which is merged.
    pub(super) fn between(
        level: usize,
        (left, from): (&mut NodePath<'a, C, F>, usize),
        (right, to): (&mut NodePath<'a, C, F>, usize),
        nr_new: usize,
    ) -> Self {
        let kept = |path: &NodePath<'a, C, F>, from, to| {
            let (node, first_page) = (path.node(level), path.first_page(level));
            Some(KeptSlots { node, from, to, first_page })
        };
        let end = right.node(level).count();
        let mut edit = Self {
            before: [None, kept(left, 0, from)],
            after: [kept(right, to, end), None],
            first_page: left.first_page(level),
            is_inner: level > 0,
        };
        let total = edit.total(nr_new);
        if total == 0 || total >= IndexNode::<C, F>::MIN || level == left.height() {
            return edit;
        }
        let has_left_sibling = left.at(level + 1).slot > 0;
        let right_parent = right.at(level + 1);
        let has_right_sibling = right_parent.slot + 1 < right_parent.node.count();
        if (has_left_sibling || !has_right_sibling) && left.move_left(level) {
            edit.before[0] = kept(left, 0, left.node(level).count());
            edit.first_page = left.first_page(level);
        } else if right.move_right(level) {
            edit.after[1] = kept(right, 0, right.node(level).count());
        }
        edit
    }

    /// Number of slots, with `nr_new` inserted ones.
    pub(super) fn total(&self, nr_new: usize) -> usize {
        let kept = self.before.iter().chain(&self.after).flatten();
        kept.map(|kept| kept.to - kept.from).sum::<usize>() + nr_new
    }

    /// Builds the nodes that hold all slots, and adds them to `built`; on failure, those built so far.
    pub(super) fn build<T>(
        &self,
        new: &Inserted<'_>,
        memory: &impl IndexMemory<T, C, F>,
        built: &mut NodeList,
    ) -> Result<NodeList, NoMemory> {
        let total = self.total(new.len());
        let nr_nodes = total.div_ceil(F);
        let mut slots = self.slots(new);
        let mut nodes = NodeList::EMPTY;
        for nth in 0..nr_nodes {
            let len = self.share(nth, nr_nodes, total);
            let node = memory.alloc_node().ok_or(NoMemory)?;
            // SAFETY: the memory was allocated just now, for a node, and only this function has it.
            let node = unsafe { IndexNode::init(node, self.first_page) };
            for (at, slot) in slots.by_ref().take(len).enumerate() {
                let first_page = if at == 0 && nth > 0 { Some(slot.key()) } else { None };
                node.fill(at, slot, first_page, self.is_inner);
            }
            // SAFETY: a new node, which stays in memory until the edit frees it, which owns the list, or it
            // is published and the list forgotten.
            unsafe { built.push(&*node) };
            nodes.extend_to_end_of(built);
        }
        Ok(nodes)
    }

    /// Number of slots, of `total`, for the node `nth` of `nr_nodes`.
    fn share(&self, nth: usize, nr_nodes: usize, total: usize) -> usize {
        let even = |nth: usize, nodes: usize, total: usize| total / nodes + usize::from(nth < total % nodes);
        let keeps =
            |side: &[Option<KeptSlots<'a, C, F>>]| side.iter().flatten().any(|kept| kept.from < kept.to);
        let at_end = match (keeps(&self.before), keeps(&self.after)) {
            (true, false) => nr_nodes - 1,
            (false, true) => 0,
            _ => return even(nth, nr_nodes, total),
        };
        if nr_nodes == 1 {
            return total;
        }
        let others = nr_nodes - 1;
        let fewest = total.saturating_sub(others * F).max(IndexNode::<C, F>::MIN);
        if nth == at_end { fewest } else { even(nth - usize::from(at_end == 0), others, total - fewest) }
    }

    fn slots(&self, new: &Inserted<'_>) -> impl Iterator<Item = NodeSlot> {
        let before = self.before.iter().flatten().flat_map(KeptSlots::slots);
        let after = self.after.iter().flatten().flat_map(KeptSlots::slots);
        before.chain(new.slots::<C, F>()).chain(after)
    }

    /// The only slot; `None` if there are several, or none.
    pub(super) fn only_slot(&self, new: &Inserted<'_>) -> Option<NodeSlot> {
        self.slots(new).next().filter(|_| self.total(new.len()) == 1)
    }
}
