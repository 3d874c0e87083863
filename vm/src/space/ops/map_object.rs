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
    /// Maps pages of an object. The memory lives as long as a mapping or a handle of it.
    #[cold]
    #[inline(never)]
    pub(super) fn object(&self, request: &MapRequest<'_>, pages: ObjectPages<'_>) -> Result<VpnRange, Error> {
        let vm = self.mappings.vm;
        let len = page_len(request.len_bytes)?;
        // Private mappings of objects copy pages when they are stored to, which faults do not offer yet.
        if request.sharing != Sharing::Shared || !pages.are_in(vm, len) {
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
        let (range, flags) = (destination.range(), VmaFlags::new_shared(request.flags));
        let backing = Backing::Object(pages.object());
        self.entries.note_shared_huge_pages();
        self.put(guard, destination, VmaAttributes::backed(range, flags, backing, pages.first()))?;
        Ok(range)
    }
}
