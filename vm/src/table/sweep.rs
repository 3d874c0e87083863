//! Writers' movement over a range: a table at a time, never a page at a time.
//!
//! The sweep skips a slot only if it read it absent under the lock of its table page (protocol P4): a fault
//! that links a table or installs a leaf does so under that lock after asking whether its mapping still
//! holds, so either the sweep sees the fault's entry, or the fault sees the mark that the sweep's caller put
//! on the mapping before.

use super::{LockedTable, PageTable, Table};
use crate::frame::{DetachedTable, Unhooked};
use crate::machine::{Entry, Machine};
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

    /// Clears every slot that is in use, and hands what it held to `out`, which adds it to a gather of the
    /// tree.
    #[inline(always)]
    pub fn unhook_each(mut self, mut out: impl FnMut(Unhooked)) {
        self.each_used(|table, slot, page| {
            if let Some(unhooked) = table.unhook(slot, page) {
                out(unhooked);
            }
        });
        // Only entries that point to tables are left, which runs do not hold.
        self.table.note_absent(self.slots);
    }

    /// The page of a slot of the run.
    pub fn page(&self, slot: usize) -> Vpn {
        self.first.add((slot - self.slots.start) as u64 * self.table.table().level().entry_pages())
    }
}

/// A table was detached during the sweep; only callers that share the space's lock can meet that.
struct Detached;

/// Visits every run of slots that may hold leaves of `range`: runs of `Pte` tables, and single slots above
/// that hold a larger leaf or a marker. Absent parts are skipped at the highest level where they are absent.
///
/// The caller keeps tables from being freed: it holds the space's lock.
pub(crate) fn sweep<'m, M: Machine>(
    tree: &'m PageTable<'m, M>,
    range: VpnRange,
    mut visit: impl FnMut(SlotRun<'_, 'm, M>),
) {
    let root = tree.top();
    let mut rest = range;
    while !rest.is_empty() {
        let mut done = rest.start;
        if sweep_table(table_of_all(root, rest), rest, &mut done, &mut visit).is_ok() {
            return;
        }
        rest = VpnRange::new(done, range.end);
    }
}

/// The lowest table on the way down from `root` that covers all of `range`, which is not empty.
fn table_of_all<'m, M: Machine>(root: Table<'m, 'm, M>, range: VpnRange) -> Table<'m, 'm, M> {
    let apart = range.start.0 ^ (range.end.0 - 1);
    let mut table = root;
    while apart < table.level().entry_pages()
        && let Some(child) = child_of(table, table.level().index(range.start))
    {
        table = child;
    }
    table
}

/// Sweeps the part of `range` that `table` covers. `done` is advanced past pages that need no second visit.
fn sweep_table<'m, M: Machine>(
    table: Table<'m, 'm, M>,
    range: VpnRange,
    done: &mut Vpn,
    visit: &mut impl FnMut(SlotRun<'_, 'm, M>),
) -> Result<(), Detached> {
    if table.level() == Level::Pte {
        let mut locked = table.lock().ok_or(Detached)?;
        let start = Level::Pte.index(range.start);
        visit(SlotRun { table: &mut locked, slots: start..start + range.len() as usize, first: range.start });
        *done = range.end;
        return Ok(());
    }
    let mut at = range.start;
    while at < range.end {
        let part = part_of_entry(table.level(), at, range.end);
        match child_of(table, table.level().index(at)) {
            Some(child) => {
                sweep_table(child, part, done, visit)?;
                at = part.end;
            }
            None => at = sweep_slots(table, VpnRange::new(at, range.end), visit)?,
        }
        *done = at;
    }
    Ok(())
}

/// Goes on under the table's lock while slots hold no table. Returns the first page not swept.
fn sweep_slots<'m, M: Machine>(
    table: Table<'m, 'm, M>,
    range: VpnRange,
    visit: &mut impl FnMut(SlotRun<'_, 'm, M>),
) -> Result<Vpn, Detached> {
    let level = table.level();
    let mut locked = table.lock().ok_or(Detached)?;
    let mut at = range.start;
    while at < range.end {
        let slot = level.index(at);
        match locked.entry(slot) {
            Entry::Table(_) => break,
            Entry::Absent => {}
            Entry::Leaf(_) | Entry::Marker(_) => {
                visit(SlotRun { table: &mut locked, slots: slot..slot + 1, first: at });
            }
        }
        at = part_of_entry(level, at, range.end).end;
    }
    Ok(at)
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
/// The caller holds the space's lock to write; `gap` contains `range` and no mapping, and the leaves of
/// `range` are cleared. A table without a mapping was always detached when its last mapping went, so only
/// those on the way to `range` can have lost theirs.
pub(crate) fn detach_tables<'m, M: Machine>(
    tree: &'m PageTable<'m, M>,
    range: VpnRange,
    gap: VpnRange,
    mut out: impl FnMut(DetachedTable<'m, M>, VpnRange),
) {
    detach_below(tree.top(), range, gap, &mut out);
}

fn detach_below<'m, M: Machine>(
    parent: Table<'m, 'm, M>,
    range: VpnRange,
    gap: VpnRange,
    out: &mut impl FnMut(DetachedTable<'m, M>, VpnRange),
) {
    let level = parent.level();
    let mut at = range.start;
    while at < range.end {
        let part = part_of_entry(level, at, range.end);
        let slot = level.index(at);
        if let Some(child) = child_of(parent, slot) {
            if child.level() != Level::Pte {
                detach_below(child, part, gap, out);
            }
            let start = Vpn(at.0 & !(level.entry_pages() - 1));
            let covered = VpnRange::new(start, start.add(level.entry_pages()));
            if gap.covers(covered)
                && let Some(table) = detach_child(parent, slot, child)
            {
                out(table, covered);
            }
        }
        at = part.end;
    }
}

/// P5: *attached* first, under the child's own lock, then the parent's entry.
fn detach_child<'m, M: Machine>(
    parent: Table<'m, 'm, M>,
    slot: usize,
    child: Table<'m, 'm, M>,
) -> Option<DetachedTable<'m, M>> {
    let inverted = mutant!("sweep.child-locked-before-parent");
    let (first, second) = if inverted { (child, parent) } else { (parent, child) };
    let first = first.lock();
    let second = first.as_ref().and_then(|first| second.lock_below(first));
    let (mut parent, child) = if inverted { (second?, first?) } else { (first?, second?) };
    let detached = parent.detach(slot, child);
    debug_assert!(detached.is_some(), "only the holder of the space's lock detaches tables");
    detached
}

/// The table that `slot` points to, if it does.
#[inline(always)]
fn child_of<'m, M: Machine>(table: Table<'m, 'm, M>, slot: usize) -> Option<Table<'m, 'm, M>> {
    let Entry::Table(pfn) = table.entry(slot) else { return None };
    // SAFETY: *Open* in docs/design/unsafe.md: an entry of the tree points to it, and it leans on the callers
    // of `sweep` and `detach_tables`, the floor `space`, whose lock keeps it from being detached.
    Some(unsafe { Table::at(table.tree, pfn, table.level().below()?) })
}
