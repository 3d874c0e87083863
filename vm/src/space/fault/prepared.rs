//! What a fault has prepared before it takes the table's lock, and keeps for the next attempt if one gives
//! up.
//!
//! Two things are so common that they have fields: a zeroed frame, and an empty table. Everything else is one
//! *want*, in one of four states:
//!
//! ```text
//!   Nothing ── an attempt lacks it ─► Wanted(w) ── bring, no lock held ─► Ready(w, fill) ── taken ─► Nothing
//!                                          └───────────────────────────► Lacking(w)
//! ```
//!
//! An attempt never waits: it gives up with [`Fallback::Unprepared`], and [`bring`](super::bring) does all
//! that may last, or sleep: zeroing, copying, the hugetlb pool.

use super::Fallback;
use crate::frame::{AllocRequest, Birth, FolioFrames, FolioParts, Frame, FramePlacement, FrameRef};
use crate::frame::{MappedFolio, MappedFrame, PoolCopy, PoolFolio, PoolTake, Priority, TableFrame};
use crate::frame::{ZeroedFolio, ZeroedFrame};
use crate::machine::Machine;
use crate::space::{Counter, Vm};
use crate::units::{Order, PageSize, Pfn, Vpn};
use crate::vma::{OrderSet, Vma};
use core::fmt;
use core::mem;

/// Frames and tables prepared for a fault. Those not used when the fault ends are freed.
pub struct Prepared<'v, M: Machine> {
    pub(super) vm: &'v Vm<'v, M>,
    /// Where memory is to come from.
    pub(super) placement: FramePlacement,
    /// A zeroed frame.
    pub(super) frame: Option<ZeroedFrame<'v, M>>,
    /// An empty table.
    pub(super) table: Option<TableFrame<'v, M>>,
    pub(super) slow: Slow<'v, M>,
}

/// The one thing that an attempt has lacked.
pub(super) enum Slow<'v, M: Machine> {
    /// None.
    Nothing,
    /// It is to be brought before the next attempt.
    Wanted(Want),
    /// It is there.
    Ready(Want, Fill<'v, M>),
    /// There is none: the attempt makes do without, or ends with an error.
    Lacking(Want),
}

/// What an attempt lacks, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// A zeroed block, of the largest of these orders that is free.
    Block(Owner, OrderSet),
    /// A frame to copy into.
    Blank,
    /// The huge zero page, or the table of zeros, for the space.
    HugeZero,
    /// A hugetlb folio, by this right.
    Hugetlb(PageSize, PoolTake),
    /// A copy of the hugetlb folio that this page lies in.
    HugetlbCopy(PageSize, Vpn),
    /// A page of an object.
    Page,
}

/// The owner of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The space.
    Space,
    /// An object: shared anonymous memory.
    Object,
}

