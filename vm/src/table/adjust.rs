//! Leaves whose bits change in place, while the hardware may set some: rights, cache type, accessed, dirty.

use super::{LeafBits, LockedTable};
use crate::frame::Kind;
use crate::machine::{Entry, Format, Leaf, Machine};
use crate::sync::atomic::Ordering::*;
use crate::units::Rights;

impl<M: Machine> LockedTable<'_, M> {
    /// Changes a leaf's bits in place, while the hardware may set some. `change` is called with the leaf as
    /// it is, perhaps several times; `None` leaves it. Returns the leaf before, and whether it was changed;
    /// `None` where the slot holds no leaf, or is the platform's. A leaf never becomes writable of the zero
    /// page, or of user memory that is not *exclusive*: a write to it copies.
    ///
    /// A leaf of [PFN-mapped frames](super::PfnMapFrames) gets no right that it lacks, and keeps its
    /// cache type: what it may allow at most is known to the caller that has mapped it.
    pub fn adjust(&mut self, slot: usize, change: impl Fn(Leaf) -> Option<LeafBits>) -> Option<(Leaf, bool)> {
        self.adjust_unbounded(slot, |leaf| {
            let bits = change(leaf)?;
            let as_it_was = LeafBits { rights: bits.rights & leaf.rights, cache: leaf.cache, ..bits };
            let is_bounded = !leaf.owned() && !mutant!("table.given-leaf-raised");
            Some(if is_bounded { as_it_was } else { bits })
        })
    }

    /// As [`adjust`](Self::adjust), of a leaf whose frames, where they are PFN-mapped, allow the rights and
    /// the cache type that `change` returns.
    ///
    /// Relaxed: the leaf names the frame that [`install`](Self::install) released, and a read-modify-write
    /// continues that release; other changes of the entry are ordered by the lock.
    pub(crate) fn adjust_unbounded(
        &mut self,
        slot: usize,
        change: impl Fn(Leaf) -> Option<LeafBits>,
    ) -> Option<(Leaf, bool)> {
        if self.table.is_platforms(slot) {
            return None;
        }
        let level = self.level();
        let next = |word| {
            let Entry::Leaf(leaf) = M::Format::decode(word, level) else { return None };
            let mut bits = change(leaf)?;
            if (bits.rights - leaf.rights).contains(Rights::WRITE) && !self.may_be_writable(leaf) {
                bits.rights -= Rights::WRITE;
            }
            Some(M::Format::encode(Entry::Leaf(bits.leaf(leaf.pfn, leaf.kind)), level))
        };
        let (old, changed) = if mutant!("table.adjusted-by-store") {
            let old = self.read(slot);
            let new = next(old);
            new.into_iter().for_each(|new| self.table.word(slot).store(new, Relaxed));
            (old, new.is_some())
        } else {
            self.table
                .word(slot)
                .update(Relaxed, Relaxed, next)
                .map_or_else(|old| (old, false), |old| (old, true))
        };
        match M::Format::decode(old, level) {
            Entry::Leaf(leaf) => Some((leaf, changed)),
            _ => None,
        }
    }

    /// Whether a leaf of the frame may be writable, or become so: not of the zero page, nor of user memory
    /// that others may map too. The lock of the table is held, under which an exclusive frame stays so.
    fn may_be_writable(&self, leaf: Leaf) -> bool {
        let memory = self.table.tree.memory;
        if !leaf.owned() {
            let is_zero = leaf.by_table() && !mutant!("zero.table-made-writable");
            return !is_zero && !memory.zero_pages().is_zero_page(leaf.pfn);
        }
        let state = memory.meta_of(leaf.pfn).state();
        let is_shared = state.kind() == Kind::User && !state.is_exclusive();
        !is_shared || mutant!("table.shared-frame-made-writable")
    }
}
