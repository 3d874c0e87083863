//! Lookups: no lock, no store, one or two lines of keys on each level.
//!
//! A lookup is one path, and meets each replacement's slot at most once, so it sees all of it or nothing.
//! [`next_at_or_after`] may look into two leaves, and iteration into many: each item seen was there at some
//! instant of the call, but a writer may have replaced the first leaf before the second was read. Who must
//! not miss anything holds the writers' lock.
//!
//! [`next_at_or_after`]: RangeTree::next_at_or_after

use super::node::{IndexNode, VACANT};
use super::{RangeTree, Root};
use crate::machine::Cpu;
use crate::sync::ReadGuard;
use crate::sync::atomic::Ordering::*;
use crate::units::{Vpn, VpnRange};
use core::fmt;

/// An item as its leaf has it.
struct Found<'g, T> {
    item: &'g T,
    end: u64,
}

impl<T, C: Cpu, const F: usize> RangeTree<T, C, F> {
    /// The item that contains `vpn`.
    #[inline]
    #[track_caller]
    pub fn find<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g T> {
        let Root { mut node, height } = self.root(section)?;
        let page = vpn.0.min(VACANT - 1);
        for _ in 0..height {
            // SAFETY: an inner node's slots up to the page's hold children, and the read section began before
            // now.
            node = unsafe { node.child(node.child_of(page)) };
        }
        let at = node.rank(page).checked_sub(1)?;
        // SAFETY: a leaf's slots below its rank hold items, and the read section began before now.
        (vpn.0 < node.last(at)).then(|| unsafe { item(node, at) })
    }

    /// The item that contains `vpn`, or else the first one after it.
    #[track_caller]
    pub fn next_at_or_after<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g T> {
        Some(self.next(section, vpn.0)?.item)
    }

    /// The last item that starts before `vpn`; it may contain `vpn`.
    #[track_caller]
    pub fn prev_before<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g T> {
        let Root { mut node, height } = self.root(section)?;
        let page = vpn.0.checked_sub(1)?;
        let mut before = None;
        for level in (0..height).rev() {
            let at = node.child_of(page);
            if at > 0 {
                before = Some((node, at - 1, level));
            }
            // SAFETY: as in `find`.
            node = unsafe { node.child(at) };
        }
        if let Some(at) = node.rank(page).checked_sub(1) {
            // SAFETY: as in `find`.
            return Some(unsafe { item(node, at) });
        }
        let (parent, at, level) = before?;
        // SAFETY: `at` lies before a slot in use; slots are used from the left, in every node.
        node = unsafe { parent.child(at) };
        for _ in 0..level {
            // SAFETY: as above: no node is empty.
            node = unsafe { node.child(node.count().saturating_sub(1)) };
        }
        let at = node.count().checked_sub(1)?;
        // SAFETY: as above.
        Some(unsafe { item(node, at) })
    }

    /// The items that overlap `range`, ascending.
    pub fn items<'g>(&'g self, section: &'g ReadGuard<'g, C>, range: VpnRange) -> Items<'g, T, C, F> {
        Items { tree: self, section, range }
    }

    #[inline(always)]
    fn root<'g>(&self, _section: &'g ReadGuard<'_, C>) -> Option<Root<'g, C, F>> {
        // SAFETY: loaded from the root within the read section.
        unsafe { Root::from_word(self.root.load(Acquire)) }
    }

    fn next<'g>(&self, section: &'g ReadGuard<'_, C>, page: u64) -> Option<Found<'g, T>> {
        let Root { mut node, height } = self.root(section).filter(|_| page != VACANT)?;
        let mut after = None;
        for level in (0..height).rev() {
            let at = node.child_of(page);
            if at + 1 < F && node.key(at + 1) != VACANT {
                after = Some((node, at + 1, level));
            }
            // SAFETY: as in `find`.
            node = unsafe { node.child(at) };
        }
        let rank = node.rank(page);
        let at = if rank > 0 && page < node.last(rank - 1) { rank - 1 } else { rank };
        if at < F && node.key(at) != VACANT {
            // SAFETY: a slot with a key holds an item.
            return Some(Found { item: unsafe { item(node, at) }, end: node.last(at) });
        }
        let (parent, at, level) = after?;
        // SAFETY: the slot has a key, so it holds a child.
        node = unsafe { parent.child(at) };
        for _ in 0..level {
            // SAFETY: no node is empty.
            node = unsafe { node.child(0) };
        }
        // SAFETY: as above.
        Some(Found { item: unsafe { item(node, 0) }, end: node.last(0) })
    }
}

/// # Safety
/// `node` is a leaf whose slot `at` holds an item, and the caller's read section or lock lasts for `'g`.
#[inline(always)]
unsafe fn item<'g, T, C: Cpu, const F: usize>(node: &IndexNode<C, F>, at: usize) -> &'g T {
    // SAFETY: the user promised that the item is valid until a grace period after it was replaced.
    unsafe { &*core::ptr::with_exposed_provenance(node.slot(at)) }
}

/// Iterator over the items of a range, see [`RangeTree::items`].
pub struct Items<'g, T, C: Cpu, const F: usize> {
    tree: &'g RangeTree<T, C, F>,
    section: &'g ReadGuard<'g, C>,
    range: VpnRange,
}

impl<'g, T: super::Ranged, C: Cpu, const F: usize> Iterator for Items<'g, T, C, F> {
    type Item = &'g T;

    fn next(&mut self) -> Option<&'g T> {
        if self.range.is_empty() {
            return None;
        }
        let Found { item, end } = self.tree.next(self.section, self.range.start.0)?;
        let inside = item.range().start < self.range.end;
        self.range = VpnRange::new(Vpn(end.min(self.range.end.0)), self.range.end);
        inside.then_some(item)
    }
}

impl<T, C: Cpu, const F: usize> fmt::Debug for Items<'_, T, C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "items in {:?}", self.range)
    }
}
