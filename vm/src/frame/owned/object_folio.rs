//! A folio that is memory of an object, and its split.
//!
//! ```text
//!   ZeroedFolio ── into_file ──► FrameRef ── put_frame ──► a slot of a page index
//!                                                             │ split_folio
//!                                                             ▼
//!                                  the slot has a reference of each frame ── take ──► FolioFrames
//!                                     │ try_get_split                                    ▲   │ into_mapped
//!                                     └──────────────────────────────────────────────────┘   ▼
//!                                                                                        MappedFolio
//! ```
//!
//! As long as huge leaves alone map the folio, its first record speaks for all of its frames. What needs a
//! frame of it, a base entry or a pin, has the slot split the folio first: each frame gets a record, with
//! a reference of the slot and as many entries as the folio had leaves. The frames stay where they are,
//! and huge leaves that map them stay too (docs/design/shared-huge-pages.md).

use super::MappedFolio;
use super::parts::unmodelled;
use crate::frame::{FrameRef, Kind, Memory};
use crate::machine::Machine;
use crate::units::{Order, Pfn};
use core::fmt;
use core::mem::ManuallyDrop;

/// One reference of each frame of a folio that was split, or is being split by another thread. Dropping it
/// puts them.
pub(crate) struct FolioFrames<'m, M: Machine> {
    /// Invariant: one reference of each of as many frames as this order has, from `first` on, of `memory`, is
    /// this value's. Or the folio of this order at `first` was an object's, and its split has begun, or is
    /// about to: then that is so from its end on.
    memory: &'m Memory<'m, M>,
    first: Pfn,
    order: Order,
}

impl<M: Machine> FrameRef<'_, M> {
    /// Whether this is a folio of an object that may be split into frames.
    pub(super) fn is_splittable(&self) -> bool {
        self.memory().meta_of(self.pfn()).state().is_splittable_of_object()
    }
}

impl<'m, M: Machine> FolioFrames<'m, M> {
    /// The references of the caller, which gives them up.
    ///
    /// # Safety
    /// As the invariant says.
    pub(super) unsafe fn new(memory: &'m Memory<'m, M>, first: Pfn, order: Order) -> Self {
        Self { memory, first, order }
    }

    /// The first frame.
    pub(crate) fn first(&self) -> Pfn {
        self.first
    }

    /// What one huge leaf holds that is going to map the frames: an entry more of each. `None` where too many
    /// entries map one of them. Waits for the end of the split.
    pub(crate) fn into_mapped(self) -> Option<MappedFolio<'m, M>> {
        let frames = ManuallyDrop::new(self);
        let Self { memory, first, order } = *frames;
        memory.meta_of(first).wait_for_split();
        // Each is one of those that this value had.
        let reference = |part| FrameRef::new(memory, first.add(part));
        for part in 0..order.frames() {
            let mapped = unmodelled(part, order, || reference(part).map().map(|one| one.into_entry(memory)));
            if mapped.is_err() {
                (0..part).for_each(|part| unmodelled(part, order, || memory.put_mapping(first.add(part))));
                (part + 1..order.frames()).for_each(|part| unmodelled(part, order, || drop(reference(part))));
                return None;
            }
        }
        Some(MappedFolio::of_counted(memory, first, order))
    }
}

impl<M: Machine> Memory<'_, M> {
    /// A reference of each frame of a folio of this order that begins at `first`, is an object's, and was
    /// split. `None` where not every frame is an object's base page, now or any more, or one has too many
    /// references.
    #[cold]
    pub(crate) fn try_get_split(&self, first: Pfn, order: Order) -> Option<FolioFrames<'_, M>> {
        let is_objects = |frame: &FrameRef<'_, M>| {
            let state = self.meta_of(frame.pfn()).state();
            state.kind() == Kind::Object && state.order() == Order::BASE
        };
        for part in 0..order.frames() {
            let get = || self.try_get(first.add(part)).filter(is_objects).map(FrameRef::into_pfn);
            if unmodelled(part, order, get).is_none() {
                (0..part).for_each(|part| unmodelled(part, order, || self.put(first.add(part))));
                return None;
            }
        }
        Some(FolioFrames { memory: self, first, order })
    }

    /// Gives each frame of a folio of an object a record of its own, which counts as many entries as the
    /// folio has leaves. The reference of the caller becomes one of each frame.
    ///
    /// # Safety
    /// The caller owns a reference to the folio, of an object and not of the hugetlb pool, that begins at
    /// `first`; no other thread splits it, or has split it.
    #[cold]
    pub(super) unsafe fn split_object_folio(&self, first: Pfn) {
        let meta = self.meta_of(first);
        let (folio, (object, page)) = (meta.state(), meta.owner());
        let Some(leaves) = meta.begin_folio_split() else {
            debug_assert!(false, "{first:?} was split: {meta:?}");
            return;
        };
        let entries = if mutant!("shared-thp.parts-unmapped") { 0 } else { leaves };
        for part in 1..folio.order().frames() {
            let owner = (object, page + part);
            // Nothing else reads these records: no entry, and no index, has led to them yet, but for walkers
            // that find no user memory there.
            unmodelled(part, folio.order(), || {
                self.meta_of(first.add(part)).become_part_of_object(folio, entries, owner);
            });
        }
        // Last: until then the first record speaks for all.
        meta.split_first_of_object();
        meta.end_folio_split(leaves);
    }
}

impl<M: Machine> Drop for FolioFrames<'_, M> {
    fn drop(&mut self) {
        self.memory.meta_of(self.first).wait_for_split();
        for part in 0..self.order.frames() {
            unmodelled(part, self.order, || self.memory.put(self.first.add(part)));
        }
    }
}

impl<M: Machine> fmt::Debug for FolioFrames<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "references to the frames of {:?} at {:?}", self.order, self.first)
    }
}
