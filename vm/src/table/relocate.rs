//! Entries that get another page: taken out of one slot, and put into another, as words.
//!
//! ```text
//!   lock the old table ─ take_all ─► unlinked table ─ unlock, flush ─► lock the new one ─ put_all ─► unlock
//!   lock the old table ─ take_above ─► a word ────── unlock, flush ─► lock the new one ─ put_above ─► unlock
//! ```
//!
//! What an entry owns goes with its word. Meanwhile no fault installs anything at either place, and both
//! flush and lock are the caller's, which is alone in the space: no two tables of a level are locked at once.

use super::pfnmap_leaves::table_at;
use super::sweep::sweep_tables;
use super::{LeafClass, LockedTable, MapError, PageTable, UnlinkedTable, walk};
use crate::frame::TableFrame;
use crate::machine::{Cpu, Entry, Format, Machine};
use crate::sync::atomic::Ordering::*;
use crate::units::{Level, Vpn, VpnRange};
use core::cell::Cell;
use core::ops::Range;

/// The first entries of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstEntries {
    /// Pages of one table of base pages, the first of which has an entry.
    Base(VpnRange),
    /// One entry above the last level, that of the page.
    Above {
        /// The first of its pages that lies in the range.
        page: Vpn,
        /// The level of its table.
        level: Level,
        /// What it maps; `None` for a marker.
        class: Option<LeafClass>,
    },
}

/// The first entries of the range that are not absent, read under the lock of their table.
pub(crate) fn first_entries<M: Machine>(tree: &PageTable<'_, M>, range: VpnRange) -> Option<FirstEntries> {
    let found = Cell::new(None);
    let look = |table: &mut LockedTable<'_, M>, rest: VpnRange| {
        let level = table.level();
        let pages = level.table_pages();
        let end = rest.end.min(Vpn((rest.start.0 & !(pages - 1)) + pages));
        let asked = level.index(rest.start);
        let Some(slot) = table.first_used(asked..level.index(Vpn(end.0 - 1)) + 1) else { return end };
        let unit = level.entry_pages();
        let page = if slot == asked {
            rest.start
        } else {
            Vpn((rest.start.0 & !(unit - 1)) + (slot - asked) as u64 * unit)
        };
        if table.table().is_platforms(slot) {
            return end;
        }
        if level == Level::Pte {
            found.set(Some(FirstEntries::Base(VpnRange::new(page, end))));
        } else if !matches!(table.entry(slot), Entry::Table(_)) {
            let class = table.leaf(slot).map(|(_, class)| class);
            found.set(Some(FirstEntries::Above { page, level, class }));
        }
        page
    };
    let _rest = sweep_tables(tree, range, look, || found.get().is_none());
    found.get()
}

/// Links the tables on the way to that of `level` for the page. `alloc` makes empty ones, and is called
/// without a lock.
///
/// # Errors
/// [`MapError::NoMemory`]; [`MapError::AlreadyMapped`] where a larger leaf is in the way.
pub(crate) fn link_tables<'f, M: Machine + 'f>(
    tree: &PageTable<'_, M>,
    page: Vpn,
    level: Level,
    mut alloc: impl FnMut() -> Option<TableFrame<'f, M>>,
) -> Result<(), MapError> {
    table_at(tree, page, level, &mut alloc).map(drop)
}

/// Takes the entries of base pages of `from`, which lie in one table, into slots of `taken`, which is empty,
/// from `first` on. Their slots are absent then; frames that wait there for a flush stay. Returns whether
/// there were entries: a TLB may have them cached.
pub(crate) fn take_all<M: Machine>(
    tree: &PageTable<'_, M>,
    from: VpnRange,
    taken: &mut UnlinkedTable<'_, M>,
    first: usize,
) -> bool {
    let Some(mut table) = locked_at(tree, from.start, Level::Pte) else { return false };
    let start = Level::Pte.index(from.start);
    let slots = start..start + from.len() as usize;
    let (mut rest, mut is_any_taken, mut is_any_left) = (slots.clone(), false, false);
    while let Some(slot) = table.first_used(rest.clone()) {
        rest.start = slot + 1;
        if M::Format::pending_free(table.read(slot), Level::Pte).is_some() {
            is_any_left = true;
            continue;
        }
        taken.put_word(first + (slot - start), table.take_word(slot));
        is_any_taken = true;
    }
    if !is_any_left {
        table.note_absent(slots);
    }
    is_any_taken
}

/// Puts all entries that were taken into the same slots of the table of base pages that has the page; these
/// are absent. `taken` is empty then.
pub(crate) fn put_all<M: Machine>(tree: &PageTable<'_, M>, to: Vpn, taken: &mut UnlinkedTable<'_, M>) {
    if let Some(mut table) = locked_at(tree, to, Level::Pte) {
        taken.drain(|slot, word| table.put_word(slot, word));
    }
}

/// Takes the entry of `level` that has the page out of its slot.
pub(crate) fn take_above<M: Machine>(tree: &PageTable<'_, M>, page: Vpn, level: Level) -> Option<u64> {
    let mut table = locked_at(tree, page, level)?;
    let slot = level.index(page);
    if matches!(table.entry(slot), Entry::Table(_) | Entry::Absent) {
        return None;
    }
    Some(table.take_word(slot))
}

/// Puts an entry of `level` that was taken into the slot of the page, which is absent.
pub(crate) fn put_above<M: Machine>(tree: &PageTable<'_, M>, page: Vpn, level: Level, word: u64) {
    if let Some(mut table) = locked_at(tree, page, level) {
        table.put_word(level.index(page), word);
    }
}

/// The table of `level` that has the page, locked: it is there, and no other CPU detaches it for good.
fn locked_at<'t, M: Machine>(
    tree: &'t PageTable<'_, M>,
    page: Vpn,
    level: Level,
) -> Option<LockedTable<'t, M>> {
    loop {
        let reading = tree.rcu?.read();
        let found = walk(tree, page, level, &reading).table;
        if found.level() != level {
            debug_assert!(false, "no table of {level:?} at {page:?}");
            return None;
        }
        if let Some(table) = found.lock() {
            return Some(table);
        }
        drop(reading);
        M::Cpu::relax();
    }
}

impl<M: Machine> LockedTable<'_, M> {
    /// Clears a slot that holds a leaf or a marker, and returns its last word: what it owned goes with that.
    ///
    /// An exchange: the hardware may set bits until then. Relaxed: as [`replace`](Self::replace).
    fn take_word(&mut self, slot: usize) -> u64 {
        debug_assert!(!matches!(self.entry(slot), Entry::Table(_)), "tables are detached");
        self.table.word(slot).swap(M::Format::encode(Entry::Absent, self.level()), Relaxed)
    }

    /// Puts a word that was [taken](Self::take_word), of a table of this level, into an absent slot.
    fn put_word(&mut self, slot: usize, word: u64) {
        debug_assert_eq!(self.entry(slot), Entry::Absent, "an entry is put over another");
        self.store_word(slot, word);
    }
}

impl<M: Machine> UnlinkedTable<'_, M> {
    /// Calls `out` with each slot that is in use, and its word; all of them are absent then.
    fn drain(&mut self, mut out: impl FnMut(usize, u64)) {
        let Some(words) = self.words() else { return };
        let each: Range<usize> = 0..Level::ENTRIES;
        for slot in each.filter(|&slot| self.is_part_used(slot)) {
            let word = words.at(slot).load(Relaxed);
            if word != 0 {
                words.at(slot).store(0, Relaxed);
                out(slot, word);
            }
        }
        self.note_empty();
    }
}
