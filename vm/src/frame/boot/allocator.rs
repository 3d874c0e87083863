//! Memory that is allocated at boot and never freed.
//!
//! Before [`Memory`] exists, [`EarlyAllocator`] cuts it from the boot map; afterwards [`BootAllocator`] takes
//! whole blocks of frames and cuts them up. Both are [`Carve`]: per-CPU data, object pools and the like do
//! not know which one serves them.

use super::BootMap;
use crate::frame::{AllocRequest, Init, Memory};
use crate::machine::{Cpu, Machine};
use crate::sync::Carve;
use crate::sync::atomic::AtomicU32;
use crate::units::{Order, PAGE_SIZE};
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Allocates from a boot map; see [`BootMap::early_allocator`].
#[derive(Debug)]
pub struct EarlyAllocator<'a, 'm, M> {
    machine: &'m M,
    map: &'a mut BootMap,
}

/// Allocates frames that are never freed; see [`Memory::boot_allocator`]. The rest of the last block serves
/// the next request.
#[derive(Debug)]
pub struct BootAllocator<'a, 'm, M: Machine> {
    memory: &'a Memory<'m, M>,
    rest: Option<(NonNull<u8>, usize)>,
}

/// Boot memory for a slice that is filled in later.
#[derive(Debug)]
pub(in crate::frame) struct UninitSlice<'m, T> {
    at: NonNull<T>,
    len: usize,
    _memory: PhantomData<&'m mut [T]>,
}

impl BootMap {
    /// An allocator of boot memory, reached through `machine`'s window. It takes from the end of the last
    /// region that has enough.
    pub fn early_allocator<'a, 'm, M: Machine>(&'a mut self, machine: &'m M) -> EarlyAllocator<'a, 'm, M> {
        EarlyAllocator { machine, map: self }
    }
}

impl<M: Machine> Carve for EarlyAllocator<'_, '_, M> {
    fn carve(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        // Windows are contiguous where memory is, so alignment carries over up to that of a frame.
        if !align.is_power_of_two() || align > PAGE_SIZE {
            return None;
        }
        let (at, init) = self.carve_uninit(bytes, align)?;
        if init == Init::Dirty {
            // SAFETY: the bytes belong to a usable region, which the embedder gave to the library (Machine,
            // promise 1), and have just left the map, so nothing else uses them.
            unsafe { at.write_bytes(0, bytes) };
        }
        Some(at)
    }
}

impl<'m, M: Machine> EarlyAllocator<'_, 'm, M> {
    /// Memory as [`carve`](Carve::carve) returns it, but not zeroed, and its initial contents. `align` is a
    /// power of two up to that of a frame.
    pub(in crate::frame) fn carve_uninit(
        &mut self,
        bytes: usize,
        align: usize,
    ) -> Option<(NonNull<u8>, Init)> {
        let (start, init) = self.map.take_from_end(bytes, align)?;
        Some((self.machine.window(start), init))
    }

    /// Memory for `len` values.
    pub(in crate::frame) fn uninit_slice<T>(&mut self, len: usize) -> Option<UninitSlice<'m, T>> {
        let at = self.carve(size_of::<T>().checked_mul(len)?, align_of::<T>())?.cast();
        // SAFETY: a machine's window lasts as long as the machine (promise 1), and carved memory is carved
        // once.
        Some(unsafe { UninitSlice::new(at, len) })
    }

    /// `len` words of zero.
    pub(in crate::frame) fn zeroed_words<C: Cpu>(&mut self, len: usize) -> Option<&'m [AtomicU32<C>]> {
        let bytes = size_of::<AtomicU32<C>>().checked_mul(len)?;
        let at = self.carve(bytes, align_of::<AtomicU32<C>>())?;
        // SAFETY: the memory is large enough, aligned, zeroed and carved once, and lasts as long as the
        // machine; bytes of zero are words that hold 0.
        Some(unsafe { core::slice::from_raw_parts(at.cast().as_ptr(), len) })
    }
}

impl<'m, M: Machine> Memory<'m, M> {
    /// An allocator of memory that lives as long as the machine, for use after start.
    pub fn boot_allocator(&self) -> BootAllocator<'_, 'm, M> {
        BootAllocator { memory: self, rest: None }
    }
}

impl<'m, M: Machine> BootAllocator<'_, 'm, M> {
    /// Memory for `len` values.
    pub(in crate::frame) fn uninit_slice<T>(&mut self, len: usize) -> Option<UninitSlice<'m, T>> {
        let at = self.carve(size_of::<T>().checked_mul(len)?, align_of::<T>())?.cast();
        // SAFETY: a machine's window lasts as long as the machine (promise 1), and carved memory is carved
        // once.
        Some(unsafe { UninitSlice::new(at, len) })
    }

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

impl<M: Machine> Carve for BootAllocator<'_, '_, M> {
    fn carve(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        if let Some(at) = self.take_from_rest(bytes, align) {
            return Some(at);
        }
        let frames = bytes.div_ceil(PAGE_SIZE).checked_next_power_of_two()?;
        let order = Order(frames.ilog2() as u8);
        let pfn = self.memory.alloc(order, AllocRequest::ZEROED)?.into_pfn();
        self.rest = Some((self.memory.machine.window(pfn.addr()), order.bytes()));
        self.take_from_rest(bytes, align)
    }
}

impl<'m, T> UninitSlice<'m, T> {
    /// The memory at `at`.
    ///
    /// # Safety
    /// It holds `len` values, lasts for `'m`, and nothing else uses it.
    unsafe fn new(at: NonNull<T>, len: usize) -> Self {
        Self { at, len, _memory: PhantomData }
    }

    /// Initialises a slice of one value, which is never dropped.
    pub(in crate::frame) fn fill_one(self, value: T) -> &'m T {
        assert_eq!(self.len, 1);
        // SAFETY: the memory holds one value, and only this slice has it.
        unsafe { self.at.write(value) };
        // SAFETY: initialised, shared from now on, alive for `'m`.
        unsafe { self.at.as_ref() }
    }

    /// Initialises as many values as `make` pushes, at most as many as the slice holds. They are never
    /// dropped.
    pub(in crate::frame) fn fill_some(self, make: impl FnOnce(&mut dyn FnMut(T))) -> &'m [T] {
        let mut len = 0;
        make(&mut |value| {
            assert!(len < self.len, "more values than the slice holds");
            // SAFETY: the memory holds `self.len` values, aligned, and only this slice has it.
            unsafe { self.at.add(len).write(value) };
            len += 1;
        });
        // SAFETY: this number is initialised, and only shared from now on; alive for `'m`.
        unsafe { core::slice::from_raw_parts(self.at.as_ptr(), len) }
    }

    /// Initialises every value. They are never dropped.
    pub(in crate::frame) fn fill(self, mut value: impl FnMut(usize) -> T) -> &'m [T] {
        for index in 0..self.len {
            // SAFETY: the memory holds `len` values, aligned, and only this slice has it.
            unsafe { self.at.add(index).write(value(index)) };
        }
        // SAFETY: initialised above and only shared from now on; alive for `'m`.
        unsafe { core::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}
