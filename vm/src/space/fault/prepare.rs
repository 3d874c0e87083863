//! Frames and tables that a fault prepares before it takes the table's lock, and keeps for the next attempt
//! if one gives up.

use super::Fallback;
use crate::frame::{FramePlacement, FrameRef, MappedFrame, Priority, TableFrame, ZeroedFrame};
use crate::machine::Machine;
use crate::object::{FillError, Object};
use crate::space::Vm;
use crate::sync::ReadGuard;
use crate::units::Vpn;
use crate::vma::Vma;
use core::fmt;

/// Frames and tables prepared for a fault. Those not used when the fault ends are freed.
pub struct Prepared<'v, M: Machine> {
    vm: &'v Vm<'v, M>,
    /// Where the frame is to come from.
    placement: FramePlacement,
    /// A zeroed frame.
    frame: Option<ZeroedFrame<'v, M>>,
    /// An empty table.
    table: Option<TableFrame<'v, M>>,
    /// A backing's frame, with a reference for the entry to be installed.
    backing: Option<FrameRef<'v, M>>,
}

/// Attempts run in a read section and never wait, so they leave the last frames to callers that may.
const AT_ONCE: Priority = Priority::NoWait;

impl<'v, M: Machine> Prepared<'v, M> {
    /// Nothing prepared yet.
    #[inline]
    pub fn new(vm: &'v Vm<'v, M>) -> Self {
        Self { vm, placement: FramePlacement::Local, frame: None, table: None, backing: None }
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
        self.placement = placement;
    }

    /// Allocates a zeroed frame, unless one is prepared.
    #[inline(always)]
    pub fn allocate_frame(&mut self) -> Result<(), Fallback> {
        if self.frame.is_none() {
            let frame = self.vm.memory.alloc_zeroed_from(self.placement, AT_ONCE);
            self.frame = Some(frame.ok_or(Fallback::NoMemory)?);
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

    /// Finds the backing's frame for the page, or gives it a new one, and takes a reference. Speculation may
    /// do so for a mapping that is stale: a dead object refuses, a live one gets a page of zeros that it
    /// would have got anyway.
    pub fn find_backing(
        &mut self,
        vma: &Vma<M::Cpu>,
        page: Vpn,
        reading: &ReadGuard<'_, M::Cpu>,
    ) -> Result<(), Fallback> {
        self.backing = None;
        self.set_placement(vma, page);
        let memory = &self.vm.memory;
        let object = Object::at(memory, vma.backing().ok_or(Fallback::VmaChanged)?.0);
        let offset = vma.frame_offset(page);
        let pfn = match object.lookup(offset, reading) {
            Some(pfn) => pfn,
            None => {
                self.allocate_frame()?;
                object.fill(offset, &mut self.frame).map_err(|refused| match refused {
                    FillError::Dead => Fallback::VmaChanged,
                    FillError::NoMemory => Fallback::NoMemory,
                })?
            }
        };
        // Refused: the frame left the object after the lookup.
        self.backing = Some(memory.try_get(pfn).ok_or(Fallback::VmaChanged)?);
        Ok(())
    }

    /// Whether the prepared frame is still the backing's frame for the page. Asked under the lock of the
    /// table that it is installed into.
    pub fn is_backing_current(&self, vma: &Vma<M::Cpu>, page: Vpn, reading: &ReadGuard<'_, M::Cpu>) -> bool {
        let object = vma.backing().map(|backing| Object::at(&self.vm.memory, backing.0));
        let now = object.and_then(|object| object.lookup(vma.frame_offset(page), reading));
        mutant!("fault.backing-not-rechecked")
            || now.is_some() && now == self.backing.as_ref().map(FrameRef::pfn)
    }

    /// Takes the zeroed frame, as user memory that one entry maps.
    #[inline(always)]
    pub fn take_frame(&mut self) -> Option<MappedFrame<'v, M>> {
        self.frame.take().map(ZeroedFrame::into_mapped)
    }

    /// Takes the backing's frame, counted as mapped by one entry more. `None` where too many entries map it.
    pub fn take_backing(&mut self) -> Option<MappedFrame<'v, M>> {
        self.backing.take()?.map().ok()
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
        let memory = &self.vm.memory;
        self.vm.settle();
        let has_all = self.frame.is_some() && self.table.is_some();
        if self.frame.is_none() {
            self.frame = Some(memory.alloc_zeroed_from(self.placement, Priority::Normal).ok_or(())?);
        }
        if self.table.is_none() {
            self.table = Some(memory.alloc_table(Priority::Normal).ok_or(())?);
        }
        Ok(!has_all)
    }
}

impl<M: Machine> fmt::Debug for Prepared<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "prepared: frame {:?}, table {:?}, backing {:?}", self.frame, self.table, self.backing)
    }
}
