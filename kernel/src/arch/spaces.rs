//! The space that a thread runs in, and the one that a CPU has loaded.
//!
//! # Lazy roots
//!
//! A CPU keeps the root of the last space it ran while it runs threads that have none (idle, kernel threads):
//! coming back costs nothing. It stays in the space's mask until something else is loaded, or it is asked to
//! flush: then the library leaves the space in the interrupt, and says so by loading no root
//! ([`root_is_gone`]).
//!
//! ```text
//!   thread of A ──► idle              A is loaded, lazily; a request to flush: nothing is loaded
//!          idle ──► kernel thread     nothing to do
//!          idle ──► thread of A       A runs again, or is loaded anew where it was left
//!          idle ──► thread of B       B is loaded
//! ```
//!
//! # How long a space lives
//!
//! A thread keeps a handle of the space that it runs in ([`ThreadSpace`]); dropping the last one ends
//! the space. A CPU keeps the address alone: the library asks the CPUs that keep the root to leave before the
//! first frame of the space returns, and waits until they have.

use super::Metal;
use super::cpu::{InterruptsOff, PreemptOff, with_interrupts_off};
use super::percpu::{self, PerCpu};
use super::upcalls::sched;
use core::cell::UnsafeCell;
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::*};
use interleaf::space::{Active, AddressSpace, LazyTlb};

/// An address space of this machine.
pub type Space = AddressSpace<'static, Metal>;

/// What keeps a space. The last one is dropped with no lock held, and may wait for other CPUs.
pub type SpaceHandle = interleaf::space::SpaceHandle<'static, 'static, Metal>;

/// A place for the address of a space that something else keeps: the one that a CPU has loaded, or that a
/// thread has a handle of. Read and written by its CPU or its thread, or by the CPU that prepares the thread.
pub struct SpaceSlot(AtomicPtr<Space>);

impl SpaceSlot {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.load(Relaxed).is_null()
    }

    /// Whether both hold the same space, or none.
    #[inline(always)]
    fn is_same(&self, other: &SpaceSlot) -> bool {
        ptr::eq(self.0.load(Relaxed), other.0.load(Relaxed))
    }

    /// The space.
    ///
    /// # Safety
    /// It does not end as long as the result is used.
    #[inline(always)]
    unsafe fn get<'s>(&self) -> Option<&'s Space> {
        // SAFETY: null, or a reference that `set` has stored; by the caller's promise to a space that still
        // lives, and which is not moved before it ends: it was put into the registry of spaces.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    fn set(&self, space: Option<&Space>) {
        self.0.store(space.map_or(ptr::null_mut(), |space| ptr::from_ref(space).cast_mut()), Relaxed);
    }
}

/// The space that a thread runs in, kept by a handle of the thread's.
pub struct ThreadSpace {
    /// The address of the handle's space: all that a fault and a switch of threads read.
    slot: SpaceSlot,
    handle: UnsafeCell<Option<SpaceHandle>>,
}

// SAFETY: the handle is reached by `replace` and `handle` alone, which one CPU at a time may call for a
// thread, says their contract; handing a thread on to another CPU orders them (`Thread::on_cpu`). A
// handle may go from CPU to CPU, as checked here.
unsafe impl Sync for ThreadSpace {}
const _: fn() = || {
    fn may_be_sent<T: Send>() {}
    may_be_sent::<SpaceHandle>();
};

impl ThreadSpace {
    pub const fn new() -> Self {
        Self { slot: SpaceSlot::new(), handle: UnsafeCell::new(None) }
    }

    /// The place of the space's address.
    #[inline(always)]
    pub fn slot(&self) -> &SpaceSlot {
        &self.slot
    }

    /// The space.
    ///
    /// # Safety
    /// The handle that is there stays as long as the result is used.
    #[inline(always)]
    pub unsafe fn get<'s>(&self) -> Option<&'s Space> {
        // SAFETY: `replace` keeps the address that of the handle's space, which lives as long as the handle.
        unsafe { self.slot.get() }
    }

