//! The objects that mappings of a range show, one after the other: for calls about their pages.

use crate::machine::Machine;
use crate::space::{AddressSpace, Error, ObjectHandle};
use crate::units::VpnRange;
use crate::vma::VmaAttributes;
use core::ops::Range;

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Calls `visit` for each mapping of the range of which `is_meant`: with its object, and the pages of
    /// that which the range shows. The range is locked, to read, while `is_meant` is asked; nothing is
    /// while `visit` goes on, and the object stays, whatever becomes of the mapping.
    ///
    /// # Errors
    /// What these two refuse, which ends the call; [`Error::NoMemory`] at the end, where there were holes.
    pub(super) fn each_shown(
        &self,
        range: VpnRange,
        is_meant: impl Fn(&VmaAttributes) -> Result<bool, Error>,
        mut visit: impl FnMut(&ObjectHandle<'v, M>, Range<u64>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut rest, mut has_holes) = (range, false);
        while !rest.is_empty() {
            let guard = self.mappings.read(rest);
            let Some(vma) = self.mappings.first_in(guard.token(), rest) else { return Err(Error::NoMemory) };
            let part = rest.intersect(vma.range);
            has_holes |= part.start > rest.start;
            let object = vma.backing.object();
            let meant =
                if is_meant(&vma)? { object.map(|object| ObjectHandle::hold(self.vm, object)) } else { None };
            drop(guard);
            if let Some(object) = meant {
                let first = vma.offset_at(part.start);
                visit(&object, first..first + part.len())?;
            }
            rest.start = part.end;
        }
        if has_holes { Err(Error::NoMemory) } else { Ok(()) }
    }
}
