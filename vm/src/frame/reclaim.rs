//! Memory that waits for readers, and memory that is never given back.

use super::boot::Room;
use super::pool::PoolCore;
use super::{AllocRequest, Init, Memory};
use crate::machine::Machine;
use crate::sync::{Carve, Rcu, RcuHead, Reclaim};
use crate::units::{Order, PAGE_SIZE, Pfn};
use core::ptr::NonNull;

/// The tags of a retired table, by what its words are; a pool's tag is its address, which is neither.
const TABLE: usize = 0;
const ZEROED_TABLE: usize = 1;

impl<'m, M: Machine> Memory<'m, M> {
    /// Frees a detached table once no lockless walker can hold it. May wait for readers. `init` says what its
    /// words are now, and stay: a table whose slots are all absent is zero.
    pub fn retire_table(&self, rcu: &Rcu<M::Cpu>, pfn: Pfn, init: Init) {
        let tag = match init {
            Init::Dirty => TABLE,
            Init::Zeroed => ZEROED_TABLE,
        };
        match self.meta(pfn) {
            // SAFETY: the table is detached and was not retired before, as the transition says; its link is
            // unused till it is reclaimed, and records stay for good. A walker that could still find it is
            // what the wait is for: the parent's entry was cleared before, and if it was not, the walker
            // finds a frame that it may read, and no live memory of Rust's: tables are cells reached through
            // the door.
            Some(meta) if meta.retire() => unsafe {
                rcu.retire(self.machine, meta.retire_head(), tag, self);
            },
            _ => self.refuse(pfn),
        }
    }

    /// A slab that holds no object goes back.
    pub(super) fn free_slab(&self, pfn: Pfn) {
        if self.meta_of(pfn).relinquish() {
            self.free_frame(pfn);
        }
    }

    /// Memory for things that live as long as the machine, for use after start.
    pub fn boot_allocator(&self) -> BootAllocator<'_, 'm, M> {
        BootAllocator { memory: self, rest: None }
    }
}

impl<M: Machine> Reclaim for Memory<'_, M> {
    unsafe fn reclaim(&self, tag: usize, object: NonNull<RcuHead>) {
        if let TABLE | ZEROED_TABLE = tag {
            let pfn = self.table.pfn_at(object.addr());
            #[cfg(loom)]
            crate::sync::forget(object.addr().get()..object.addr().get() + size_of::<RcuHead>());
            if self.meta_of(pfn).unretire() {
                self.free_table(pfn, if tag == TABLE { Init::Dirty } else { Init::Zeroed });
            }
            return;
        }
        // SAFETY: the only other tags are addresses of pools of this memory, which are never given back.
        let pool = unsafe { &*core::ptr::with_exposed_provenance::<PoolCore<M::Cpu>>(tag) };
        let head = self.machine.phys_of(object.cast());
        pool.give(self, pool.start_of(head));
    }
}

/// Carves frames that are never given back. What is left of the last block serves the next request.
#[derive(Debug)]
pub struct BootAllocator<'a, 'm, M: Machine> {
    memory: &'a Memory<'m, M>,
    rest: Option<(NonNull<u8>, usize)>,
}

impl<'m, M: Machine> BootAllocator<'_, 'm, M> {
    /// Room for `len` values.
    pub(super) fn room<T>(&mut self, len: usize) -> Option<Room<'m, T>> {
        let at = self.carve(size_of::<T>().checked_mul(len)?, align_of::<T>())?.cast();
        // SAFETY: a machine's window lasts as long as the machine (promise 1), and carved memory is nobody
        // else's.
        Some(unsafe { Room::new(at, len) })
    }

    fn cut(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let (at, left) = self.rest?;
        let skip = at.align_offset(align);
        let rest = left.checked_sub(skip.checked_add(bytes)?)?;
        // SAFETY: both lie in the block, or at its end.
        let (start, next) = unsafe { (at.add(skip), at.add(skip + bytes)) };
        self.rest = Some((next, rest));
        Some(start)
    }
}

impl<M: Machine> Carve for BootAllocator<'_, '_, M> {
    fn carve(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        if let Some(at) = self.cut(bytes, align) {
            return Some(at);
        }
        let frames = bytes.div_ceil(PAGE_SIZE).checked_next_power_of_two()?;
        let order = Order(frames.ilog2() as u8);
        let pfn = self.memory.alloc(order, AllocRequest::ZEROED)?.into_pfn();
        self.rest = Some((self.memory.machine.window(pfn.addr()), order.bytes()));
        self.cut(bytes, align)
    }
}