    /// Another handle of the space.
    ///
    /// # Safety
    /// The caller is the thread, or prepares it.
    pub unsafe fn handle(&self) -> Option<SpaceHandle> {
        // SAFETY: by the caller's promise nothing else reaches the handle meanwhile.
        unsafe { (*self.handle.get()).clone() }
    }

    /// Puts a handle there, or none; the one that was there.
    ///
    /// # Safety
    /// The caller is the thread, or prepares it.
    pub unsafe fn replace(&self, next: Option<SpaceHandle>) -> Option<SpaceHandle> {
        self.slot.set(next.as_deref());
        // SAFETY: as in `handle`.
        unsafe { mem::replace(&mut *self.handle.get(), next) }
    }
}

/// What a CPU has loaded; [`PerCpu::loaded`] keeps the space's address, from which it is made again.
type ActiveSpace<'s> = Active<'s, 'static, Metal>;

/// The CPU keeps what it has loaded.
fn keep(active: ActiveSpace<'_>) {
    mem::forget(active);
}

/// The CPU keeps what it has loaded, until it is asked to flush.
fn keep_lazily(lazy: LazyTlb<'_, 'static, Metal>) {
    mem::forget(lazy);
}

/// Loads the space of a thread that is about to run on this CPU after another one, unless it has none or it
/// is loaded. A thread that runs in a space has it loaded, and not lazily.
pub(super) fn load_space_of(cpu: &PerCpu, before: &SpaceSlot, next: &SpaceSlot, _off: &InterruptsOff) {
    if before.is_same(next) {
        return;
    }
    // SAFETY: a space that is loaded here does not end: its end waits until this CPU has left it, which this
    // CPU does with `cpu.loaded` cleared (`root_is_gone`), with interrupts off. `next` is the slot of a
    // thread that keeps a handle, and that runs nowhere else.
    let (wanted, loaded) = unsafe { (next.get(), cpu.loaded.get()) };
    let active = loaded.and_then(Space::active_here);
    match (active, wanted) {
        (None, None) => {}
        (Some(active), None) => keep_lazily(active.enter_lazy_tlb()),
        (Some(active), Some(wanted)) if ptr::eq(active.space(), wanted) => keep(active),
        (active, Some(wanted)) => {
            keep(wanted.activate(active));
            cpu.loaded.set(Some(wanted));
        }
    }
}

/// This CPU translates through no space from here on. Interrupts are off, or it had none.
pub(super) fn root_is_gone() {
    percpu::this().loaded.set(None);
}

/// Runs `f` on this thread in a space, of which it has none yet. Ends the space behind it where all other
/// handles have gone meanwhile.
///
/// # Panics
/// Where the thread runs in a space.
pub fn in_space<R>(space: &SpaceHandle, f: impl FnOnce() -> R) -> R {
    assert!(!percpu::thread().has_space(), "a thread runs in one space at a time");
    change_own_space(Some(space.clone()));
    let result = f();
    change_own_space(None);
    result
}

/// The running thread leaves its space, which ends where no other thread keeps it, calls `then`, and ends.
pub fn leave_space(then: impl FnOnce()) -> ! {
    change_own_space(None);
    then();
    sched::exit_detached()
}

/// The running thread goes on in that space, or in none. Drops the handle that it had: perhaps the last one.
fn change_own_space(next: Option<SpaceHandle>) {
    let last = with_interrupts_off(|off| {
        let _stay = PreemptOff::new();
        let (thread, before) = (percpu::thread(), SpaceSlot::new());
        // SAFETY: compared, and nothing else.
        before.set(unsafe { thread.space().get() });
        // SAFETY: this is the thread.
        let last = unsafe { thread.space().replace(next) };
        load_space_of(percpu::this(), &before, thread.space().slot(), off);
        last
    });
    // With interrupts on: the end of a space waits for other CPUs.
    drop(last);
}
