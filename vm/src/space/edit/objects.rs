//! Objects gain the pages of mappings before these are published, and lose them after their flush.

use super::Mappings;
use crate::machine::Machine;
use crate::object::{LeavingViews, ViewPlace};
use crate::space::{Error, SpaceId};
use crate::sync::atomic::Ordering::*;
use crate::units::VpnRange;
use crate::vma::{Vma, VmaAttributes};

impl VmaAttributes {
    /// Where the mapping's object is in the space of that number.
    pub(in crate::space) fn view_place(&self, space: SpaceId) -> ViewPlace {
        ViewPlace::new(space, self.range.start, self.offset)
    }
}

impl<M: Machine> Mappings<'_, M> {
    /// Counts the pages of a mapping that is to be published, where it is of an object, which the caller
    /// keeps until then. The caller is a writer, or alone knows the space.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: nothing is counted.
    pub fn enter_object(&self, attributes: &VmaAttributes) -> Result<(), Error> {
        self.enter_object_from(None, attributes)
    }

    /// As [`enter_object`](Self::enter_object), of a mapping whose entries will be copies of those that the
    /// space `from` has.
    pub(super) fn enter_object_from(
        &self,
        from: Option<SpaceId>,
        attributes: &VmaAttributes,
    ) -> Result<(), Error> {
        let Some(object) = attributes.backing.object() else { return Ok(()) };
        let pages = attributes.offset..attributes.offset + attributes.range.len();
        let at = (attributes.view_place(self.id), pages);
        let source = from.map(|from| attributes.view_place(from));
        let count = || self.vm.count_mapped(object, at.clone(), source);
        self.vm.retry_after_trim(count).ok_or(Error::NoMemory)
    }

    /// Takes back what [`enter_object`](Self::enter_object) has counted, where the mapping was not published.
    pub fn leave_object(&self, attributes: &VmaAttributes) {
        if let Some(object) = attributes.backing.object() {
            self.vm.count_unmapped(object, attributes.view_place(self.id), attributes.range.len());
        }
    }

    /// Notes that the pages of `gone` are not mapped by this mapping any more: its object loses them once the
    /// caller, a writer, has flushed.
    #[inline(always)]
    pub(super) fn note_leaving(&self, vma: &Vma<M::Cpu>, gone: VpnRange) {
        if vma.backing().object().is_some() {
            self.note_object_leaving(&vma.attributes(), gone);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_object_leaving(&self, attributes: &VmaAttributes, gone: VpnRange) {
        let pages = gone.intersect(attributes.range);
        let Some(object) = attributes.backing.object().filter(|_| !pages.is_empty()) else { return };
        let place = attributes.view_place(self.id);
        if mutant!("object.left-before-flush") {
            return self.vm.count_unmapped(object, place, pages.len());
        }
        let before = LeavingViews(self.lock.leaving.load(Relaxed));
        let after = self.vm.note_leaving(object, (place, pages.len()), before);
        self.lock.leaving.store(after.0, Relaxed);
    }

    /// Objects lose the pages that were noted. The caller, a writer, has flushed. May wait for readers.
    #[inline(always)]
    pub fn unmap_leaving(&self) {
        let leaving = self.lock.leaving.load(Relaxed);
        if leaving != 0 {
            self.lock.leaving.store(0, Relaxed);
            self.vm.unmap_leaving(LeavingViews(leaving));
        }
    }
}
