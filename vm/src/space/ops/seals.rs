//! Seals of an object.
//!
//! ```text
//!   seal    mappings to come are refused ─► each view: may a mapping there be written? ─► sealed, or busy
//!   mmap    the object's pages are counted, in a view ─► sealed, or looked at? refused
//! ```
//!
//! Both lock the object in between: a mapping whose pages are counted before is looked at by the walk, which
//! waits for its space's lock, and so for its being there; one that comes later is refused. A seal that
//! another call may take back is none yet: each looks for itself.

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
    /// looked for, and a call that has begun to write to the object may go on.
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
        if self.seals().contains(Seals::SEAL) {
            return Err(Error::NotPermitted);
        }
        let mut looking = None;
        if seals.contains(Seals::WRITE) {
            looking = Some(Looking::new(self).ok_or(Error::NotPermitted)?);
            let mut is_writable = false;
            let reach = vm.visit_views(object, &(0..u64::MAX), hold, |space, place, pages| {
                is_writable |= space.may_write_object((object, place), pages);
            });
            if (is_writable || reach.missing > 0) && !mutant!("seals.writable-mapping-ignored") {
                return Err(Error::Busy);
            }
        }
        let reading = vm.read();
        let is_added = vm.object(object, &reading).is_some_and(|object| object.add_seals(seals));
        drop(reading);
        drop(looking);
        if is_added { Ok(()) } else { Err(Error::NotPermitted) }
    }
}

/// A call that looks whether an object may be sealed against writing, until this is dropped.
struct Looking<'a, 'v, M: Machine> {
    handle: &'a ObjectHandle<'v, M>,
}

impl<'a, 'v, M: Machine> Looking<'a, 'v, M> {
    /// `None` where the object takes no seals any more.
    fn new(handle: &'a ObjectHandle<'v, M>) -> Option<Self> {
        let reading = handle.vm.read();
        let has_begun = handle.vm.object(handle.id(), &reading).is_some_and(|object| object.begin_look());
        has_begun.then_some(Self { handle })
    }
}

impl<M: Machine> Drop for Looking<'_, '_, M> {
    fn drop(&mut self) {
        let vm = self.handle.vm;
        if let Some(object) = vm.object(self.handle.id(), &vm.read()) {
            object.end_look();
        }
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
