//! msync.

use crate::machine::Machine;
use crate::space::{AddressSpace, Error, ObjectError, SpaceId};
use crate::units::{VirtAddr, VpnRange};
use crate::vma::{VmaAttributes, VmaFlags};
use core::ops::Deref;

/// How [`AddressSpace::sync`] goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SyncMode {
    /// Nothing is written now (MS_ASYNC): dirty pages are written some day.
    Async,
    /// Dirty pages of shared mappings are written before the call returns (MS_SYNC).
    Sync,
    /// As `Async`; copies of the object elsewhere are not to be (MS_INVALIDATE): there are none. Refused of
    /// locked memory.
    Invalidate,
    /// Both `Sync` and `Invalidate`.
    SyncInvalidate,
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Writes back what shared mappings of a range have made dirty (msync). Spaces are found by `hold`, as by
    /// [`Vm::rmap_walk`](crate::space::Vm::rmap_walk).
    ///
    /// Called as [`ObjectHandle::write_back`](crate::space::ObjectHandle::write_back).
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unaligned start; [`Error::NoMemory`] for a range that wraps, and for holes,
    /// after the rest was written; [`Error::Busy`] for locked memory an invalidating mode;
    /// [`Error::Io`] where a page could not be written; [`Error::Again`] where the pager does not answer.
    pub fn sync<S>(
        &self,
        addr: VirtAddr,
        len_bytes: u64,
        mode: SyncMode,
        hold: impl Fn(SpaceId) -> Option<S>,
    ) -> Result<(), Error>
    where
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        if !addr.is_page_aligned() {
            return Err(Error::Invalid);
        }
        let range = VpnRange::from_bytes(addr, len_bytes).ok_or(Error::NoMemory)?;
        let writes = matches!(mode, SyncMode::Sync | SyncMode::SyncInvalidate);
        let invalidates = matches!(mode, SyncMode::Invalidate | SyncMode::SyncInvalidate);
        let is_meant = |vma: &VmaAttributes| {
            if vma.flags.contains(VmaFlags::LOCKED) && invalidates {
                return Err(Error::Busy);
            }
            Ok(!vma.is_private() && writes)
        };
        self.each_shown(range, is_meant, |object, pages| {
            let written =
                self.vm.write_object_back(object.id(), pages, &hold).map_err(ObjectError::of_call)?;
            if written.failed > 0 { Err(Error::Io) } else { Ok(()) }
        })
    }
}
