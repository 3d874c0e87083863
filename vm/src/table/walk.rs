//! Finding an entry without a lock.

use super::{PageTable, Table};
use crate::machine::{Entry, Format, Machine};
use crate::sync::{LastHit, LastHits, ReadGuard};
use crate::units::{Level, PAGE_SHIFT, Pfn, Vpn};
use core::ops::ControlFlow;

/// A reference to the entry that a walk ended at: a leaf, a marker, or absent.
#[derive(Debug)]
pub struct EntryRef<'r, 't, M: Machine> {
    /// The table of the last entry.
    pub table: Table<'r, 't, M>,
    /// Its slot.
    pub slot: usize,
    /// The word, read once; to be compared under the lock before the walk's result is trusted.
    pub word: u64,
}

impl<M: Machine> EntryRef<'_, '_, M> {
    /// The entry of the page after this one's, in the same table and read now; `None` where the table ends,
    /// or covers more than a page by an entry. The table may have been detached since the walk: then its
    /// entries are absent, or markers.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<Self> {
        let (table, slot) = (self.table, self.slot + if mutant!("pin.entry-passed-over") { 2 } else { 1 });
        let is_there = table.level() == Level::Pte && slot < Level::ENTRIES;
        is_there.then(|| Self { table, slot, word: table.read(slot) })
    }

    /// The entry, decoded.
    #[inline(always)]
    pub fn entry(&self) -> Entry {
        M::Format::decode(self.word, self.table.level())
    }
}

/// Walks from the root table towards `vpn` down to level `to`. Takes no lock and blocks no other CPU: the
/// read section keeps every table it passes from being freed. For a page above the user's half it ends at the
/// root, as if nothing were there: those slots are the platform's.
///
/// # Panics
/// If the read section is not one of the tree's RCU; so do the other walks.
#[inline(always)]
pub fn walk<'r, 't, M: Machine>(
    tree: &'t PageTable<'t, M>,
    vpn: Vpn,
    to: Level,
    reading: &'r ReadGuard<'_, M::Cpu>,
) -> EntryRef<'r, 't, M> {
    walk_on(tree.top(), vpn, to, reading)
}

/// As [`walk`], from a table that covers `vpn`.
#[inline(always)]
pub fn walk_on<'r, 't, M: Machine>(
    table: Table<'r, 't, M>,
    vpn: Vpn,
    to: Level,
    reading: &'r ReadGuard<'_, M::Cpu>,
) -> EntryRef<'r, 't, M> {
    table.tree.assert_reads(reading);
    // SAFETY: the section was just checked.
    unsafe { descend(table, vpn, to) }
}

/// As [`walk_on`].
///
/// # Safety
/// A read section of the tree's RCU lasts for `'r`.
#[inline(always)]
unsafe fn descend<'r, 't, M: Machine>(table: Table<'r, 't, M>, vpn: Vpn, to: Level) -> EntryRef<'r, 't, M> {
    if table.level() == M::Format::ROOT {
        let slot = M::Format::ROOT.index(vpn);
        if table.is_platforms(slot) {
            return EntryRef { table, slot, word: M::Format::encode(Entry::Absent, M::Format::ROOT) };
        }
    }
    // SAFETY: as the caller promises.
    match unsafe { descend_by_level(table, vpn, to) } {
        ControlFlow::Break(found) | ControlFlow::Continue(found) => found,
    }
}

/// The levels one by one, each a constant: so the compiler knows at each how far to shift and which entries
/// can be leaves, and from where a walk begins. It makes no such steps of a loop. `Break` above level `Pte`.
///
/// # Safety
/// As of [`descend`].
#[inline(always)]
unsafe fn descend_by_level<'r, 't, M: Machine>(
    mut table: Table<'r, 't, M>,
    vpn: Vpn,
    to: Level,
) -> ControlFlow<EntryRef<'r, 't, M>, EntryRef<'r, 't, M>> {
    let from = table.level();
    // SAFETY: as the caller promises; each table is of the level that its step names.
    unsafe {
        if from >= Level::Pgd {
            table = step_below(table, (Level::Pgd, Level::P4d), vpn, to)?;
        }
        if from >= Level::P4d {
            table = step_below(table, (Level::P4d, Level::Pud), vpn, to)?;
        }
        if from >= Level::Pud {
            table = step_below(table, (Level::Pud, Level::Pmd), vpn, to)?;
        }
        if from >= Level::Pmd {
            table = step_below(table, (Level::Pmd, Level::Pte), vpn, to)?;
        }
    }
    let slot = Level::Pte.index(vpn);
    ControlFlow::Continue(EntryRef { table, slot, word: table.read(slot) })
}

