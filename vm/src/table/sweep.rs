//! Writers' movement over a range: a table at a time, never a page at a time.
//!
//! The sweep skips a slot only if it read it absent under the lock of its table page (protocol P4): a fault
//! that links a table or installs a leaf does so under that lock after asking whether its mapping still
//! holds, so either the sweep sees the fault's entry, or the fault sees the mark that the sweep's caller put
//! on the mapping before.

use super::{EntryRef, LockedTable, PageTable, Table, walk, walk_cached};
use crate::frame::DetachedTable;
use crate::machine::{Cpu, Entry, Format, Machine};
use crate::units::{Level, Vpn, VpnRange};
use core::ops::Range;

/// Adjacent slots of one table, under its lock.
#[derive(Debug)]
pub(crate) struct SlotRun<'a, 'm, M: Machine> {
    /// The table, locked and attached.
    pub table: &'a mut LockedTable<'m, M>,
    /// Slots of the range in this table.
    pub slots: Range<usize>,
    /// The page that the first of the slots covers, or starts with.
    pub first: Vpn,
}

impl<'m, M: Machine> SlotRun<'_, 'm, M> {
    /// Visits each slot that is not absent, in order, with its page.
    #[inline(always)]
    pub fn each_used(&mut self, mut visit: impl FnMut(&mut LockedTable<'m, M>, usize, Vpn)) {
        let mut slots = self.slots.clone();
        while let Some(slot) = self.table.first_used(slots.clone()) {
            let page = self.page(slot);
            visit(self.table, slot, page);
            slots.start = slot + 1;
        }
    }

    /// Whether the slots cover nothing outside of `range`: a larger page may be cut by its ends.
    pub fn is_whole(&self, range: VpnRange) -> bool {
        let pages = self.table.level().entry_pages();
        let start = Vpn(self.first.0 & !(pages - 1));
        range.covers(VpnRange { start, end: start.add(self.slots.len() as u64 * pages) })
    }

    /// The page of a slot of the run.
    pub fn page(&self, slot: usize) -> Vpn {
        self.first.add((slot - self.slots.start) as u64 * self.table.table().level().entry_pages())
    }
}

/// Visits every run of slots that may hold leaves of `range`: of `Pte` tables, and, above, those from a
/// larger leaf or a marker on up to an entry that points to a table. Absent parts are skipped at the
/// highest level where they are absent.
///
/// Each table is found in a read section, which ends once it is locked: `visit` may wait for readers. A table
/// that is detached meanwhile is left for the one that is there now.
pub(crate) fn sweep<'m, M: Machine>(
    tree: &'m PageTable<'m, M>,
    range: VpnRange,
    mut visit: impl FnMut(SlotRun<'_, 'm, M>),
) {
    sweep_tables(tree, range, |table, rest| sweep_table(table, rest, &mut visit), || true);
}

/// The tables of a [`sweep`], each with the pages that are left: `each` sweeps those that the table decides
/// about, with [`sweep_table`], and returns the first that it has not swept. It may do more before the table
/// is unlocked. As long as `goes_on` says so: it is asked before each table. Returns the rest.
#[inline(always)]
pub(crate) fn sweep_tables<'m, M: Machine>(
    tree: &'m PageTable<'m, M>,
    range: VpnRange,
    mut each: impl FnMut(&mut LockedTable<'m, M>, VpnRange) -> Vpn,
    mut goes_on: impl FnMut() -> bool,
) -> VpnRange {
    let mut rest = range;
    let Some(rcu) = tree.rcu else { return VpnRange::default() };
    while !rest.is_empty() && goes_on() {
        let reading = rcu.read();
        let found = walk_cached(tree, rest.start, &reading).table.lock();
        drop(reading);
        match found {
            Some(mut table) => rest.start = each(&mut table, rest),
            None => M::Cpu::relax(),
        }
    }
    rest
}

/// Locks the table in which the walk to the first page of `range` ends, and calls `visit` with it and the
/// pages that it decides about: those of the range in a `Pte` table; above, those up to an entry that points
/// to a table, or is a huge leaf, which the caller deals with. Returns the first page after these, with the
/// visit's result; `None` where a table was linked or detached meanwhile: nothing was visited.
pub(crate) fn visit_next<'m, M: Machine, R>(
    tree: &'m PageTable<'m, M>,
    range: VpnRange,
    visit: impl FnOnce(&mut LockedTable<'m, M>, VpnRange) -> R,
) -> Option<(Vpn, R)> {
    let reading = tree.rcu?.read();
    let found = walk_cached(tree, range.start, &reading).table.lock();
    drop(reading);
    let mut table = found?;
    let decided = VpnRange::new(range.start, end_of_decided(&table, range));
    (!decided.is_empty()).then(|| (decided.end, visit(&mut table, decided)))
}

