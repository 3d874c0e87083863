//! What the pages of a mapping are filled from: the one place where faults tell mappings apart.
//!
//! | source | an absent page gets | sizes | P12 |
//! |---|---|---|---|
//! | `Anonymous` | zeros, or memory of the space's own | base, mTHP, 2 MiB | |
//! | `Object`, shared | the object's page | base, 2 MiB | the object has it still |
//! | `Object`, private | the same, without WRITE; a store: a copy | base | the same |
//! | `Object` of a pager | as the two before, once the pager has filled it | base | the same |
//! | the same, written back, shared | with WRITE to a store, once the page is dirty | base | it is dirty |
//! | `Hugetlb` | a folio of the pool, by its right; or the object's | 2 MiB or 1 GiB alone | the same |
//! | `Pfn` | nothing: its leaves are there from the start | | |
//!
//! A closed enum, matched in code that is not inlined into faults of anonymous base pages: these never make a
//! value of it but a constant.

use super::Fallback;
use super::attempt::FaultContext;
use super::decide::Goal;
use super::prepared::{Fill, Owner, Prepared, Want};
use super::proof::Proof;
use crate::frame::HugetlbTake;
use crate::machine::{Entry, Machine};
use crate::object::{FillError, FoundPage, Object};
use crate::space::Vm;
use crate::space::counters::Counter;
use crate::sync::ReadGuard;
use crate::table::{EntryRef, LockedTable, SlotMarker};
use crate::units::{Access, Level, Order, PageSize, Pfn};
use crate::vma::{Backing, HugetlbBacking, OrderSet, SharedHugeUse, Vma, order_of_fault};
use crate::vma::{orders_of_fault, pages_of, shared_huge_use_of_fault};

/// What the pages of a mapping are filled from, for the life of a read section.
pub(super) enum Source<'r, M: Machine> {
    /// The space's own memory.
    Anonymous,
    /// Pages of an object.
    Object(&'r Object<M::Cpu>),
    /// The hugetlb pool; with an object, that has the pages.
    Hugetlb(HugetlbBacking, Option<&'r Object<M::Cpu>>),
    /// Nothing: PFN-mapped frames.
    Pfn,
}

impl<M: Machine> Clone for Source<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Source<'_, M> {}

impl<'r, M: Machine> Source<'r, M> {
    /// The source of a mapping.
    ///
    /// # Errors
    /// [`Fallback::VmaChanged`]: its object is gone.
    pub fn of<'v: 'r>(
        vm: &'r Vm<'v, M>,
        vma: &Vma<M::Cpu>,
        reading: &'r ReadGuard<'_, M::Cpu>,
    ) -> Result<Self, Fallback> {
        let object = |id| vm.object(id, reading).ok_or(Fallback::VmaChanged);
        Ok(match vma.backing().get() {
            Backing::Anonymous => Self::Anonymous,
            Backing::Object(id) => Self::Object(object(id)?),
            Backing::Hugetlb(hugetlb) => Self::Hugetlb(hugetlb, hugetlb.object.map(object).transpose()?),
            Backing::Pfn(_) => Self::Pfn,
        })
    }

    /// The object that has the pages.
    pub fn object(self) -> Option<&'r Object<M::Cpu>> {
        match self {
            Self::Object(object) | Self::Hugetlb(_, Some(object)) => Some(object),
            _ => None,
        }
    }

    /// The object whose pages a store to this mapping makes dirty.
    #[inline]
    pub fn tracked_by(self, vma: &Vma<M::Cpu>) -> Option<&'r Object<M::Cpu>> {
        match self {
            Self::Object(object) if object.is_tracked() && !vma.is_private() => Some(object),
            _ => None,
        }
    }

    /// The object whose base pages a load may map around its own.
    #[inline]
    pub fn around(self) -> Option<&'r Object<M::Cpu>> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Whether what it gives is the space's own.
    pub fn gives_own(self) -> bool {
        matches!(self, Self::Anonymous | Self::Hugetlb(_, None))
    }

    /// Whether the entry at this level is one of the mapping's pages, and not a place for a table.
    pub fn ends_at(self, level: Level) -> bool {
        match self {
            Self::Hugetlb(hugetlb, _) => hugetlb.size.level() == level,
            _ => level == Level::Pte,
        }
    }
}

