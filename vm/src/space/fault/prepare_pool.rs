//! What a fault prepares for a mapping of the reserved pool.

use super::Fallback;
use super::prepare::{Prepared, Rare};
use crate::frame::{MappedFolio, PoolCopy, PoolFolio, PoolTake};
use crate::machine::Machine;
use crate::sync::ReadGuard;
use crate::units::{PageSize, Pfn, Vpn};
use crate::vma::Vma;

impl<'v, M: Machine> Prepared<'v, M> {
    /// Whether a page of the reserved pool is prepared, of this size and by this right; `false` where there
    /// is none.
    ///
    /// # Errors
    /// [`Fallback::HugeUnprepared`] where one is to be taken before the next attempt.
    pub fn has_pool_page(&mut self, size: PageSize, take: PoolTake) -> Result<bool, Fallback> {
        match &self.rare {
            Rare::Pool(folio) if (folio.size(), folio.take()) == (size, take) => Ok(true),
            Rare::PoolLacking(lacking) if *lacking == take => Ok(false),
            _ => {
                self.rare = Rare::PoolWanted(size, take);
                Err(Fallback::HugeUnprepared)
            }
        }
    }

    /// The page of the reserved pool that the last attempt lacked.
    pub fn wants_pool_page(&self) -> Option<(PageSize, PoolTake)> {
        match self.rare {
            Rare::PoolWanted(size, take) => Some((size, take)),
            _ => None,
        }
    }

    /// Notes the page of the reserved pool that was wanted, or that there is none.
    pub fn note_pool_page(&mut self, folio: Result<PoolFolio<'v, M>, PoolTake>) {
        self.rare = folio.map_or_else(Rare::PoolLacking, Rare::Pool);
    }

    /// Takes the page of the reserved pool.
    pub fn take_pool_page(&mut self) -> Option<PoolFolio<'v, M>> {
        match core::mem::replace(&mut self.rare, Rare::Nothing) {
            Rare::Pool(folio) => Some(folio),
            _ => None,
        }
    }

    /// Whether a copy is prepared of the page of the reserved pool that begins at `pfn`.
    pub fn has_pool_copy_of(&self, pfn: Pfn) -> bool {
        let is_of = |copy: &PoolCopy<'_, M>| copy.is_of(pfn) || mutant!("pool.copy-of-another");
        matches!(&self.rare, Rare::PoolCopy(copy) if is_of(copy))
    }

    /// Why there is no copy of a page of this size, which others have too. Called with no table locked.
    ///
    /// [`Fallback::HugeUnprepared`] where one is to be made before the next attempt; [`Fallback::PoolEmpty`]
    /// where the pool has no page for it.
    pub fn lack_of_pool_copy(&mut self, vma: &Vma<M::Cpu>, page: Vpn, size: PageSize) -> Fallback {
        self.set_placement(vma, page);
        if matches!(self.rare, Rare::PoolLacking(PoolTake::Available)) {
            return Fallback::PoolEmpty;
        }
        self.rare = Rare::PoolCopyWanted(size, page);
        Fallback::HugeUnprepared
    }

    /// The page of the reserved pool that the last attempt was about to copy.
    pub fn wants_pool_copy(&self) -> Option<(PageSize, Vpn)> {
        match self.rare {
            Rare::PoolCopyWanted(size, page) => Some((size, page)),
            _ => None,
        }
    }

    /// Notes the copy that was wanted.
    pub fn note_pool_copy(&mut self, copy: PoolCopy<'v, M>) {
        self.rare = Rare::PoolCopy(copy);
    }

    /// Takes the copy.
    pub fn take_pool_copy(&mut self) -> Option<PoolCopy<'v, M>> {
        match core::mem::replace(&mut self.rare, Rare::Nothing) {
            Rare::PoolCopy(copy) => Some(copy),
            _ => None,
        }
    }

    /// As [`find_backing`](Self::find_backing), of shared memory of the reserved pool: `page` is the first of
    /// a huge page.
    ///
    /// # Errors
    /// [`Fallback::HugeUnprepared`] where a huge page is to be taken from the pool before the next attempt;
    /// [`Fallback::PoolEmpty`] where there is none.
    pub fn find_pool_backing(
        &mut self,
        vma: &Vma<M::Cpu>,
        page: Vpn,
        reading: &ReadGuard<'_, M::Cpu>,
    ) -> Result<(), Fallback> {
        self.set_placement(vma, page);
        let memory = &self.vm.memory;
        let object = vma.backing().and_then(|backing| self.vm.object(backing, reading));
        let object = object.ok_or(Fallback::VmaChanged)?;
        let offset = vma.frame_offset(page);
        let pfn = match object.lookup(memory, offset, reading) {
            Some(pfn) => pfn,
            None => {
                if !self.has_pool_page(object.page_size(), object.pool_take())? {
                    return Err(Fallback::PoolEmpty);
                }
                let mut folio = self.take_pool_page();
                let filled = object.fill_from_pool(memory, offset, &mut folio, reading);
                if let Some(folio) = folio {
                    // Another fault was faster, or the index lacks memory: then the next attempt has it.
                    self.rare = Rare::Pool(folio);
                }
                filled.map_err(Self::not_filled)?
            }
        };
        self.rare = Rare::Backing(self.get_found(pfn)?);
        Ok(())
    }

    /// Drops the reference to the backing's frame that was found.
    pub fn forget_backing(&mut self) {
        if matches!(self.rare, Rare::Backing(_)) && !mutant!("pool.backing-kept-between-attempts") {
            self.rare = Rare::Nothing;
        }
    }

    /// As [`take_backing`](Self::take_backing), of a folio that a huge entry maps.
    pub fn take_backing_folio(&mut self) -> Option<MappedFolio<'v, M>> {
        match core::mem::replace(&mut self.rare, Rare::Nothing) {
            Rare::Backing(frame) => frame.map_folio().ok(),
            Rare::BackingFrames(frames) => frames.into_mapped(),
            _ => None,
        }
    }
}
