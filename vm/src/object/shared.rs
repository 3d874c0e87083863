//! Shared anonymous memory: of base pages and folios, or of huge pages of the hugetlb pool.
//!
//! What the pool has set aside for an object is counted here, and not in entries: a page that is not filled
//! yet may be filled by a fault in any space. So the pool's `reserved` is the number of entries that say so
//! and what the objects say together.

use super::PagerKey;
use super::errors::ErrorCount;
use super::page_index::{FoundPage, MAX_PAGES, PageIndex, TakenPages};
use super::views::ViewList;
use crate::frame::{FrameRef, HugetlbFolio, HugetlbReservation, HugetlbTake, Memory, PageFill, TakenSlot};
use crate::frame::{ZeroedFolio, ZeroedFrame};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::sync::{ReadGuard, SpinLock, UniqueId, lockdep};
use crate::units::{Order, PAGE_SIZE, PageSize, Pfn};
use core::fmt;
use core::num::NonZeroU64;
use core::ops::Range;

/// Shared anonymous memory. It lives while a page of it is mapped; then until a grace period.
pub(crate) struct Object<C: Cpu> {
    /// Its number, which the records of its frames name.
    number: NonZeroU64,
    /// Its length in bytes: pages that begin there or later lie beyond its end. Written with the lock held.
    pub(super) len_bytes: AtomicU64<C>,
    /// What fills its pages, if they are not zeros at first.
    pager: Option<PagerKey>,
    /// Whether its pages are written back, so that the first store to each is followed.
    is_tracked: bool,
    /// What may not happen to it any more. Written with the lock held.
    pub(super) seals: AtomicU32<C>,
    /// Counts writing back that has failed.
    errors: ErrorCount<C>,
    /// The size of its pages: not base pages where they are of the hugetlb pool.
    size: PageSize,
    /// Whether the pool has set a huge page aside for each page.
    reserves: bool,
    /// Its lock also guards which frames the index has.
    pub(super) counts: SpinLock<ObjectCounts, C, { lockdep::OBJECT.0 }>,
    index: PageIndex<C>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct ObjectCounts {
    /// Base pages that mappings cover, and one for each handle; 0: dead.
    pub mapped: u64,
    /// Where they are mapped.
    pub views: ViewList,
    /// Huge pages that the pool has set aside for pages that are not filled.
    reserved: u64,
    /// Huge pages of the pool that it has.
    filled: u64,
}

/// What the hugetlb pool has to do with one object of shared memory, in huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SharedHugetlbCounts {
    /// Those that it has, whether an entry maps them or not.
    pub filled: u64,
    /// Those that are set aside for pages which were not touched yet.
    pub reserved: u64,
}

/// All that a dead object had.
pub(super) struct LeftOver<'m, M: Machine> {
    /// What its index held.
    pub frames: TakenSlot<'m, M>,
    /// What was set aside for it.
    pub reserve: Option<HugetlbReservation<'m, M>>,
}

/// Why a page of an object cannot be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillError {
    /// The object is dead: no page of it is mapped.
    Dead,
    /// The page lies beyond its end.
    Beyond,
    /// No frame for a node.
    NoMemory,
}

impl<C: Cpu> Object<C> {
    /// An object of `pages` pages, of which `mapped` are about to be mapped, for frames of `memory` and
    /// readers of `rcu`.
    pub(super) fn new(
        number: NonZeroU64,
        (pages, mapped): (u64, u64),
        memory: UniqueId,
        rcu: UniqueId,
    ) -> Self {
        let counts = SpinLock::new(ObjectCounts { mapped, ..ObjectCounts::default() });
        let (size, reserves, index) = (PageSize::Base, false, PageIndex::new(memory, rcu));
        let len_bytes = AtomicU64::new(pages.saturating_mul(PAGE_SIZE as u64));
        let (pager, is_tracked, errors, seals) = (None, false, ErrorCount::new(), AtomicU32::new(0));
        Self { number, len_bytes, pager, is_tracked, seals, errors, size, reserves, counts, index }
    }

    /// As [`new`](Self::new), of this length: which of its pages there are, its pager says. And whether they
    /// are written back.
    pub(super) fn new_paged(
        number: NonZeroU64,
        key: PagerKey,
        (len_bytes, is_tracked): (u64, bool),
        mapped: u64,
        memory: UniqueId,
        rcu: UniqueId,
    ) -> Self {
        let len_bytes = AtomicU64::new(len_bytes.min(MAX_PAGES * PAGE_SIZE as u64));
        Self { pager: Some(key), len_bytes, is_tracked, ..Self::new(number, (0, mapped), memory, rcu) }
    }

