//! A table page: 512 entries, a lock, and whether it is still part of the tree.
//!
//! | access | by |
//! |---|---|
//! | read an entry | a CPU in an RCU read section, or under the table's lock while attached |
//! | write an entry | the holder of the table's lock, if attached |
//! | set accessed and dirty | hardware and emulators, without a lock |
//! | clear accessed | scans, by compare-exchange, without a lock |
//! | note which parts may be in use | the holder of the table's lock: from an installation to a sweep |
//! | clear *attached* | the holder of the table's lock and its parent's (protocol P5) |
//! | slots of a space's root that cover no user address | the platform alone (`Machine::load_root`) |
//!
//! A table is detached by clearing *attached* under its own lock, before the parent's entry: a walker that
//! finds it cleared under the lock starts again. It is freed after the flush and a grace period, when no
//! walker, software or hardware, can still reach it.
//!
//! A handle, [`Table`], is tied to what keeps the table in memory: the read section it was found in, or, for
//! the root, the tree. Only a handle gives a [`LockedTable`], which needs no section: an attached table is
//! not detached while another CPU holds its lock.
//!
//! ```compile_fail,E0597
//! # use interleaf::{machine::*, space::*, table::*, units::*};
//! fn keep<M: Machine>(space: &AddressSpace<'_, M>, page: Vpn) {
//!     let found = {
//!         let reading = space.vm().read();
//!         walk(space.inspect().page_table(), page, Level::Pte, &reading)
//!     };
//!     found.table.lock(); // the read section has ended
//! }
//! ```

use super::locked::swaps_in_models;
use super::{LockedTable, PageTable};
use crate::frame::{FrameMeta, SLOTS_PER_PART, Words};
use crate::machine::{Cpu, Entry, Format, Machine};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{RawGuard, ReadGuard, lockdep};
use crate::units::{Level, Pfn};
use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;

/// A table page of a known level, of a tree that lives for `'t`.
pub struct Table<'r, 't, M: Machine> {
    pub(super) tree: &'t PageTable<'t, M>,
    /// Used only while the table stays one: for `'r`, or while its lock is held and it is attached.
    words: Words<'t, M::Cpu>,
    level: Level,
    /// The read section that keeps the table in memory; the tree, for its root.
    _section: PhantomData<&'r ()>,
}