impl<'a, 's, 'v: 'a, M: Machine, P: Proof<M>> FaultContext<'a, 's, 'v, M, P> {
    /// The orders of the folio that a fault may map around its page, where nothing is mapped: pure policy of
    /// the source, the mapping and the place.
    pub(super) fn orders(&self, source: Source<'_, M>, vma: &Vma<M::Cpu>, access: Access) -> OrderSet {
        let (space, vm) = (self.space, self.space.vm);
        let thp_disable = space.mappings.thp_disable();
        match source {
            Source::Anonymous => {
                let huge = order_of_fault(vm.huge_policy, thp_disable, vma, self.page);
                let mthp = if access == Access::Write && !vm.mthp.is_never() {
                    orders_of_fault(vm.mthp, vm.huge_policy, thp_disable, vma, self.page)
                } else {
                    OrderSet::EMPTY
                };
                if huge == Order::HUGE { mthp.with(huge) } else { mthp }
            }
            Source::Object(object) if vma.is_private() || object.pager_key().is_some() => OrderSet::EMPTY,
            Source::Object(object) => {
                let first = vma.frame_offset(pages_of(Order::HUGE, self.page).start);
                match shared_huge_use_of_fault(vm.shared_huge, thp_disable, vma, self.page) {
                    SharedHugeUse::Map | SharedHugeUse::Fill if object.has_room(first, Order::HUGE) => {
                        OrderSet::EMPTY.with(Order::HUGE)
                    }
                    _ => OrderSet::EMPTY,
                }
            }
            Source::Hugetlb(hugetlb, _) => OrderSet::EMPTY.with(hugetlb.size.order()),
            Source::Pfn => OrderSet::EMPTY,
        }
    }

    /// Finds what an absent entry gets, without sleeping: it is prepared afterwards. The order of the folio;
    /// `None` where a base page is to be mapped, and a table is to be linked for it.
    ///
    /// # Errors
    /// Why not; [`Fallback::Unprepared`] where it is to be brought before the next attempt.
    pub(super) fn find(
        &self,
        source: Source<'_, M>,
        entry: &EntryRef<'_, 's, M>,
        (access, goal): (Access, Goal),
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Option<Order>, Fallback> {
        let level = entry.table.level();
        let mut orders = self.orders(source, self.vma, access);
        if goal == Goal::Pin && !matches!(source, Source::Hugetlb(..)) {
            orders = OrderSet::EMPTY;
        }
        prepared.set_placement(self.vma, self.page);
        match source {
            Source::Pfn => Err(Fallback::VmaNotSupported),
            Source::Anonymous if level == Level::Pte => {
                self.find_own(entry, orders.without(Order::HUGE), prepared)
            }
            Source::Anonymous if level == Level::Pmd && orders.contains(Order::HUGE) => {
                prepared.want_folio(Owner::Space, OrderSet::EMPTY.with(Order::HUGE))
            }
            Source::Hugetlb(hugetlb, None) => {
                let is_reserved = entry.entry() == SlotMarker::HugetlbReserved.entry();
                let right = if is_reserved { HugetlbTake::Reserved } else { HugetlbTake::Available };
                let is_there = prepared.want(Want::Hugetlb(hugetlb.size, right))?;
                if is_there { Ok(Some(hugetlb.size.order())) } else { Err(Fallback::HugetlbEmpty) }
            }
            Source::Hugetlb(hugetlb, Some(object)) => self.find_hugetlb(object, hugetlb.size, prepared),
            Source::Object(object) if level == Level::Pte => {
                let stores = access == Access::Write && source.tracked_by(self.vma).is_some();
                if stores
                    && prepared.is_refused(Want::Store(object.number(), self.vma.frame_offset(self.page)))
                {
                    return Err(Fallback::Beyond);
                }
                let is_copied = self.vma.is_private() && (access == Access::Write || goal == Goal::Pin);
                self.find_page(object, is_copied, prepared)?;
                if stores {
                    self.may_store(object, prepared)?;
                }
                Ok(Some(Order::BASE))
            }
            Source::Object(object) if level == Level::Pmd && orders.contains(Order::HUGE) => {
                self.find_folio(object, prepared)
            }
            Source::Anonymous | Source::Object(..) => Ok(None),
        }
    }

    /// A folio around the page whose entries are all absent, or a frame.
    fn find_own(
        &self,
        entry: &EntryRef<'_, 's, M>,
        mut orders: OrderSet,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Option<Order>, Fallback> {
        while let Some(order) = orders.largest() {
            let first = LockedTable::<M>::first_slot_of(entry.slot, order);
            let is_absent = |slot| entry.table.entry(slot) == Entry::Absent;
            if (first..first + order.frames() as usize).all(is_absent) {
                break;
            }
            orders = orders.without(order);
        }
        // A frame that is there was allocated for want of a block.
        if !orders.is_empty()
            && prepared.lacks_frame()
            && let Some(order) = prepared.want_folio(Owner::Space, orders)?
        {
            return Ok(Some(order));
        }
        prepared.allocate_frame()?;
        Ok(Some(Order::BASE))
    }

    /// A base page of an object. One that is to be mapped is counted under the lock, where an entry's mapping
    /// is its only read-modify-write; one that is to be copied is held by a reference.
    fn find_page(
        &self,
        object: &Object<M::Cpu>,
        is_copied: bool,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        let (memory, offset) = (&self.space.vm.memory, self.vma.frame_offset(self.page));
        if !object.has_room(offset, Order::BASE) {
            return Err(Fallback::Beyond);
        }
        let want = Want::Page(object.number(), offset);
        let pfn = match object.find(memory, offset, self.reading) {
            FoundPage::Frame(pfn) if !is_copied => {
                prepared.found(want, Fill::Found(pfn));
                return Ok(());
            }
            FoundPage::Frame(pfn) | FoundPage::InSplitFolio(pfn) => pfn,
            FoundPage::InFolio(pfn) => {
                object.split_folio(memory, offset, self.reading).map_err(not_filled)?;
                pfn
            }
            FoundPage::None | FoundPage::NoneOfFolio => self.fill_page(object, offset, prepared)?,
        };
        let frame = prepared.get_found(pfn)?;
        // Else it is one of a folio that another fault has given the object since, or is splitting.
        if frame.order() != Order::BASE {
            return Err(Fallback::VmaChanged);
        }
        prepared.found(want, Fill::Object(frame));
        Ok(())
    }

    /// Gives an object a page that it lacks: zeros, or what its pager has filled.
    fn fill_page(
        &self,
        object: &Object<M::Cpu>,
        page: u64,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Pfn, Fallback> {
        let memory = &self.space.vm.memory;
        if object.pager_key().is_none() {
            prepared.allocate_frame()?;
            return object.fill(memory, page, &mut prepared.frame, self.reading).map_err(not_filled);
        }
        let want = Want::Page(object.number(), page);
        match prepared.want(want) {
            Ok(true) => {}
            Ok(false) => return Err(Fallback::Beyond),
            Err(unprepared) => {
                // The frame that the pager fills.
                prepared.allocate_frame()?;
                return Err(unprepared);
            }
        }
        let mut filled = match prepared.take() {
            Some(Fill::Page(filled)) => Some(filled),
            _ => None,
        };
        let pfn = object.fill_from_pager(memory, page, &mut filled, self.reading);
        // Another fault was faster, or the index lacks memory: then the next attempt has it.
        filled.into_iter().for_each(|filled| prepared.found(want, Fill::Page(filled)));
        pfn.map_err(not_filled)
    }

    /// A folio of 2 MiB of an object, whole or split.
    fn find_folio(
        &self,
        object: &Object<M::Cpu>,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Option<Order>, Fallback> {
        let vm = self.space.vm;
        let (memory, first) = (&vm.memory, pages_of(Order::HUGE, self.page).start);
        let offset = self.vma.frame_offset(first);
        let use_ =
            shared_huge_use_of_fault(vm.shared_huge, self.space.mappings.thp_disable(), self.vma, self.page);
        let orders = OrderSet::EMPTY.with(Order::HUGE);
        let want = Want::Folio(Owner::Object, orders);
        let mut found = object.find(memory, offset, self.reading);
        let is_filled = use_ == SharedHugeUse::Fill;
        if found == FoundPage::NoneOfFolio && is_filled {
            if prepared.want_folio(Owner::Object, orders)?.is_none() {
                return Ok(None);
            }
            let mut folio = match prepared.take() {
                Some(Fill::Own(folio)) => Some(folio),
                _ => None,
            };
            let filled = object.fill_folio(memory, offset, &mut folio, self.reading);
            match folio {
                // Another fault was faster, or the index lacks memory: then the next attempt has it.
                Some(folio) => prepared.found(want, Fill::Own(folio)),
                None => vm.count(Counter::ThpFileAlloc),
            }
            found = filled.map_err(not_filled)?;
        }
        let fill = match found {
            FoundPage::InFolio(pfn) => Fill::Object(prepared.get_found(pfn)?),
            FoundPage::InSplitFolio(pfn) => match memory.try_get_split(pfn, Order::HUGE) {
                Some(frames) => Fill::ObjectFrames(frames),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        prepared.found(want, fill);
        Ok(Some(Order::HUGE))
    }

    /// A hugetlb folio of an object.
    fn find_hugetlb(
        &self,
        object: &Object<M::Cpu>,
        size: PageSize,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Option<Order>, Fallback> {
        let (memory, first) = (&self.space.vm.memory, pages_of(size.order(), self.page).start);
        let (offset, want) = (self.vma.frame_offset(first), Want::Hugetlb(size, object.hugetlb_take()));
        let pfn = match object.lookup(memory, offset, self.reading) {
            Some(pfn) => pfn,
            None => {
                if !prepared.want(want)? {
                    return Err(Fallback::HugetlbEmpty);
                }
                let mut folio = match prepared.take() {
                    Some(Fill::Hugetlb(folio)) => Some(folio),
                    _ => None,
                };
                let filled = object.fill_hugetlb(memory, offset, &mut folio, self.reading);
                // Another fault was faster, or the index lacks memory: then the next attempt has it.
                folio.into_iter().for_each(|folio| prepared.found(want, Fill::Hugetlb(folio)));
                filled.map_err(not_filled)?
            }
        };
        let fill = Fill::Object(prepared.get_found(pfn)?);
        prepared.found(want, fill);
        Ok(Some(size.order()))
    }
}

/// Why the attempt gives up where an object refuses a page.
fn not_filled(refused: FillError) -> Fallback {
    match refused {
        FillError::Dead => Fallback::VmaChanged,
        FillError::Beyond => Fallback::Beyond,
        FillError::NoMemory => Fallback::NoMemory,
    }
}
