//! Stores to pages of objects that are written back: such a page is dirty before an entry lets stores through
//! (docs/design/files.md).

use super::Fallback;
use super::attempt::FaultContext;
use super::confirm::Questions;
use super::prepared::{Prepared, Want};
use super::proof::Proof;
use super::source::Source;
use crate::machine::Machine;
use crate::object::Object;
use crate::units::Access;

impl<'a, 's, 'v: 'a, M: Machine, P: Proof<M>> FaultContext<'a, 's, 'v, M, P> {
    /// The questions of an edit that gives a leaf its rights back: where that lets a store through which the
    /// source follows, also whether the page is dirty, which it is now.
    ///
    /// # Errors
    /// As of [`may_store`](Self::may_store).
    pub(super) fn ask_to_allow(
        &self,
        source: Source<'_, M>,
        access: Access,
        ask: Questions,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Questions, Fallback> {
        match source.tracked_by(self.vma) {
            Some(object) if access == Access::Write => {
                self.may_store(object, prepared)?;
                Ok(Questions { of_object: true, ..ask })
            }
            _ => Ok(ask),
        }
    }

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
