//! What one level of the tree becomes.
//!
//! On each level an edit replaces the nodes from one path to another, both included. What they hold outside
//! of the edited pages stays, what is new comes between:
//!
//! ```text
//!   neighbour taken in   left path's node      right path's node   neighbour taken in
//!   [ a b c ]            [ d e | x x ]   ...   [ x | y z ]         [ ... ]
//!   a b c                  d e          new        y z
//! ```
//!
//! These entries are dealt out to as few nodes as hold them: evenly, unless what is new lies at one end,
//! where the next will come too: that node gets the fewest, and the others stay as full as they are. One node
//! in place of one is a matter of one slot, and the edit is done; otherwise the new nodes are what is new on
//! the next level.

use super::node::{Entry, Extent, IndexNode};
use super::path::Path;
use super::{NoMemory, NodeMemory, Ranged};
use crate::machine::Cpu;
use core::ptr::NonNull;

/// A list of nodes, linked through themselves. The order is that of insertion.
#[derive(Clone, Copy)]
pub(super) struct Nodes {
    first: usize,
    last: usize,
    len: usize,
}

/// What comes between on a level.
pub(super) enum New<'n, T> {
    /// Items, on the lowest level.
    Items(&'n [NonNull<T>]),
    /// The nodes built on the level below.
    Nodes(Nodes),
}

/// Entries of a node that stay.
struct Stay<'a, C: Cpu, const F: usize> {
    node: &'a IndexNode<C, F>,
    from: usize,
    to: usize,
    /// Key of entry 0, which inner nodes do not have.
    low: u64,
}

/// The nodes replaced on a level, and what stays of them.
pub(super) struct Level<'a, C: Cpu, const F: usize> {
    before: [Option<Stay<'a, C, F>>; 2],
    after: [Option<Stay<'a, C, F>>; 2],
    /// First page that all of it answers for.
    low: u64,
    inner: bool,
}

impl Nodes {
    pub(super) const NONE: Self = Self { first: 0, last: 0, len: 0 };

    /// A list of one node, which is in no other.
    pub(super) fn one<C: Cpu, const F: usize>(node: &IndexNode<C, F>) -> Self {
        let mut one = Self::NONE;
        one.push(node);
        one
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push<C: Cpu, const F: usize>(&mut self, node: &IndexNode<C, F>) {
        let address = (&raw const *node).expose_provenance();
        node.set_link(0);
        if self.len == 0 {
            self.first = address;
        } else {
            // SAFETY: nodes in the list stay in memory while the edit is prepared.
            unsafe { at::<C, F>(self.last) }.set_link(address);
        }
        self.last = address;
        self.len += 1;
    }

    /// The nodes; a node may be given away once it has been passed.
    pub(super) fn iter<C: Cpu, const F: usize>(self) -> impl Iterator<Item = NonNull<IndexNode<C, F>>> {
        let mut next = self.first;
        (0..self.len).filter_map(move |_| {
            let node = NonNull::new(core::ptr::with_exposed_provenance_mut::<IndexNode<C, F>>(next))?;
            // SAFETY: the node is in the list, and not given away before this iterator has passed it.
            next = unsafe { node.as_ref() }.link();
            Some(node)
        })
    }

    /// The only node's address.
    pub(super) fn only(&self) -> usize {
        debug_assert_eq!(self.len, 1);
        self.first
    }
}

/// # Safety
/// The address of a node in memory.
pub(super) unsafe fn at<'a, C: Cpu, const F: usize>(address: usize) -> &'a IndexNode<C, F> {
    // SAFETY: the caller says so.
    unsafe { &*core::ptr::with_exposed_provenance(address) }
}

impl<C: Cpu, const F: usize> Stay<'_, C, F> {
    fn entries(&self) -> impl Iterator<Item = Entry> {
        (self.from..self.to).map(|at| match self.node.entry(at) {
            entry if at == 0 => Entry { key: entry.key.max(self.low), ..entry },
            entry => entry,
        })
    }
}

impl<T: Ranged> New<'_, T> {
    pub(super) fn len(&self) -> usize {
        match self {
            New::Items(items) => items.len(),
            New::Nodes(nodes) => nodes.len,
        }
    }

    fn entries<C: Cpu, const F: usize>(&self) -> impl Iterator<Item = Entry> {
        let (items, nodes) = match *self {
            New::Items(items) => (items, Nodes::NONE),
            New::Nodes(nodes) => (&[][..], nodes),
        };
        // SAFETY: nodes in the list stay in memory while the edit is prepared.
        let nodes = nodes.iter::<C, F>().map(|node| unsafe { node.as_ref() }.as_entry());
        items.iter().map(|&item| entry_of(item)).chain(nodes)
    }
}

