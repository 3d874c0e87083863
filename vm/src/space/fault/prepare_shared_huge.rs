//! What a fault prepares for a huge page of shared memory.

use super::Fallback;
use super::prepare::{Prepared, Rare};
use crate::machine::Machine;
use crate::object::FoundPage;
use crate::space::Counter;
use crate::sync::ReadGuard;
use crate::units::{Order, Vpn};
use crate::vma::{SharedHugeUse, Vma};

impl<'v, M: Machine> Prepared<'v, M> {
    /// As [`find_backing`](Self::find_backing), of the folio that the object has for the huge page whose
    /// first page is `first`, or gets where the fault may fill. `false` where the fault makes do with a
    /// base page: the object has base pages there, or no block is to be had, or not every frame of a folio
    /// that was split can be referenced.
    ///
    /// # Errors
    /// [`Fallback::HugeUnprepared`] where a block is to be allocated before the next attempt.
    pub fn find_shared_folio(
        &mut self,
        vma: &Vma<M::Cpu>,
        (first, may): (Vpn, SharedHugeUse),
        reading: &ReadGuard<'_, M::Cpu>,
    ) -> Result<bool, Fallback> {
        let vm = self.vm;
        let object = vma.backing().and_then(|backing| vm.object(backing, reading));
        let object = object.ok_or(Fallback::VmaChanged)?;
        let offset = vma.frame_offset(first);
        let mut found = object.find(&vm.memory, offset, reading);
        if found == FoundPage::NoneOfFolio && may == SharedHugeUse::Fill {
            self.set_placement(vma, first);
            if !self.has_shared_huge()? {
                return Ok(false);
            }
            let mut folio = self.take_huge();
            let filled = object.fill_folio(&vm.memory, offset, &mut folio, reading);
            match folio {
                // Another fault was faster, or the index lacks memory: then the next attempt has it.
                Some(folio) => self.rare = Rare::Huge(folio),
                None => vm.count(Counter::ThpFileAlloc),
            }
            found = filled.map_err(Self::not_filled)?;
        }
        self.rare = match found {
            FoundPage::InFolio(pfn) => Rare::Backing(self.get_found(pfn)?),
            FoundPage::InSplitFolio(pfn) => match vm.memory.try_get_split(pfn, Order::HUGE) {
                Some(frames) => Rare::BackingFrames(frames),
                None => return Ok(false),
            },
            _ => return Ok(false),
        };
        Ok(true)
    }

    /// As [`has_huge`](Self::has_huge), for shared memory.
    fn has_shared_huge(&mut self) -> Result<bool, Fallback> {
        match self.rare {
            Rare::Huge(_) => Ok(true),
            Rare::HugeLacking => Ok(false),
            _ if self.vm.memory.may_have_block(self.placement, Order::HUGE) => {
                self.rare = Rare::SharedHugeWanted;
                Err(Fallback::HugeUnprepared)
            }
            _ => {
                self.note_lack_of_shared_huge();
                Ok(false)
            }
        }
    }

    fn note_lack_of_shared_huge(&mut self) {
        self.vm.count(Counter::ThpFileFallback);
        self.rare = Rare::HugeLacking;
    }

    /// Allocates a block for a huge page of shared memory, if the last attempt wanted one.
    pub(super) fn prepare_shared_huge(&mut self) {
        if !matches!(self.rare, Rare::SharedHugeWanted) {
            return;
        }
        match self.vm.memory.alloc_zeroed_folio_by(self.placement, Order::HUGE, self.vm.workers) {
            Some(folio) => self.rare = Rare::Huge(folio),
            None => self.note_lack_of_shared_huge(),
        }
    }
}
