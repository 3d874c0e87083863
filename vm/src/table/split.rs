//! Splitting a huge leaf: a table of smaller leaves takes its place, which say the same.

use super::{EntryRef, LeafBits, LockedTable, PageTable, UnlinkedTable, walk};
use crate::frame::{MappedFolio, TableFrame};
use crate::machine::{Cpu, Entry, Leaf, LeafKind, Machine, Marker};
use crate::units::{Level, Pfn, Vpn, VpnRange};

impl<M: Machine> LockedTable<'_, M> {
    /// Replaces the leaf in `slot` by a table of leaves of the next smaller size that map the same frames
    /// with the same bits. A block that the leaf owns is split with it, unless it was split: each new leaf
    /// owns its frame, which is *exclusive* if the block was. For the huge zero page they map the small one.
    /// `flush` makes every CPU forget the leaf. Returns the leaf as it was last; `Err` with the table, and
    /// no change, where the slot holds no leaf of such a level, or is the platform's.
    ///
    /// P9: the size of a translation changes through non-present and a flush, so that no TLB holds both; the
    /// lock is held meanwhile, so a fault that meets the marker waits for it. The accessed and dirty bits are
    /// those at the moment when the leaf went: the hardware sets none after that.
    pub(crate) fn split_leaf<'f>(
        &mut self,
        slot: usize,
        table: TableFrame<'f, M>,
        flush: impl FnOnce(),
    ) -> Result<SplitLeaf, TableFrame<'f, M>>
    where
        M: 'f,
    {
        let (Entry::Leaf(leaf), Some(below)) = (self.entry(slot), self.level().below()) else {
            return Err(table);
        };
        // Blocks are split into frames: a table of blocks would need records that none has. Those of the
        // reserved pool are never split, and leaves of objects' folios are cleared.
        let is_whole =
            leaf.owned() && below != Level::Pte || self.is_of_pool(slot) || self.is_of_object(slot);
        if self.table.is_platforms(slot) || is_whole {
            return Err(table);
        }
        let mut parts = UnlinkedTable::of_level(table, below);
        let Entry::Leaf(last) = self.replace(slot, Entry::Marker(Marker::Busy)) else {
            unreachable!("the holder of the lock has seen a leaf")
        };
        if !mutant!("split.flush-skipped") {
            flush();
        }
        let bits = if mutant!("split.bits-lost") {
            LeafBits { accessed: false, dirty: false, ..LeafBits::of(last) }
        } else {
            LeafBits::of(last)
        };
        let mut has_split_block = false;
        if last.owned() {
            // SAFETY: the leaf was in a slot of this table that is not the platform's, as checked above, and
            // the marker is in its place, under the lock still held.
            has_split_block = unsafe { self.fill_with_parts(&mut parts, last.pfn, bits) };
        } else if self.tree().is_huge_zero(last, self.level()) && !mutant!("zero.split-as-given") {
            // The page itself is never split: its parts are small zero pages.
            (0..Level::ENTRIES).for_each(|part| parts.install_zero(part, bits));
        } else {
            for part in 0..Level::ENTRIES {
                let pfn = Pfn(last.pfn.0 + part as u64 * below.entry_pages());
                fill(part, || parts.install_given(part, bits.leaf(pfn, LeafKind::NOT_OWNED)));
            }
        }
        self.link_in_place(slot, parts);
        Ok(SplitLeaf { last, has_split_block })
    }

    /// Splits the block that an entry of this table has owned, unless it was split, and maps its frames by
    /// the leaves of a table. Returns whether the block was split by this.
    ///
    /// # Safety
    /// The caller has replaced a leaf of this table that was *owned* and mapped `pfn`, in a slot that is not
    /// the platform's, by a marker, under the lock still held; the mapping is handed over.
    unsafe fn fill_with_parts(&self, parts: &mut UnlinkedTable<'_, M>, pfn: Pfn, bits: LeafBits) -> bool {
        let Some(size) = self.level().leaf_size() else { return false };
        // SAFETY: the leaf owned one mapping of a block of this order: above the last level `install_huge`
        // alone makes leaves that are owned, in slots that are not the platform's. It was replaced under the
        // lock still held, and the mapping is handed over, as the caller says.
        let folio = unsafe { MappedFolio::from_entry(self.table.tree.memory, pfn, size.order()) };
        let mut frames = folio.split();
        for part in 0..Level::ENTRIES {
            fill(part, || frames.next().into_iter().for_each(|frame| parts.install(part, frame, bits)));
        }
        frames.has_split_block()
    }
}

