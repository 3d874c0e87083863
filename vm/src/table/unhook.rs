//! Clearing leaves: at once, or in two passes where the gather has no place for one frame more.
//!
//! ```text
//!   leaf ── unhook ─────────► absent, and an Unhooked with the frame
//!   leaf ── leave_pending ──► PendingFree(frame) ── flush ──► put_pending ──► absent, the mapping is put
//! ```
//!
//! A slot that is *pending* is absent for the hardware, but it owns the mapping that it had: the frame stays.
//! It belongs to the edit that left it. Nobody else changes it: an installation wants an absent slot, a fault
//! that meets it waits for the edit, and `unhook` passes it over.

use super::LockedTable;
use crate::frame::{Flushed, Unhooked};
use crate::machine::{Entry, Format, Machine, Marker};
use crate::units::{Level, Vpn, VpnRange};

impl<M: Machine> LockedTable<'_, M> {
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
            Entry::Leaf(leaf) if leaf.owned => {
                if mutant!("table.frame-lost") {
                    return Some(Unhooked::translation(pages));
                }
                Some(Unhooked::frame(pages, leaf))
            }
            // Back: seldom met, and a reader who finds the slot absent asks again under this lock.
            pending @ Entry::Marker(Marker::PendingFree(_)) if !mutant!("table.others-pending-cleared") => {
                self.replace(slot, pending);
                None
            }
            _ => Some(Unhooked::translation(pages)),
        }
    }

    /// As [`unhook`](Self::unhook), but leaves a frame that others may map too in its slot, *pending*.
    #[inline(never)]
    pub(super) fn leave_pending(&mut self, slot: usize, page: Vpn) -> Option<Unhooked> {
        let Entry::Leaf(leaf) = self.entry(slot) else { return self.unhook(slot, page) };
        // Under this lock an exclusive frame stays so, and another one does not become exclusive.
        let is_shared = self.mapped_meta(slot).is_some_and(|meta| !meta.state().is_exclusive());
        if !is_shared {
            return self.unhook(slot, page);
        }
        let pages = self.pages_of(page);
        // The leaf as it was last: the hardware may have set bits.
        match self.replace(slot, Entry::Marker(Marker::PendingFree(leaf.pfn))) {
            Entry::Leaf(last) => Some(Unhooked::pending(pages, last)),
            _ => None,
        }
    }

    /// Clears the slot if it is pending, and puts the mapping that it owns. The flush of the edit that left
    /// it has ended.
    pub(super) fn put_pending(&mut self, slot: usize, flushed: &Flushed) {
        if let Entry::Marker(Marker::PendingFree(pfn)) = self.entry(slot) {
            self.replace(slot, Entry::Absent);
            flushed.put(self.tree().memory, pfn);
        }
    }

    /// Whether every slot is absent or pending. Then the parts in use are noted exactly.
    pub(super) fn note_whether_pending(&mut self) -> bool {
        let (mut slots, mut is_empty) = (0..Level::ENTRIES, true);
        while let Some(slot) = self.first_used(slots.clone()) {
            if !matches!(self.entry(slot), Entry::Marker(Marker::PendingFree(_))) {
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
