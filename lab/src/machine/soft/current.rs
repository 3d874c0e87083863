//! Which CPU of which machine a host thread runs on.
//!
//! A CPU is not a thread: a thread *enters* a CPU, and may leave it for another thread. A CPU runs one thread
//! at a time, and everything that only its CPU may touch (the TLB, per-CPU data of the library) relies on
//! that. The state of the CPU, interrupts and preemption, lies in thread-locals, so that reading it costs an
//! instruction or two.

use super::bus::{Bus, INTERRUPT, Line};
use interleaf::machine::{Context, Irq};
use interleaf::units::CpuId;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Machine and CPU of a thread. Machine 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuBinding {
    /// The number of the machine's bus.
    pub machine: u32,
    /// The CPU.
    pub cpu: CpuId,
}

/// The binding of a thread that runs on no CPU.
pub const NO_CPU: CpuBinding = CpuBinding { machine: 0, cpu: CpuId(u32::MAX) };

struct Current {
    binding: Cell<CpuBinding>,
    /// The CPU's line, on the bus that `BUS` keeps: set exactly while that is.
    line: Cell<Option<NonNull<Line>>>,
    interrupts_off: Cell<bool>,
    preempt_off: Cell<u64>,
    context: Context,
}

thread_local! {
    static CURRENT: Current = const {
        Current {
            binding: Cell::new(NO_CPU),
            line: Cell::new(None),
            interrupts_off: Cell::new(false),
            preempt_off: Cell::new(0),
            context: Context::new(),
        }
    };
    static BUS: RefCell<Option<Arc<Bus>>> = const { RefCell::new(None) };
    static THREAD: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: the number only has to be unlike all others.
        NEXT.fetch_add(1, Relaxed)
    };
}

/// A number for the host thread, never 0.
pub(super) fn thread_number() -> u64 {
    THREAD.with(|number| *number)
}

/// The CPU of this thread; machine 0 where it runs on none.
#[inline]
pub fn binding() -> CpuBinding {
    CURRENT.with(|current| current.binding.get())
}

/// The CPU that this thread runs on.
///
/// # Panics
/// Where it runs on none.
#[inline]
pub fn cpu() -> CpuId {
    // One load: no CPU has the number of nowhere.
    let cpu = binding().cpu;
    assert!(cpu != NO_CPU.cpu, "this thread runs on no CPU: enter one first");
    cpu
}

/// The number of the machine that this thread runs on.
///
/// # Panics
/// Where it runs on none.
#[inline]
pub fn machine() -> NonZeroU32 {
    NonZeroU32::new(binding().machine).expect("this thread runs on no machine: enter a CPU first")
}

/// Calls `f` with the context that the library keeps for this thread.
#[inline]
pub fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
    CURRENT.with(|current| f(&current.context))
}

/// Enters a vacant CPU.
///
/// # Panics
/// Where the thread runs on a CPU already, or another thread runs on this one.
pub fn enter(bus: &Arc<Bus>, cpu: CpuId) {
    assert!(binding() == NO_CPU, "a thread runs on one CPU at a time");
    assert!(bus.line(cpu).try_occupy(thread_number()), "{cpu:?} is taken");
    set_binding(Some(bus.clone()), CpuBinding { machine: bus.id(), cpu });
}

/// Sets the CPU of this thread, and returns the bus and the CPU before.
fn set_binding(bus: Option<Arc<Bus>>, binding: CpuBinding) -> (Option<Arc<Bus>>, CpuBinding) {
    let line = bus.as_ref().map(|bus| NonNull::from(bus.line(binding.cpu)));
    let left = CURRENT.with(|current| {
        current.line.set(line);
        current.binding.replace(binding)
    });
    (BUS.replace(bus), left)
}

/// Leaves the CPU.
///
/// # Panics
/// Where the thread runs on no CPU, or has preemption or interrupts off.
pub fn leave() {
    assert_may_leave();
    let (bus, binding) = set_binding(None, NO_CPU);
    bus.expect("a thread that runs on a CPU").line(binding.cpu).vacate();
}

/// Checks that the thread may leave its CPU.
///
/// # Panics
/// Where preemption or interrupts are off.
pub fn assert_may_leave() {
    CURRENT.with(|current| {
        assert_eq!(current.preempt_off.get(), 0, "left a CPU with preemption off");
        assert!(!current.interrupts_off.get(), "left a CPU with interrupts off");
    });
}

/// A CPU that its thread has suspended, with the state that belongs to it. It cannot go to another thread.
#[derive(Debug)]
pub struct Suspended {
    binding: CpuBinding,
    bus: Option<Arc<Bus>>,
    interrupts_off: bool,
    preempt_off: u64,
    _thread: PhantomData<*const ()>,
}

