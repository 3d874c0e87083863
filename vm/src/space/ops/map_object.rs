//! Mapping pages of an object.
//!
//! ```text
//!   raise the object's count of mapped pages ─► this space, locked to write: choose a place, put the mapping
//!                                               there; refused: lower the count again
//! ```
//!
//! The request's handle keeps the object until the count is raised, and the raised count from then on. So no
//! lock of another space is held, and the object may be mapped in this one already.

use super::map::Map;
use super::place::page_len;
use crate::machine::Machine;
use crate::space::{Error, MapRequest, ObjectPages, Sharing};
use crate::units::VpnRange;
use crate::vma::{Backing, VmaAttributes, VmaFlags};

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
        vm.count_mapped(pages.object(), len);
        let mapped = self.put_object(request, pages);
        if mapped.is_err() && !mutant!("map-shared.count-kept") {
            vm.count_unmapped(pages.object(), len);
        }
        mapped
    }

    fn put_object(&self, request: &MapRequest<'_>, pages: ObjectPages<'_>) -> Result<VpnRange, Error> {
        let (guard, destination) = self.mappings.place(request)?;
        let (range, backing) = (destination.range(), Backing::Object(pages.object()));
        let flags = match request.sharing {
            Sharing::Private => VmaFlags::new_private(request.flags),
            Sharing::Shared => VmaFlags::new_shared(request.flags),
        };
        if let Err(error) = self.commit_private(guard.token(), flags, destination) {
            return Err(self.refuse_mapping(guard, destination, request, error));
        }
        self.entries.note_shared_huge_pages();
        self.put(guard, destination, VmaAttributes::backed(range, flags, backing, pages.first()))?;
        Ok(range)
    }
}
