//! Data of one CPU: its own cache lines, written by it alone.
//!
//! A [`PerCpu`] is an array in boot memory with one slot for each CPU. Tokens show which access to a slot is
//! allowed:
//!
//! | token | proves | made by | in Linux |
//! |---|---|---|---|
//! | [`PreemptOff`] (trait) | the thread stays on its CPU | the guards below, read sections | |
//! | [`PreemptGuard`] | the same | [`PreemptGuard::new`] | `preempt_disable` |
//! | [`CpuGuard`] | the same, and this CPU's slot | [`PerCpu::get_cpu`] | `get_cpu_ptr` |
//! | [`CpuRef`] | this CPU's slot, during a `PreemptOff` | [`PerCpu::this_cpu`] | `this_cpu_ptr` |
//! | none: `&T` | nothing: any CPU's slot, to read | [`PerCpu::of`], [`PerCpu::iter`] | `per_cpu_ptr` |
//!
//! A [`CpuGuard`] turns preemption off itself; a [`CpuRef`] costs nothing. All of them stay on their thread:
//!
//! ```compile_fail,E0277
//! fn is_send<T: Send>() {}
//! fn check<C: interleaf::machine::Cpu>() { is_send::<interleaf::sync::PreemptGuard<C>>(); }
//! ```
//! ```compile_fail,E0277
//! fn is_send<T: Send>() {}
//! fn check<C: interleaf::machine::Cpu>() { is_send::<interleaf::sync::CpuGuard<'static, u32, C>>(); }
//! ```
//! ```compile_fail,E0277
//! fn is_send<T: Send>() {}
//! fn check<C: interleaf::machine::Cpu>() { is_send::<interleaf::sync::CpuRef<'static, u32, C>>(); }
//! ```
//!
//! A slot belongs to the CPU of its number *of one machine*, whose CPU first asks for its slot. Where there
//! are several machines ([`Cpu::SEVERAL_MACHINES`]), a CPU of another machine is refused; elsewhere the check
//! is no instruction.
//!
//! Data that only its CPU touches lies in a [`CpuLocal`] inside the slot: plain memory, no
//! read-modify-write, written through [`CpuGuard::with`]. A value that another CPU may use in an emergency
//! lies in an [`AsymmetricCell`](super::asymmetric). Both are found in the slot by a function that is checked
//! to return a part of the slot that it is given, and not of another: it is inlined, so that the check of its
//! constant offset costs nothing.

use super::{CacheAligned, Carve, carve_slice, fill};
use crate::machine::{Cpu, Irq};
use crate::units::CpuId;
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*, compiler_fence};

const ANOTHERS_DATA: &str =
    "data of the CPUs of another machine, or, on a platform of one CPU, of another thread (rule 8 of Cpu)";

/// One `T` for each CPU, each on cache lines of its own, in memory that lasts for `'m`.
pub struct PerCpu<'m, T, C: Cpu> {
    slots: &'m [CacheAligned<T>],
    /// The number of the machine whose CPUs the slots are of; 0: no CPU has asked for its slot. Unused unless
    /// there are several. Relaxed: it changes once, and only says which CPUs go on.
    machine: AtomicU32,
    _cpu: PhantomData<fn() -> C>,
}

impl<'m, T, C: Cpu> PerCpu<'m, T, C> {
    /// Bytes that each CPU's slot takes.
    pub const BYTES_PER_CPU: usize = size_of::<CacheAligned<T>>();

    /// An array for no CPU.
    pub const fn none() -> Self {
        Self::of_slots(&[])
    }

    /// An array for `nr_cpus` CPUs in carved memory. Values are never dropped. `None` if the memory does not
    /// suffice.
    pub fn carve(from: &mut impl Carve<'m>, nr_cpus: u32, mut init: impl FnMut(CpuId) -> T) -> Option<Self> {
        let slots = carve_slice(from, nr_cpus as usize)?;
        let slots = fill(slots, |cpu| CacheAligned(init(CpuId(cpu as u32))));
        Some(Self::of_slots(slots))
    }

    const fn of_slots(slots: &'m [CacheAligned<T>]) -> Self {
        Self { slots, machine: AtomicU32::new(0), _cpu: PhantomData }
    }

