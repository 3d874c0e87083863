//! Mapping pages of an object.
//!
//! ```text
//!   this space, locked to write: choose a place ─► count its pages, in a view of the object
//!                                ─► put the mapping there; refused: count them as gone
//! ```
//!
//! The request's handle keeps the object until the pages are counted, and their count from then on. So no
//! lock of another space is held, and the object may be mapped in this one already.

use super::map::Map;
use super::place::page_len;
use crate::machine::Machine;
use crate::object::Seals;
use crate::space::{Error, MapRequest, ObjectPages, Sharing, Vm};
use crate::units::VpnRange;
use crate::vma::{Backing, ObjectId, VmaAttributes, VmaFlags};

impl<M: Machine> Map<'_, '_, M> {
    /// Maps pages of an object, shared or private. The memory lives as long as a mapping or a handle of it.
    #[cold]
    #[inline(never)]
    pub(super) fn object(&self, request: &MapRequest<'_>, pages: ObjectPages<'_>) -> Result<VpnRange, Error> {
        let vm = self.mappings.vm;
        let len = page_len(request.len_bytes)?;
        if !pages.are_of(vm, len) {
            return Err(Error::Invalid);
        }
        let (guard, destination) = self.mappings.place(request)?;
        let (range, backing) = (destination.range(), Backing::Object(pages.object()));
        let writes = request.sharing == Sharing::Shared && request.flags.contains(VmaFlags::WRITE);
        // Linux: before anything is unmapped.
        if writes && vm.is_sealed(pages.object(), Seals::NO_WRITE) {
            return Err(Error::NotPermitted);
        }
        let flags = match request.sharing {
            Sharing::Private => VmaFlags::new_private(request.flags),
            Sharing::Shared => VmaFlags::new_shared(request.flags),
        };
        if let Err(error) = self.commit_private(guard.token(), flags, destination) {
            return Err(self.refuse_mapping(guard, destination, request, error));
        }
        let mut attributes = VmaAttributes::backed(range, flags, backing, pages.first());
        if let Err(error) = self.mappings.enter_object(&attributes) {
            return Err(self.refuse_mapping(guard, destination, request, error));
        }
        // Once its pages are counted, a seal that comes later finds the mapping.
        if request.sharing == Sharing::Shared && vm.is_sealed(pages.object(), Seals::NO_WRITE) {
            if writes {
                self.mappings.leave_object(&attributes);
                return Err(Error::NotPermitted);
            }
            attributes.flags -= VmaFlags::MAY_WRITE;
        }
        self.entries.note_shared_huge_pages();
        self.put(guard, destination, attributes)?;
        Ok(range)
    }
}

impl<M: Machine> Vm<'_, M> {
    /// Whether an object that the caller keeps has any of these seals.
    pub(super) fn is_sealed(&self, object: ObjectId, seals: Seals) -> bool {
        let reading = self.rcu.read();
        self.object(object, &reading).is_some_and(|object| object.is_sealed(seals))
    }
}
