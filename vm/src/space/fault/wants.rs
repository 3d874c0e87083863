//! What an attempt asks of [`Prepared`] beyond a zeroed frame and a table: it names a [`Want`], and takes the
//! [`Fill`] that is there.

use super::Fallback;
use super::prepared::{Fill, Owner, Prepared, Slow, Want};
use crate::frame::{AnonKey, FolioParts, Frame, FrameRef, HugetlbCopy, MappedFolio, MappedFrame};
use crate::machine::Machine;
use crate::space::Counter;
use crate::units::{Order, Pfn};
use crate::vma::OrderSet;
use core::mem;

impl<'v, M: Machine> Prepared<'v, M> {
    /// Whether what is wanted is prepared; `false` where there is none.
    ///
    /// # Errors
    /// [`Fallback::Unprepared`] where it is to be brought before the next attempt.
    pub(super) fn want(&mut self, want: Want) -> Result<bool, Fallback> {
        match &self.slow {
            Slow::Ready(got, _) if *got == want => Ok(true),
            Slow::Lacking(lacked) if *lacked == want => Ok(false),
            _ => {
                self.slow = Slow::Wanted(want);
                Err(Fallback::Unprepared)
            }
        }
    }

    /// Whether the last attempt has found that there is none of what is wanted.
    pub(super) fn is_refused(&self, want: Want) -> bool {
        matches!(self.slow, Slow::Lacking(lacked) if lacked == want)
    }

    /// As [`want`](Self::want), of what was brought and is not there any more: it is to be brought again.
    #[cold]
    pub(super) fn want_again(&mut self, want: Want) -> Fallback {
        self.slow = Slow::Wanted(want);
        Fallback::Unprepared
    }

    /// As [`want`](Self::want), of a block, for the space or for an object: where no zone has one, that is
    /// said at once, without another attempt. The order of the folio. One of another order is freed, as
    /// zeroed: other faults have installed something where it was to go.
    ///
    /// # Errors
    /// As of that.
    pub(super) fn want_folio(&mut self, owner: Owner, orders: OrderSet) -> Result<Option<Order>, Fallback> {
        match &self.slow {
            Slow::Ready(_, Fill::Own(folio)) if orders.contains(folio.order()) => {
                return Ok(Some(folio.order()));
            }
            Slow::Lacking(Want::Folio(..)) => return Ok(None),
            _ => {}
        }
        let orders = self.orders_that_may_be_free(owner, orders);
        if orders.is_empty() {
            self.slow = Slow::Lacking(Want::Folio(owner, orders));
            return Ok(None);
        }
        self.slow = Slow::Wanted(Want::Folio(owner, orders));
        Err(Fallback::Unprepared)
    }

    /// The orders without the largest ones of which no zone has a block, each of which is counted.
    fn orders_that_may_be_free(&self, owner: Owner, mut orders: OrderSet) -> OrderSet {
        while let Some(order) = orders.largest()
            && !self.vm.memory.may_have_block(self.placement, order)
        {
            self.vm.count_lack_of_folio(owner, order);
            orders = orders.without(order);
            if mutant!("sizes.smaller-not-tried") {
                return OrderSet::EMPTY;
            }
        }
        orders
    }

    /// Notes that there is none of what is wanted, and counts that once.
    pub(super) fn note_lack(&mut self, want: Want) {
        if want == Want::HugeZero {
            // As Linux: the fault was one for a huge page.
            let failed = [Counter::ThpZeroPageAllocFailed, Counter::ThpFaultFallback];
            self.vm.counters.count_each(failed);
        }
        self.slow = Slow::Lacking(want);
    }

    /// Notes what an attempt has found, which waits for nothing.
    pub(super) fn found(&mut self, want: Want, fill: Fill<'v, M>) {
        self.slow = Slow::Ready(want, fill);
    }

