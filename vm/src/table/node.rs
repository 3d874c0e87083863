//! A table page: 512 entries, a lock, and whether it is still part of the tree.
//!
//! | access | by |
//! |---|---|
//! | read an entry | a CPU in an RCU read section, or under the table's lock while attached |
//! | write an entry | the holder of the table's lock, if attached; hardware sets accessed and dirty |
//! | note which parts may be in use | the holder of the table's lock: from an installation to a sweep |
//! | clear *attached* | the holder of the table's lock and its parent's (protocol P5) |
//!
//! A table is detached by clearing *attached* under its own lock, before the parent's entry: a walker that
//! finds it cleared under the lock starts again. It is freed after the flush and a grace period, when no
//! walker, software or hardware, can still reach it.

use super::PageTable;
use crate::frame::{FrameMeta, Unhooked, Words};
use crate::machine::{Entry, Format, Machine};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{RawGuard, lockdep};
use crate::units::{Level, Pfn, Vpn, VpnRange};
use core::fmt;
use core::ops::Range;

/// A table page of a known level. A plain handle: it keeps nothing alive.
pub struct Table<'m, M: Machine> {
    tree: &'m PageTable<'m, M>,
    words: Words<'m, M::Cpu>,
    pfn: Pfn,
    level: Level,
}

/// A table whose lock is held and that is attached.
#[must_use = "the lock is free again once this is dropped"]
pub struct LockedTable<'m, M: Machine> {
    table: Table<'m, M>,
    meta: &'m FrameMeta<M::Cpu>,
    held: RawGuard<'m, M::Cpu>,
}

/// Slots whose use is noted together.
const PART: usize = Level::ENTRIES / u32::BITS as usize;

impl<'m, M: Machine> Table<'m, M> {
    /// The table of `level` of the tree in the frame `pfn`, which must have been allocated as a table.
    #[inline(always)]
    pub(super) fn at(tree: &'m PageTable<'m, M>, pfn: Pfn, level: Level) -> Self {
        Self { tree, words: tree.memory.words(pfn), pfn, level }
    }

    /// The tree that it is, or was, a part of.
    #[inline(always)]
    pub(super) fn tree(&self) -> &'m PageTable<'m, M> {
        self.tree
    }

    /// The frame that holds the table.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// The level of the table's entries.
    pub fn level(&self) -> Level {
        self.level
    }

    #[inline(always)]
    fn word(&self, slot: usize) -> &'m AtomicU64<M::Cpu> {
        self.words.at(slot)
    }

    /// The word in `slot`. Acquire: the contents of a table that it points to were written before. Pairs with
    /// [`LockedTable::install`].
    #[inline(always)]
    pub fn read(&self, slot: usize) -> u64 {
        self.word(slot).load(if mutant!("table.read-relaxed") { Relaxed } else { Acquire })
    }

    /// The entry in `slot`, decoded.
    #[inline(always)]
    pub fn entry(&self, slot: usize) -> Entry {
        M::Format::decode(self.read(slot), self.level)
    }

    /// The table below, where `slot` points to one.
    #[inline(always)]
    pub fn child(&self, pfn: Pfn) -> Option<Table<'m, M>> {
        Some(Table::at(self.tree, pfn, self.level.below()?))
    }

    /// Waits for the table's lock. `None` where the table has been detached: the walk must start again.
    #[inline(always)]
    #[track_caller]
    pub fn lock(&self) -> Option<LockedTable<'m, M>> {
        let (memory, locks) = (self.tree.memory, &self.tree.locks);
        let meta = memory.meta(self.pfn)?;
        let held = locks.lock(meta.table_lock(), lockdep::table(self.level), memory.machine());
        self.if_attached(meta, held)
    }

    /// As [`lock`](Self::lock), while the lock of another table of the tree, above this one, is held.
    #[track_caller]
    pub fn lock_below(&self, above: &LockedTable<'m, M>) -> Option<LockedTable<'m, M>> {
        let meta = self.tree.memory.meta(self.pfn)?;
        let held = self.tree.locks.lock_below(&above.held, meta.table_lock(), lockdep::table(self.level));
        self.if_attached(meta, held)
    }

    #[inline(always)]
    fn if_attached(
        &self,
        meta: &'m FrameMeta<M::Cpu>,
        held: RawGuard<'m, M::Cpu>,
    ) -> Option<LockedTable<'m, M>> {
        let attached = mutant!("table.lockable-after-cut") || meta.state().is_attached();
        attached.then_some(LockedTable { table: *self, meta, held })
    }
}

