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
//! that may last, or sleep: zeroing, copying, the hugetlb pool. What an attempt does with the want is in
//! [`wants`](super::wants).

use super::Fallback;
use crate::frame::{AllocRequest, AnonKey, FolioFrames, Frame, FramePlacement, FrameRef, MappedFrame};
use crate::frame::{
    HugetlbCopy, HugetlbFolio, HugetlbTake, PageFill, Priority, TableFrame, ZeroedFolio, ZeroedFrame,
};
use crate::machine::{Entry, Machine};
use crate::space::Vm;
use crate::units::{PageSize, Pfn, Vpn};
use crate::vma::{OrderSet, Vma};
use core::fmt;
use core::mem;
use core::num::NonZeroU64;

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
    /// A zeroed folio, of the largest of these orders that is free.
    Folio(Owner, OrderSet),
    /// A frame to copy into.
    Blank,
    /// The huge zero page, or the table of zeros, for the space.
    HugeZero,
    /// A hugetlb folio, by this right.
    Hugetlb(PageSize, HugetlbTake),
    /// A copy of the hugetlb folio that this page lies in.
    HugetlbCopy(PageSize, Vpn),
    /// A page of the object of that number.
    Page(NonZeroU64, u64),
    /// That such a page may be stored to.
    Store(NonZeroU64, u64),
}

/// The owner of a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The space.
    Space,
    /// An object: shared anonymous memory.
    Object,
}

/// Memory that a leaf is about to map.
pub(super) enum Fill<'v, M: Machine> {
    /// A zeroed folio.
    Own(ZeroedFolio<'v, M>),
    /// A frame that is copied into under the lock.
    Blank(Frame<'v, M>),
    /// A hugetlb folio of the space's own.
    Hugetlb(HugetlbFolio<'v, M>),
    /// A copy of a hugetlb folio.
    HugetlbCopy(HugetlbCopy<'v, M>),
    /// A page that a pager has filled, not the object's yet.
    Page(PageFill<'v, M>),
    /// An object's folio, with a reference for the entry.
    Object(FrameRef<'v, M>),
    /// An object's base frame, to be counted under the lock.
    Found(Pfn),
    /// The same, counted.
    Mapped(MappedFrame<'v, M>),
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

    /// Takes the zeroed frame, as user memory that one entry maps: that of the page of its anon key.
    #[inline(always)]
    pub fn take_frame(&mut self, key: AnonKey) -> Option<MappedFrame<'v, M>> {
        self.frame.take().map(|frame| frame.into_mapped_at(key))
    }

    /// Takes the empty table.
    pub fn take_table(&mut self) -> Option<TableFrame<'v, M>> {
        self.table.take()
    }

    /// Whether an empty table is prepared.
    pub fn has_table(&self) -> bool {
        self.table.is_some()
    }

    /// Allocates a frame to copy that of `entry` into, if a write to it may have to copy; and if the last
    /// attempt found that it has to. Takes no context of the fault: every fault would store it.
    #[cold]
    #[inline(never)]
    pub fn for_copy(&mut self, vma: &Vma<M::Cpu>, page: Vpn, entry: Entry) -> Result<(), Fallback> {
        let Entry::Leaf(leaf) = entry else { return Ok(()) };
        let may_need_copy = !leaf.owned() || self.vm.memory.meta_of(leaf.pfn).may_need_copy();
        if may_need_copy || self.wants_blank() {
            self.set_placement(vma, page);
            self.allocate_blank()?;
        }
        Ok(())
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

    /// Allocates the memory that the last attempt could not get without waiting. Called with no lock held and
    /// outside any read section. Returns whether a frame or a table lacked.
    ///
    /// # Errors
    /// There is no memory.
    pub fn wait_for_memory(&mut self) -> Result<bool, ()> {
        let vm = self.vm;
        vm.synchronize();
        let is_blank = matches!(self.slow, Slow::Wanted(Want::Blank)) || self.has_blank();
        let has_frame = if is_blank { self.has_blank() } else { self.frame.is_some() };
        let has_all = has_frame && self.table.is_some();
        if is_blank && !has_frame {
            let frame = vm.retry_after_trim(|| self.alloc_blank(Priority::Normal)).ok_or(())?;
            self.slow = Slow::Ready(Want::Blank, Fill::Blank(frame));
        }
        if !is_blank && !has_frame {
            let alloc = || vm.memory.alloc_zeroed_from(self.placement, Priority::Normal);
            self.frame = Some(vm.retry_after_trim(alloc).ok_or(())?);
        }
        if self.table.is_none() {
            self.table = Some(vm.retry_after_trim(|| vm.memory.alloc_table(Priority::Normal)).ok_or(())?);
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