    /// Takes what is prepared.
    pub(super) fn take(&mut self) -> Option<Fill<'v, M>> {
        match mem::replace(&mut self.slow, Slow::Nothing) {
            Slow::Ready(_, fill) => Some(fill),
            other => {
                self.slow = other;
                None
            }
        }
    }

    /// What is counted where one leaf maps what is prepared.
    pub(super) fn counted(&self) -> Option<[Counter; 2]> {
        match &self.slow {
            Slow::Ready(Want::Folio(Owner::Object, _), _) => {
                Some([Counter::ThpFileMapped, Counter::NrShmemPmdMapped])
            }
            Slow::Ready(Want::Folio(Owner::Space, _), _) => {
                Some([Counter::ThpFaultAlloc, Counter::NrAnonTransparentHugepages])
            }
            _ => None,
        }
    }

    /// Takes what is prepared, as what one leaf of any size holds. `None` where it has to be found again.
    /// Called under the lock of the leaf's table: what was reserved is used now.
    pub(super) fn take_mapped(&mut self, key: AnonKey) -> Option<MappedFolio<'v, M>> {
        match self.take()? {
            Fill::Own(folio) => Some(folio.into_mapped_at(key)),
            Fill::Hugetlb(folio) => Some(folio.into_mapped_at(key)),
            Fill::Object(frame) => frame.map_folio().ok(),
            Fill::ObjectFrames(frames) => frames.into_mapped(),
            Fill::Found(_) | Fill::Mapped(_) => None,
            Fill::Blank(_) | Fill::HugetlbCopy(_) | Fill::Page(_) | Fill::Elsewhere => None,
        }
    }

    /// As [`take_mapped`](Self::take_mapped), of a base page: an object's, or the space's own.
    pub(super) fn take_base(&mut self, key: AnonKey) -> Option<MappedFrame<'v, M>> {
        match self.take()? {
            Fill::Mapped(frame) => Some(frame),
            Fill::Object(frame) => frame.map().ok(),
            Fill::Blank(frame) => Some(frame.into_mapped_at(key)),
            _ => None,
        }
    }

    /// Takes a frame to copy into, and the object's that is to be copied.
    pub(super) fn take_copy_of_object(&mut self) -> Option<(Frame<'v, M>, FrameRef<'v, M>)> {
        let copy = self.frame.take()?;
        match self.take()? {
            Fill::Object(from) => Some((copy.into(), from)),
            _ => None,
        }
    }

    /// As [`take_mapped`](Self::take_mapped), of the frames of a folio, each for a leaf of its own.
    pub(super) fn take_parts(&mut self, key: AnonKey) -> Option<FolioParts<'v, M>> {
        match self.take()? {
            Fill::Own(folio) => Some(folio.into_parts_at(key)),
            _ => None,
        }
    }

    /// Takes the frame to copy into.
    pub(super) fn take_blank(&mut self) -> Option<Frame<'v, M>> {
        match self.take()? {
            Fill::Blank(frame) => Some(frame),
            _ => None,
        }
    }

    /// Whether there is a frame to copy into.
    pub(super) fn has_blank(&self) -> bool {
        matches!(self.slow, Slow::Ready(_, Fill::Blank(_)))
    }

    /// Whether the last attempt lacked a frame to copy into.
    pub(super) fn wants_blank(&self) -> bool {
        matches!(self.slow, Slow::Wanted(Want::Blank))
    }

    /// Notes that the next attempt is to have a frame to copy into.
    pub(super) fn want_blank_next(&mut self) {
        self.slow = Slow::Wanted(Want::Blank);
    }

    /// Takes the copy of the hugetlb folio that begins at `pfn`, if that is prepared. A copy of another goes
    /// back.
    pub(super) fn take_copy_of(&mut self, pfn: Pfn) -> Option<HugetlbCopy<'v, M>> {
        let is_of = |copy: &HugetlbCopy<'_, M>| copy.is_of(pfn) || mutant!("pool.copy-of-another");
        match &self.slow {
            Slow::Ready(Want::HugetlbCopy(..), Fill::HugetlbCopy(copy)) if is_of(copy) => {
                match self.take()? {
                    Fill::HugetlbCopy(copy) => Some(copy),
                    _ => None,
                }
            }
            Slow::Ready(Want::HugetlbCopy(..), _) => {
                self.slow = Slow::Nothing;
                None
            }
            _ => None,
        }
    }

    /// Drops the reference to an object's folio that was found, or its number: it ends with the read section,
    /// as an object that ends may have the pool's only page.
    pub(super) fn forget_found(&mut self) {
        let is_found = matches!(
            self.slow,
            Slow::Ready(_, Fill::Object(_) | Fill::Found(_) | Fill::Mapped(_) | Fill::ObjectFrames(_))
        );
        if is_found && !mutant!("pool.backing-kept-between-attempts") {
            self.slow = Slow::Nothing;
        }
    }

    /// Counts the mapping of a base frame that was found, for the entry whose table is locked.
    ///
    /// # Errors
    /// As of [`get_found`](Self::get_found).
    pub(super) fn count_found(&mut self) -> Result<(), Fallback> {
        if let Slow::Ready(want, Fill::Found(pfn)) = self.slow {
            let mapped = MappedFrame::of_object(&self.vm.memory, pfn).map_err(|_| Fallback::NoMemory)?;
            self.slow = Slow::Ready(want, Fill::Mapped(mapped.ok_or(Fallback::VmaChanged)?));
        }
        Ok(())
    }

    /// A reference to a frame that an object has.
    ///
    /// # Errors
    /// [`Fallback::VmaChanged`] where it left the object after the lookup; [`Fallback::NoMemory`] where it
    /// has as many references as can be counted.
    pub(super) fn get_found(&self, pfn: Pfn) -> Result<FrameRef<'v, M>, Fallback> {
        let memory = &self.vm.memory;
        let is_full = || memory.has_most_references(pfn);
        memory.try_get(pfn).ok_or_else(|| if is_full() { Fallback::NoMemory } else { Fallback::VmaChanged })
    }
}