/// Where the pages end that a locked table decides about, from the first of `range` on.
fn end_of_decided<M: Machine>(table: &LockedTable<'_, M>, range: VpnRange) -> Vpn {
    let level = table.level();
    let end = range.end.min(Vpn((range.start.0 & !(level.table_pages() - 1)) + level.table_pages()));
    let mut at = range.start;
    let is_decided = |at| match table.entry(level.index(at)) {
        Entry::Table(_) | Entry::Leaf(_) => false,
        Entry::Absent | Entry::Marker(_) => true,
    };
    while level != Level::Pte && at < end && is_decided(at) {
        at = part_of_entry(level, at, end).end;
    }
    if level == Level::Pte { end } else { at }
}

/// Sweeps the part of `range` that `table` covers, up to an entry that points to a table. Returns the first
/// page not swept.
#[inline(always)]
pub(crate) fn sweep_table<'m, M: Machine>(
    table: &mut LockedTable<'m, M>,
    range: VpnRange,
    visit: &mut impl FnMut(SlotRun<'_, 'm, M>),
) -> Vpn {
    if table.level() != Level::Pte {
        return sweep_slots(table, range, visit);
    }
    let start = Level::Pte.index(range.start);
    let end = Level::ENTRIES.min(start + range.len() as usize);
    visit(SlotRun { table, slots: start..end, first: range.start });
    range.start.add((end - start) as u64)
}

/// As [`sweep_table`], of a table above the last level: before it was locked, a fault may have linked tables.
fn sweep_slots<'m, M: Machine>(
    table: &mut LockedTable<'m, M>,
    range: VpnRange,
    visit: &mut impl FnMut(SlotRun<'_, 'm, M>),
) -> Vpn {
    let level = table.level();
    let end = range.end.min(Vpn((range.start.0 & !(level.table_pages() - 1)) + level.table_pages()));
    let last = level.index(Vpn(end.0 - 1)) + 1;
    let mut at = range.start;
    while at < end {
        let asked = level.index(at);
        let Some(slot) = table.first_used(asked..last) else { return end };
        if slot != asked {
            at = Vpn((at.0 & !(level.entry_pages() - 1)) + (slot - asked) as u64 * level.entry_pages());
        }
        if table.table().is_platforms(slot) {
            return end;
        }
        let slots = run_of_leaves(table, slot, VpnRange::new(at, end));
        if slots.is_empty() {
            break;
        }
        let nr = slots.len() as u64;
        visit(SlotRun { table, slots, first: at });
        at = end.min(Vpn((at.0 & !(level.entry_pages() - 1)) + nr * level.entry_pages()));
    }
    at
}

/// The slots from `slot` on, which covers the first of `pages`, up to an entry that points to a table: all
/// that `pages` cover whole, so that each slot of a run has pages of its own. A larger page that an end of
/// `pages` cuts is a run of one slot.
fn run_of_leaves<M: Machine>(table: &LockedTable<'_, M>, slot: usize, pages: VpnRange) -> Range<usize> {
    let size = table.level().entry_pages();
    let is_cut = !pages.start.0.is_multiple_of(size) || pages.len() < size;
    let nr = if is_cut { 1 } else { (pages.len() / size) as usize };
    let holds_no_table = |slot: &usize| {
        let is_platforms = table.table().is_platforms(*slot);
        !is_platforms && (!matches!(table.entry(*slot), Entry::Table(_)) || mutant!("sweep.run-over-tables"))
    };
    let all = slot..Level::ENTRIES.min(slot + nr);
    slot..slot + all.take_while(holds_no_table).count()
}

/// The part of `[at, end)` that the entry of `level` holding `at` covers.
pub(super) fn part_of_entry(level: Level, at: Vpn, end: Vpn) -> VpnRange {
    let next = (at.0 & !(level.entry_pages() - 1)) + level.entry_pages();
    VpnRange::new(at, end.min(Vpn(next)))
}

/// Whether a table on the way to `range` can cover nothing outside `gap`: then one of the smallest tables
/// does.
pub(crate) fn may_cover_table(range: VpnRange, gap: VpnRange) -> bool {
    let unit = Level::Pte.table_pages();
    let lowest = gap.start.0.next_multiple_of(unit).max(range.start.0 / unit * unit);
    lowest + unit <= gap.end.0.min(range.end.0.next_multiple_of(unit))
}