    /// Number of CPUs.
    pub fn nr_cpus(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The addresses of all slots, for observers.
    pub fn extent(&self) -> core::ops::Range<usize> {
        let slots = self.slots.as_ptr_range();
        slots.start.addr()..slots.end.addr()
    }

    /// The slot of `cpu`.
    ///
    /// # Panics
    /// If there is no such CPU.
    #[inline]
    pub fn of(&self, cpu: CpuId) -> &T {
        &self.slots[cpu.index()].0
    }

    /// All slots, by CPU.
    pub fn iter(&self) -> impl Iterator<Item = (CpuId, &T)> {
        (0..).map(CpuId).zip(self.slots.iter().map(|slot| &slot.0))
    }

    /// The slot of the CPU that this runs on. Preemption is off until the guard is dropped.
    ///
    /// # Panics
    /// If the array is for fewer CPUs, or those of another machine.
    #[inline]
    pub fn get_cpu(&self) -> CpuGuard<'_, T, C> {
        let preempt_off = PreemptGuard::new();
        CpuGuard { slot: self.own(), _preempt_off: preempt_off }
    }

    /// The slot of the CPU that this runs on, as long as `_preempt_off` keeps the thread there.
    ///
    /// # Panics
    /// If the array is for fewer CPUs, or those of another machine.
    #[inline(always)]
    pub fn this_cpu<'a>(&'a self, _preempt_off: &'a impl PreemptOff<C>) -> CpuRef<'a, T, C> {
        CpuRef { slot: self.own(), _cpu: PhantomData }
    }

    /// The slot of the CPU that this runs on. Preemption is off.
    #[inline(always)]
    fn own(&self) -> &T {
        if C::SEVERAL_MACHINES && self.machine.load(Relaxed) != C::machine().get() {
            self.bind(C::machine().get());
        }
        self.of(C::id())
    }

    /// The first machine is the one whose CPUs the slots are of from now on.
    #[cold]
    fn bind(&self, machine: u32) {
        let bound = self.machine.compare_exchange(0, machine, Relaxed, Relaxed).err();
        let is_bound = bound.is_none_or(|bound| bound == machine);
        assert!(is_bound || mutant!("percpu.machine-not-checked"), "{ANOTHERS_DATA}");
    }
}

/// Proof that the thread stays on its CPU.
///
/// # Safety
/// Preemption is off from before it is made until after it is dropped, and neither it nor a reference to it
/// can be sent to another thread.
pub unsafe trait PreemptOff<C: Cpu> {}

/// Preemption is off on this CPU, until this is dropped. Guards nest, and may be dropped in any order.
#[must_use = "preemption is on again once this is dropped"]
pub struct PreemptGuard<C: Cpu> {
    _thread: PhantomData<*const C>,
}

impl<C: Cpu> PreemptGuard<C> {
    /// Turns preemption off.
    #[expect(clippy::new_without_default, reason = "one way to make one is enough")]
    #[inline(always)]
    pub fn new() -> Self {
        C::preempt_off();
        Self { _thread: PhantomData }
    }
}

impl<C: Cpu> Drop for PreemptGuard<C> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: it ends the `preempt_off` of `new`, which the same thread has called, as the guard is not
        // `Send`; what relied on it borrows the guard, or holds it and has ended.
        unsafe { C::preempt_on() };
    }
}

// SAFETY: preemption goes off in `new`, the one way to make a guard, and on when it is dropped; a raw pointer
// keeps it and its references on their thread.
unsafe impl<C: Cpu> PreemptOff<C> for PreemptGuard<C> {}

/// Calls `f` with interrupts off on this CPU. Calls nest.
#[inline]
pub fn with_interrupts_off<C: Cpu, R>(f: impl FnOnce() -> R) -> R {
    /// Restores the state, also when `f` unwinds.
    struct Restore<C: Cpu>(Irq, PhantomData<*const C>);
    impl<C: Cpu> Drop for Restore<C> {
        #[inline]
        fn drop(&mut self) {
            // SAFETY: calls nest, as `f` ends before this: so the state is that of the thread's last
            // `interrupts_off` that is not restored.
            unsafe { C::interrupts_restore(self.0) };
        }
    }
    let _restore = Restore::<C>(C::interrupts_off(), PhantomData);
    f()
}

