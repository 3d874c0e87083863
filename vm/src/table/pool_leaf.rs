//! Entries of mappings of the reserved pool: marked *reserved*, a huge leaf, marked *lost*, or absent.
//!
//! ```text
//!   absent ── mark_reserved ──► Reserved ── install_huge ──► leaf ── drop_pool_leaf ──► Reserved, or absent
//! ```
//!
//! An entry that is marked *reserved* has a huge page of the pool set aside for it, which the pool counts; so
//! whoever puts the marker there, or takes it away, tells the pool, under the lock of the table.

use super::given_leaves::table_at;
use super::{LockedTable, MapError, PageTable, SlotRun};
use crate::frame::{TableFrame, Unhooked};
use crate::machine::{Entry, Machine, Marker};
use crate::units::{Level, PageSize, Rights, Vpn, VpnRange};

/// Marks the entries of `pages` as reserved, each of the size of a leaf; all are absent. `marked` is what was
/// marked so far, from the first page on, and is brought up to date: after an error too. `alloc` makes empty
/// tables, and is called without a lock.
///
/// # Errors
/// [`MapError::NoMemory`], [`MapError::AlreadyMapped`].
pub(crate) fn mark_reserved<'f, M: Machine + 'f>(
    tree: &PageTable<'_, M>,
    pages: VpnRange,
    size: PageSize,
    marked: &mut VpnRange,
    mut alloc: impl FnMut() -> Option<TableFrame<'f, M>>,
) -> Result<(), MapError> {
    let level = size.level();
    while marked.end < pages.end {
        let mut table = table_at(tree, marked.end, level, &mut alloc)?;
        for slot in level.index(marked.end)..Level::ENTRIES {
            if marked.end >= pages.end {
                break;
            }
            if table.entry(slot) != Entry::Absent || table.table().is_platforms(slot) {
                return Err(MapError::AlreadyMapped);
            }
            table.put(slot, Entry::Marker(Marker::Reserved));
            marked.end = marked.end.add(size.pages());
        }
    }
    Ok(())
}

impl<M: Machine> LockedTable<'_, M> {
    /// Whether the slot maps a folio of the reserved pool, which it owns.
    pub(crate) fn is_of_pool(&self, slot: usize) -> bool {
        self.mapped_meta(slot).is_some_and(|meta| meta.state().is_pooled())
    }

    /// Marks a slot that is absent as *busy* or *lost*, in a tree that only the caller knows.
    pub(crate) fn mark_absent(&mut self, slot: usize, marker: Marker) {
        debug_assert_eq!(self.entry(slot), Entry::Absent, "something is mapped there");
        self.mark(slot, marker);
    }

    /// Replaces the marker *busy* by another one that owns nothing, or by nothing.
    pub(crate) fn replace_busy_mark(&mut self, slot: usize, marker: Option<Marker>) {
        debug_assert_eq!(self.entry(slot), Entry::Marker(Marker::Busy));
        self.replace(slot, marker.map_or(Entry::Absent, Entry::Marker));
    }

    /// Takes the right to write from the leaf in `slot`. Returns whether it had that.
    pub(crate) fn take_write(&self, slot: usize) -> bool {
        let has_it = matches!(self.entry(slot), Entry::Leaf(leaf) if leaf.rights.contains(Rights::WRITE));
        if has_it {
            self.write_protect(slot);
        }
        has_it
    }

    /// Takes the folio out that the slot maps from `page` on, and returns its translation, to be flushed and
    /// freed before this table is unlocked. Where `is_reserving`, a huge page is set aside for the entry
    /// again, and it is marked so; but not where somebody has a reference to the folio and no other is
    /// available. `None`, and no change, where the slot has no folio.
    pub(crate) fn drop_pool_leaf(&mut self, slot: usize, page: Vpn, is_reserving: bool) -> Option<Unhooked> {
        let leaf = self.owned_huge_leaf(slot).filter(|_| self.is_of_pool(slot))?;
        let size = self.level().leaf_size()?;
        let emptied = if is_reserving { Entry::Marker(Marker::Busy) } else { Entry::Absent };
        let Entry::Leaf(last) = self.replace(slot, emptied) else {
            unreachable!("the holder of the lock has seen a leaf")
        };
        if is_reserving {
            // After the entry has changed: a pin that comes later is dropped again.
            let is_promised = self.tree().memory.promise_again(size, leaf.pfn);
            self.replace(slot, if is_promised { Entry::Marker(Marker::Reserved) } else { Entry::Absent });
        }
        Some(Unhooked::frame(VpnRange::new(page, page.add(size.pages())), last))
    }
}

impl<M: Machine> SlotRun<'_, '_, M> {
    /// Number of leaves of the reserved pool, and of entries for which it has set a page aside.
    pub fn nr_of_pool(&self) -> (u64, u64) {
        let (mut leaves, mut reserved) = (0, 0);
        for slot in self.slots.clone() {
            match self.table.entry(slot) {
                Entry::Leaf(_) => leaves += u64::from(self.table.is_of_pool(slot)),
                Entry::Marker(Marker::Reserved) => reserved += 1,
                _ => {}
            }
        }
        (leaves, reserved)
    }
}
