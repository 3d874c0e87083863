//! The space that a thread runs in, and the one that a CPU has loaded.
//!
//! # Lazy roots
//!
//! A CPU keeps the root of the last space it ran while it runs threads that have none (idle, kernel threads):
//! coming back costs nothing. It stays in the space's mask until something else is loaded,
//! [`leave_lazy_space`] is called, the space ends ([`OwnedSpace`]), or it is asked to flush: then the library
//! leaves the space in the interrupt, and says so by loading no root ([`root_is_gone`]).
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
//! Threads and CPUs keep its address. A space stays where it is ([`with_owned`]), counts the threads that run
//! in it, and ends only where there are none and no CPU has it loaded; it waits for the latter.

use super::apic::{self, Vector};
use super::cpu::{InterruptsOff, PreemptOff, with_interrupts_off};
use super::percpu::{self, PerCpu};
use super::upcalls::sched;
use super::{Core, Metal};
use core::mem;
use core::ops::Deref;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use interleaf::space::{Active, AddressSpace, LazyTlb};
use interleaf::sync::wait_until;

/// An address space of this machine.
pub type Space = AddressSpace<'static, Metal>;

/// A space that is never moved, because threads and CPUs keep its address, and that no thread runs in and no
/// CPU has loaded when it is dropped.
#[derive(Debug)]
pub struct OwnedSpace {
    space: Space,
    /// Slots of threads that have it. The releasing decrement pairs with the acquiring load of the drop.
    users: AtomicU32,
}

/// Keeps a space in place while `f` uses it, then drops it.
///
/// # Panics
/// Where a thread still runs in it then.
pub fn with_owned<R>(space: Space, f: impl FnOnce(&OwnedSpace) -> R) -> R {
    let me = percpu::thread();
    me.pinned.fetch_add(1, Relaxed);
    let result = {
        // Dropped where it is: a move would leave threads and CPUs with the old address.
        let owned = OwnedSpace { space, users: AtomicU32::new(0) };
        f(&owned)
    };
    me.pinned.fetch_sub(1, Relaxed);
    result
}

impl OwnedSpace {
    /// Makes every CPU that keeps the space lazily leave it, and waits until they have.
    pub fn evict(&self) {
        with_interrupts_off(leave_lazy_space);
        let cpus = self.space.cpus_racy();
        cpus.iter().for_each(|cpu| apic::send(percpu::of(cpu).apic_id(), Vector::LEAVE_SPACE));
        wait_until::<Core>(|| self.space.runs_nowhere());
    }
}

impl Deref for OwnedSpace {
    type Target = Space;
    #[inline(always)]
    fn deref(&self) -> &Space {
        &self.space
    }
}

impl Drop for OwnedSpace {
    fn drop(&mut self) {
        assert_eq!(self.users.load(Acquire), 0, "a space ends while threads run in it");
        self.evict();
    }
}

/// A place for the address of a space: of the one that a thread runs in, or that a CPU has loaded.
pub struct SpaceSlot(AtomicPtr<OwnedSpace>);

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
    pub unsafe fn get<'s>(&self) -> Option<&'s OwnedSpace> {
        // SAFETY: null, or a reference that `set` or `set_counted` has stored; by the caller's promise to a
        // space that still lives, and which is never moved.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    /// Puts a space there, and counts the slot as its user.
    ///
    /// # Panics
    /// Where the slot is not empty.
    pub fn set_counted(&self, space: &OwnedSpace) {
        assert!(self.is_empty(), "a thread runs in one space at a time");
        space.users.fetch_add(1, Relaxed);
        self.0.store(ptr::from_ref(space).cast_mut(), Relaxed);
    }

    /// Empties a slot that is counted.
    fn clear_counted(&self) {
        // SAFETY: the slot counts as a user until the last line.
        let space = unsafe { self.get() };
        self.0.store(ptr::null_mut(), Relaxed);
        if let Some(space) = space {
            space.users.fetch_sub(1, Release);
        }
    }

    fn set(&self, space: Option<&OwnedSpace>) {
        self.0.store(space.map_or(ptr::null_mut(), |space| ptr::from_ref(space).cast_mut()), Relaxed);
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
    // SAFETY: a space that is loaded here does not end: its drop waits until this CPU has left it (`evict`),
    // and this CPU leaves it only with `cpu.loaded` cleared (`root_is_gone`), with interrupts off. A space
    // that is in a thread's slot is counted, and does not end either.
    let (wanted, loaded) = unsafe { (next.get(), cpu.loaded.get()) };
    let active = loaded.and_then(|loaded| loaded.space.active_here());
    match (active, wanted) {
        (None, None) => {}
        (Some(active), None) => keep_lazily(active.enter_lazy_tlb()),
        (Some(active), Some(wanted)) if ptr::eq(active.space(), &wanted.space) => keep(active),
        (active, Some(wanted)) => {
            keep(wanted.space.activate(active));
            cpu.loaded.set(Some(wanted));
        }
    }
}

/// This CPU translates through no space from here on. Interrupts are off, or it had none.
pub(super) fn root_is_gone() {
    percpu::this().loaded.set(None);
}

/// Leaves the space that this CPU keeps although the running thread has none.
pub fn leave_lazy_space(_off: &InterruptsOff) {
    let (cpu, thread) = (percpu::this(), percpu::thread());
    // SAFETY: as in `load_space_of`; the thread's own slot is compared, and nothing else.
    let (loaded, own) = unsafe { (cpu.loaded.get(), thread.space().get()) };
    let Some(loaded) = loaded.filter(|loaded| !own.is_some_and(|own| ptr::eq(own, *loaded))) else { return };
    drop(loaded.space.active_here());
    debug_assert!(cpu.loaded.is_empty(), "a CPU that has left a space names it");
}

/// Runs `f` on this thread in a space, of which it has none yet.
pub fn in_space<R>(owned: &OwnedSpace, f: impl FnOnce() -> R) -> R {
    change_own_space(|slot| slot.set_counted(owned));
    let result = f();
    change_own_space(SpaceSlot::clear_counted);
    result
}

/// The running thread leaves its space, calls `then`, and ends.
pub fn leave_space(then: impl FnOnce()) -> ! {
    change_own_space(SpaceSlot::clear_counted);
    then();
    sched::exit_detached()
}

fn change_own_space(change: impl FnOnce(&SpaceSlot)) {
    with_interrupts_off(|off| {
        let _stay = PreemptOff::new();
        let (thread, before) = (percpu::thread(), SpaceSlot::new());
        // SAFETY: compared, and nothing else.
        before.set(unsafe { thread.space().get() });
        change(thread.space());
        load_space_of(percpu::this(), &before, thread.space(), off);
    });
}
