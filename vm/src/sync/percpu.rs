//! Data of one CPU: its own cache lines, written by it alone.
//!
//! A [`PerCpu`] is an array in boot memory with one slot for each CPU. Tokens show which access to a slot is
//! allowed:
//!
//! | token | proves | made by | in Linux |
//! |---|---|---|---|
//! | [`PreemptOff`] (trait) | the thread stays on its CPU | [`CpuGuard`], read sections | `preempt_disable` |
//! | [`CpuGuard`] | the same, and this CPU's slot | [`PerCpu::get_cpu`] | `get_cpu_ptr` |
//! | [`CpuRef`] | this CPU's slot, during a `PreemptOff` | [`PerCpu::this_cpu`] | `this_cpu_ptr` |
//! | none: `&T` | nothing: any CPU's slot, to read | [`PerCpu::of`], [`PerCpu::iter`] | `per_cpu_ptr` |
//!
//! A [`CpuGuard`] turns preemption off itself; a [`CpuRef`] costs nothing.
//!
//! Data that only its CPU touches, and never an interrupt handler, lies in a [`CpuLocal`] inside the slot:
//! plain memory, no read-modify-write, written through [`CpuGuard::with`]. A value that another CPU may use
//! in an emergency lies in an [`AsymmetricCell`](super::asymmetric).

use super::CacheAligned;
use crate::machine::Cpu;
use crate::units::CpuId;
use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

/// An allocator of memory that is never freed, used at start.
pub trait Carve {
    /// Memory of `bytes` bytes aligned to `align`, zeroed, which is the caller's from now on; `None` if there
    /// is not enough.
    fn carve(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>>;
}

/// One `T` for each CPU, each on cache lines of its own.
pub struct PerCpu<T, C: Cpu> {
    slots: NonNull<CacheAligned<T>>,
    nr_cpus: u32,
    _owner: PhantomData<(T, fn() -> C)>,
}

// SAFETY: slots are shared as `&T` only.
unsafe impl<T: Sync, C: Cpu> Sync for PerCpu<T, C> {}
// SAFETY: moving the handle moves no slot; dropping it drops none.
unsafe impl<T: Send + Sync, C: Cpu> Send for PerCpu<T, C> {}

impl<T, C: Cpu> PerCpu<T, C> {
    /// Bytes that each CPU's slot takes.
    pub const BYTES_PER_CPU: usize = size_of::<CacheAligned<T>>();

    /// An array for no CPU.
    pub const fn none() -> Self {
        Self { slots: NonNull::dangling(), nr_cpus: 0, _owner: PhantomData }
    }

    /// An array for `nr_cpus` CPUs in carved memory. Values are never dropped. `None` if the memory does not
    /// suffice.
    pub fn carve(from: &mut impl Carve, nr_cpus: u32, mut init: impl FnMut(CpuId) -> T) -> Option<Self> {
        let bytes = size_of::<CacheAligned<T>>().checked_mul(nr_cpus as usize)?;
        let slots = from.carve(bytes, align_of::<CacheAligned<T>>())?.cast::<CacheAligned<T>>();
        for cpu in 0..nr_cpus {
            // SAFETY: the carved memory holds `nr_cpus` slots, aligned, and is in no other use.
            unsafe { slots.add(cpu as usize).write(CacheAligned(init(CpuId(cpu)))) };
        }
        Some(Self { slots, nr_cpus, _owner: PhantomData })
    }

    /// Number of CPUs.
    pub fn nr_cpus(&self) -> u32 {
        self.nr_cpus
    }

    /// The addresses of all slots, for observers.
    pub fn extent(&self) -> core::ops::Range<usize> {
        let start = self.slots.addr().get();
        start..start + size_of::<CacheAligned<T>>() * self.nr_cpus as usize
    }

    /// The slot of `cpu`.
    ///
    /// # Panics
    /// If there is no such CPU.
    #[inline]
    pub fn of(&self, cpu: CpuId) -> &T {
        assert!(cpu.0 < self.nr_cpus);
        // SAFETY: the slot is within the array, initialised by `carve`, and only ever shared.
        unsafe { &self.slots.add(cpu.index()).as_ref().0 }
    }

