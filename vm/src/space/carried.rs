//! What a fault has prepared and not yet used: carried from an attempt that gave up into the next.

use super::Vm;
use super::body::Stop;
use crate::frame::{AllocRequest, FramePlacement, Init, Kind, Priority};
use crate::machine::Machine;
use crate::object::{Object, Refused};
use crate::sync::ReadGuard;
use crate::units::{Pfn, Vpn};
use crate::vma::Vma;
use core::fmt;

/// Frames prepared for a fault. What is left when the fault ends goes back.
pub struct Carried<'v, M: Machine> {
    vm: &'v Vm<'v, M>,
    /// Where the frame is wanted from.
    placement: FramePlacement,
    /// Zeroed, owned alone.
    frame: Option<Pfn>,
    /// An empty table.
    table: Option<Pfn>,
    /// A backing's frame with a reference for the entry to come.
    backing: Option<Pfn>,
}

/// What can be had at once: speculation and attempts in a read section never wait, so they leave the last
/// frames to others.
const AT_ONCE: AllocRequest = AllocRequest::ZEROED.with_priority(Priority::NoWait);

impl<'v, M: Machine> Carried<'v, M> {
    /// Nothing yet.
    #[inline]
    pub fn new(vm: &'v Vm<'v, M>) -> Self {
        Self { vm, placement: FramePlacement::Local, frame: None, table: None, backing: None }
    }

    /// Begins with the zeroing, which most write faults need: its stores drain while the mapping is looked up
    /// and the table walked, where the first locked instruction would otherwise wait for all of them. A frame
    /// that is not needed goes back known to be zero, and the next fault gets it as it is.
    #[inline]
    pub fn prepare_early(&mut self) {
        self.frame = self.vm.memory.alloc_frame(AT_ONCE);
    }

    /// Notes where the frame for a page is to come from. One that was prepared before and comes from
    /// elsewhere goes back.
    #[inline(always)]
    pub fn want_from(&mut self, vma: &Vma<M::Cpu>, page: Vpn) {
        if !vma.policy().is_local() && !mutant!("fault.policy-ignored") {
            self.want_as_the_policy_says(vma, page);
        }
    }

    #[cold]
    fn want_as_the_policy_says(&mut self, vma: &Vma<M::Cpu>, page: Vpn) {
        let (memory, whence) = (&self.vm.memory, vma.policy().placement(vma.frame_offset(page)));
        let fits = |pfn: &Pfn| match whence {
            FramePlacement::Local => true,
            FramePlacement::Preferred(node) => memory.node_of(*pfn) == node,
            FramePlacement::Bind(nodes) => nodes.contains(memory.node_of(*pfn)),
        };
        // What came from the very place already is as near as can be had.
        if self.placement != whence && !self.frame.as_ref().is_none_or(fits) {
            self.frame.take().into_iter().for_each(|pfn| memory.free_frame_as(pfn, Init::Zeroed));
        }
        self.placement = whence;
    }

    /// Makes sure that there is a zeroed frame.
    #[inline(always)]
    pub fn prepare_frame(&mut self) -> Result<(), Stop> {
        if self.frame.is_none() {
            let frame = self.vm.memory.alloc_frame_from(self.placement, AT_ONCE);
            self.frame = Some(frame.ok_or(Stop::NoMemory)?);
        }
        Ok(())
    }

    /// Makes sure that there is an empty table.
    pub fn prepare_table(&mut self) -> Result<(), Stop> {
        if self.table.is_none() {
            self.table = Some(self.vm.memory.alloc_table(Priority::NoWait).ok_or(Stop::NoMemory)?);
        }
        Ok(())
    }

    /// Makes sure that there is the backing's frame for the page, with a reference. Speculation may do so for
    /// a mapping that is stale: a dead object refuses, a live one gets a page of zeros that it would have got
    /// anyway.
    pub fn prepare_backing(
        &mut self,
        vma: &Vma<M::Cpu>,
        page: Vpn,
        reading: &ReadGuard<'_, M::Cpu>,
    ) -> Result<(), Stop> {
        self.put_backing();
        self.want_from(vma, page);
        let memory = &self.vm.memory;
        let object = Object::at(memory, vma.backing().ok_or(Stop::Changed)?.0);
        let offset = vma.frame_offset(page);
        let frame = match object.lookup(offset, reading) {
            Some(frame) => frame,
            None => {
                self.prepare_frame()?;
                let frame = self.frame.ok_or(Stop::NoMemory)?;
                let (frame, taken) = object.fill(offset, frame).map_err(|refused| match refused {
                    Refused::Dead => Stop::Changed,
                    Refused::NoMemory => Stop::NoMemory,
                })?;
                if taken {
                    self.frame = None;
                }
                frame
            }
        };
        // Refused: it left the object after the lookup.
        if !memory.try_get(frame) {
            return Err(Stop::Changed);
        }
        self.backing = Some(frame);
        Ok(())
    }

    /// Whether the backing's frame still holds the page. Asked under the lock of the table that it is
    /// installed into.
    pub fn backing_holds(&self, vma: &Vma<M::Cpu>, page: Vpn, reading: &ReadGuard<'_, M::Cpu>) -> bool {
        let object = vma.backing().map(|backing| Object::at(&self.vm.memory, backing.0));
        let now = object.and_then(|object| object.lookup(vma.frame_offset(page), reading));
        now.is_some() && now == self.backing
    }

    /// The zeroed frame, as user memory that one entry maps.
    #[inline(always)]
    pub fn take_frame(&mut self) -> Option<Pfn> {
        let pfn = self.frame.take()?;
        let meta = self.vm.memory.meta(pfn)?;
        meta.put_to_use(Kind::User);
        meta.set_mapcount(1);
        Some(pfn)
    }

    /// The backing's frame, as one that one entry more maps.
    pub fn take_backing(&mut self) -> Option<Pfn> {
        let pfn = self.backing.take()?;
        self.vm.memory.meta(pfn)?.add_mapping();
        Some(pfn)
    }

    /// The empty table.
    pub fn take_table(&mut self) -> Option<Pfn> {
        self.table.take()
    }

    /// Gets what the last attempt could not have at once, with no lock held and outside any read section.
    ///
    /// # Errors
    /// There is no memory.
    pub fn wait_for_memory(&mut self) -> Result<(), ()> {
        let memory = &self.vm.memory;
        self.vm.settle();
        let ask = AllocRequest::ZEROED.with_priority(Priority::Normal);
        if self.frame.is_none() {
            self.frame = Some(memory.alloc_frame_from(self.placement, ask).ok_or(())?);
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
    fn give_back(&mut self) {
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

impl<M: Machine> Drop for Carried<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if self.frame.is_some() || self.table.is_some() || self.backing.is_some() {
            self.give_back();
        }
    }
}

impl<M: Machine> fmt::Debug for Carried<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "carried: frame {:?}, table {:?}, backing {:?}", self.frame, self.table, self.backing)
    }
}