/// The part of `slot` that `part` chooses.
///
/// # Panics
/// If `part` returns something that does not lie in the slot. Nothing is left of the check where `part` is
/// inlined.
#[inline(always)]
pub(super) fn part_of<T, P>(slot: &T, part: fn(&T) -> &P) -> &P {
    let chosen = part(slot);
    let offset = (&raw const *chosen).addr().wrapping_sub((&raw const *slot).addr());
    let fits = size_of::<T>().checked_sub(size_of::<P>()).is_some_and(|room| offset <= room);
    assert!(fits || mutant!("percpu.foreign-part"), "not a part of this CPU's slot");
    chosen
}

/// The slot of the CPU that this runs on, on which a [`PreemptOff`] keeps the thread.
pub struct CpuRef<'a, T, C: Cpu> {
    slot: &'a T,
    _cpu: PhantomData<*const C>,
}

/// The slot of the CPU that this runs on. The thread cannot leave the CPU while it exists.
#[must_use = "preemption is on again once this is dropped"]
pub struct CpuGuard<'a, T, C: Cpu> {
    slot: &'a T,
    _preempt_off: PreemptGuard<C>,
}

// SAFETY: it has a `PreemptGuard`, from before it is made until it is dropped, which also keeps it on its
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

impl<T, C: Cpu> CpuGuard<'_, T, C> {
    /// The part of the slot that `part` chooses; see [`part_of`].
    #[inline(always)]
    pub(super) fn part<P>(&self, part: fn(&T) -> &P) -> &P {
        part_of(self.slot, part)
    }

    /// Calls `f` with a [`CpuLocal`] part of the slot, for writing. `None` if the part is in use further up
    /// this very stack: by a caller, or by code that an interrupt handler interrupts.
    ///
    /// # Panics
    /// If `part` chooses something outside of the slot.
    #[inline]
    pub fn with<U, R>(&self, part: fn(&T) -> &CpuLocal<U>, f: impl FnOnce(&mut U) -> R) -> Option<R> {
        let local = self.part(part);
        if local.in_use.load(Relaxed) {
            return None;
        }
        let _in_use = InUse::begin(&local.in_use);
        // SAFETY: the part lies in this CPU's slot, as `part` has checked, and slots of one array are
        // disjoint. The slot is that of the CPU's number, of one machine only (`PerCpu::own`): so of one CPU
        // (rules 1 and 8 of `Cpu`). Preemption is off, by `self`: so only this stack could hold another
        // reference, or a handler that interrupts it and ends before it goes on (rule 2); `in_use` says that
        // none does, and the compiler keeps its stores around the use.
        Some(f(unsafe { &mut *local.value.get() }))
    }
}

/// A [`CpuLocal`] in use until this is dropped, also by unwinding.
struct InUse<'a>(&'a AtomicBool);

impl<'a> InUse<'a> {
    #[inline(always)]
    fn begin(in_use: &'a AtomicBool) -> Self {
        in_use.store(true, Relaxed);
        compiler_fence(SeqCst);
        Self(in_use)
    }
}

impl Drop for InUse<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        self.0.store(false, Relaxed);
    }
}

impl<T, C: Cpu> Deref for CpuGuard<'_, T, C> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.slot
    }
}

/// Data that only its own CPU touches, with preemption off, through [`CpuGuard::with`].
pub struct CpuLocal<T> {
    /// Written by its CPU alone; an atomic, because an interrupt handler may look at it between any two
    /// instructions.
    in_use: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only `CpuGuard::with` reaches the inside, on the CPU whose slot it is in, one use at a time.
unsafe impl<T: Send> Sync for CpuLocal<T> {}

impl<T> CpuLocal<T> {
    /// Data holding `value`.
    pub const fn new(value: T) -> Self {
        Self { in_use: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }
}

impl<C: Cpu> fmt::Debug for PreemptGuard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreemptGuard")
    }
}

impl<T: fmt::Debug, C: Cpu> fmt::Debug for CpuRef<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.fmt(f)
    }
}

impl<T, C: Cpu> fmt::Debug for PerCpu<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PerCpu of {}", self.nr_cpus())
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

#[cfg(all(test, not(loom)))]
#[path = "tests/percpu.rs"]
mod tests;
