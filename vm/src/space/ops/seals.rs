//! Seals of an object.
//!
//! ```text
//!   seal    the seal is set ─► each view: is a mapping there that may be written?   busy: the seal goes
//! again mmap    the object's pages are counted, in a view ─► sealed? refused
//! ```
//!
//! Both lock the object in between: a mapping whose pages are counted before the seal is looked at by the
//! walk, which waits for its space's lock, and so for its being there; one that comes later sees the seal.

use crate::machine::Machine;
use crate::object::{Seals, ViewPlace};
use crate::space::{AddressSpace, Error, ObjectHandle, SpaceId};
use crate::vma::{ObjectId, VmaFlags};
use core::ops::{Deref, Range};

impl<'v, M: Machine> ObjectHandle<'v, M> {
    /// What may not happen to the object any more; others may be added at once.
    pub fn seals(&self) -> Seals {
        let reading = self.vm.read();
        self.vm.object(self.id(), &reading).map_or(Seals::empty(), |object| object.seals())
    }

    /// Adds seals. Spaces are found by `hold`, as by [`Vm::rmap_walk`](crate::space::Vm::rmap_walk). (Linux:
    /// `F_ADD_SEALS` of a file of `memfd_create`; whether its caller may write is the embedder's to ask.)
    ///
    /// Called with no lock held and outside any read section, by a caller that may have to end a space. Locks
    /// one range of one space at a time, to read. Stores of a device, to pages that are pinned still, are not
    /// looked for.
    ///
    /// # Errors
    /// [`Error::Invalid`] for unknown seals; [`Error::NotPermitted`] under [`Seals::SEAL`]; [`Error::Busy`]
    /// for [`Seals::WRITE`] while a shared mapping may be written, or a space that maps the object is not
    /// found. No seal was added.
    pub fn add_seals<S>(&self, seals: Seals, hold: impl Fn(SpaceId) -> Option<S>) -> Result<(), Error>
    where
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        if Seals::from_bits(seals.bits()).is_none() {
            return Err(Error::Invalid);
        }
        let (vm, object) = (self.vm, self.id());
        let change = |added, taken| {
            let reading = vm.read();
            vm.object(object, &reading).map_or(Seals::SEAL, |object| object.change_seals(added, taken))
        };
        if self.seals().contains(Seals::SEAL) {
            return Err(Error::NotPermitted);
        }
        if seals.contains(Seals::WRITE) && !self.seals().contains(Seals::WRITE) {
            change(Seals::WRITE, Seals::empty());
            let mut is_writable = false;
            let reach = vm.visit_views(object, &(0..u64::MAX), hold, |space, place, pages| {
                is_writable |= space.may_write_object((object, place), pages);
            });
            if (is_writable || reach.missing > 0) && !mutant!("seals.writable-mapping-ignored") {
                change(Seals::empty(), Seals::WRITE);
                return Err(Error::Busy);
            }
        }
        change(seals, Seals::empty());
        Ok(())
    }
}

impl<M: Machine> AddressSpace<'_, M> {
    /// Whether a shared mapping of one view of an object is there, or may be made, writable.
    fn may_write_object(&self, (object, place): (ObjectId, ViewPlace), pages: &Range<u64>) -> bool {
        let range = place.vpns_of(pages);
        let guard = self.mappings.read(range);
        let mut is_writable = false;
        let _no_holes = self.mappings.each_part_in(guard.token(), range, |_, vma| {
            let is_of_view = vma.backing.object() == Some(object) && vma.view_place(self.id()) == place;
            is_writable |= is_of_view && !vma.is_private() && vma.flags.contains(VmaFlags::MAY_WRITE);
            Ok::<(), core::convert::Infallible>(())
        });
        is_writable
    }
}
