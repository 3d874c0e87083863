//! Frames and tables that a fault prepares before it takes the table's lock, and keeps for the next attempt
//! if one gives up.

use super::Fallback;
use crate::frame::{AllocRequest, Frame, FramePlacement, FrameRef, MappedFrame, Priority, TableFrame};
use crate::frame::{Birth, FolioFrames, PoolCopy, PoolFolio, PoolTake, ZeroedFolio, ZeroedFrame};
use crate::machine::{Entry, Machine};
use crate::object::{FillError, FoundPage};
use crate::space::Vm;
use crate::sync::ReadGuard;
use crate::units::{Order, PageSize, Pfn, Vpn};
use crate::vma::{OrderSet, Vma};
use core::fmt;

/// Frames and tables prepared for a fault. Those not used when the fault ends are freed.
pub struct Prepared<'v, M: Machine> {
    pub(super) vm: &'v Vm<'v, M>,
    /// Where the frame is to come from.
    pub(super) placement: FramePlacement,
    /// A zeroed frame.
    frame: Option<ZeroedFrame<'v, M>>,
    /// An empty table.
    table: Option<TableFrame<'v, M>>,
    pub(super) rare: Rare<'v, M>,
}

/// What the rarer faults prepare; no fault needs two of these at once.
pub(super) enum Rare<'v, M: Machine> {
    Nothing,
    /// A backing's frame, with a reference for the entry to be installed.
    Backing(FrameRef<'v, M>),
    /// The frames of a backing's folio that was split, with references for the huge leaf to be installed.
    BackingFrames(FolioFrames<'v, M>),
    /// The last attempt was about to copy a frame, and there was none to copy into.
    CopyWanted,
    /// A frame to be copied into.
    Copy(Frame<'v, M>),
    /// The last attempt was about to install a huge page, and there was none.
    HugeWanted,
    /// As [`HugeWanted`](Self::HugeWanted), for shared memory.
    SharedHugeWanted,
    /// A block for a huge page.
    Huge(ZeroedFolio<'v, M>),
    /// There was no block for a huge page: the fault gets a base page.
    HugeLacking,
    /// The last attempt was about to map the huge zero page, and there was none.
    HugeZeroWanted,
    /// The last attempt was about to install a block of one of these orders, and there was none.
    BlockWanted(OrderSet),
    /// A block of a size between, to be mapped by base pages.
    Block(ZeroedFolio<'v, M>),
    /// There was no block of any size between: the fault gets a base page.
    BlockLacking,
    /// The last attempt was about to install a page of the reserved pool, and none was prepared.
    PoolWanted(PageSize, PoolTake),
    /// A page of the reserved pool.
    Pool(PoolFolio<'v, M>),
    /// The reserved pool had none, by this right.
    PoolLacking(PoolTake),
    /// The last attempt was about to copy the page of the reserved pool that this page lies in.
    PoolCopyWanted(PageSize, Vpn),
    /// A copy of a page of the reserved pool.
    PoolCopy(PoolCopy<'v, M>),
}

/// Attempts run in a read section and never wait, so they leave the last frames to callers that may.
const AT_ONCE: Priority = Priority::NoWait;

impl<'v, M: Machine> Prepared<'v, M> {
    /// Nothing prepared yet.
    #[inline]
    pub fn new(vm: &'v Vm<'v, M>) -> Self {
        Self { vm, placement: FramePlacement::Local, frame: None, table: None, rare: Rare::Nothing }
    }

    /// Allocates and zeroes the frame first, which most write faults need: the stores drain while the mapping
    /// is looked up and the table walked, where the first locked instruction would otherwise wait for all of
    /// them. A frame that is not needed is freed as zeroed, and the next fault gets it as it is.
    #[inline]
    pub fn allocate_early(&mut self) {
        self.frame = self.vm.memory.alloc_zeroed(AT_ONCE);
    }

    /// Notes where the frame for a page is to come from. A frame that was prepared before and lies elsewhere
    /// is freed.
    #[inline(always)]
    pub fn set_placement(&mut self, vma: &Vma<M::Cpu>, page: Vpn) {
        if !vma.policy().is_default() && !mutant!("fault.policy-ignored") {
            self.apply_policy(vma, page);
        }
    }

    #[cold]
    fn apply_policy(&mut self, vma: &Vma<M::Cpu>, page: Vpn) {
        let placement = vma.policy().placement(vma.frame_offset(page), self.vm.populated_nodes());
        let fits = |frame: &ZeroedFrame<'_, M>| match placement {
            FramePlacement::Local => true,
            FramePlacement::Preferred(node) => frame.node() == node,
            FramePlacement::Bind(nodes) | FramePlacement::PreferredMany(nodes) => {
                nodes.contains(frame.node())
            }
        };
        // A frame that was allocated for this placement is as near as possible.
        if self.placement != placement && !self.frame.as_ref().is_none_or(fits) {
            self.frame = None;
        }
        if self.placement != placement && self.has_copy() {
            self.rare = Rare::CopyWanted;
        }
        let is_block =
            matches!(self.rare, Rare::Huge(_) | Rare::Block(_) | Rare::Pool(_) | Rare::PoolCopy(_));
        if self.placement != placement && is_block {
            self.rare = Rare::Nothing;
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
                if !matches!(self.rare, Rare::HugeLacking | Rare::BlockLacking) {
                    self.rare = Rare::Nothing;
                }
                return Err(Fallback::NoMemory);
            }
        }
        Ok(())
    }

    /// Allocates a frame to copy that of `entry` into, which is a leaf, if a write to it may have to copy;
    /// and if the last attempt found that it has to. Its contents are as they come: nothing is zeroed.
    #[cold]
    #[inline(never)]
    pub fn prepare_copy(&mut self, vma: &Vma<M::Cpu>, page: Vpn, entry: Entry) -> Result<(), Fallback> {
        let Entry::Leaf(leaf) = entry else { return Ok(()) };
        let may_need_copy = || !leaf.owned() || self.vm.memory.meta_of(leaf.pfn).may_need_copy();
        let was_wanted = matches!(self.rare, Rare::CopyWanted | Rare::Copy(_));
        if !self.has_copy() {
            // Should the record turn out to be wrong, the next attempt prepares one.
            self.rare = Rare::CopyWanted;
        }
        if !was_wanted && !may_need_copy() {
            return Ok(());
        }
        self.set_placement(vma, page);
        if !self.has_copy() {
            self.rare = Rare::Copy(self.allocate_copy(AT_ONCE).ok_or(Fallback::NoMemory)?);
        }
        Ok(())
    }

    fn allocate_copy(&self, priority: Priority) -> Option<Frame<'v, M>> {
        self.vm.memory.alloc_frame_from(self.placement, AllocRequest::DIRTY.with_priority(priority))
    }

    /// Whether there is a frame to copy into.
    pub fn has_copy(&self) -> bool {
        matches!(self.rare, Rare::Copy(_))
    }

    /// Takes the frame to copy into.
    pub fn take_copy(&mut self) -> Option<Frame<'v, M>> {
        match core::mem::replace(&mut self.rare, Rare::Nothing) {
            Rare::Copy(frame) => Some(frame),
            _ => None,
        }
    }

    /// Ends the fault: frees what was prepared and not used, which is seldom anything.
    #[inline(always)]
    pub fn finish(self) {
        let is_empty = self.frame.is_none() && self.table.is_none() && matches!(self.rare, Rare::Nothing);
        if is_empty { core::mem::forget(self) } else { drop(self) }
    }

    /// Where a page is to come from.
    pub fn placement(&self) -> FramePlacement {
        self.placement
    }

    /// Whether an empty table is prepared.
    pub fn has_table(&self) -> bool {
        self.table.is_some()
    }

    /// Allocates an empty table, unless one is prepared.
    pub fn allocate_table(&mut self) -> Result<(), Fallback> {
        if self.table.is_none() {
            self.table = Some(self.vm.memory.alloc_table(AT_ONCE).ok_or(Fallback::NoMemory)?);
        }
        Ok(())
    }

    /// Finds the backing's frame for the page, or gives it a new one, and takes a reference. Speculation may
    /// do so for a mapping that is stale: a dead object refuses, a live one gets a page of zeros that it
    /// would have got anyway.
    #[cold]
    #[inline(never)]
    pub fn find_backing(
        &mut self,
        vma: &Vma<M::Cpu>,
        page: Vpn,
        reading: &ReadGuard<'_, M::Cpu>,
    ) -> Result<(), Fallback> {
        self.rare = Rare::Nothing;
        self.set_placement(vma, page);
        let memory = &self.vm.memory;
        let backing = vma.backing().ok_or(Fallback::VmaChanged)?;
        if backing.as_given().is_some() || backing.as_pool().is_some() {
            // Present from the start, or of larger pages: the entry was put there by raw edits.
            return Err(Fallback::VmaNotSupported);
        }
        let object = self.vm.object(backing, reading).ok_or(Fallback::VmaChanged)?;
        let offset = vma.frame_offset(page);
        let pfn = match object.find(memory, offset, reading) {
            FoundPage::Frame(pfn) | FoundPage::InSplitFolio(pfn) => pfn,
            FoundPage::InFolio(pfn) => {
                object.split_folio(memory, offset, reading).map_err(Self::not_filled)?;
                pfn
            }
            FoundPage::None | FoundPage::NoneOfFolio => {
                self.allocate_frame()?;
                object.fill(memory, offset, &mut self.frame, reading).map_err(Self::not_filled)?
            }
        };
        let frame = self.get_found(pfn)?;
        // Else it is one of a folio that another fault has given the object since, or is splitting.
        if frame.order() != Order::BASE {
            return Err(Fallback::VmaChanged);
        }
        self.rare = Rare::Backing(frame);
        Ok(())
    }

    /// A reference to a frame that a backing has.
    ///
    /// # Errors
    /// [`Fallback::VmaChanged`] where it left the backing after the lookup; [`Fallback::NoMemory`] where it
    /// has as many references as can be counted.
    pub(super) fn get_found(&self, pfn: Pfn) -> Result<FrameRef<'v, M>, Fallback> {
        let memory = &self.vm.memory;
        let is_full = || memory.has_most_references(pfn);
        memory.try_get(pfn).ok_or_else(|| if is_full() { Fallback::NoMemory } else { Fallback::VmaChanged })
    }

    /// Why the attempt gives up where an object refuses a page.
    pub(super) fn not_filled(refused: FillError) -> Fallback {
        match refused {
            FillError::Dead => Fallback::VmaChanged,
            FillError::NoMemory => Fallback::NoMemory,
        }
    }

    /// Whether the prepared frame, or the first of several, is still the backing's frame for the page. Asked
    /// under the lock of the table that it is installed into.
    pub fn is_backing_current(&self, vma: &Vma<M::Cpu>, page: Vpn, reading: &ReadGuard<'_, M::Cpu>) -> bool {
        let object = vma.backing().and_then(|backing| self.vm.object(backing, reading));
        let now = object.map(|object| object.find(&self.vm.memory, vma.frame_offset(page), reading));
        let is_current = match (&self.rare, now) {
            (Rare::Backing(found), Some(now)) => now.frame() == Some(found.pfn()),
            (Rare::BackingFrames(found), Some(now)) => now == FoundPage::InSplitFolio(found.first()),
            _ => false,
        };
        is_current || mutant!("fault.backing-not-rechecked")
    }

    /// Takes the zeroed frame, as user memory that one entry maps: that of the page of its birth.
    #[inline(always)]
    pub fn take_frame(&mut self, birth: Birth) -> Option<MappedFrame<'v, M>> {
        self.frame.take().map(|frame| frame.into_mapped_at(birth))
    }

    /// Takes the backing's frame, counted as mapped by one entry more. `None` where too many entries map it.
    pub fn take_backing(&mut self) -> Option<MappedFrame<'v, M>> {
        match core::mem::replace(&mut self.rare, Rare::Nothing) {
            Rare::Backing(frame) => frame.map().ok(),
            _ => None,
        }
    }

    /// Takes the empty table.
    pub fn take_table(&mut self) -> Option<TableFrame<'v, M>> {
        self.table.take()
    }

    /// Allocates the memory that the last attempt could not get without waiting. Called with no lock held and
    /// outside any read section. Returns whether a frame or a table lacked; if neither did, the attempt
    /// lacked memory for the backing's index, which it can only take as it is.
    ///
    /// # Errors
    /// There is no memory.
    pub fn wait_for_memory(&mut self) -> Result<bool, ()> {
        let vm = self.vm;
        vm.settle();
        let is_copy = matches!(self.rare, Rare::CopyWanted | Rare::Copy(_));
        let has_frame = if is_copy { self.has_copy() } else { self.frame.is_some() };
        let has_all = has_frame && self.table.is_some();
        if is_copy && !has_frame {
            self.rare = Rare::Copy(vm.or_reclaim(|| self.allocate_copy(Priority::Normal)).ok_or(())?);
        }
        if !is_copy && !has_frame {
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
        let rare: &dyn fmt::Debug = match &self.rare {
            Rare::Backing(frame) => frame,
            Rare::BackingFrames(frames) => frames,
            Rare::Copy(frame) => frame,
            Rare::Huge(folio) | Rare::Block(folio) => folio,
            Rare::Nothing | Rare::CopyWanted => &"no other",
            Rare::HugeWanted | Rare::SharedHugeWanted | Rare::HugeZeroWanted => &"a huge page is wanted",
            Rare::HugeLacking | Rare::PoolLacking(_) => &"no huge page",
            Rare::BlockWanted(_) => &"a block is wanted",
            Rare::BlockLacking => &"no block",
            Rare::PoolWanted(..) => &"a page of the pool is wanted",
            Rare::Pool(folio) => folio,
            Rare::PoolCopyWanted(..) => &"a copy of a page of the pool is wanted",
            Rare::PoolCopy(copy) => copy,
        };
        write!(f, "prepared: frame {:?}, table {:?}, {rare:?}", self.frame, self.table)
    }
}