    /// As [`new`](Self::new), of huge pages of the hugetlb pool of `size`, of which `reserved` are set aside
    /// for it: one for each page, or none.
    pub(super) fn new_hugetlb(
        number: NonZeroU64,
        (pages, mapped): (u64, u64),
        (size, reserved): (PageSize, u64),
        memory: UniqueId,
        rcu: UniqueId,
    ) -> Self {
        let counts = SpinLock::new(ObjectCounts { mapped, reserved, ..ObjectCounts::default() });
        Self { size, reserves: reserved > 0, counts, ..Self::new(number, (pages, mapped), memory, rcu) }
    }

    /// Its number.
    pub(crate) fn number(&self) -> NonZeroU64 {
        self.number
    }

    /// The name that its pager knows it by; `None`: its pages are zeros at first.
    pub(crate) fn pager_key(&self) -> Option<PagerKey> {
        self.pager
    }

    /// Whether its pages are written back: a shared mapping lets stores reach one only while it is dirty.
    #[inline]
    pub(crate) fn is_tracked(&self) -> bool {
        self.is_tracked
    }

    /// Counts writing back that has failed.
    pub(crate) fn errors(&self) -> &ErrorCount<C> {
        &self.errors
    }

    /// Which frames it has.
    pub(super) fn index(&self) -> &PageIndex<C> {
        &self.index
    }

    /// By what right a page that is not filled takes a huge page of the hugetlb pool.
    pub(crate) fn hugetlb_take(&self) -> HugetlbTake {
        if self.reserves { HugetlbTake::Reserved } else { HugetlbTake::Available }
    }

    /// What it has of the hugetlb pool; stale at once.
    pub(crate) fn hugetlb_counts(&self) -> SharedHugetlbCounts {
        let counts = self.counts.lock();
        SharedHugetlbCounts { filled: counts.filled, reserved: counts.reserved }
    }

    /// The frame that holds a page; stale at once, and returned without a reference.
    #[inline]
    pub(crate) fn lookup<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> Option<Pfn> {
        self.index.lookup(memory, page, reading)
    }

    /// What it has of a page; stale at once.
    #[inline]
    pub(crate) fn find<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> FoundPage {
        self.index.find(memory, page, reading)
    }

