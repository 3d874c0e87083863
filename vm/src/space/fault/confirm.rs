//! The questions of an edit, under the lock of the table: the one place where they are asked.
//!
//! | question | no | asked |
//! |---|---|---|
//! | attached? | `PmdChanged` | always |
//! | entry, or all entries of a folio, as seen? | `EntryBusy` | always |
//! | mapping valid? | `VmaChanged` | always |
//! | does it have all pages of the folio still? | `VmaChanged` | of more than a base page |
//! | has no fork passed the page? | `Forking` | where the space gets memory of its own |
//! | may the mapping get an identity? | `VmaChanged` | the same |
//! | does the object have the folio still (P12), dirty where that is asked? | `VmaChanged` | of an object's |
//!
//! Only the answer, [`Confirmed`], installs anything for a fault. It outlives the read section.

use super::Fallback;
use super::attempt::FaultContext;
use super::decide::Decision;
use super::prepared::{Fill, Prepared, Slow};
use super::proof::Proof;
use super::source::Source;
use crate::frame::FolioSize;
use crate::machine::Machine;
use crate::object::FoundPage;
use crate::space::AddressSpace;
use crate::table::{EntryRef, LockedTable};
use crate::units::{Access, Order, Rights, Vpn};
use crate::vma::{Vma, pages_of};

/// A slot whose table is locked, and of which all questions were answered.
pub(super) struct Confirmed<'s, 'v, M: Machine> {
    pub(super) space: &'s AddressSpace<'v, M>,
    pub(super) table: LockedTable<'s, M>,
    pub(super) slot: usize,
    /// The page that the fault is about.
    pub(super) page: Vpn,
    pub(super) access: Access,
    /// The mapping's rights.
    pub(super) rights: Rights,
}

/// Which questions an edit asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Questions {
    /// Whether the space gets memory of its own.
    pub takes_memory: bool,
    /// Whether an object's folio is mapped, or copied.
    pub of_object: bool,
}

impl Questions {
    #[inline(always)]
    pub fn of<M: Machine>(decision: Decision, source: Source<'_, M>) -> Self {
        let of_source = matches!(decision, Decision::MapSource(_) | Decision::CopySource);
        let takes_memory = match decision {
            Decision::MapFrame | Decision::ReplaceZeroPage | Decision::AllowWrite(_) => true,
            Decision::CopySource => true,
            Decision::MapZeroPage => mutant!("fault.read-waits-for-fork"),
            _ => of_source && source.gives_own(),
        };
        Self { takes_memory, of_object: of_source }
    }
}

impl<'a, 's, 'v: 'a, M: Machine, P: Proof<M>> FaultContext<'a, 's, 'v, M, P> {
    /// Locks the table of `entry` and asks the questions, for a folio of this size around the page.
    ///
    /// # Errors
    /// The first that was answered with no.
    #[inline(always)]
    pub(super) fn lock_and_confirm<S: FolioSize>(
        &self,
        entry: &EntryRef<'_, 's, M>,
        size: S,
        (source, ask): (Source<'_, M>, Questions),
        access: Access,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Confirmed<'s, 'v, M>, Fallback> {
        let Self { space, page, reading, .. } = *self;
        let table = entry.table.lock().ok_or(Fallback::PmdChanged)?;
        let is_seen = if S::IS_BASE {
            table.read(entry.slot) == entry.word
        } else {
            Self::are_seen(&table, entry, size.order())
        };
        if !is_seen && !mutant!("fault.entry-not-rechecked") {
            return Err(Fallback::EntryBusy);
        }
        let vma = self.confirm()?;
        if !S::IS_BASE
            && !core::ptr::eq(vma, self.vma)
            && !self.has_all_pages(source, vma, size.order(), access)
        {
            return Err(Fallback::VmaChanged);
        }
        if ask.takes_memory {
            let first = if S::IS_BASE { page } else { pages_of(size.order(), page).start };
            if space.entries.fork.is_behind(first) {
                return Err(Fallback::Forking);
            }
            if vma.anon().is_none() {
                space.faults().assign_anon(vma, reading).ok_or(Fallback::VmaChanged)?;
            }
        }
        if ask.of_object {
            self.confirm_object(source, (vma, access), prepared)?;
        }
        let rights = vma.rights();
        Ok(Confirmed { space, table, slot: entry.slot, page, access, rights })
    }

    /// P12, under the lock of the table: asks whether the object has the prepared folio still for the page,
    /// where it is an object's. A base frame that was found is counted first: then it is the one that the
    /// object has, or has had.
    ///
    /// # Errors
    /// [`Fallback::VmaChanged`] where it has not; [`Fallback::NoMemory`] where no more mappings can be
    /// counted.
    fn confirm_object(
        &self,
        source: Source<'_, M>,
        (vma, access): (&Vma<M::Cpu>, Access),
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        let Some(object) = source.object() else { return Ok(()) };
        if access == Access::Write && source.tracked_by(vma).is_some() {
            let page = vma.frame_offset(self.page);
            let is_dirty = object.is_dirty(&self.space.vm.memory, page, self.reading);
            if !is_dirty && !mutant!("fault.dirty-not-rechecked") {
                return Err(Fallback::VmaChanged);
            }
        }
        prepared.count_found()?;
        // What the object has of the folio that is to be mapped, if it reaches as far.
        let find = |order: Order| {
            let first = vma.frame_offset(pages_of(order, self.page).start);
            let has_room = object.has_room(first, order) || mutant!("fault.end-not-rechecked");
            has_room.then(|| object.find(&self.space.vm.memory, first, self.reading))
        };
        let is_current = match &prepared.slow {
            Slow::Ready(_, Fill::Object(frame)) => {
                find(frame.order()).and_then(FoundPage::frame) == Some(frame.pfn())
            }
            Slow::Ready(_, Fill::Mapped(frame)) => find(Order::BASE) == Some(FoundPage::Frame(frame.pfn())),
            Slow::Ready(_, Fill::ObjectFrames(frames)) => {
                find(Order::HUGE) == Some(FoundPage::InSplitFolio(frames.first()))
            }
            _ => true,
        };
        let is_current = is_current || mutant!("fault.backing-not-rechecked");
        if is_current { Ok(()) } else { Err(Fallback::VmaChanged) }
    }

    /// Whether the entries of a folio of this order, which may be several, are as seen: one as it was read,
    /// several all absent.
    fn are_seen(table: &LockedTable<'_, M>, entry: &EntryRef<'_, 's, M>, order: Order) -> bool {
        let nr = order.frames() / table.level().entry_pages();
        if nr <= 1 {
            return table.read(entry.slot) == entry.word;
        }
        table.are_absent(LockedTable::<M>::first_slot_of(entry.slot, order), nr as usize)
    }

    /// The mapping that is valid now may be another one, which says the same of the one page.
    #[cold]
    fn has_all_pages(&self, source: Source<'_, M>, vma: &Vma<M::Cpu>, order: Order, access: Access) -> bool {
        order == Order::BASE
            || self.orders(source, vma, access).contains(order)
            || mutant!("fault.region-not-rechecked")
    }
}
