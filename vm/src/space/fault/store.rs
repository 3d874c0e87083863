//! Stores to pages of objects that are written back: such a page is dirty before an entry lets stores through
//! (docs/design/files.md).

use super::Fallback;
use super::attempt::FaultContext;
use super::prepared::{Prepared, Want};
use super::proof::Proof;
use crate::machine::Machine;
use crate::object::Object;

impl<'a, 's, 'v: 'a, M: Machine, P: Proof<M>> FaultContext<'a, 's, 'v, M, P> {
    /// Makes sure that the page of the fault may be stored to, where its object follows that: it is dirty.
    ///
    /// # Errors
    /// [`Fallback::Unprepared`] where the pager is to be asked; [`Fallback::Beyond`] where it refuses.
    pub(super) fn may_store(
        &self,
        object: &Object<M::Cpu>,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        let page = self.vma.frame_offset(self.page);
        if object.is_dirty(&self.space.vm.memory, page, self.reading) {
            return Ok(());
        }
        let want = Want::Store(object.number(), page);
        // It was made dirty, and has been written back since.
        if prepared.want(want)? {
            return Err(prepared.want_again(want));
        }
        Err(Fallback::Beyond)
    }
}
