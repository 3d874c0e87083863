//! A folio that is filled part by part, before it becomes user memory: the copy that a collapse makes.
//!
//! ```text
//!   Folio ── new ──► PartialFolio ── copy_part, zero_rest ──► into_mapped_at ──► MappedFolio
//!                     each part: unknown ─► copied, or zero      what is unknown still is zeroed
//!                                   ▲── forget ──┘
//! ```
//!
//! So what the block held before is never seen, whatever fills it. Dropped instead, the block is free again.

use super::{Folio, FrameRef, MappedFolio};
use crate::frame::{AnonKey, Memory};
use crate::machine::Machine;
use crate::units::Order;
use core::fmt;

/// A folio that its holder owns alone, some of whose parts, frames, have been filled.
pub(crate) struct PartialFolio<'m, M: Machine> {
    folio: Folio<'m, M>,
    /// Parts that hold a copy.
    copied: PartSet,
    /// Parts that hold a copy or are zero.
    known: PartSet,
    /// Parts that are to be copied.
    wanted: PartSet,
}

/// Parts of a folio.
#[derive(Clone, Copy, Debug, Default)]
struct PartSet([u64; PartSet::PARTS / 64]);

impl PartSet {
    /// Parts of the largest folio that is filled in parts.
    const PARTS: usize = Order::HUGE.frames() as usize;

    fn contains(&self, part: usize) -> bool {
        self.0[part / 64] >> (part % 64) & 1 == 1
    }

    fn insert(&mut self, part: usize) {
        self.0[part / 64] |= 1 << (part % 64);
    }

    fn remove(&mut self, part: usize) {
        self.0[part / 64] &= !(1 << (part % 64));
    }

    /// The first part from `from` on.
    fn first_from(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = self.0.get(word)? & !0 << (from % 64);
        while bits == 0 {
            word += 1;
            bits = *self.0.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

impl<'m, M: Machine> PartialFolio<'m, M> {
    /// The folio, with contents that are not known.
    ///
    /// # Panics
    /// Where it is not a folio of [`Order::HUGE`].
    pub fn new(folio: Folio<'m, M>) -> Self {
        assert!(folio.order() == Order::HUGE, "a folio of {:?} to be filled in parts", folio.order());
        let [copied, known, wanted] = [PartSet::default(); 3];
        Self { folio, copied, known, wanted }
    }

    /// Whether the folio is of this memory.
    pub fn is_of(&self, memory: &Memory<'_, M>) -> bool {
        memory.is(self.folio.memory())
    }

    /// Copies the bytes of a frame to a part. Those that are written meanwhile are copied as they were before
    /// or after.
    ///
    /// # Panics
    /// Where there is no such part, or the frame is of another memory.
    pub fn copy_part(&mut self, part: usize, from: &FrameRef<'_, M>) {
        self.copied.insert(part);
        self.known.insert(part);
        self.wanted.remove(part);
        let (memory, to) = (self.folio.memory(), self.folio.pfn().add(part as u64));
        let from = from.user_frame().pfn_in(memory);
        // SAFETY: the part was just found to be one of the folio (`insert` panics otherwise), which this
        // value owns, without a borrow of it; the frame copied from is user memory of the same memory
        // (`pfn_in` panics otherwise) as long as there is the reference, and the library has no Rust object
        // in it.
        unsafe { memory.machine().copy(from, to, Order::BASE) };
    }

    /// Notes that the part is to be copied: what it holds is not to be used.
    ///
    /// # Panics
    /// Where there is no such part.
    pub fn want_copy(&mut self, part: usize) {
        self.copied.remove(part);
        self.known.remove(part);
        self.wanted.insert(part);
    }

    /// The first part from `from` on that is to be copied.
    pub fn next_wanted(&self, from: usize) -> Option<usize> {
        self.wanted.first_from(from)
    }

    /// Whether the part holds a copy.
    pub fn has_copy(&self, part: usize) -> bool {
        self.copied.contains(part)
    }

    /// Zeroes the parts of which nothing is known.
    pub fn zero_rest(&mut self) {
        let mut part = 0;
        while part < PartSet::PARTS {
            let order = self.unknown_from(part);
            let parts = order.map_or(1, |order| order.frames() as usize);
            if let Some(order) = order
                && !mutant!("collapse.rest-not-zeroed")
            {
                (part..part + parts).for_each(|part| self.known.insert(part));
                let pfn = self.folio.pfn().add(part as u64);
                // SAFETY: the parts are some of the folio, which has as many (`new`; `insert` panics
                // otherwise), and which this value owns.
                unsafe { self.folio.memory().machine().zero(pfn, order) };
            }
            part += parts;
        }
    }

    /// The size of the largest aligned run of parts from `part` on of which nothing is known; `None` for
    /// none.
    fn unknown_from(&self, part: usize) -> Option<Order> {
        let is_unknown = |from: usize, parts| (from..from + parts).all(|part| !self.known.contains(part));
        let mut parts = 1;
        if !is_unknown(part, 1) {
            return None;
        }
        while part.is_multiple_of(2 * parts) && parts < PartSet::PARTS && is_unknown(part + parts, parts) {
            parts *= 2;
        }
        Some(Order(parts.trailing_zeros() as u8))
    }

    /// The folio as exclusive user memory, for one entry of a space that is going to map all of it: that of
    /// the pages from the one of `key` on. Parts of which nothing is known are zeroed.
    pub fn into_mapped_at(mut self, key: AnonKey) -> MappedFolio<'m, M> {
        self.zero_rest();
        self.folio.into_mapped_at(key)
    }
}

impl<M: Machine> fmt::Debug for PartialFolio<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nr_copied: u32 = self.copied.0.iter().map(|bits| bits.count_ones()).sum();
        write!(f, "{:?}, {nr_copied} parts copied", self.folio)
    }
}
