//! Several leaves of base pages at once: those of the frames of a folio.
//!
//! Each frame is one of its own from the start, *exclusive*, and so is each leaf: nothing tells afterwards
//! that they came together, but that the frames follow each other and are aligned.

use super::{LeafBits, LockedTable};
use crate::frame::FolioParts;
use crate::machine::{Entry, Format, Machine};
use crate::units::Order;

impl<M: Machine> LockedTable<'_, M> {
    /// The first slot of the entries that a folio of this order takes which has the one in `slot`.
    pub(crate) const fn first_slot_of(slot: usize, order: Order) -> usize {
        slot & !(order.frames() as usize - 1)
    }

    /// Whether so many slots, from `first` on, are all absent.
    pub(crate) fn are_absent(&self, first: usize, slots: usize) -> bool {
        let absent = M::Format::encode(Entry::Absent, self.level());
        (first..first + slots).all(|slot| self.read(slot) == absent)
    }

    /// Maps frames by leaves of the last level in slots that follow each other, from `first` on, and are
    /// absent.
    ///
    /// # Panics
    /// Where the table is not of the last level or has not as many slots, or the frames are of another
    /// memory.
    #[track_caller]
    pub(crate) fn install_parts(&mut self, first: usize, parts: FolioParts<'_, M>, bits: LeafBits) {
        debug_assert!(self.are_absent(first, parts.len() as usize), "something is mapped there");
        for (slot, frame) in (first..).zip(parts) {
            self.install(slot, frame, bits);
        }
    }
}
