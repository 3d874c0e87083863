//! Frames and tables that a fault prepares before it takes the table's lock, and keeps for the next attempt
//! if one gives up.

use super::Fallback;
use crate::frame::{AllocRequest, FramePlacement, Init, Kind, Priority};
use crate::machine::Machine;
use crate::object::{FillError, Object};
use crate::space::Vm;
use crate::sync::ReadGuard;
use crate::units::{Pfn, Vpn};
use crate::vma::Vma;
use core::fmt;

/// Frames and tables prepared for a fault. Those not used when the fault ends are freed.
pub struct Prepared<'v, M: Machine> {
    vm: &'v Vm<'v, M>,
    /// Where the frame is to come from.
    placement: FramePlacement,
    /// A zeroed frame, referenced only here.
    frame: Option<Pfn>,
    /// An empty table.
    table: Option<Pfn>,
    /// A backing's frame, with a reference for the entry to be installed.
    backing: Option<Pfn>,
}

/// An allocation that does not wait. Attempts run in a read section and never wait, so they leave the last
/// frames to callers that may.
const AT_ONCE: AllocRequest = AllocRequest::ZEROED.with_priority(Priority::NoWait);

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
        self.frame = self.vm.memory.alloc_frame(AT_ONCE);
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
        let memory = &self.vm.memory;
        let placement = vma.policy().placement(vma.frame_offset(page), self.vm.populated_nodes());
        let fits = |pfn: &Pfn| match placement {
            FramePlacement::Local => true,
            FramePlacement::Preferred(node) => memory.node_of(*pfn) == node,
            FramePlacement::Bind(nodes) | FramePlacement::PreferredMany(nodes) => {
                nodes.contains(memory.node_of(*pfn))
            }
        };
        // A frame that was allocated for this placement is as near as possible.
        if self.placement != placement && !self.frame.as_ref().is_none_or(fits) {
            self.frame.take().into_iter().for_each(|pfn| memory.free_frame_as(pfn, Init::Zeroed));
        }
        self.placement = placement;
    }

    /// Allocates a zeroed frame, unless one is prepared.
    #[inline(always)]
    pub fn allocate_frame(&mut self) -> Result<(), Fallback> {
        if self.frame.is_none() {
            let frame = self.vm.memory.alloc_frame_from(self.placement, AT_ONCE);
            self.frame = Some(frame.ok_or(Fallback::NoMemory)?);
        }
        Ok(())
    }

    /// Allocates an empty table, unless one is prepared.
    pub fn allocate_table(&mut self) -> Result<(), Fallback> {
        if self.table.is_none() {
            self.table = Some(self.vm.memory.alloc_table(Priority::NoWait).ok_or(Fallback::NoMemory)?);
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
        self.put_backing();
        self.set_placement(vma, page);
        let memory = &self.vm.memory;
        let object = Object::at(memory, vma.backing().ok_or(Fallback::VmaChanged)?.0);
        let offset = vma.frame_offset(page);
        let frame = match object.lookup(offset, reading) {
            Some(frame) => frame,
            None => {
                self.allocate_frame()?;
                let frame = self.frame.ok_or(Fallback::NoMemory)?;
                let (frame, taken) = object.fill(offset, frame).map_err(|refused| match refused {
                    FillError::Dead => Fallback::VmaChanged,
                    FillError::NoMemory => Fallback::NoMemory,
                })?;
                if taken {
                    self.frame = None;
                }
                frame
            }
        };
        // Refused: the frame left the object after the lookup.
        if !memory.try_get(frame) {
            return Err(Fallback::VmaChanged);
        }
        self.backing = Some(frame);
        Ok(())
    }

    /// Whether the prepared frame is still the backing's frame for the page. Asked under the lock of the
    /// table that it is installed into.
    pub fn is_backing_current(&self, vma: &Vma<M::Cpu>, page: Vpn, reading: &ReadGuard<'_, M::Cpu>) -> bool {
        let object = vma.backing().map(|backing| Object::at(&self.vm.memory, backing.0));
        let now = object.and_then(|object| object.lookup(vma.frame_offset(page), reading));
        mutant!("fault.backing-not-rechecked") || now.is_some() && now == self.backing
    }

    /// Takes the zeroed frame, as user memory that one entry maps.
    #[inline(always)]
    pub fn take_frame(&mut self) -> Option<Pfn> {
        let pfn = self.frame.take()?;
        let meta = self.vm.memory.meta(pfn)?;
        meta.put_to_use(Kind::User);
        meta.set_mapcount(1);
        Some(pfn)
    }

    /// Takes the backing's frame, counted as mapped by one entry more.
    pub fn take_backing(&mut self) -> Option<Pfn> {
        let pfn = self.backing.take()?;
        self.vm.memory.meta(pfn)?.add_mapping();
        Some(pfn)
    }

    /// Takes the empty table.
    pub fn take_table(&mut self) -> Option<Pfn> {
        self.table.take()
    }

    /// Allocates the memory that the last attempt could not get without waiting. Called with no lock held and
    /// outside any read section.
    ///
    /// # Errors
    /// There is no memory.
    pub fn wait_for_memory(&mut self) -> Result<(), ()> {
        let memory = &self.vm.memory;
        self.vm.settle();
        let request = AllocRequest::ZEROED.with_priority(Priority::Normal);
        if self.frame.is_none() {
            self.frame = Some(memory.alloc_frame_from(self.placement, request).ok_or(())?);
        }
        if self.table.is_none() {
            self.table = Some(memory.alloc_table(Priority::Normal).ok_or(())?);
        }
        Ok(())
    }

    fn put_backing(&mut self) {
        if let Some(pfn) = self.backing.take() {
            self.vm.memory.put(pfn);
        }
    }

    #[cold]
    fn release(&mut self) {
        let memory = &self.vm.memory;
        if let Some(pfn) = self.frame.take() {
            memory.free_frame_as(pfn, Init::Zeroed);
        }
        if let Some(pfn) = self.table.take()
            && memory.meta(pfn).is_some_and(|meta| meta.detach())
        {
            memory.free_table(pfn, Init::Zeroed);
        }
        self.put_backing();
    }
}

impl<M: Machine> Drop for Prepared<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if self.frame.is_some() || self.table.is_some() || self.backing.is_some() {
            self.release();
        }
    }
}

impl<M: Machine> fmt::Debug for Prepared<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "prepared: frame {:?}, table {:?}, backing {:?}", self.frame, self.table, self.backing)
    }
}
