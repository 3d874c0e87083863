//! How entries are counted that map a base frame.
//!
//! All of them hold one reference together as long as the count is not 0 (`owned::frame_ref`). So an entry
//! more needs a reference only where it is the first, if what is counted is sure to be this frame: the caller
//! holds the lock of a table that maps it, or the count says that it is an object's.

use super::FrameMeta;
use super::shared_folio::{COUNT, MOST_MAPPINGS, OF_OBJECT};
use crate::machine::Cpu;
use crate::sync::atomic::Ordering::*;

impl<C: Cpu> FrameMeta<C> {
    /// Raises the mapcount. Returns the count before; `None` where it would overflow. From 0 on, the caller
    /// hands a reference of its own to all entries together.
    pub(in crate::frame) fn add_mapping(&self) -> Option<u32> {
        let more = |count: u32| {
            let fits = count & MOST_MAPPINGS == 0 || mutant!("meta.mapcount-overflows");
            fits.then(|| count.wrapping_add(1))
        };
        // Release: pairs with `add_mapping_of_object`.
        self.mapcount.update(Release, Relaxed, more).ok().map(|before| before & COUNT)
    }

    /// Notes that a frame is going to be an object's base frame, which no entry maps. The caller alone knows
    /// it.
    pub(in crate::frame) fn begin_as_objects_frame(&self) {
        self.set_mapcount(OF_OBJECT);
    }

    /// Notes that nothing is counted any more in a base frame that only the caller owns.
    pub(in crate::frame) fn end_as_frame(&self) {
        debug_assert_eq!(self.mapcount(), 0, "a frame is freed while it is mapped");
        self.set_mapcount(0);
    }

    /// Raises the mapcount of an object's base frame that entries map: they have a reference as long as it is
    /// not 0, so the caller needs none. `false`, and no change, where none maps it, the count would overflow,
    /// or it is no such frame (any more), whatever it is now.
    ///
    /// Acquire: pairs with the releases of those that counted before, each of which had a reference, or
    /// acquired from one that had. So what took the frame out of another object, before it became this one's,
    /// is seen: the caller that finds the frame in its object afterwards has counted a mapping of that.
    pub(in crate::frame) fn add_mapping_of_object(&self) -> bool {
        let more = |count: u32| {
            let is_objects = count & OF_OBJECT != 0 || mutant!("meta.any-frame-mapped-as-objects");
            let is_mapped = is_objects && count & COUNT != 0;
            (is_mapped && count & MOST_MAPPINGS == 0).then_some(count + 1)
        };
        let order = if mutant!("meta.object-mapping-counted-relaxed") { Relaxed } else { AcqRel };
        self.mapcount.update(order, Relaxed, more).is_ok()
    }

    /// Lowers the mapcount. Returns whether this was the last mapping: then the caller puts the reference
    /// that the entries held together.
    ///
    /// AcqRel: what was done through the other entries comes before the frame is freed. Pairs with itself:
    /// only the last of the mappings puts a reference.
    #[must_use]
    pub(in crate::frame) fn remove_mapping(&self) -> bool {
        let order = if mutant!("meta.mapping-removed-relaxed") { Relaxed } else { AcqRel };
        let before = self.mapcount.fetch_sub(1, order);
        debug_assert_ne!(before & COUNT, 0, "a mapping removed that was never added");
        // It was 1, whatever flags there are.
        before & (COUNT - 1) == 0
    }
}
