//! Memory that is allocated at boot and never freed.
//!
//! Before [`Memory`] exists, [`EarlyAllocator`] cuts it from [`BootMemory`]; afterwards [`BootAllocator`]
//! takes whole blocks of frames and cuts them up. Both are [`Carve`]: per-CPU data, slab pools and the like
//! do not know which one serves them.

use super::BootMemory;
use super::map::BootPiece;
use crate::frame::{AllocRequest, Memory};
use crate::machine::Machine;
use crate::sync::{Carve, MachineMemory};
use crate::units::{Order, PAGE_SIZE};
use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::slice;

/// Allocates from boot memory; see [`BootMemory::early_allocator`].
#[derive(Debug)]
pub struct EarlyAllocator<'a, 'm, M> {
    memory: &'a mut BootMemory<'m, M>,
}

/// Allocates frames that are never freed; see [`Memory::boot_allocator`]. The rest of the last block serves
/// the next request.
#[derive(Debug)]
pub struct BootAllocator<'a, 'm, M: Machine> {
    memory: &'a Memory<'m, M>,
    rest: Option<(NonNull<u8>, usize)>,
}

impl<'m, M: Machine> BootMemory<'m, M> {
    /// An allocator of boot memory, reached through the machine's window. It takes from the end of the last
    /// region that has enough.
    pub fn early_allocator(&mut self) -> EarlyAllocator<'_, 'm, M> {
        EarlyAllocator { memory: self }
    }
}

impl<'m, M: Machine> Carve<'m> for EarlyAllocator<'_, 'm, M> {
    fn carve(&mut self, layout: Layout) -> Option<&'m mut [MaybeUninit<u8>]> {
        let (at, _) = self.carve_uninit(layout)?;
        // SAFETY: the bytes belong to memory that was claimed, in one piece, so nothing else uses them as
        // long as the machine is borrowed (`Machine`, rules 1 and 8), and have just left it: the value that
        // holds the claim is the only one, and does not get them back.
        Some(unsafe { slice::from_raw_parts_mut(at.as_ptr().cast(), layout.size()) })
    }
}

// SAFETY: a machine's window lasts as long as the machine. What has left boot memory does not come back, and
// is not claimed anew before all handlers are removed (`Machine`, rule 8).
unsafe impl<'m, M: Machine> MachineMemory<'m, M> for EarlyAllocator<'_, 'm, M> {
    fn outlives(&self, machine: &M) -> bool {
        ptr::eq(self.memory.machine(), machine)
    }
}

impl<M: Machine> EarlyAllocator<'_, '_, M> {
    /// Where the memory lies that [`carve`](Carve::carve) returns, and which it is. `None` also where a frame
    /// is not aligned as much.
    pub(in crate::frame) fn carve_uninit(&mut self, layout: Layout) -> Option<(NonNull<u8>, BootPiece)> {
        // Windows are contiguous where memory is, so alignment carries over up to that of a frame.
        if layout.align() > PAGE_SIZE {
            return None;
        }
        let piece = self.memory.take_from_end(layout.size(), layout.align())?;
        Some((self.memory.machine().window(piece.start), piece))
    }
}

impl<'m, M: Machine> Memory<'m, M> {
    /// An allocator of memory that lives as long as the machine, for use after start.
    pub fn boot_allocator(&self) -> BootAllocator<'_, 'm, M> {
        BootAllocator { memory: self, rest: None }
    }
}

impl<M: Machine> BootAllocator<'_, '_, M> {
    fn take_from_rest(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let (at, left) = self.rest?;
        let skip = at.align_offset(align);
        let rest = left.checked_sub(skip.checked_add(bytes)?)?;
        // SAFETY: both lie in the block, or at its end.
        let (start, next) = unsafe { (at.add(skip), at.add(skip + bytes)) };
        self.rest = Some((next, rest));
        Some(start)
    }
}

impl<'m, M: Machine> Carve<'m> for BootAllocator<'_, 'm, M> {
    fn carve(&mut self, layout: Layout) -> Option<&'m mut [MaybeUninit<u8>]> {
        let (bytes, align) = (layout.size(), layout.align());
        let at = self.take_from_rest(bytes, align).or_else(|| {
            let frames = bytes.div_ceil(PAGE_SIZE).checked_next_power_of_two()?;
            let order = Order(frames.ilog2() as u8);
            let pfn = self.memory.alloc(order, AllocRequest::ZEROED)?.into_pfn();
            self.rest = Some((self.memory.machine.window(pfn.addr()), order.bytes()));
            self.take_from_rest(bytes, align)
        })?;
        // SAFETY: the bytes lie in a block that was allocated and is never freed, and have just left its
        // rest, so nothing else uses them; a window lasts as long as the machine (`Machine`, rule 1).
        Some(unsafe { slice::from_raw_parts_mut(at.as_ptr().cast(), bytes) })
    }
}

// SAFETY: the blocks are never freed, and a machine's window lasts as long as the machine.
unsafe impl<'m, M: Machine> MachineMemory<'m, M> for BootAllocator<'_, 'm, M> {
    fn outlives(&self, machine: &M) -> bool {
        ptr::eq(self.memory.machine, machine)
    }
}