/// The table of level `below` that the entry of `vpn` in `table`, one of `level`, points to; `Break` with the
/// entry where it points to none, or the walk goes to this level.
///
/// # Safety
/// As of [`descend`]; `level` is the table's, and `below` the one below that.
#[inline(always)]
unsafe fn step_below<'r, 't, M: Machine>(
    table: Table<'r, 't, M>,
    (level, below): (Level, Level),
    vpn: Vpn,
    to: Level,
) -> ControlFlow<EntryRef<'r, 't, M>, Table<'r, 't, M>> {
    let slot = level.index(vpn);
    let word = table.read(slot);
    match M::Format::decode(word, level) {
        Entry::Table(pfn) if level > to => {
            // SAFETY: an entry of the tree points to it, so it was attached when the entry was read, in a
            // read section that lasts for `'r`; a table that is detached later is retired, and stays one
            // until the section has ended.
            let child = unsafe { Table::at(table.tree, pfn, below) };
            ControlFlow::Continue(child)
        }
        _ => ControlFlow::Break(EntryRef { table, slot, word }),
    }
}

/// As [`walk`] down to level `Pte`, by way of the table in which this CPU's last walk ended: a walk to a
/// neighbour of the page starts, and ends, there; one to a neighbour of a huge page, or of a page without a
/// table, starts at the table above.
///
/// A cached table may have been detached a moment ago, as after any walk; its lock tells (protocol P5:
/// *attached*).
#[inline(always)]
pub fn walk_cached<'r, 't, M: Machine>(
    tree: &'t PageTable<'t, M>,
    vpn: Vpn,
    reading: &'r ReadGuard<'_, M::Cpu>,
) -> EntryRef<'r, 't, M> {
    let version = tree.hits.version();
    let mut from_above = None;
    // A hit was cached below, under the RCU of this section, which is the tree's, as `walk` has checked then.
    if let Some([cached, table]) = LastHit::get(reading, LastHits::table, version) {
        if cached == region_of(vpn, Level::Pte) {
            // SAFETY: a valid hit names a table of this tree that stays one until the section ends: see
            // `last_hit`, whose contract `LastHit::set` below fulfils. It is of the level of its region.
            let table = unsafe { Table::at(tree, Pfn(table), Level::Pte) };
            let slot = Level::Pte.index(vpn);
            return EntryRef { table, slot, word: table.read(slot) };
        }
        from_above = (cached == region_of(vpn, Level::Pmd)).then_some(Pfn(table));
    }
    let entry = match from_above {
        // SAFETY: as above; the hit was cached in a section of the tree's RCU, so this one is of that too.
        Some(table) => unsafe { descend(Table::at(tree, table, Level::Pmd), vpn, Level::Pte) },
        None => walk(tree, vpn, Level::Pte, reading),
    };
    let level = entry.table.level();
    if level == Level::Pte || level == Level::Pmd && from_above.is_none() {
        let hit = [region_of(vpn, level), entry.table.pfn().0];
        // SAFETY: (1) the table was found in this tree, after the version was read and in the read section.
        // (3) All hits of this tree are cached here. (2) A table that is detached invalidates hits before
        // it can be retired (`LockedTable::detach`).
        unsafe { LastHit::set(reading, LastHits::table, version, hit) };
    }
    entry
}

/// A number for the pages that a table of `level` covers, among all tables of the two lowest levels.
#[inline(always)]
const fn region_of(vpn: Vpn, level: Level) -> u64 {
    /// No page number has it.
    const ABOVE: u64 = 1 << 63;
    match level {
        Level::Pte => vpn.0 >> Level::Pmd.entry_shift(),
        _ => vpn.0 >> Level::Pud.entry_shift() | ABOVE,
    }
}

/// Whether every address of the page is one that the format translates: canonical, or of so few bits.
pub fn is_canonical<F: Format>(vpn: Vpn) -> bool {
    if vpn.0 >> (u64::BITS - PAGE_SHIFT) != 0 {
        return false;
    }
    if !F::SIGN_EXTENDED {
        return vpn.0 >> (F::ADDRESS_BITS - PAGE_SHIFT) == 0;
    }
    let sign = F::ADDRESS_BITS - 1;
    let extended = ((vpn.addr().0 as i64) << (63 - sign)) >> (63 - sign);
    extended as u64 == vpn.addr().0
}