impl<'t, M: Machine> Table<'_, 't, M> {
    /// The table of `level` in the frame `pfn`.
    ///
    /// # Safety
    /// The frame is a table, which the tree reaches at this level or has reached, and stays one for the
    /// lifetime that the caller gives the result.
    #[inline(always)]
    pub(super) unsafe fn at(tree: &'t PageTable<'t, M>, pfn: Pfn, level: Level) -> Self {
        // SAFETY: the caller says that the frame is a table for the lifetime of the handle; a locked table,
        // which outlives the handle, keeps it one (see `LockedTable`).
        let words = unsafe { tree.memory.words(pfn) };
        Self { tree, words, level, _section: PhantomData }
    }

    /// The frame that holds the table.
    pub fn pfn(&self) -> Pfn {
        self.words.pfn()
    }

    /// The level of the table's entries.
    pub fn level(&self) -> Level {
        self.level
    }

    #[inline(always)]
    pub(super) fn word(&self, slot: usize) -> &AtomicU64<M::Cpu> {
        self.words.at(slot)
    }

    /// The word in `slot`. Acquire: the contents of a table that it points to were written before. Pairs with
    /// [`LockedTable::link`] and [`LockedTable::install`].
    ///
    /// # Panics
    /// Where there is no such slot; also in all other calls with one.
    #[inline(always)]
    pub fn read(&self, slot: usize) -> u64 {
        self.word(slot).load(if mutant!("table.read-relaxed") { Relaxed } else { Acquire })
    }

    /// The entry in `slot`, decoded.
    #[inline(always)]
    pub fn entry(&self, slot: usize) -> Entry {
        M::Format::decode(self.read(slot), self.level)
    }

    /// The first of the slots whose word is not absent, with its word. `used` are the parts of the table that
    /// may be in use; others are skipped without reading. There are no slots from [`Level::ENTRIES`] on. The
    /// caller holds the table's lock.
    #[inline(always)]
    pub(super) fn first_used(&self, used: u32, slots: Range<usize>) -> Option<(usize, u64)> {
        let absent = M::Format::encode(Entry::Absent, self.level);
        let (mut from, end) = (slots.start, slots.end.min(Level::ENTRIES));
        let read = |slot| self.word(slot).load(Relaxed);
        if from < end {
            let word = read(from);
            if word != absent {
                return Some((from, word));
            }
        }
        while from < end {
            let part = from / SLOTS_PER_PART;
            let passed = (used >> part).trailing_zeros() as usize;
            if passed > 0 {
                from = (part + passed) * SLOTS_PER_PART;
                continue;
            }
            let part_end = end.min((part + 1) * SLOTS_PER_PART);
            while from < part_end {
                let word = read(from);
                if word != absent {
                    return Some((from, word));
                }
                from += 1;
            }
        }
        None
    }

    /// Fetches the record of the frame that the leaf, or the pending leaf, some slots after `slot` has: for a
    /// sweep that will come to it. The caller holds the table's lock. Words are read as those of base pages:
    /// of other tables a record may be fetched that is not needed, and to ask for the level costs sweeps of
    /// exclusive frames, in whose loop this stands, an instruction a page.
    #[inline(always)]
    pub(super) fn prefetch_after(&self, slot: usize) {
        /// Far enough for a miss of the last cache at some 15 ns a slot.
        const AHEAD: usize = 8;
        if M::Cpu::PREFETCH.is_none() || slot + AHEAD >= Level::ENTRIES {
            return;
        }
        let word = self.word(slot + AHEAD).load(Relaxed);
        let pfn = match M::Format::decode(word, Level::Pte) {
            Entry::Leaf(leaf) if leaf.owned() => Some(leaf.pfn),
            _ => M::Format::pending_free(word, Level::Pte),
        };
        if let Some(pfn) = pfn {
            self.tree.memory.prefetch(pfn);
        }
    }

    /// How many of the slots, from the first on, point to no table. There are none from [`Level::ENTRIES`]
    /// on. An absent word is not decoded: most are.
    pub(super) fn nr_without_child(&self, slots: Range<usize>) -> usize {
        let absent = M::Format::encode(Entry::Absent, self.level);
        let end = slots.end.min(Level::ENTRIES);
        let mut slot = slots.start;
        while slot < end {
            let word = self.read(slot);
            if word != absent && matches!(M::Format::decode(word, self.level), Entry::Table(_)) {
                break;
            }
            slot += 1;
        }
        slot.min(end).saturating_sub(slots.start)
    }

    /// The parts of the table that may be in use, as its record says at this moment.
    pub(super) fn used_parts_racy(&self) -> u32 {
        self.tree.memory.meta_of_table(self.words).used_parts()
    }

    /// Clears the slot of a leaf, whose word was `seen` under the table's lock, which is still held: since
    /// then the hardware may have set bits. As [`LockedTable::replace`], for a caller that needs no bits.
    #[inline(always)]
    pub(super) fn clear_leaf(&self, slot: usize, seen: u64) {
        let (cell, absent) = (self.word(slot), M::Format::encode(Entry::Absent, self.level));
        if M::Format::used(seen, true) == seen && !swaps_in_models(absent, self.level) {
            cell.store(absent, Relaxed);
        } else {
            cell.swap(absent, Relaxed);
        }
    }

    /// Whether the slot is the platform's: one of the root that covers no user address. What is there belongs
    /// to no tree of the library's, and is not reached through one. In a tree [of all
    /// CPUs](PageTable::of_all_cpus), which is the platform's own, and in a [`Mapper`](super::Mapper)'s there
    /// are no such slots.
    #[inline(always)]
    pub(super) fn is_platforms(&self, slot: usize) -> bool {
        let is_beyond = self.level == M::Format::ROOT && slot >= self.tree.first_platform_slot();
        is_beyond && !mutant!("table.platforms-slots-open")
    }

    /// The table that `slot` points to, if it does; `None` also for slots of the platform's.
    pub fn child<'s>(&self, slot: usize, reading: &'s ReadGuard<'_, M::Cpu>) -> Option<Table<'s, 't, M>> {
        self.tree.assert_reads(reading);
        if self.is_platforms(slot) {
            return None;
        }
        let Entry::Table(pfn) = self.entry(slot) else { return None };
        // SAFETY: an entry of the tree points to it, so it was attached when the entry was read, in this read
        // section; a table that is detached later is retired, and stays one until the section has ended.
        Some(unsafe { Table::at(self.tree, pfn, self.level.below()?) })
    }

    /// Waits for the table's lock. `None` where the table has been detached: the walk must start again.
    #[inline(always)]
    #[track_caller]
    pub fn lock(&self) -> Option<LockedTable<'t, M>> {
        let (memory, locks) = (self.tree.memory, &self.tree.locks);
        let meta = memory.meta_of_table(self.words);
        let held = locks.lock(meta.table_lock(), lockdep::table(self.level), memory.machine());
        self.if_attached(meta, held)
    }

    /// As [`lock`](Self::lock), while the lock of another table of the tree, above this one, is held.
    #[track_caller]
    pub fn lock_below(&self, above: &LockedTable<'t, M>) -> Option<LockedTable<'t, M>> {
        assert!(core::ptr::eq(self.tree, above.tree()), "the table above is of another tree");
        let meta = self.tree.memory.meta_of_table(self.words);
        let held = self.tree.locks.lock_below(above.held(), meta.table_lock(), lockdep::table(self.level));
        self.if_attached(meta, held)
    }

    #[inline(always)]
    fn if_attached(
        &self,
        meta: &'t FrameMeta<M::Cpu>,
        held: RawGuard<'t, M::Cpu>,
    ) -> Option<LockedTable<'t, M>> {
        let attached = mutant!("table.lockable-after-cut") || meta.state().is_attached();
        // SAFETY: `held` is this table's lock, and it is attached.
        attached.then(|| unsafe { LockedTable::new(self.for_holder(), meta, held) })
    }

    /// The handle for the holder of the lock, which needs no read section.
    #[inline(always)]
    fn for_holder(&self) -> Table<'t, 't, M> {
        let Self { tree, words, level, .. } = *self;
        Table { tree, words, level, _section: PhantomData }
    }
}

impl<M: Machine> Clone for Table<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Table<'_, '_, M> {}

impl<M: Machine> fmt::Debug for Table<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} table in {:?}", self.level, self.pfn())
    }
}
