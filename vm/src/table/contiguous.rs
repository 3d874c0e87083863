//! Groups of contiguous leaves: 16 leaves of base pages for which a TLB may hold one translation.
//!
//! Where a format has [the bit](Format::CONTIGUOUS), a block of 64 KiB and more is installed with it. (Linux
//! on arm64: `contpte`.) All leaves of a group have it, or none; their frames follow each other, and they
//! allow the same. So no leaf of a group is changed or cleared by itself: whoever edits one *unfolds* the
//! group first, after which they are leaves like any others.
//!
//! ```text
//!   16 leaves, contiguous ─► 16 leaves without rights ─► flush ─► 16 leaves, each of its own
//!                            not present for the hardware
//! ```
//!
//! *Break before make* (Arm ARM, D8.16): a TLB that holds the group's translation and reads one of the single
//! leaves would hold two sizes for one page. So the leaves are not present until the flush has ended. Whoever
//! reads them without the lock meanwhile finds leaves that own their frames and allow nothing, as in a
//! mapping without rights: a fault, or a pin, waits for the lock of the table and finds that the entry has
//! changed.
//!
//! *Accessed and dirty* are the group's: the hardware sets them in whichever leaf it has read. After
//! unfolding each leaf has what any of them had. Setting them in one, as a pin does, needs no unfolding; a
//! scan of accessed bits takes the group as one ([`accessed`](super::accessed)).
//!
//! A table that is detached keeps its groups: they go with it, by one flush.

use super::{EntryRef, LeafBits, LockedTable};
use crate::frame::FolioParts;
use crate::machine::{CONTIGUOUS_LEAVES, Entry, Format, Leaf, Machine};
use crate::sync::atomic::Ordering::*;
use crate::units::{Level, Rights};
use core::ops::Range;

/// Groups that a table may have.
const GROUPS: usize = Level::ENTRIES / CONTIGUOUS_LEAVES;

/// The slots of the group that has `slot`.
pub(super) const fn group_of(slot: usize) -> Range<usize> {
    let first = slot & !(CONTIGUOUS_LEAVES - 1);
    first..first + CONTIGUOUS_LEAVES
}

/// What the leaves of such a block have besides what they decode to.
pub(super) fn hint_of<M: Machine>(parts: &FolioParts<'_, M>) -> u64 {
    if parts.len() as usize >= CONTIGUOUS_LEAVES { M::Format::CONTIGUOUS } else { 0 }
}

impl<M: Machine> EntryRef<'_, '_, M> {
    /// Whether the entry, as the walk has read it, is one of a group of contiguous leaves.
    #[inline(always)]
    pub(crate) fn is_contiguous(&self) -> bool {
        self.table.level() == Level::Pte && M::Format::is_contiguous(self.word)
    }
}

impl<M: Machine> LockedTable<'_, M> {
    /// Whether the leaf in `slot` is one of a group.
    #[inline(always)]
    pub(crate) fn is_contiguous(&self, slot: usize) -> bool {
        M::Format::CONTIGUOUS != 0 && self.level() == Level::Pte && M::Format::is_contiguous(self.read(slot))
    }

    /// Makes leaves of their own of the groups that have any of the slots. `flush` makes every CPU forget
    /// what it has cached of the slots that it is called with, once, if there is such a group.
    #[cold]
    #[inline(never)]
    pub(crate) fn unfold(&mut self, slots: Range<usize>, flush: impl FnOnce(&Self, Range<usize>)) {
        let mut broken = [const { None }; GROUPS];
        let (mut first, mut end) = (Level::ENTRIES, 0);
        let groups =
            slots.start / CONTIGUOUS_LEAVES..slots.end.min(Level::ENTRIES).div_ceil(CONTIGUOUS_LEAVES);
        for nr in groups {
            let group = group_of(nr * CONTIGUOUS_LEAVES);
            if self.is_contiguous(group.start) {
                (first, end) = (first.min(group.start), group.end);
                broken[nr] = self.break_group(group);
            }
        }
        if first >= end {
            return;
        }
        if !mutant!("contiguous.flush-skipped") {
            flush(self, first..end);
        }
        for (nr, bits) in broken.into_iter().enumerate() {
            if let Some(bits) = bits {
                self.make_leaves(group_of(nr * CONTIGUOUS_LEAVES), bits);
            }
        }
    }

    /// Takes all rights from the leaves of a group, so that the hardware does not use them. Returns what each
    /// of them says afterwards.
    fn break_group(&mut self, group: Range<usize>) -> Option<LeafBits> {
        let mut all: Option<LeafBits> = None;
        for slot in group {
            let Entry::Leaf(leaf) = self.entry(slot) else { continue };
            let broken = Leaf { rights: Rights::empty(), ..leaf };
            let broken = M::Format::encode(Entry::Leaf(broken), Level::Pte);
            // As it was last: the hardware may have set bits. Relaxed: as `replace`.
            let last = self.table.word(slot).swap(broken, Relaxed);
            let Entry::Leaf(last) = M::Format::decode(last, Level::Pte) else { continue };
            let before = all.unwrap_or(LeafBits::of(last));
            let (accessed, dirty) = (before.accessed | last.accessed, before.dirty | last.dirty);
            let is_lost = mutant!("contiguous.used-lost");
            all = Some(if is_lost {
                LeafBits::new(last.rights)
            } else {
                LeafBits { accessed, dirty, ..before }
            });
        }
        all
    }

    fn make_leaves(&mut self, group: Range<usize>, bits: LeafBits) {
        for slot in group {
            if let Entry::Leaf(leaf) = self.entry(slot) {
                self.put(slot, Entry::Leaf(bits.leaf(leaf.pfn, leaf.kind)));
            }
        }
    }
}
