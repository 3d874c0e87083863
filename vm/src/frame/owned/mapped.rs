//! What one leaf holds of the folio that it maps: one of its mappings.

use super::folio::{Base, FolioSize, Zeroed};
use super::parts::{ExclusiveFolio, FolioParts};
use super::{Folio, UserFrame};
use crate::frame::record::FolioLeaves;
use crate::frame::{AnonKey, FrameState, Kind, Memory, NotMappedAgain};
use crate::machine::Machine;
use crate::units::{Order, Pfn};
use core::fmt;
use core::mem::ManuallyDrop;

/// What one leaf entry holds of a folio: it is counted as one of its entries, and the frames stay while it
/// is. Only a table's `install` consumes it; dropping it takes the mapping back, and the last one puts the
/// reference of all.
pub struct Mapped<'m, M: Machine, S: FolioSize = Base> {
    /// Invariant: the frames from `pfn` on, as many as this size has, are memory of `memory` in use. One
    /// frame: one of its mapcount is this value's. More: they are a folio whose record counts this value as
    /// one of its leaves; or they were one, and the record of each counts this value as one of its entries.
    memory: &'m Memory<'m, M>,
    pfn: Pfn,
    size: S,
}

/// Of one frame.
pub type MappedFrame<'m, M> = Mapped<'m, M, Base>;
/// Of a folio.
pub type MappedFolio<'m, M> = Mapped<'m, M, Order>;

impl<'m, M: Machine, S: FolioSize> Mapped<'m, M, S> {
    /// The first mapping of a folio that the caller owned, and gives up.
    #[inline(always)]
    pub(in crate::frame) fn first(
        memory: &'m Memory<'m, M>,
        (pfn, size): (Pfn, S),
        key: Option<AnonKey>,
    ) -> Self {
        let meta = memory.meta_of(pfn);
        if S::IS_BASE {
            meta.become_mapped_user(key);
        } else {
            meta.become_mapped_folio(key);
        }
        Self { memory, pfn, size }
    }

    /// The mapping of the caller, which gives it up.
    #[inline(always)]
    pub(super) fn of_counted(memory: &'m Memory<'m, M>, pfn: Pfn, size: S) -> Self {
        Self { memory, pfn, size }
    }

    /// The number of the first frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// log2 of the number of frames.
    pub fn order(&self) -> Order {
        self.size.order()
    }

    /// The size.
    #[inline(always)]
    pub(crate) fn size(&self) -> S {
        self.size
    }

    /// The frames, to be copied from.
    pub(crate) fn user_frame(&self) -> UserFrame<'_, M> {
        UserFrame::new(self.memory, self.pfn)
    }

    /// Hands the mapping to an entry of a table of `memory`, which the folio must be of.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn into_entry(self, memory: &Memory<'_, M>) -> Pfn {
        assert!(memory.is(self.memory), "a folio of another memory");
        ManuallyDrop::new(self).pfn
    }

    /// Takes the mapping back that [`into_entry`](Self::into_entry) handed to an entry.
    ///
    /// # Safety
    /// An entry of a table of `memory` owned the mapping, of this size, and was replaced by the caller under
    /// the table's lock: no other value owns the mapping.
    pub(crate) unsafe fn from_entry(memory: &'m Memory<'m, M>, pfn: Pfn, size: S) -> Self {
        Self { memory, pfn, size }
    }

    /// Splits the folio into frames, unless it was split, and gives what this value holds of each. No CPU
    /// translates through the entry any more that it was of.
    pub(crate) fn split(self) -> FolioParts<'m, M> {
        let folio = ManuallyDrop::new(self);
        let (memory, first, order) = (folio.memory, folio.pfn, folio.size.order());
        let meta = memory.meta_of(first);
        let (exclusive, has_split_folio) = if meta.state().is_exclusive() {
            let state = meta.split_first();
            let state = if mutant!("split.lazyfree-lost") { FrameState::USER_FRAME } else { state };
            (Some(ExclusiveFolio { state, key: meta.anon_key() }), true)
        } else {
            (None, memory.split_shared(first, order))
        };
        FolioParts::new(memory, first, order, exclusive, has_split_folio)
    }
}