/// Suspends the thread's use of its CPU (or of none), which stays occupied by it. The thread may enter
/// another CPU meanwhile.
pub fn suspend() -> Suspended {
    let (bus, binding) = set_binding(None, NO_CPU);
    CURRENT.with(|current| Suspended {
        binding,
        bus,
        interrupts_off: current.interrupts_off.replace(false),
        preempt_off: current.preempt_off.replace(0),
        _thread: PhantomData,
    })
}

/// Returns to a suspended CPU.
///
/// # Panics
/// Where the thread runs on another.
pub fn resume(suspended: Suspended) {
    assert!(binding() == NO_CPU, "a thread runs on one CPU at a time");
    set_binding(suspended.bus, suspended.binding);
    CURRENT.with(|current| {
        current.interrupts_off.set(suspended.interrupts_off);
        current.preempt_off.set(suspended.preempt_off);
    });
}

/// The bus of the machine that this thread runs on.
pub fn bus() -> Option<Arc<Bus>> {
    BUS.with_borrow(Clone::clone)
}

/// The line of the CPU that this thread runs on; `None` where it runs on none.
///
/// # Safety
/// The thread neither enters nor leaves a CPU while it uses the result.
#[inline]
unsafe fn line<'l>() -> Option<&'l Line> {
    let line = CURRENT.with(|current| current.line.get())?;
    // SAFETY: it lies on the bus that `BUS` keeps until another line, or none, is set, which is done where a
    // thread enters or leaves a CPU.
    Some(unsafe { line.as_ref() })
}

/// Clears pending bits of this CPU; those that were set.
pub fn lower(bits: u32) -> u32 {
    // SAFETY: clearing bits enters and leaves no CPU.
    unsafe { line() }.map_or(0, |line| line.lower(bits))
}

/// Whether a thread waits for this CPU; may be stale.
pub fn has_waiters_racy() -> bool {
    // SAFETY: a look at the queue enters and leaves no CPU.
    unsafe { line() }.is_some_and(|line| line.queue.has_waiters_racy())
}

/// The pending bits of this CPU.
#[inline]
pub fn pending() -> u32 {
    // SAFETY: a load of the bits enters and leaves no CPU.
    unsafe { line() }.map_or(0, Line::pending_racy)
}

/// Whether interrupts are on.
#[inline]
pub fn interrupts_on() -> bool {
    CURRENT.with(|current| !current.interrupts_off.get())
}

/// Turns interrupts off.
#[inline]
pub fn interrupts_off() -> Irq {
    CURRENT.with(|current| Irq(usize::from(current.interrupts_off.replace(true))))
}

/// Restores interrupts, and handles those that came meanwhile.
///
/// # Safety
/// `state` is the result of this thread's last [`interrupts_off`] that it has not restored yet.
#[inline]
pub unsafe fn interrupts_restore(state: Irq) {
    CURRENT.with(|current| current.interrupts_off.set(state.0 != 0));
    handle_interrupts();
}

/// Restores interrupts without handling those that came meanwhile: for a machine that decides when they
/// arrive.
///
/// # Safety
/// As for [`interrupts_restore`].
#[inline]
pub(in crate::machine) unsafe fn interrupts_set(state: Irq) {
    CURRENT.with(|current| current.interrupts_off.set(state.0 != 0));
}

/// Keeps the thread on its CPU: [`leave`] panics until the matching [`preempt_on`].
#[inline(always)]
pub fn preempt_off() {
    CURRENT.with(|current| current.preempt_off.set(current.preempt_off.get() + 1));
}

/// Ends one [`preempt_off`].
///
/// # Safety
/// It ends a `preempt_off` of this thread that is not ended yet, and on which nothing relies any more.
#[inline(always)]
pub unsafe fn preempt_on() {
    CURRENT.with(|current| {
        let depth = current.preempt_off.get();
        debug_assert!(depth > 0, "preemption turned on more often than off");
        current.preempt_off.set(depth - 1);
    });
}

/// Nesting depth of [`preempt_off`].
pub fn preempt_depth() -> u64 {
    CURRENT.with(|current| current.preempt_off.get())
}

/// Runs the handler for every interrupt that has come, unless interrupts are off.
///
/// # Panics
/// Where the handler leaves preemption off.
#[inline]
pub fn handle_interrupts() {
    if pending() & INTERRUPT != 0 && interrupts_on() {
        handle_interrupts_now();
    }
}

#[cold]
fn handle_interrupts_now() {
    // The thread may hand the CPU over in the handler, so nothing thread-local stays borrowed.
    let Some(bus) = bus() else { return };
    let line = bus.line(binding().cpu);
    while line.lower(INTERRUPT) != 0 {
        CURRENT.with(|current| current.interrupts_off.set(true));
        let depth = preempt_depth();
        line.run_interrupt_handler();
        CURRENT.with(|current| current.interrupts_off.set(false));
        assert_eq!(preempt_depth(), depth, "a handler of interrupts has left preemption off");
    }
}

#[cfg(test)]
#[path = "tests/current.rs"]
mod tests;
