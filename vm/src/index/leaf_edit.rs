//! The edit of one leaf, whose copy takes its place: nine of ten edits.
//!
//! ```text
//!   the leaf    [ a b | x x | c d ]       kept, removed, kept
//!   its copy    [ a b | n   | c d ]       the new items are inserted between
//! ```
//!
//! It is the special case of `tree_edit` in which only the lowest level changes: the leaf covers all pages
//! that change, and the copy is neither too full nor (unless it is the root) too empty. Such an edit descends
//! once and keeps only the slot that points to the leaf. A leaf that is the root and loses its last item gets
//! no copy.

use super::RootRef;
use super::node::{IndexNode, NodeSlot};
use super::path::SlotRef;
use crate::machine::Cpu;
use crate::units::VpnRange;
use core::ops::Range;

/// A replacement within one leaf.
pub(super) struct LeafEdit<'a, C: Cpu, const F: usize> {
    pub leaf: &'a IndexNode<C, F>,
    /// The slot that points to the leaf; `None` where it is the root.
    pub parent: Option<SlotRef<'a, C, F>>,
    /// The slots that are removed; those before and after them are kept.
    pub removed: Range<usize>,
    count: usize,
}

impl<'a, C: Cpu, const F: usize> LeafEdit<'a, C, F> {
    /// The replacement of the items in `pages`, which are not empty, by `nr_new` items. `None` if it changes
    /// more than one leaf.
    pub(super) fn find(root: RootRef<'a, C, F>, pages: VpnRange, nr_new: usize) -> Option<Self> {
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
    pub(super) fn removes_all(&self, nr_new: usize) -> bool {
        nr_new == 0 && self.removed == (0..self.count)
    }

    /// Fills an empty node with the kept slots and the new items.
    pub(super) fn fill(&self, copy: &mut IndexNode<C, F>, new: &[NodeSlot]) {
        let Range { start, end } = self.removed;
        copy.copy_from(self.leaf, 0..start);
        for (nth, &slot) in new.iter().enumerate() {
            copy.set(start + nth, slot);
        }
        copy.copy_from(self.leaf, end..self.count);
    }
}