impl<'m, M: Machine> MappedFrame<'m, M> {
    /// One mapping, for an entry, of a base frame that an object had a moment ago: by one read-modify-write
    /// where entries map it, whose reference it shares; else by two. `None` where it is no object's base
    /// frame any more. The caller asks afterwards whether the object has the frame still.
    ///
    /// # Errors
    /// A count would overflow.
    pub(crate) fn of_object(memory: &'m Memory<'m, M>, pfn: Pfn) -> Result<Option<Self>, NotMappedAgain> {
        let Some(meta) = memory.meta(pfn) else { return Ok(None) };
        if meta.add_mapping_of_object() {
            return Ok(Some(Self::of_counted(memory, pfn, Base)));
        }
        let Some(frame) = memory.try_get(pfn) else {
            let is_full = memory.has_most_references(pfn);
            return if is_full { Err(NotMappedAgain::TooManyMappings) } else { Ok(None) };
        };
        let state = meta.state();
        if state.kind() != Kind::Object || state.order() != Order::BASE {
            return Ok(None);
        }
        frame.map().map(Some).map_err(|_| NotMappedAgain::TooManyMappings)
    }
}

impl<'m, M: Machine> Folio<'m, M, Order, Zeroed> {
    /// The frames of the folio as exclusive user memory, for as many entries of a space that are going to map
    /// one each: those of the pages from the one of `key` on.
    pub(crate) fn into_parts_at(self, key: AnonKey) -> FolioParts<'m, M> {
        let (memory, first, order) = self.into_parts();
        memory.meta_of(first).become_first_part(key);
        let exclusive = Some(ExclusiveFolio { state: FrameState::USER_FRAME, key: Some(key) });
        FolioParts::new(memory, first, order, exclusive, false)
    }
}

impl<M: Machine> Memory<'_, M> {
    /// One mapping more of the frames that a leaf of this size maps. They are not *exclusive* afterwards.
    ///
    /// # Errors
    /// A mapcount would overflow; or the folio is exclusive and referenced. Nothing has changed.
    ///
    /// # Safety
    /// A leaf of this size, in a table whose lock the caller holds, owns a mapping of the frames, and stands
    /// until this returns.
    #[inline(always)]
    pub(crate) unsafe fn map_again<S: FolioSize>(
        &self,
        pfn: Pfn,
        size: S,
    ) -> Result<Mapped<'_, M, S>, NotMappedAgain> {
        if S::IS_BASE {
            // The entry is counted in the mapcount, so all entries have a reference, which the new one
            // shares.
            self.meta_of(pfn).map_again()?;
        } else {
            match self.meta_of(pfn).map_folio_again()? {
                FolioLeaves::FirstOfFolio | FolioLeaves::Folio => {}
                FolioLeaves::Frames => self.map_each_again(pfn, size.order())?,
            }
        }
        Ok(Mapped { memory: self, pfn, size })
    }

    /// Takes the mapping of a leaf of this order back, after its flush; the last one puts the reference of
    /// all.
    #[inline(always)]
    pub(super) fn put_mapped(&self, pfn: Pfn, order: Order) {
        match order {
            Order::BASE => self.put_mapping(pfn),
            order => self.put_leaf(pfn, order),
        }
    }
}

impl<M: Machine, S: FolioSize> Drop for Mapped<'_, M, S> {
    fn drop(&mut self) {
        self.memory.put_mapped(self.pfn, self.size.order());
    }
}

impl<M: Machine, S: FolioSize> fmt::Debug for Mapped<'_, M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mapping of {:?} of {:?}", self.pfn, self.size.order())
    }
}
