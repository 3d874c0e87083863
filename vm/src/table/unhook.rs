//! Clearing leaves: at once, or in two passes where the gather has no place for one frame more.
//!
//! ```text
//!   leaf ── unhook ─────────► absent, and an Unhooked with the frame
//!   leaf ── unhook_each ────► PendingFree(frame) ── flush ─► put_each_pending ─► absent, the mapping is put
//!   leaf ── unhook_each ────► absent, the mapping is put          where no CPU translates through the table
//! ```
//!
//! A slot that is *pending* is absent for the hardware, but it owns the mapping that it had: the frame stays.
//! It belongs to the edit that left it. Nothing else changes it: an installation wants an absent slot, a
//! fault that meets it waits for the edit, and `unhook` passes it over.

use super::locked::swaps_in_models;
use super::marker::OnZap;
use super::{LockedTable, SlotMarker, SlotRun};
use crate::frame::{Flushed, IfShared, Unhooked, UnhookedFrames, note_dirty};
use crate::machine::{Entry, Format, Leaf, Machine};
use crate::sync::atomic::Ordering::*;
use crate::units::{Level, Vpn, VpnRange};

/// Slots from the first to the last that was added. They are added in order.
struct SlotSpan {
    first: usize,
    end: usize,
}

impl SlotSpan {
    const EMPTY: Self = Self { first: Level::ENTRIES, end: 0 };

    #[inline(always)]
    fn add(&mut self, slot: usize) {
        (self.first, self.end) = (self.first.min(slot), slot + 1);
    }
}

impl<'m, M: Machine> SlotRun<'_, 'm, M> {
    /// Clears every slot that is in use, and hands what it held to `add`, which adds it to `gather`, one of
    /// the tree's. `if_shared` is asked about each frame that others may map too.
    ///
    /// Leaves of exclusive frames, and those that own none, are cleared here and handed over together; so are
    /// the pages of those that stay pending. Only values are used for that: none of them has an address that
    /// a call for another slot could know, so they stay in registers.
    #[inline(always)]
    pub fn unhook_each<G>(
        self,
        gather: &mut G,
        if_shared: impl Fn(&mut G) -> IfShared<'_>,
        add: impl Fn(&mut G, Unhooked),
    ) {
        // A caller's value comes by its address, from which each field would be read where it is used.
        let run = Self { ..self };
        let (table, used) = (run.table.table, run.table.used_parts());
        let (memory, level) = (table.tree.memory, table.level());
        let mut frames = UnhookedFrames::EMPTY;
        let (mut cleared, mut left) = (SlotSpan::EMPTY, SlotSpan::EMPTY);
        let mut is_any_left = false;
        let mut slots = run.slots.clone();
        while let Some((slot, word)) = table.first_used(used, slots.clone()) {
            slots.start = slot + 1;
            match M::Format::decode(word, level) {
                Entry::Leaf(leaf) if leaf.owned() => {
                    // Under this lock an exclusive frame stays so, and another one does not become exclusive.
                    let meta = memory.meta_of(leaf.pfn);
                    if meta.state().is_exclusive() {
                        table.clear_leaf(slot, word);
                        cleared.add(slot);
                        if !mutant!("sweep.frame-lost") {
                            frames.add(meta, leaf.pfn);
                        }
                        continue;
                    }
                    table.prefetch_after(slot);
                    match if_shared(gather) {
                        IfShared::Add => {}
                        IfShared::Leave => {
                            let marker = SlotMarker::PendingFree(leaf.pfn).entry();
                            note_dirty(meta, run.table.exchange_leaf(slot, (word, leaf), marker));
                            left.add(slot);
                            continue;
                        }
                        IfShared::Put(flushed) => {
                            // In this order: a lockless walker that has read the entry before takes its
                            // reference before that, or finds the slot changed.
                            note_dirty(meta, run.table.exchange_leaf(slot, (word, leaf), Entry::Absent));
                            if !mutant!("exit.shared-frame-kept") {
                                flushed.put(memory, leaf.pfn);
                            }
                            continue;
                        }
                    }
                }
                Entry::Leaf(_) => {
                    table.clear_leaf(slot, word);
                    cleared.add(slot);
                    continue;
                }
                _ => {}
            }
            let page = run.page(slot);
            is_any_left |= !unhook_other(run.table, slot, page, gather, &add);
        }
        is_any_left |= run.hand_over(gather, add, (cleared, frames), left);
        // Entries that point to tables are left too, which runs do not hold.
        if !is_any_left {
            run.table.note_absent(run.slots);
        }
    }

    /// Hands over the frames of the slots that were cleared, and the pages of those that were left pending.
    /// Returns whether there are such.
    #[inline(always)]
    fn hand_over<G>(
        &self,
        gather: &mut G,
        add: impl Fn(&mut G, Unhooked),
        (cleared, frames): (SlotSpan, UnhookedFrames),
        left: SlotSpan,
    ) -> bool {
        if let Some(pages) = self.pages(cleared) {
            add(gather, Unhooked::frames(pages, frames));
        }
        let left = self.pages(left);
        if let Some(pages) = left {
            add(gather, Unhooked::pending(pages));
        }
        left.is_some()
    }

    /// The pages of a span's slots, unless it is empty.
    fn pages(&self, span: SlotSpan) -> Option<VpnRange> {
        (span.first < span.end).then(|| VpnRange::new(self.page(span.first), self.page(span.end)))
    }

    /// Clears the slots that [`unhook_each`](Self::unhook_each) left pending, and puts their frames.
    pub fn put_each_pending(self, flushed: &Flushed) {
        let used = self.table.used_parts();
        let (mut slots, mut is_any_left) = (self.slots.clone(), false);
        while let Some((slot, word)) = self.table.table.first_used(used, slots.clone()) {
            slots.start = slot + 1;
            self.table.prefetch_after(slot);
            is_any_left |= !self.table.put_if_pending(slot, word, flushed);
        }
        if !is_any_left {
            self.table.note_absent(self.slots);
        }
    }
}

