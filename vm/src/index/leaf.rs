//! The common replacement: it lies in one leaf, and a copy of that leaf takes its place.
//!
//! ```text
//!   the leaf    [ a b | x x | c d ]       some stay, some go, some stay
//!   its copy    [ a b | n   | c d ]       the new items come between
//! ```
//!
//! This is what `edit` comes to where its lowest level makes the whole difference: the leaf answers for all
//! pages that change, and the copy is neither too full nor, beside others, too empty. Nine of ten edits are
//! so. They take the way down once and remember of it the slot that leads to the leaf.

use super::edit::entry_of;
use super::node::IndexNode;
use super::{Ranged, Root};
use crate::machine::Cpu;
use crate::units::VpnRange;
use core::ops::Range;
use core::ptr::NonNull;

/// A slot, and the node that it is in.
pub(super) struct Slot<'a, C: Cpu, const F: usize> {
    pub node: &'a IndexNode<C, F>,
    pub at: usize,
}

/// A replacement within one leaf.
pub(super) struct OneLeaf<'a, C: Cpu, const F: usize> {
    pub leaf: &'a IndexNode<C, F>,
    /// The slot that holds the leaf; `None` where it is the root.
    pub slot: Option<Slot<'a, C, F>>,
    /// Entries before this one stay.
    from: usize,
    /// Entries from this one on stay.
    to: usize,
    count: usize,
}

impl<'a, C: Cpu, const F: usize> OneLeaf<'a, C, F> {
    /// The replacement of what lies in `pages`, which are not empty, by `new` items. `None` where it concerns
    /// more than a leaf.
    pub(super) fn of(root: Root<'a, C, F>, pages: VpnRange, new: usize) -> Option<Self> {
        let (first, last) = (pages.start.0, pages.end.0 - 1);
        let (mut leaf, mut slot) = (root.node, None);
        for _ in 0..root.height {
            let (node, at) = (leaf, leaf.child_of(first));
            // The next child's first page; a vacant key lies above every page.
            if at + 1 < F && node.key(at + 1) <= last {
                return None;
            }
            // SAFETY: an inner node's slots up to the page's hold children, and the writers' lock is held.
            leaf = unsafe { node.child(at) };
            slot = Some(Slot { node, at });
        }
        let (from, count) = (leaf.rank_of_end(first), leaf.count());
        let to = (from..count).find(|&at| leaf.key(at) > last).unwrap_or(count);
        let least = if slot.is_some() { IndexNode::<C, F>::MIN } else { 1 };
        let fits = (least..=F).contains(&(from + new + count - to));
        fits.then_some(Self { leaf, slot, from, to, count })
    }

    /// The entries that go.
    pub(super) fn going(&self) -> Range<usize> {
        self.from..self.to
    }

    /// Fills an empty node with what stays and what comes.
    pub(super) fn fill<T: Ranged>(&self, copy: &mut IndexNode<C, F>, new: &[NonNull<T>]) {
        copy.copy_from(self.leaf, 0..self.from);
        for (nth, &item) in new.iter().enumerate() {
            copy.set(self.from + nth, entry_of(item));
        }
        copy.copy_from(self.leaf, self.to..self.count);
    }
}
