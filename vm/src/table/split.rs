//! Splitting a huge leaf: a table of smaller leaves takes its place, which say the same.

use super::{LockedTable, PageTable, UnlinkedTable, walk};
use crate::frame::TableFrame;
use crate::machine::{Cpu, Entry, Leaf, Machine, Marker};
use crate::units::{Level, Pfn, Vpn, VpnRange};

/// Parts of a leaf. Models have the first ones only: each is a step, and all are alike.
const PARTS: usize = if cfg!(loom) { 2 } else { Level::ENTRIES };

impl<M: Machine> LockedTable<'_, M> {
    /// Replaces the leaf in `slot`, which does not own its frames, by a table of leaves of the next smaller
    /// size that map the same frames with the same bits. `flush` makes every CPU forget the leaf. `Err` with
    /// the table, and no change, where the slot holds no such leaf.
    ///
    /// P9: the size of a translation changes through non-present and a flush, so that no TLB holds both; the
    /// lock is held meanwhile, so a fault that meets the marker waits for it. The accessed and dirty bits are
    /// those at the moment when the leaf went: the hardware sets none after that.
    pub(crate) fn split_leaf<'f>(
        &mut self,
        slot: usize,
        table: TableFrame<'f, M>,
        flush: impl FnOnce(),
    ) -> Result<(), TableFrame<'f, M>>
    where
        M: 'f,
    {
        let (Entry::Leaf(leaf), Some(below)) = (self.entry(slot), self.level().below()) else {
            return Err(table);
        };
        if leaf.owned {
            return Err(table);
        }
        let mut parts = UnlinkedTable::of_level(table, below);
        let Entry::Leaf(last) = self.replace(slot, Entry::Marker(Marker::Busy)) else {
            unreachable!("the holder of the lock has seen a leaf")
        };
        if !mutant!("split.flush-skipped") {
            flush();
        }
        for part in 0..PARTS {
            let pfn = Pfn(last.pfn.0 + part as u64 * below.entry_pages());
            let bits = if mutant!("split.bits-lost") {
                Leaf { accessed: false, dirty: false, ..last }
            } else {
                last
            };
            parts.install_given(part, Leaf { pfn, ..bits });
        }
        self.link_in_place(slot, parts);
        Ok(())
    }
}

/// The level of the leaf that has pages on both sides of the start of `page`; `None` where none has. Stale at
/// once, unless the caller keeps writers out.
pub(crate) fn cut_leaf<M: Machine>(tree: &PageTable<'_, M>, page: Vpn) -> Option<Level> {
    let reading = tree.rcu?.read();
    let found = walk(tree, page, Level::Pte, &reading);
    let level = found.table.level();
    (matches!(found.entry(), Entry::Leaf(_)) && is_inside(level, page)).then_some(level)
}

/// Splits leaves until none has pages on both sides of the start of `page`, with tables from `next`. The
/// caller keeps other writers out.
pub(crate) fn split_at<'f, M: Machine + 'f>(
    tree: &PageTable<'_, M>,
    page: Vpn,
    mut next: impl FnMut() -> Option<TableFrame<'f, M>>,
    mut flush: impl FnMut(VpnRange),
) {
    let Some(rcu) = tree.rcu else { return };
    while let Some(level) = cut_leaf(tree, page) {
        let reading = rcu.read();
        let found = walk(tree, page, Level::Pte, &reading);
        let slot = found.slot;
        let locked = found.table.lock();
        drop(reading);
        let Some(mut table) = locked else {
            M::Cpu::relax();
            continue;
        };
        let Some(frame) = next() else {
            debug_assert!(false, "no table was put aside for a split at {page:?}");
            return;
        };
        let start = Vpn(page.0 & !(level.entry_pages() - 1));
        let pages = VpnRange::new(start, start.add(level.entry_pages()));
        let _unused = table.split_leaf(slot, frame, || flush(pages));
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