/// As [`unhook_each`](SlotRun::unhook_each), of one slot that holds a marker, or a frame that others may map
/// too and that the gather has a place for. `false`, and it stays: it is another gather's, pending.
#[inline(never)]
fn unhook_other<M: Machine, G>(
    table: &mut LockedTable<'_, M>,
    slot: usize,
    page: Vpn,
    gather: &mut G,
    add: &impl Fn(&mut G, Unhooked),
) -> bool {
    let unhooked = table.unhook(slot, page);
    let is_cleared = unhooked.is_some();
    unhooked.into_iter().for_each(|unhooked| add(gather, unhooked));
    is_cleared
}

impl<M: Machine> LockedTable<'_, M> {
    /// Puts an entry that the hardware must not follow into the place of a leaf that was read under this
    /// lock. Returns whether the leaf was dirty at last: the hardware may have set bits. As
    /// [`replace`](Self::replace), for a caller that has decoded the leaf.
    #[inline(always)]
    fn exchange_leaf(&mut self, slot: usize, (word, leaf): (u64, Leaf), entry: Entry) -> bool {
        let (level, cell) = (self.level(), self.table.word(slot));
        let new = M::Format::encode(entry, level);
        if M::Format::used(word, true) == word && !swaps_in_models(new, level) {
            cell.store(new, Relaxed);
            return leaf.dirty;
        }
        matches!(M::Format::decode(cell.swap(new, Relaxed), level), Entry::Leaf(last) if last.dirty)
    }

    /// Clears the leaf or marker in `slot`, which maps `page`, and returns the translation to flush and free,
    /// in a gather of this tree. `None`, and no change, where the slot is absent or pending. The slot points
    /// to no table: sweeps look under this lock.
    #[inline(always)]
    pub(super) fn unhook(&mut self, slot: usize, page: Vpn) -> Option<Unhooked> {
        let level = self.level();
        if self.read(slot) == M::Format::encode(Entry::Absent, level) {
            return None;
        }
        debug_assert!(!matches!(self.entry(slot), Entry::Table(_)), "tables are detached");
        let pages = self.pages_of(page);
        match self.replace(slot, Entry::Absent) {
            Entry::Leaf(leaf) if leaf.owned() => {
                if mutant!("table.frame-lost") {
                    return Some(Unhooked::translation(pages));
                }
                Some(Unhooked::frame(pages, leaf))
            }
            // Back: seldom met, and a reader that finds the slot absent asks again under this lock.
            Entry::Marker(marker)
                if SlotMarker::of(marker).is_some_and(|marker| marker.on_zap() == OnZap::Leave)
                    && !mutant!("table.others-pending-cleared") =>
            {
                self.replace(slot, Entry::Marker(marker));
                None
            }
            _ => Some(Unhooked::translation(pages)),
        }
    }

    /// Clears the slot, whose word this is under the lock, if it is pending, and puts the mapping that it
    /// owned. The flush of the edit that left it has ended. Returns whether it was.
    ///
    /// A plain store: the hardware writes no marker. Relaxed: as `replace`.
    #[inline(always)]
    fn put_if_pending(&mut self, slot: usize, word: u64, flushed: &Flushed) -> bool {
        let level = self.level();
        let Some(pfn) = M::Format::pending_free(word, level) else { return false };
        let (cell, absent) = (self.table.word(slot), M::Format::encode(Entry::Absent, level));
        if swaps_in_models(absent, level) {
            cell.swap(absent, Relaxed);
        } else {
            cell.store(absent, Relaxed);
        }
        flushed.put(self.tree().memory, pfn);
        true
    }

    /// Whether every slot is absent or pending. Then the parts in use are noted exactly.
    pub(super) fn note_whether_pending(&mut self) -> bool {
        let (mut slots, mut is_empty) = (0..Level::ENTRIES, true);
        while let Some(slot) = self.first_used(slots.clone()) {
            if M::Format::pending_free(self.read(slot), self.level()).is_none() {
                return false;
            }
            (slots.start, is_empty) = (slot + 1, false);
        }
        if is_empty {
            self.note_absent(0..Level::ENTRIES);
        }
        true
    }

    /// The pages of the entry that maps `page`.
    #[inline(always)]
    fn pages_of(&self, page: Vpn) -> VpnRange {
        VpnRange::new(page, page.add(self.level().entry_pages()))
    }
}