/// Memory that a leaf is about to map.
pub(super) enum Fill<'v, M: Machine> {
    /// A zeroed block.
    Own(ZeroedFolio<'v, M>),
    /// A frame that is copied into under the lock.
    Blank(Frame<'v, M>),
    /// A hugetlb folio of the space's own.
    Hugetlb(PoolFolio<'v, M>),
    /// A copy of a hugetlb folio.
    HugetlbCopy(PoolCopy<'v, M>),
    /// An object's folio, with a reference for the entry.
    Object(FrameRef<'v, M>),
    /// The frames of an object's folio that was split, with a reference of each.
    ObjectFrames(FolioFrames<'v, M>),
    /// Nothing to map: what was wanted is kept elsewhere.
    Elsewhere,
}

/// Attempts run in a read section and never wait, so they leave the last frames to callers that may.
const AT_ONCE: Priority = Priority::NoWait;

impl<'v, M: Machine> Prepared<'v, M> {
    /// Nothing prepared yet.
    #[inline]
    pub fn new(vm: &'v Vm<'v, M>) -> Self {
        Self { vm, placement: FramePlacement::Local, frame: None, table: None, slow: Slow::Nothing }
    }

    /// Allocates and zeroes the frame first, which most write faults need: the stores drain while the mapping
    /// is looked up and the table walked, where the first locked instruction would otherwise wait for all of
    /// them. A frame that is not needed is freed as zeroed, and the next fault gets it as it is.
    #[inline]
    pub fn allocate_early(&mut self) {
        self.frame = self.vm.memory.alloc_zeroed(AT_ONCE);
    }

    /// Ends the fault: frees what was prepared and not used, which is seldom anything.
    #[inline(always)]
    pub fn finish(self) {
        let is_empty = self.frame.is_none() && self.table.is_none() && matches!(self.slow, Slow::Nothing);
        if is_empty { mem::forget(self) } else { drop(self) }
    }

    /// Notes where the memory for a page is to come from. What was prepared before and lies elsewhere is
    /// freed.
    #[inline(always)]
    pub fn set_placement(&mut self, vma: &Vma<M::Cpu>, page: Vpn) {
        if !vma.policy().is_default() && !mutant!("fault.policy-ignored") {
            self.apply_policy(vma, page);
        }
    }

    #[cold]
    fn apply_policy(&mut self, vma: &Vma<M::Cpu>, page: Vpn) {
        let placement = vma.policy().placement(vma.frame_offset(page), self.vm.populated_nodes());
        if self.placement == placement {
            return;
        }
        let fits = |frame: &ZeroedFrame<'_, M>| match placement {
            FramePlacement::Local => true,
            FramePlacement::Preferred(node) => frame.node() == node,
            FramePlacement::Bind(nodes) | FramePlacement::PreferredMany(nodes) => {
                nodes.contains(frame.node())
            }
        };
        if !self.frame.as_ref().is_none_or(fits) {
            self.frame = None;
        }
        match self.slow {
            Slow::Ready(_, Fill::Blank(_)) => self.slow = Slow::Wanted(Want::Blank),
            Slow::Ready(_, Fill::Own(_) | Fill::Hugetlb(_) | Fill::HugetlbCopy(_)) => {
                self.slow = Slow::Nothing
            }
            _ => {}
        }
        self.placement = placement;
    }

    /// Whether no zeroed frame is prepared.
    #[inline(always)]
    pub fn lacks_frame(&self) -> bool {
        self.frame.is_none()
    }

    /// Allocates a zeroed frame, unless one is prepared.
    #[inline(always)]
    pub fn allocate_frame(&mut self) -> Result<(), Fallback> {
        if self.frame.is_none() {
            self.frame = self.vm.memory.alloc_zeroed_from(self.placement, AT_ONCE);
            if self.frame.is_none() {
                // A zeroed frame is waited for, and no other.
                if !matches!(self.slow, Slow::Lacking(_)) {
                    self.slow = Slow::Nothing;
                }
                return Err(Fallback::NoMemory);
            }
        }
        Ok(())
    }

    /// Allocates an empty table, unless one is prepared.
    pub fn allocate_table(&mut self) -> Result<(), Fallback> {
        if self.table.is_none() {
            self.table = Some(self.vm.memory.alloc_table(AT_ONCE).ok_or(Fallback::NoMemory)?);
        }
        Ok(())
    }

    /// Takes the zeroed frame, as user memory that one entry maps: that of the page of its birth.
    #[inline(always)]
    pub fn take_frame(&mut self, birth: Birth) -> Option<MappedFrame<'v, M>> {
        self.frame.take().map(|frame| frame.into_mapped_at(birth))
    }

    /// Takes the empty table.
    pub fn take_table(&mut self) -> Option<TableFrame<'v, M>> {
        self.table.take()
    }

    /// Whether an empty table is prepared.
    pub fn has_table(&self) -> bool {
        self.table.is_some()
    }
}

/// Wants.
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

    /// As [`want`](Self::want), of a block, for the space or for an object: where no zone has one, that is
    /// said at once, without another attempt. The order of the block. One of another order is freed, as
    /// zeroed: other faults have installed something where it was to go.
    ///
    /// # Errors
    /// As of that.
    pub(super) fn want_block(&mut self, owner: Owner, orders: OrderSet) -> Result<Option<Order>, Fallback> {
        match &self.slow {
            Slow::Ready(_, Fill::Own(folio)) if orders.contains(folio.order()) => {
                return Ok(Some(folio.order()));
            }
            Slow::Lacking(Want::Block(..)) => return Ok(None),
            _ => {}
        }
        let orders = self.orders_that_may_be_free(owner, orders);
        if orders.is_empty() {
            self.slow = Slow::Lacking(Want::Block(owner, orders));
            return Ok(None);
        }
        self.slow = Slow::Wanted(Want::Block(owner, orders));
        Err(Fallback::Unprepared)
    }

    /// The orders without the largest ones of which no zone has a block, each of which is counted.
    fn orders_that_may_be_free(&self, owner: Owner, mut orders: OrderSet) -> OrderSet {
        while let Some(order) = orders.largest()
            && !self.vm.memory.may_have_block(self.placement, order)
        {
            self.vm.count_lack_of_block(owner, order);
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
            Slow::Ready(Want::Block(Owner::Object, _), _) => {
                Some([Counter::ThpFileMapped, Counter::NrShmemPmdMapped])
            }
            Slow::Ready(Want::Block(Owner::Space, _), _) => {
                Some([Counter::ThpFaultAlloc, Counter::NrAnonTransparentHugepages])
            }
            _ => None,
        }
    }

    /// Takes what is prepared, as what one leaf of any size holds. `None` where it has to be found again.
    /// Called under the lock of the leaf's table: what was reserved is used now.
    pub(super) fn take_mapped(&mut self, birth: Birth) -> Option<MappedFolio<'v, M>> {
        match self.take()? {
            Fill::Own(folio) => Some(folio.into_mapped_at(birth)),
            Fill::Hugetlb(folio) => Some(folio.into_mapped_at(birth)),
            Fill::Object(frame) => frame.map_folio().ok(),
            Fill::ObjectFrames(frames) => frames.into_mapped(),
            Fill::Blank(_) | Fill::HugetlbCopy(_) | Fill::Elsewhere => None,
        }
    }

    /// As [`take_mapped`](Self::take_mapped), of an object's frame.
    pub(super) fn take_object_frame(&mut self) -> Option<MappedFrame<'v, M>> {
        match self.take()? {
            Fill::Object(frame) => frame.map().ok(),
            _ => None,
        }
    }

    /// As [`take_mapped`](Self::take_mapped), of the frames of a block, each for a leaf of its own.
    pub(super) fn take_parts(&mut self, birth: Birth) -> Option<FolioParts<'v, M>> {
        match self.take()? {
            Fill::Own(folio) => Some(folio.into_parts_at(birth)),
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
    pub(super) fn take_copy_of(&mut self, pfn: Pfn) -> Option<PoolCopy<'v, M>> {
        let is_of = |copy: &PoolCopy<'_, M>| copy.is_of(pfn) || mutant!("pool.copy-of-another");
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

    /// Drops the reference to an object's folio that was found: it ends with the read section, as an object
    /// that ends may have the pool's only page.
    pub(super) fn forget_found(&mut self) {
        let is_found = matches!(self.slow, Slow::Ready(_, Fill::Object(_) | Fill::ObjectFrames(_)));
        if is_found && !mutant!("pool.backing-kept-between-attempts") {
            self.slow = Slow::Nothing;
        }
    }

    /// Allocates a frame to copy into, without waiting.
    ///
    /// # Errors
    /// [`Fallback::NoMemory`].
    pub(super) fn allocate_blank(&mut self) -> Result<(), Fallback> {
        if !self.has_blank() {
            self.slow = Slow::Wanted(Want::Blank);
            let frame = self.alloc_blank(AT_ONCE).ok_or(Fallback::NoMemory)?;
            self.slow = Slow::Ready(Want::Blank, Fill::Blank(frame));
        }
        Ok(())
    }

    fn alloc_blank(&self, priority: Priority) -> Option<Frame<'v, M>> {
        self.vm.memory.alloc_frame_from(self.placement, AllocRequest::DIRTY.with_priority(priority))
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

    /// Allocates the memory that the last attempt could not get without waiting. Called with no lock held and
    /// outside any read section. Returns whether a frame or a table lacked.
    ///
    /// # Errors
    /// There is no memory.
    pub fn wait_for_memory(&mut self) -> Result<bool, ()> {
        let vm = self.vm;
        vm.settle();
        let is_blank = matches!(self.slow, Slow::Wanted(Want::Blank)) || self.has_blank();
        let has_frame = if is_blank { self.has_blank() } else { self.frame.is_some() };
        let has_all = has_frame && self.table.is_some();
        if is_blank && !has_frame {
            let frame = vm.or_reclaim(|| self.alloc_blank(Priority::Normal)).ok_or(())?;
            self.slow = Slow::Ready(Want::Blank, Fill::Blank(frame));
        }
        if !is_blank && !has_frame {
            let alloc = || vm.memory.alloc_zeroed_from(self.placement, Priority::Normal);
            self.frame = Some(vm.or_reclaim(alloc).ok_or(())?);
        }
        if self.table.is_none() {
            self.table = Some(vm.or_reclaim(|| vm.memory.alloc_table(Priority::Normal)).ok_or(())?);
        }
        Ok(!has_all)
    }
}

impl<M: Machine> fmt::Debug for Prepared<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slow = match &self.slow {
            Slow::Nothing => None,
            Slow::Wanted(want) => Some(("wanted", want)),
            Slow::Ready(want, _) => Some(("ready", want)),
            Slow::Lacking(want) => Some(("lacking", want)),
        };
        write!(f, "prepared: frame {:?}, table {:?}, {slow:?}", self.frame, self.table)
    }
}
