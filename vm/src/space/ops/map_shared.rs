//! Mapping shared memory once more: here, or in another space.
//!
//! ```text
//!   the other space's pages, locked to read: find the mapping, raise the object's count of mapped pages
//!   this space, locked to write:             choose a place, put the mapping there
//!                                            refused: lower the count again
//! ```
//!
//! Between the two steps no lock is held and the other mapping may go; the raised count keeps the object. So
//! two spaces' locks are never held together, and the other space may be this one.

use crate::machine::Machine;
use crate::space::AddressSpace;
use crate::space::Error;
use crate::space::{MapRequest, Sharing};
use crate::units::{VirtAddr, VpnRange};
use crate::vma::{Backing, ObjectId, VmaAttributes, VmaFlags};
use core::ptr;

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Maps the shared memory that `other` maps from `from` on, as `request` says. Returns its first
    /// address. A write in either place is seen in both; the memory lives as long as a mapping of it.
    ///
    /// Locks the other space's pages to read, then this one's to write.
    ///
    /// # Errors
    /// [`Error::Invalid`] where `from` is not aligned, the request is for private memory, the spaces are of
    /// different systems, or not all of it lies in one mapping of shared memory; else as [`map`](Self::map).
    pub fn map_shared(
        &self,
        other: &AddressSpace<'v, M>,
        from: VirtAddr,
        request: &MapRequest,
    ) -> Result<VirtAddr, Error> {
        if request.sharing != Sharing::Shared || !ptr::eq(self.vm, other.vm) {
            return Err(Error::Invalid);
        }
        let pages = VpnRange::from_bytes(from, request.len_bytes).ok_or(Error::Invalid)?;
        let (backing, offset) = other.keep_shared(pages)?;
        let mapped = self.put_shared(request, backing, offset);
        if mapped.is_err() && !mutant!("map-shared.count-kept") {
            self.vm.count_unmapped(backing, pages.len());
        }
        let range = mapped?;
        if request.populate {
            let _best_effort = self.populate(range, crate::units::Access::Read);
        }
        Ok(range.start.addr())
    }

    /// The backing of the pages and the offset in it; it counts them as mapped once more.
    fn keep_shared(&self, pages: VpnRange) -> Result<(ObjectId, u64), Error> {
        let guard = self.share(pages);
        let vma =
            self.first_in(guard.held(), pages).filter(|vma| vma.range.covers(pages)).ok_or(Error::Invalid)?;
        let Backing::Object(object) = vma.backing.get() else { return Err(Error::Invalid) };
        self.vm.count_mapped(object, pages.len());
        Ok((object, vma.offset_at(pages.start)))
    }

    fn put_shared(&self, request: &MapRequest, object: ObjectId, offset: u64) -> Result<VpnRange, Error> {
        let (guard, destination) = self.place(request)?;
        let flags = VmaFlags::new_shared(request.flags);
        self.note_shared_huge_pages();
        self.put(
            guard,
            destination,
            VmaAttributes::backed(destination.range(), flags, Backing::Object(object), offset),
        )?;
        Ok(destination.range())
    }
}