    /// All slots, by CPU.
    pub fn iter(&self) -> impl Iterator<Item = (CpuId, &T)> {
        (0..self.nr_cpus).map(|cpu| (CpuId(cpu), self.of(CpuId(cpu))))
    }

    /// The slot of the CPU that this runs on. Preemption is off until the guard is dropped.
    #[inline]
    pub fn get_cpu(&self) -> CpuGuard<'_, T, C> {
        C::preempt_off();
        CpuGuard { slot: self.of(C::id()), _cpu: PhantomData }
    }

    /// The slot of the CPU that this runs on, as long as `_preempt_off` keeps the thread there.
    #[inline(always)]
    pub fn this_cpu<'a>(&'a self, _preempt_off: &'a impl PreemptOff<C>) -> CpuRef<'a, T, C> {
        CpuRef { slot: self.of(C::id()), _cpu: PhantomData }
    }
}

/// Proof that the thread stays on its CPU.
///
/// # Safety
/// Preemption is off from before it is made until after it is dropped, and it cannot be sent to another
/// thread.
pub unsafe trait PreemptOff<C: Cpu> {}

/// The slot of the CPU that this runs on, on which a [`PreemptOff`] keeps the thread.
pub struct CpuRef<'a, T, C: Cpu> {
    slot: &'a T,
    _cpu: PhantomData<*const C>,
}

/// The slot of the CPU that this runs on. The thread cannot leave the CPU while it exists.
#[must_use = "preemption is on again once this is dropped"]
pub struct CpuGuard<'a, T, C: Cpu> {
    slot: &'a T,
    _cpu: PhantomData<*const C>,
}

// SAFETY: preemption goes off in `PerCpu::get_cpu` and on when it is dropped; the marker keeps it on its
// thread.
unsafe impl<T, C: Cpu> PreemptOff<C> for CpuGuard<'_, T, C> {}

impl<T, C: Cpu> Clone for CpuRef<'_, T, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, C: Cpu> Copy for CpuRef<'_, T, C> {}

impl<T, C: Cpu> Deref for CpuRef<'_, T, C> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        self.slot
    }
}

impl<'a, T, C: Cpu> CpuGuard<'a, T, C> {
    /// Calls `f` with a [`CpuLocal`] part of the slot, for writing. `None` if the part is in use further up
    /// this very stack.
    ///
    /// `part` is a plain function, so that it can only choose a part of the slot that it is given.
    #[inline]
    pub fn with<U, R>(&self, part: fn(&T) -> &CpuLocal<U>, f: impl FnOnce(&mut U) -> R) -> Option<R> {
        let owned = part(self.slot);
        if owned.in_use.replace(true) {
            return None;
        }
        // SAFETY: the part lies in this CPU's slot, preemption is off, and interrupt handlers do not touch
        // `CpuLocal` data, so only this stack could hold another reference; `in_use` says that it does not.
        let result = f(unsafe { &mut *owned.value.get() });
        owned.in_use.set(false);
        Some(result)
    }
}

impl<T, C: Cpu> Deref for CpuGuard<'_, T, C> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.slot
    }
}

impl<T, C: Cpu> Drop for CpuGuard<'_, T, C> {
    #[inline]
    fn drop(&mut self) {
        C::preempt_on();
    }
}

/// Data that only its own CPU touches, with preemption off, through [`CpuGuard::with`].
pub struct CpuLocal<T> {
    in_use: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: only `CpuGuard::with` reaches the inside, on the CPU whose slot it is in.
unsafe impl<T: Send> Sync for CpuLocal<T> {}

impl<T> CpuLocal<T> {
    /// Data holding `value`.
    pub const fn new(value: T) -> Self {
        Self { in_use: Cell::new(false), value: UnsafeCell::new(value) }
    }
}

impl<T: fmt::Debug, C: Cpu> fmt::Debug for CpuRef<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.fmt(f)
    }
}

impl<T, C: Cpu> fmt::Debug for PerCpu<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PerCpu of {}", self.nr_cpus)
    }
}

impl<T: fmt::Debug, C: Cpu> fmt::Debug for CpuGuard<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.fmt(f)
    }
}

impl<T> fmt::Debug for CpuLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CpuLocal")
    }
}