/// A leaf that was split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitLeaf {
    /// As it was last.
    pub last: Leaf,
    /// The block that it owned was split with it, and not before.
    pub has_split_block: bool,
}

/// Calls `put`, which fills a slot of a table that no walk reaches yet. Models look at the first and last
/// slots of a split only: there are too many for a step each.
#[inline(always)]
pub(super) fn fill(part: usize, put: impl FnOnce()) {
    #[cfg(loom)]
    if (2..Level::ENTRIES - 2).contains(&part) {
        return crate::sync::privately(put);
    }
    let _ = part;
    put();
}

/// The level of the entry that a writer may have to split at the start of `page`, by the time that it has
/// published: it is a leaf that has pages on both sides, or it is absent, and a fault may put such a leaf
/// there until then. `None` where no table is needed. A table stays one: the caller keeps writers out.
pub(crate) fn level_to_split<M: Machine>(tree: &PageTable<'_, M>, page: Vpn) -> Option<Level> {
    let reading = tree.rcu?.read();
    let found = walk(tree, page, Level::Pte, &reading);
    let level = match found.entry() {
        // Such a leaf is cleared. Nothing but another one, or a table, is put there before the caller has
        // published.
        Entry::Leaf(leaf) if leaf.owned() && is_of_object(&found) => return None,
        Entry::Leaf(_) => found.table.level(),
        _ if mutant!("split.reserved-for-leaves-only") => return None,
        // Faults put no larger leaves, and none where there is a table.
        _ => found.table.level().min(Level::Pmd),
    };
    is_inside(level, page).then_some(level)
}

#[cold]
fn is_of_object<M: Machine>(found: &EntryRef<'_, '_, M>) -> bool {
    found.table.lock().is_some_and(|table| table.is_of_object(found.slot))
}

/// Splits leaves until none has pages on both sides of the start of `page`, with tables from `next`. `split`
/// is told of each: the pages, and to flush them while the table is locked; without a table where the leaf
/// is one of an object's folio, which is to be cleared. Returns whether there were tables enough.
///
/// Each entry is looked at under its table's lock: a fault that put a leaf there before the caller's mark has
/// done so by then (P4). So afterwards only a fault that began later can have put one there.
pub(crate) fn split_at<'f, M: Machine + 'f>(
    tree: &PageTable<'_, M>,
    page: Vpn,
    mut next: impl FnMut() -> Option<TableFrame<'f, M>>,
    mut split: impl FnMut(&mut LockedTable<'_, M>, usize, VpnRange, Option<TableFrame<'f, M>>),
) -> bool {
    let Some(rcu) = tree.rcu else { return true };
    loop {
        let reading = rcu.read();
        let found = walk(tree, page, Level::Pte, &reading);
        let (slot, level) = (found.slot, found.table.level());
        let is_unlocked_enough =
            mutant!("split.looked-without-lock") && !matches!(found.entry(), Entry::Leaf(_));
        if !is_inside(level, page) || is_unlocked_enough {
            return true;
        }
        let locked = found.table.lock();
        drop(reading);
        let Some(mut table) = locked else {
            M::Cpu::relax();
            continue;
        };
        let start = Vpn(page.0 & !(level.entry_pages() - 1));
        let pages = VpnRange::new(start, start.add(level.entry_pages()));
        match table.entry(slot) {
            Entry::Leaf(_) if table.is_of_object(slot) => {
                split(&mut table, slot, pages, None);
                return true;
            }
            // No change is about to cut it: that was refused.
            Entry::Leaf(_) if table.is_of_pool(slot) => return true,
            Entry::Leaf(_) => {}
            // Linked since the walk.
            Entry::Table(_) => continue,
            Entry::Absent | Entry::Marker(_) => return true,
        }
        let Some(frame) = next() else { return false };
        split(&mut table, slot, pages, Some(frame));
    }
}

/// Tables that it takes to split a leaf of `level` at the start of `page`.
pub(crate) fn tables_to_split(level: Level, page: Vpn) -> usize {
    let (mut nr, mut level) = (0, Some(level));
    while let Some(cut) = level
        && is_inside(cut, page)
    {
        nr += 1;
        level = cut.below();
    }
    nr
}

/// Whether the start of the page lies inside of an entry of `level`.
fn is_inside(level: Level, page: Vpn) -> bool {
    page.0 & (level.entry_pages() - 1) != 0
}
