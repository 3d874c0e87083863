//! The operations that running code has on its CPU.

use super::Context;
use crate::units::CpuId;
use core::sync::atomic::AtomicU32;

/// The kind of an access to shared memory, as the observation hook reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// An atomic load.
    Load,
    /// An atomic store.
    Store,
    /// An atomic read-modify-write, successful or not.
    Update,
    /// A plain load of data that a lock or a CPU owns.
    Read,
    /// A plain store to data that a lock or a CPU owns.
    Write,
    /// A fence; address and length are 0.
    Fence,
}

impl AccessKind {
    /// Whether the access takes the line for writing.
    pub const fn writes(self) -> bool {
        matches!(self, AccessKind::Store | AccessKind::Update | AccessKind::Write)
    }
}

/// The interrupt state that [`Cpu::interrupts_off`] found, for [`Cpu::interrupts_restore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "interrupts stay off until the state is restored"]
pub struct Irq(pub usize);

/// The CPU that runs this code, and the thread it runs.
///
/// # Rules
///
/// 1. [`id`](Cpu::id) is below the machine's number of CPUs, and does not change while preemption is off.
/// 2. Two threads never run on one CPU at once: between [`preempt_off`](Cpu::preempt_off) and
///    [`preempt_on`](Cpu::preempt_on) no other thread runs on this CPU (interrupt handlers may).
/// 3. [`relax`](Cpu::relax) handles interrupts sent to this CPU (see [`super::Callback`]) unless real
///    interrupts do, or interrupts are off.
/// 4. [`sleep`](Cpu::sleep) returns at once if the word has changed, and at the latest when the word's
///    address is woken; it may return early. It is never called with preemption or interrupts off or in an
///    RCU read section.
/// 5. [`access`](Cpu::access) is called for every access through the door, before it happens, if `OBSERVED`
///    is true.
pub trait Cpu: Sized + 'static {
    /// Whether [`access`](Cpu::access) is called. If not, the door compiles to plain instructions.
    const OBSERVED: bool = false;

    /// Observes an access of `len` bytes at `addr`. `Location::caller()` is the place in the source.
    #[inline(always)]
    #[track_caller]
    fn access(addr: usize, len: usize, kind: AccessKind) {
        let _ = (addr, len, kind);
    }

    /// The CPU that this code runs on.
    fn id() -> CpuId;

    /// Calls `f` with the state that the library keeps for the running thread.
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R;

    /// Called in every wait loop: lets the other hardware thread go on and handles other CPUs' interrupts.
    fn relax();

    /// Called by helpers between two pieces of work, holding nothing: lets a thread that waits for this CPU
    /// run first. Handles interrupts like [`relax`](Cpu::relax), which is the default.
    fn yield_now() {
        Self::relax();
    }

    /// Blocks the thread while `*word == expected`, until [`wake`](Cpu::wake) of the same address.
    fn sleep(word: &AtomicU32, expected: u32);

    /// Wakes up to `count` threads that sleep on `word`.
    fn wake(word: &AtomicU32, count: u32);

    /// Turns interrupts off on this CPU and returns the state before.
    fn interrupts_off() -> Irq;

    /// Restores the interrupt state.
    fn interrupts_restore(state: Irq);

    /// Keeps the thread on this CPU, and other threads off it, until the matching
    /// [`preempt_on`](Cpu::preempt_on). Nests.
    fn preempt_off();

    /// Ends the innermost [`preempt_off`](Cpu::preempt_off).
    fn preempt_on();

    /// Nanoseconds on a clock that never goes back on one CPU.
    fn now_ns() -> u64;
}
