//! Splitting a huge leaf: a table of smaller leaves takes its place, which say the same.

use super::class::AtCut;
use super::content::{PfnLeaf, ZeroLeaf};
use super::{EntryRef, LeafBits, LockedTable, PageTable, SlotMarker, UnlinkedTable, walk};
use crate::frame::TableFrame;
use crate::machine::{Cpu, Entry, Leaf, Machine};
use crate::units::{Level, Pfn, Vpn, VpnRange};

impl<M: Machine> LockedTable<'_, M> {
    /// Replaces the leaf in `slot` by a table of leaves of the next smaller size that map the same frames
    /// with the same bits. A folio that the leaf owns is split with it, unless it was split: each new leaf
    /// owns its frame, which is *exclusive* if the folio was. For the huge zero page they map the small one.
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
        // Folios are split into frames: a table of folios would need records that none has.
        let is_whole = leaf.owned() && below != Level::Pte;
        let Some((_, class)) = self.leaf(slot) else { return Err(table) };
        if is_whole || class.at_cut() != AtCut::Split {
            return Err(table);
        }
        let Some(size) = self.level().leaf_size() else { return Err(table) };
        let Some(old) = self.take_leaf((slot, size.order()), SlotMarker::Busy) else { return Err(table) };
        let mut parts = UnlinkedTable::of_level(table, below);
        let last = old.leaf();
        if !mutant!("split.flush-skipped") {
            flush();
        }
        let bits = if mutant!("split.bits-lost") {
            LeafBits { accessed: false, dirty: false, ..LeafBits::of(last) }
        } else {
            LeafBits::of(last)
        };
        let mut has_split_folio = false;
        match (class, old.into_mapped()) {
            (_, Some(mapped)) => {
                let mut frames = mapped.split();
                for part in 0..Level::ENTRIES {
                    fill(part, || {
                        frames.next().into_iter().for_each(|frame| parts.install(part, frame, bits))
                    });
                }
                has_split_folio = frames.has_split_folio();
            }
            // The page itself is never split: its parts are small zero pages.
            (class, None) if class.is_zeros() && !mutant!("zero.split-as-given") => {
                (0..Level::ENTRIES).for_each(|part| parts.install(part, ZeroLeaf::BASE, bits));
            }
            (_, None) => {
                for part in 0..Level::ENTRIES {
                    let pfn = Pfn(last.pfn.0 + part as u64 * below.entry_pages());
                    fill(part, || parts.install(part, PfnLeaf { pfn, level: below }, bits));
                }
            }
        }
        self.link_in_place(slot, parts);
        Ok(SplitLeaf { last, has_split_folio })
    }
}

/// A leaf that was split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitLeaf {
    /// As it was last.
    pub last: Leaf,
    /// The folio that it owned was split with it, and not before.
    pub has_split_folio: bool,
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
        Entry::Leaf(_) if at_cut(tree, &found) == Some(AtCut::Clear) => return None,
        Entry::Leaf(_) => found.table.level(),
        _ if mutant!("split.reserved-for-leaves-only") => return None,
        // Faults put no larger leaves, and none where there is a table.
        _ => found.table.level().min(Level::Pmd),
    };
    is_inside(level, page).then_some(level)
}

/// What a call does at an end of its range inside of the leaf that a walk has found; stale at once. `None`
/// where there is no leaf.
fn at_cut<M: Machine>(tree: &PageTable<'_, M>, found: &EntryRef<'_, '_, M>) -> Option<AtCut> {
    match found.entry() {
        Entry::Leaf(leaf) if !found.table.is_platforms(found.slot) => {
            Some(tree.class_of(leaf, found.table.level()).at_cut())
        }
        _ => None,
    }
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
            Entry::Leaf(_) => match table.leaf(slot).map(|(_, class)| class.at_cut()) {
                Some(AtCut::Split) => {}
                Some(AtCut::Clear) => {
                    split(&mut table, slot, pages, None);
                    return true;
                }
                // No change is about to cut it: that was refused.
                Some(AtCut::Keep) | None => return true,
            },
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
