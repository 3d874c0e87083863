//! Lookups: no lock, no store, one or two lines of keys on each level.
//!
//! A lookup is one path, and passes the slot that a replacement stores at most once, so it sees all of the
//! replacement or nothing. [`at_or_after`] may read two leaves, and iteration many: each item returned was in
//! the tree at some instant of the call, but a writer may have replaced the first leaf before the second was
//! read. A caller that must not miss any item keeps writers out.
//!
//! [`at_or_after`]: RangeIndex::at_or_after
//!
//! Each call checks that its read section is one of the index's RCU, and panics if it is not.

use super::node::{IndexNode, VACANT};
use super::path::SlotRef;
use super::{IndexItem, RangeIndex, Ranged, RootRef};
use crate::machine::Cpu;
use crate::sync::atomic::Ordering::*;
use crate::sync::{LastHit, LastHits, ReadGuard};
use crate::units::{Vpn, VpnRange};

impl<T: Ranged, C: Cpu, const F: usize> RangeIndex<'_, T, C, F> {
    /// The item that contains `vpn`.
    #[inline]
    #[track_caller]
    pub fn find<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g T> {
        self.find_item(section, vpn).map(IndexItem::value)
    }

    /// As [`find`](Self::find), by way of this CPU's last hit.
    #[inline(always)]
    #[track_caller]
    pub fn find_cached<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g T> {
        let version = self.hits.version();
        if let Some([address]) = LastHit::get(section, LastHits::item, version) {
            let item = core::ptr::with_exposed_provenance::<IndexItem<T>>(address as usize);
            // SAFETY: cached below, by a lookup in this index, since nothing else caches hits under its
            // source, and in a section of the RCU that this section is of, which is the index's, as that
            // lookup has checked. At an unchanged version the item is in memory until the section ends, as
            // `sync::last_hit` shows.
            let item = unsafe { &*item };
            if item.range().contains(vpn) {
                return Some(item.value());
            }
        }
        let found = self.find_item(section, vpn)?;
        let address = (&raw const *found).expose_provenance() as u64;
        // SAFETY: (1) found in this index, after the version was read and in the read section. (2) A
        // replacement retires under the index's RCU, which the section is of, as `find_item` has checked; it
        // invalidates hits before that, after it has unlinked, with the `EditGuard`. (3) All hits of this
        // index are cached here.
        unsafe { LastHit::set(section, LastHits::item, version, [address]) };
        Some(found.value())
    }

    /// The item that contains `vpn`, or else the first one after it.
    #[track_caller]
    pub fn at_or_after<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g T> {
        let SlotRef { node, slot } = self.slot_at_or_after(section, vpn.0)?;
        // SAFETY: `slot_at_or_after` returns slots of leaves that hold items, found in the read section.
        Some(unsafe { item::<T, C, F>(node, slot) }.value())
    }

    /// The last item that starts before `vpn`; it may contain `vpn`. Part of its callers: munmap is one.
    #[inline(always)]
    #[track_caller]
    pub fn before<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g T> {
        let RootRef { mut node, height } = self.root(section)?;
        let page = vpn.0.checked_sub(1)?.min(VACANT - 1);
        let mut before = None;
        for level in (0..height).rev() {
            let slot = node.child_slot(page);
            if slot > 0 {
                before = Some((node, slot - 1, level));
            }
            // SAFETY: as in `find_item`.
            node = unsafe { node.child(slot) };
        }
        if let Some(slot) = node.rank(page).checked_sub(1) {
            // SAFETY: as in `find_item`.
            return Some(unsafe { item::<T, C, F>(node, slot) }.value());
        }
        let (parent, slot, level) = before?;
        // SAFETY: `slot` lies before a slot in use; slots are used from the left, in every node.
        node = unsafe { parent.child(slot) };
        for _ in 0..level {
            // SAFETY: as above: no node is empty.
            node = unsafe { node.child(node.count().saturating_sub(1)) };
        }
        let slot = node.count().checked_sub(1)?;
        // SAFETY: as above.
        Some(unsafe { item::<T, C, F>(node, slot) }.value())
    }

    /// The items that overlap `range`, ascending. Exact where no edit is published meanwhile.
    pub fn iter<'g>(
        &'g self,
        section: &'g ReadGuard<'g, C>,
        mut range: VpnRange,
    ) -> impl Iterator<Item = &'g T> + 'g {
        core::iter::from_fn(move || {
            if range.is_empty() {
                return None;
            }
            let SlotRef { node, slot } = self.slot_at_or_after(section, range.start.0)?;
            // SAFETY: as in `at_or_after`.
            let item = unsafe { item::<T, C, F>(node, slot) }.value();
            let overlaps = item.range().start < range.end;
            range = VpnRange::new(Vpn(node.end(slot).min(range.end.0)), range.end);
            overlaps.then_some(item)
        })
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn root<'g>(&self, section: &'g ReadGuard<'_, C>) -> Option<RootRef<'g, C, F>> {
        section.assert_of(self.rcu);
        // SAFETY: loaded from the root within the read section, which is one of the index's RCU.
        unsafe { RootRef::from_word(self.root.load(Acquire)) }
    }

    #[inline(always)]
    #[track_caller]
    fn find_item<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g IndexItem<T>> {
        let RootRef { mut node, height } = self.root(section)?;
        let page = vpn.0.min(VACANT - 1);
        for _ in 0..height {
            // SAFETY: an inner node's slots up to the page's hold children, and the read section began before
            // now.
            node = unsafe { node.child(node.child_slot(page)) };
        }
        let slot = node.rank(page).checked_sub(1)?;
        // SAFETY: a leaf's slots below its rank hold items, and the read section began before now.
        (vpn.0 < node.end(slot)).then(|| unsafe { item(node, slot) })
    }

    /// The slot in its leaf of the item that contains `page`, or else of the first item after it.
    #[track_caller]
    fn slot_at_or_after<'g>(&self, section: &'g ReadGuard<'_, C>, page: u64) -> Option<SlotRef<'g, C, F>> {
        let RootRef { mut node, height } = self.root(section).filter(|_| page < VACANT)?;
        let mut after = None;
        for level in (0..height).rev() {
            let slot = node.child_slot(page);
            if slot + 1 < F && node.key(slot + 1) != VACANT {
                after = Some((node, slot + 1, level));
            }
            // SAFETY: as in `find_item`.
            node = unsafe { node.child(slot) };
        }
        let rank = node.rank(page);
        let slot = if rank > 0 && page < node.end(rank - 1) { rank - 1 } else { rank };
        if slot < F && node.key(slot) != VACANT {
            // A slot with a key holds an item.
            return Some(SlotRef { node, slot });
        }
        let (parent, slot, level) = after?;
        // SAFETY: the slot has a key, so it holds a child.
        node = unsafe { parent.child(slot) };
        for _ in 0..level {
            // SAFETY: no node is empty.
            node = unsafe { node.child(0) };
        }
        Some(SlotRef { node, slot: 0 })
    }
}

/// # Safety
/// `node` is a leaf whose slot `slot` holds an item of an index of `T`, found in a read section of the
/// index's RCU that lasts for `'g`.
#[inline(always)]
unsafe fn item<'g, T, C: Cpu, const F: usize>(node: &IndexNode<C, F>, slot: usize) -> &'g IndexItem<T> {
    // SAFETY: an item is in memory until a grace period after it was unlinked.
    unsafe { &*core::ptr::with_exposed_provenance(node.pointer(slot)) }
}
