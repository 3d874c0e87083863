//! All objects of a system, found by number.

use super::Object;
use super::pager::{PageAnswer, PageContents, PageWait, PageWaits, Pager, PagerKey};
use super::views::Views;
use crate::frame::{HugetlbReservation, Memory, PageFill, Registry};
use crate::machine::Machine;
use crate::sync::{Rcu, ReadGuard};
use crate::units::PageSize;
use core::fmt;
use core::num::NonZeroU64;

/// The objects of a system. A number names one object or, once that is dead, none.
pub(crate) struct Objects<'m, M: Machine> {
    pub(super) registry: Registry<'m, Object<M::Cpu>, M>,
    pub(super) views: Views<'m, M>,
    /// What fills the pages of the embedder's.
    pager: Option<&'m dyn Pager<M>>,
    waits: PageWaits<'m, M::Cpu>,
}

impl<'m, M: Machine> Objects<'m, M> {
    /// No objects, of frames of `memory`, for readers of `rcu`, with a pager of the embedder's objects if
    /// there are such. `None` where memory does not suffice.
    pub(crate) fn new(
        memory: &Memory<'m, M>,
        rcu: &Rcu<M::Cpu>,
        pager: Option<&'m dyn Pager<M>>,
    ) -> Option<Self> {
        let waits = PageWaits::carve(&mut memory.boot_allocator())?;
        Some(Self { registry: Registry::new(memory, rcu)?, views: Views::new(memory, rcu)?, pager, waits })
    }

    /// The pager.
    pub(crate) fn pager(&self) -> Option<&'m dyn Pager<M>> {
        self.pager
    }

    /// Whether there is a pager.
    pub(crate) fn has_pager(&self) -> bool {
        self.pager.is_some()
    }

    /// Asks the pager for a page. What to wait on where that is not ready. Called with no lock held and
    /// outside any read section.
    pub(crate) fn ask_pager(
        &self,
        key: PagerKey,
        page: u64,
        into: &mut PageFill<'_, M>,
    ) -> (PageAnswer, PageWait<'m, M::Cpu>) {
        self.ask(key, page, |pager| pager.try_page(key, page, into))
    }

    /// Asks the pager whether a page may be stored to; as [`ask_pager`](Self::ask_pager).
    pub(crate) fn ask_to_store(&self, key: PagerKey, page: u64) -> (PageAnswer, PageWait<'m, M::Cpu>) {
        self.ask(key, page, |pager| pager.try_make_writable(key, page))
    }

    /// Has the pager write a page back; as [`ask_pager`](Self::ask_pager).
    pub(crate) fn ask_to_write_back(
        &self,
        key: PagerKey,
        page: u64,
        from: &PageContents<'_, '_, M>,
    ) -> (PageAnswer, PageWait<'m, M::Cpu>) {
        self.ask(key, page, |pager| pager.write_back(key, page, from))
    }

    /// The word of a page, as it is now.
    pub(crate) fn look_at_page(&self, key: PagerKey, page: u64) -> PageWait<'m, M::Cpu> {
        self.waits.look(key, page)
    }

    fn ask(
        &self,
        key: PagerKey,
        page: u64,
        ask: impl FnOnce(&dyn Pager<M>) -> PageAnswer,
    ) -> (PageAnswer, PageWait<'m, M::Cpu>) {
        let is_late = mutant!("pager.word-looked-at-late");
        let before = self.waits.look(key, page);
        let answer = self.pager.map_or(PageAnswer::Error, ask);
        (answer, if is_late { self.waits.look(key, page) } else { before })
    }

    /// Wakes the faults that wait for a page of the embedder's object.
    pub(crate) fn page_ready(&self, key: PagerKey, page: u64) {
        self.waits.ready(key, page);
    }

    /// Makes an object of `pages` pages, of which `mapped` are about to be mapped, of a number that no other
    /// has or had. `None` where there is no memory.
    pub(crate) fn create(
        &self,
        memory: &Memory<'m, M>,
        rcu: &Rcu<M::Cpu>,
        number: NonZeroU64,
        (pages, mapped): (u64, u64),
    ) -> Option<()> {
        let object = Object::new(number, (pages, mapped), memory.id(), rcu.id());
        self.registry.insert(memory, number, object).ok().map(|_| ())
    }

    /// As [`create`](Self::create), of an object of the embedder's.
    pub(crate) fn create_paged(
        &self,
        memory: &Memory<'m, M>,
        rcu: &Rcu<M::Cpu>,
        number: NonZeroU64,
        (key, mapped): (PagerKey, u64),
    ) -> Option<()> {
        let pager = self.pager?;
        let (len_bytes, is_tracked) = (pager.size_bytes(key), pager.is_written_back(key));
        let object = Object::new_paged(number, key, (len_bytes, is_tracked), mapped, memory.id(), rcu.id());
        self.registry.insert(memory, number, object).ok().map(|_| ())
    }

    /// As [`create`](Self::create), of huge pages of the hugetlb pool of `size`; `reserve` are those that
    /// were set aside for it: one for each page, or none. They stay the caller's where there is no memory:
    /// `None`.
    pub(crate) fn create_hugetlb(
        &self,
        memory: &Memory<'m, M>,
        rcu: &Rcu<M::Cpu>,
        number: NonZeroU64,
        (size, pages, mapped): (PageSize, u64, u64),
        reserve: &mut Option<HugetlbReservation<'_, M>>,
    ) -> Option<()> {
        let nr = reserve.as_ref().map_or(0, HugetlbReservation::nr);
        let object = Object::new_hugetlb(number, (pages, mapped), (size, nr), memory.id(), rcu.id());
        self.registry.insert(memory, number, object).ok()?;
        if let Some(reserve) = reserve.take() {
            reserve.into_object();
        }
        Some(())
    }

    /// Whether there is no object. Stale at once.
    pub(crate) fn is_empty_racy(&self) -> bool {
        self.registry.is_empty_racy()
    }

    /// The object of that number, for the life of a read section. `None` where it is gone.
    #[inline]
    pub(crate) fn get<'r>(
        &'r self,
        number: NonZeroU64,
        reading: &'r ReadGuard<'_, M::Cpu>,
    ) -> Option<&'r Object<M::Cpu>> {
        self.registry.get(number, reading)
    }
}

impl<M: Machine> fmt::Debug for Objects<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "objects: {:?}", self.registry)
    }
}