/// An item as an entry of its leaf.
pub(super) fn entry_of<T: Ranged>(item: NonNull<T>) -> Entry {
    // SAFETY: the user promised that the items handed in are valid.
    let item = unsafe { item.as_ref() };
    let span = item.range();
    debug_assert!(!span.is_empty(), "an item without pages");
    let first = span.start.0.saturating_sub(item.guard_pages());
    let extent = Extent { first, last: span.end.0, gap: 0 };
    Entry { key: span.start.0, slot: (&raw const *item).expose_provenance(), extent }
}

impl<'a, C: Cpu, const F: usize> Level<'a, C, F> {
    /// A level that the tree does not have yet.
    pub(super) fn fresh(inner: bool) -> Self {
        Self { before: [None, None], after: [None, None], low: 0, inner }
    }

    /// The nodes of `level` from `left`'s to `right`'s, without the entries from `from` in `left`'s up to
    /// `to` in `right`'s. Where too little is left, with `new` entries more, the paths are moved to take a
    /// neighbour in.
    pub(super) fn between(
        level: usize,
        (left, from): (&mut Path<'a, C, F>, usize),
        (right, to): (&mut Path<'a, C, F>, usize),
        new: usize,
    ) -> Self {
        let stay = |path: &Path<'a, C, F>, from, to| {
            let (node, low) = (path.node(level), path.low(level));
            Some(Stay { node, from, to, low })
        };
        let end = right.node(level).count();
        let mut it = Self {
            before: [None, stay(left, 0, from)],
            after: [stay(right, to, end), None],
            low: left.low(level),
            inner: level > 0,
        };
        let total = it.total(new);
        if total == 0 || total >= IndexNode::<C, F>::MIN || level == left.height() {
            return it;
        }
        let has_left_sibling = left.step(level + 1).at > 0;
        let right_parent = right.step(level + 1);
        let has_right_sibling = right_parent.at + 1 < right_parent.node.count();
        if (has_left_sibling || !has_right_sibling) && left.go_left(level) {
            it.before[0] = stay(left, 0, left.node(level).count());
            it.low = left.low(level);
        } else if right.go_right(level) {
            it.after[1] = stay(right, 0, right.node(level).count());
        }
        it
    }

    /// Entries, with `new` ones in between.
    pub(super) fn total(&self, new: usize) -> usize {
        self.before.iter().chain(&self.after).flatten().map(|stay| stay.to - stay.from).sum::<usize>() + new
    }

    /// Builds the nodes that hold all entries, and adds them to `built`; on failure, as many as there was
    /// memory for.
    pub(super) fn build<T: Ranged>(
        &self,
        new: &New<'_, T>,
        memory: &impl NodeMemory<C, F>,
        built: &mut Nodes,
    ) -> Result<Nodes, NoMemory> {
        let total = self.total(new.len());
        let nr_nodes = total.div_ceil(F);
        let mut entries = self.entries(new);
        let mut nodes = Nodes::NONE;
        for nth in 0..nr_nodes {
            let len = self.share(nth, nr_nodes, total);
            let node = memory.alloc_node().ok_or(NoMemory)?;
            // SAFETY: the memory is fresh.
            let node = unsafe { IndexNode::init(node, self.low) };
            for (at, entry) in entries.by_ref().take(len).enumerate() {
                let key = if at == 0 && nth > 0 { Some(entry.key) } else { None };
                node.fill(at, entry, key, self.inner);
            }
            built.push(&*node);
            nodes.take_next(built);
        }
        Ok(nodes)
    }

    /// How many of `total` entries the node `nth` of `nr_nodes` gets.
    fn share(&self, nth: usize, nr_nodes: usize, total: usize) -> usize {
        let even = |nth: usize, nodes: usize, total: usize| total / nodes + usize::from(nth < total % nodes);
        let stays = |side: &[Option<Stay<'a, C, F>>]| side.iter().flatten().any(|stay| stay.from < stay.to);
        let at_end = match (stays(&self.before), stays(&self.after)) {
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

    fn entries<T: Ranged>(&self, new: &New<'_, T>) -> impl Iterator<Item = Entry> {
        let before = self.before.iter().flatten().flat_map(Stay::entries);
        let after = self.after.iter().flatten().flat_map(Stay::entries);
        before.chain(new.entries::<C, F>()).chain(after)
    }

    /// The only entry that is left, where there is just one.
    pub(super) fn only_entry<T: Ranged>(&self, new: &New<'_, T>) -> Option<Entry> {
        self.entries(new).next().filter(|_| self.total(new.len()) == 1)
    }
}

impl Nodes {
    /// Counts the node last added to `all` in: a run of `all`, which keeps the links.
    fn take_next(&mut self, all: &Nodes) {
        if self.len == 0 {
            self.first = all.last;
        }
        self.last = all.last;
        self.len += 1;
    }
}
