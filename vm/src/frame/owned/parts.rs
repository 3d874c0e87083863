//! A folio of user memory that one huge entry maps.
//!
//! ```text
//!   ZeroedFolio ── into_mapped ──► MappedFolio ───── install ────► a huge leaf
//!                                      ▲                              │ unhook ──► gather: flush, put
//!                                      └── from_entry ◄── split_leaf ─┘
//!                                      │ split
//!                                      ▼
//!                                  FolioParts ──► a MappedFrame for each frame ──► the leaves of a table
//! ```
//!
//! A folio whose frames are to be mapped each by an entry of its own becomes its parts at once
//! (`into_parts_at`).
//!
//! A folio in use has the record of its first frame, and one reference for all of its entries. It is
//! *exclusive*, or several spaces have a huge entry of it, which are counted there. A user of a part
//! splits the folio before; what others have stays a huge entry, of frames that are counted one by one
//! (docs/design/huge-pages.md). Folios of the hugetlb pool, and of objects, are counted so too; the former
//! are never split, the latter by the slot of their object's index (`object_folio`).

use super::{Base, MappedFrame};
use crate::frame::record::LeafDropped;
use crate::frame::{AnonKey, FrameState, Memory, NotMappedAgain};
use crate::machine::Machine;
use crate::units::{Order, Pfn};
use core::fmt;

/// The frames of a folio that is being split, or was never mapped as one, each as what one entry of a base
/// page holds. Those that are not taken are freed when this is dropped.
pub(crate) struct FolioParts<'m, M: Machine> {
    /// Invariant: of each frame from `next` to `end` one mapping is this value's. Where there is `exclusive`,
    /// the frames belonged to an exclusive folio, and their records say nothing of them yet, but for the
    /// first frame's.
    memory: &'m Memory<'m, M>,
    first: Pfn,
    next: Pfn,
    end: Pfn,
    exclusive: Option<ExclusiveFolio>,
    /// Whether this split of a leaf has split the folio too.
    has_split_folio: bool,
}

/// What the parts of an exclusive folio have of it.
#[derive(Clone, Copy)]
pub(super) struct ExclusiveFolio {
    /// The state of its first frame.
    pub state: FrameState,
    /// Its anon key.
    pub key: Option<AnonKey>,
}

impl<'m, M: Machine> FolioParts<'m, M> {
    /// The frames of a folio, of each of which one mapping is the caller's.
    pub(super) fn new(
        memory: &'m Memory<'m, M>,
        first: Pfn,
        order: Order,
        exclusive: Option<ExclusiveFolio>,
        has_split_folio: bool,
    ) -> Self {
        Self { memory, first, next: first, end: first.add(order.frames()), exclusive, has_split_folio }
    }

    /// Number of frames that were not taken yet.
    pub fn len(&self) -> u64 {
        self.end.0 - self.next.0
    }

    /// Whether the folio was split by this, and not before: by another space that mapped it.
    pub(crate) fn has_split_folio(&self) -> bool {
        self.has_split_folio
    }
}

impl<M: Machine> Memory<'_, M> {
    /// Counts an entry more of each frame of a folio that was split and that the caller has a leaf of.
    #[cold]
    pub(super) fn map_each_again(&self, first: Pfn, order: Order) -> Result<(), NotMappedAgain> {
        for part in 0..order.frames() {
            let counted = unmodelled(part, order, || self.meta_of(first.add(part)).add_mapping());
            if counted.is_none() {
                // The caller's leaf keeps them: none of these is the last.
                (0..part).for_each(|part| self.put_mapping(first.add(part)));
                return Err(NotMappedAgain::TooManyMappings);
            }
        }
        Ok(())
    }

    /// Takes the mapping of a huge leaf of this order back, after its flush; the last one puts the reference
    /// of all.
    pub(super) fn put_leaf(&self, pfn: Pfn, order: Order) {
        match self.meta_of(pfn).drop_folio_leaf() {
            LeafDropped::Last => self.put(pfn),
            LeafDropped::Others => {}
            LeafDropped::Frames => (0..order.frames()).for_each(|part| {
                let frame = pfn.add(part);
                if unmodelled(part, order, || self.meta_of(frame).remove_mapping()) {
                    self.put(frame);
                }
            }),
        }
    }

    /// Gives each frame of a shared folio a record of its own, which counts as many entries as the folio has
    /// leaves. `false`, and no change, where that was done. The caller has a leaf of it.
    #[cold]
    pub(super) fn split_shared(&self, first: Pfn, order: Order) -> bool {
        let meta = self.meta_of(first);
        let Some(leaves) = meta.begin_folio_split() else { return false };
        let (key, folio) = (meta.anon_key(), meta.state());
        let entries = if mutant!("thp.parts-counted-once") { 1 } else { leaves };
        for part in 1..order.frames() {
            let key = key.map(|key| AnonKey { page: key.page.add(part), ..key });
            unmodelled(part, order, || self.meta_of(first.add(part)).become_part(folio, entries, key));
        }
        // Last: until then the first record speaks for all.
        meta.split_first();
        meta.end_folio_split(leaves);
        true
    }
}

impl<M: Machine> Memory<'_, M> {
    /// Makes a folio of the frames of one that was split, *exclusive*, where a huge leaf alone maps all of
    /// them, without a reference to any. The caller holds the lock of the table of that leaf. `false`,
    /// and no change but for *lazyfree*, where that is not so.
    #[cold]
    pub(crate) fn rejoin(&self, first: Pfn, order: Order) -> bool {
        let parts = 1..order.frames();
        let meta = |part| self.meta_of(first.add(part));
        let is_ours = |part| unmodelled(part, order, || meta(part).is_mapped_once());
        if !(0..order.frames()).all(is_ours) {
            return false;
        }
        let folio = meta(0).state();
        let nr_rejoined =
            parts.clone().take_while(|&part| unmodelled(part, order, || meta(part).rejoin_part()));
        let end = 1 + nr_rejoined.count() as u64;
        if end == parts.end && meta(0).rejoin_first(order) {
            return true;
        }
        let key = meta(0).anon_key();
        for part in 1..end {
            let key = key.map(|key| AnonKey { page: key.page.add(part), ..key });
            unmodelled(part, order, || meta(part).become_part(folio, 1, key));
        }
        false
    }
}

/// Calls `step`, which looks at records that others only refer to, or that no other code reads. Models look
/// at the first and last parts of a folio only: there are too many for a step each.
#[inline(always)]
pub(super) fn unmodelled<R>(part: u64, order: Order, step: impl FnOnce() -> R) -> R {
    #[cfg(loom)]
    if (2..order.frames() - 2).contains(&part) {
        return crate::sync::privately(step);
    }
    let _ = (part, order);
    step()
}

impl<'m, M: Machine> Iterator for FolioParts<'m, M> {
    type Item = MappedFrame<'m, M>;

    fn next(&mut self) -> Option<MappedFrame<'m, M>> {
        let pfn = self.next;
        if pfn >= self.end {
            return None;
        }
        self.next = pfn.add(1);
        if let Some(ExclusiveFolio { state, key }) = self.exclusive
            && pfn != self.first
        {
            let part = pfn.0 - self.first.0;
            let key = key.map(|folio| AnonKey { page: folio.page.add(part), ..folio });
            self.memory.meta_of(pfn).become_part(state, 1, key);
        }
        Some(MappedFrame::of_counted(self.memory, pfn, Base))
    }
}

impl<M: Machine> Drop for FolioParts<'_, M> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl<M: Machine> fmt::Debug for FolioParts<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frames {:?} to {:?} of a split folio", self.next, self.end)
    }
}