    /// As [`fill`](Self::fill), of a folio of the size of a huge page: `page` is the first that it is for. It
    /// stays the caller's where the object has any of these pages: what it has of the first is returned.
    ///
    /// # Errors
    /// As of that.
    pub(crate) fn fill_folio<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        page: u64,
        folio: &mut Option<ZeroedFolio<'_, M>>,
        reading: &ReadGuard<'_, C>,
    ) -> Result<FoundPage, FillError> {
        let counts = self.counts.lock();
        if counts.mapped == 0 && !mutant!("shared-thp.dead-filled") {
            return Err(FillError::Dead);
        }
        let found = self.index.find(memory, page, reading);
        if found != FoundPage::NoneOfFolio {
            return Ok(found);
        }
        if !self.has_room(page, Order::HUGE) {
            return Err(FillError::Beyond);
        }
        let slot = self.index.place(memory, (page, Order::HUGE), reading).ok_or(FillError::NoMemory)?;
        let Some(folio) = folio.take() else { return Ok(found) };
        let filled = folio.into_file((self.number.get(), page));
        let pfn = filled.pfn();
        let put = slot.put_frame(filled);
        debug_assert!(put.is_ok(), "the slot was empty under the lock");
        Ok(FoundPage::InFolio(pfn))
    }

    /// Gives each page of the folio that `page` lies in a frame with a record of its own, unless that was
    /// done. Entries that map the whole folio stay.
    ///
    /// # Errors
    /// [`FillError::Dead`].
    pub(crate) fn split_folio<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> Result<(), FillError> {
        let counts = self.counts.lock();
        if counts.mapped == 0 {
            return Err(FillError::Dead);
        }
        if let Some(slot) = self.index.slot_of_folio(memory, page, reading) {
            slot.split_folio();
        }
        Ok(())
    }

    /// Puts `frame` at `page`, unless that has a frame already: then it stays the caller's. Returns the frame
    /// that holds the page from now on; stale at once.
    ///
    /// # Errors
    /// On an error nothing changes; the frame stays the caller's.
    pub(crate) fn fill<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        page: u64,
        frame: &mut Option<ZeroedFrame<'_, M>>,
        reading: &ReadGuard<'_, C>,
    ) -> Result<Pfn, FillError> {
        self.fill_with((page, Order::BASE), (memory, reading), |owner, _| {
            Some(frame.take()?.into_file(owner))
        })
    }

    /// As [`fill`](Self::fill), of a page that the pager has filled.
    ///
    /// # Errors
    /// As of that.
    pub(crate) fn fill_from_pager<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        page: u64,
        filled: &mut Option<PageFill<'_, M>>,
        reading: &ReadGuard<'_, C>,
    ) -> Result<Pfn, FillError> {
        self.fill_with((page, Order::BASE), (memory, reading), |owner, _| {
            Some(filled.take()?.into_file(owner))
        })
    }

    /// As [`fill`](Self::fill), of a huge page of the hugetlb pool: `page` is the first that it is for.
    ///
    /// # Errors
    /// As of that.
    pub(crate) fn fill_hugetlb<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        page: u64,
        folio: &mut Option<HugetlbFolio<'_, M>>,
        reading: &ReadGuard<'_, C>,
    ) -> Result<Pfn, FillError> {
        self.fill_with((page, self.size.order()), (memory, reading), |owner, counts| {
            let folio = folio.take()?;
            counts.filled += 1;
            // One was set aside for each page that is not filled, where any was.
            if folio.take() == HugetlbTake::Reserved && !mutant!("pool.object-reserve-kept") {
                counts.reserved -= 1;
            }
            Some(folio.into_file(owner))
        })
    }

    /// Puts what `make` returns, which is told its owner, into the slot of a page, unless that has a frame.
    fn fill_with<'m, 'f, M: Machine<Cpu = C> + 'f>(
        &self,
        (page, order): (u64, Order),
        (memory, reading): (&'m Memory<'m, M>, &ReadGuard<'_, C>),
        make: impl FnOnce((u64, u64), &mut ObjectCounts) -> Option<FrameRef<'f, M>>,
    ) -> Result<Pfn, FillError> {
        let mut counts = self.counts.lock();
        if counts.mapped == 0 && !mutant!("object.dead-filled") {
            return Err(FillError::Dead);
        }
        if let Some(there) = self.index.lookup(memory, page, reading) {
            return Ok(there);
        }
        if page >= self.pages() && !mutant!("object.end-ignored") {
            return Err(FillError::Beyond);
        }
        let slot = self.index.place(memory, (page, order), reading).ok_or(FillError::NoMemory)?;
        let filled = make((self.number.get(), page), &mut counts).ok_or(FillError::NoMemory)?;
        let pfn = filled.pfn();
        let put = slot.put_frame(filled);
        debug_assert!(put.is_ok(), "the slot was empty under the lock");
        Ok(pfn)
    }

    /// The frame of a page, if it has one: of a folio, that is split.
    pub(crate) fn get_page<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> Option<FrameRef<'m, M>> {
        // No frame leaves the index meanwhile.
        let _counts = self.counts.lock();
        if let Some(slot) = self.index.slot_of_folio(memory, page, reading) {
            slot.split_folio();
        }
        memory.try_get(self.index.lookup(memory, page, reading)?)
    }

    /// Takes out what lies at the beginning of the pages, as far as one step goes: see
    /// [`PageIndex::take_first`]. (P12: a page is taken out before it is unmapped.)
    pub(crate) fn take_first<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        pages: &Range<u64>,
        leaves_writing: bool,
        reading: &ReadGuard<'_, C>,
    ) -> (TakenPages<'m, M>, u64) {
        let _counts = self.counts.lock();
        self.index.take_first(memory, pages, leaves_writing, reading)
    }

    /// Takes the frame of a page out, without the lock. No other thread fills the object meanwhile.
    #[cfg(test)]
    pub(crate) fn take_out<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> Option<crate::frame::FrameRef<'m, M>> {
        match self.index.take_first(memory, &(page..page + 1), false, reading).0 {
            TakenPages::Taken(TakenSlot::Frame(frame)) => Some(frame),
            _ => None,
        }
    }

    /// Counts `pages` fewer mapped pages; `counts` are its own, locked. Returns all that it had where the
    /// object dies.
    pub(super) fn unmapped<'m, M: Machine<Cpu = C>>(
        &self,
        counts: &mut ObjectCounts,
        memory: &'m Memory<'m, M>,
        pages: u64,
        reading: &ReadGuard<'_, C>,
    ) -> Option<LeftOver<'m, M>> {
        counts.mapped = counts.mapped.saturating_sub(pages);
        if counts.mapped > 0 {
            return None;
        }
        let reserved = core::mem::take(&mut counts.reserved);
        counts.filled = 0;
        let reserved = if mutant!("pool.object-reserve-lost") { 0 } else { reserved };
        let reserve = HugetlbReservation::counted_by_object(memory, self.size, reserved);
        Some(LeftOver { frames: self.index.take_all(memory, reading), reserve })
    }
}

impl<C: Cpu> fmt::Debug for Object<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {}", self.number)
    }
}