impl<'m, M: Machine> LockedTable<'m, M> {
    /// The table.
    pub fn table(&self) -> Table<'m, M> {
        self.table
    }

    /// The word in `slot`; only the hardware's accessed and dirty bits may change under the lock.
    #[inline(always)]
    pub fn read(&self, slot: usize) -> u64 {
        self.table.word(slot).load(Relaxed)
    }

    /// The entry in `slot`, decoded.
    #[inline(always)]
    pub fn entry(&self, slot: usize) -> Entry {
        M::Format::decode(self.read(slot), self.table.level)
    }

    /// Writes an entry into a slot that is not present for the hardware. Release: the table or frame that the
    /// entry points to was written before.
    #[inline(always)]
    pub fn install(&mut self, slot: usize, entry: Entry) {
        debug_assert!(!self.is_present(slot), "a present entry changes through clear or weaken");
        let (used, part) = (self.meta.used_parts(), 1 << (slot / PART));
        if used & part == 0 && !mutant!("table.use-not-noted") {
            self.meta.set_used_parts(used | part);
        }
        let order = if mutant!("table.install-relaxed") { Relaxed } else { Release };
        self.table.word(slot).store(M::Format::encode(entry, self.table.level), order);
    }

    /// Clears a slot and returns its last value, with the bits that the hardware has set.
    #[inline(always)]
    pub fn clear(&mut self, slot: usize) -> Entry {
        self.replace(slot, Entry::Absent)
    }

    /// Puts `entry`, which the hardware must not follow, into a slot in use, or clears any; returns the
    /// slot's last value.
    ///
    /// The hardware writes an entry only to set a bit that is clear. An entry whose bits are all set, as
    /// after a store to the page, is changed by the holder of the lock only: a plain store replaces it.
    #[inline(always)]
    pub fn replace(&mut self, slot: usize, entry: Entry) -> Entry {
        let cell = self.table.word(slot);
        let word = M::Format::encode(entry, self.table.level);
        let mut old = cell.load(Relaxed);
        debug_assert!(
            entry == Entry::Absent || self.meta.used_parts() >> (slot / PART) & 1 == 1,
            "what is put into an absent slot is installed"
        );
        if M::Format::used(old, true) == old {
            cell.store(word, Release);
        } else {
            old = cell.swap(word, AcqRel);
        }
        M::Format::decode(old, self.table.level)
    }

    /// Changes a leaf's bits in place, while the hardware may set bits; frame and size stay the same. Returns
    /// the old entry and whether it changed.
    pub fn adjust(&mut self, slot: usize, change: impl Fn(Entry) -> Option<Entry>) -> (Entry, bool) {
        let level = self.table.level;
        let next = |word| change(M::Format::decode(word, level)).map(|entry| M::Format::encode(entry, level));
        if mutant!("table.adjusted-by-store") {
            let old = self.read(slot);
            let new = next(old);
            new.into_iter().for_each(|new| self.table.word(slot).store(new, Release));
            return (M::Format::decode(old, level), new.is_some());
        }
        match self.table.word(slot).update(AcqRel, Acquire, next) {
            Ok(old) => (M::Format::decode(old, level), true),
            Err(old) => (M::Format::decode(old, level), false),
        }
    }

    /// The first of the slots that is not absent. Skips without reading the parts of the table in which
    /// nothing was installed.
    #[inline(always)]
    pub fn first_used(&self, slots: Range<usize>) -> Option<usize> {
        let absent = M::Format::encode(Entry::Absent, self.table.level);
        let is_used = |slot: &usize| self.read(*slot) != absent;
        let mut from = slots.start;
        if from < slots.end && is_used(&from) {
            return Some(from);
        }
        let used = self.meta.used_parts();
        while from < slots.end {
            let part = from / PART;
            let passed = (used >> part).trailing_zeros() as usize;
            if passed > 0 {
                from = (part + passed) * PART;
                continue;
            }
            let end = slots.end.min((part + 1) * PART);
            let found = (from..end).find(is_used);
            if found.is_some() {
                return found;
            }
            from = end;
        }
        None
    }

    /// Notes that all of the slots are absent: they were cleared under this lock, or found so.
    pub fn note_absent(&mut self, slots: Range<usize>) {
        let (first, end) = (slots.start.div_ceil(PART), slots.end / PART);
        if first < end {
            let parts = ((1u64 << end) - (1u64 << first)) as u32;
            self.meta.set_used_parts(self.meta.used_parts() & !parts);
        }
    }

    /// Clears the leaf or marker in `slot`, which maps `page`, and returns the translation to flush and free.
    /// `None` where the slot is absent, which is not written.
    #[inline(always)]
    pub fn unhook(&mut self, slot: usize, page: Vpn) -> Option<Unhooked> {
        let level = self.table.level;
        if self.read(slot) == M::Format::encode(Entry::Absent, level) {
            return None;
        }
        let pages = VpnRange::new(page, page.add(level.entry_pages()));
        match self.clear(slot) {
            Entry::Leaf(leaf) if leaf.pfn != self.table.tree.memory.zero_frame() => {
                if mutant!("table.frame-lost") {
                    return Some(Unhooked::translation(pages));
                }
                Some(Unhooked::frame(pages, leaf.pfn))
            }
            _ => Some(Unhooked::translation(pages)),
        }
    }

    /// Detaches the table (P5): from now on no CPU installs anything here. The caller holds the parent's lock
    /// and clears the parent's entry next.
    pub fn detach(self, _parent: &LockedTable<'m, M>) -> Pfn {
        let detached = self.table.tree.memory.meta(self.table.pfn).is_some_and(FrameMeta::detach);
        debug_assert!(detached, "a locked table is attached");
        self.table.pfn
    }

    fn is_present(&self, slot: usize) -> bool {
        match self.entry(slot) {
            Entry::Absent | Entry::Marker(_) => false,
            Entry::Leaf(leaf) => !leaf.rights.is_empty(),
            Entry::Table(_) => true,
        }
    }
}

impl<M: Machine> Clone for Table<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Table<'_, M> {}

impl<M: Machine> fmt::Debug for Table<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} table in {:?}", self.level, self.pfn)
    }
}

impl<M: Machine> fmt::Debug for LockedTable<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, locked", self.table)
    }
}