/// Detaches the tables on the way to `range` that cover nothing outside `gap`, lowest levels first, and hands
/// each to `out` with the pages it covered. The root stays.
///
/// The caller keeps other writers of the space out; `gap` contains `range` and no mapping, and the leaves of
/// `range` are cleared. A table without a mapping was always detached when its last mapping went, so only
/// those on the way to `range` can have lost theirs.
pub(crate) fn detach_tables<'m, M: Machine>(
    tree: &'m PageTable<'m, M>,
    range: VpnRange,
    gap: VpnRange,
    out: impl FnMut(DetachedTable<'m, M>, VpnRange),
) {
    detach_each(tree, range, |covered| gap.covers(covered), detach_child, out);
}

/// As [`detach_tables`], of the tables on the way to `range` that are empty. Other writers may be under way:
/// a table that is in use when it is locked stays.
pub(super) fn detach_empty<'m, M: Machine>(
    tree: &'m PageTable<'m, M>,
    range: VpnRange,
    out: impl FnMut(DetachedTable<'m, M>, VpnRange),
) {
    detach_each(tree, range, |_| true, try_detach_child, out);
}

/// Detaches, with `detach`, the tables on the way to `range` for whose pages `may_detach` is true.
fn detach_each<'m, M: Machine>(
    tree: &'m PageTable<'m, M>,
    range: VpnRange,
    may_detach: impl Fn(VpnRange) -> bool,
    detach: Detach<'m, M>,
    mut out: impl FnMut(DetachedTable<'m, M>, VpnRange),
) {
    let mut parents = Level::Pte;
    while parents < M::Format::ROOT
        && let Some(level) = parents.above()
    {
        parents = level;
        let mut at = range.start;
        while at < range.end {
            let start = Vpn(at.0 & !(level.entry_pages() - 1));
            let covered = VpnRange::new(start, start.add(level.entry_pages()));
            let mut next = covered.end;
            if may_detach(covered) {
                let (detached, passed) = detach_at(tree, level, VpnRange::new(at, range.end), detach);
                next = passed;
                if let Some(table) = detached {
                    out(table, covered);
                }
            }
            at = next.min(range.end);
        }
    }
}

/// Detaches the table that the entry of the first page of `range` at `level` points to, if there is one; and
/// the next page whose entry may point to one: entries of the range that follow are read too. In a read
/// section, which ends before the table is handed on: its new owner may wait for readers.
fn detach_at<'m, M: Machine>(
    tree: &'m PageTable<'m, M>,
    level: Level,
    range: VpnRange,
    detach: Detach<'m, M>,
) -> (Option<DetachedTable<'m, M>>, Vpn) {
    let Some(rcu) = tree.rcu else { return (None, range.end) };
    let reading = rcu.read();
    let EntryRef { table: parent, slot, .. } = walk(tree, range.start, level, &reading);
    // Above `level` where the walk found no table: there is nothing below the entry then.
    let child = if parent.level() == level { parent.child(slot, &reading) } else { None };
    let detached = child.and_then(|child| detach(parent, slot, child));
    let pages = parent.level().entry_pages();
    let end = part_of_entry(parent.level(), range.start, range.end).end;
    let nr_rest = range.end.0.saturating_sub(end.0).div_ceil(pages);
    let nr_passed = parent.nr_without_child(slot + 1..slot + 1 + nr_rest as usize);
    (detached, end.add(nr_passed as u64 * pages))
}

/// Detaches the child that a slot of its parent points to, if it may be.
type Detach<'m, M> = fn(Table<'_, 'm, M>, usize, Table<'_, 'm, M>) -> Option<DetachedTable<'m, M>>;

/// As [`try_detach_child`], of a child that is empty, where no other CPU detaches it.
fn detach_child<'m, M: Machine>(
    parent: Table<'_, 'm, M>,
    slot: usize,
    child: Table<'_, 'm, M>,
) -> Option<DetachedTable<'m, M>> {
    let detached = try_detach_child(parent, slot, child);
    debug_assert!(detached.is_some(), "only one writer of the space detaches tables");
    detached
}

/// P5: *attached* first, under the child's own lock, then the parent's entry. `None` where the child is not
/// empty, or was detached by another writer.
fn try_detach_child<'m, M: Machine>(
    parent: Table<'_, 'm, M>,
    slot: usize,
    child: Table<'_, 'm, M>,
) -> Option<DetachedTable<'m, M>> {
    let inverted = mutant!("sweep.child-locked-before-parent");
    let (first, second) = if inverted { (child, parent) } else { (parent, child) };
    let first = first.lock();
    let second = first.as_ref().and_then(|first| second.lock_below(first));
    let (mut parent, child) = if inverted { (second?, first?) } else { (first?, second?) };
    parent.detach(slot, child)
}
