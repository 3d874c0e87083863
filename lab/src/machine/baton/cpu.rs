//! A CPU of the seeded machine.

use super::policy::SwitchHint;
use super::report::StepKind;
use super::scheduler::Scheduler;
use crate::machine::soft::{Flavour, cpu_of_thread, current};
use crate::os::membarrier::Membarrier;
use interleaf::machine::{AccessKind, Context, Cpu, Irq};
use interleaf::units::CpuId;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// A CPU that runs while it holds the baton. Outside of a run, before the scenario starts and after it, it is
/// an ordinary CPU.
#[derive(Debug)]
pub enum Baton {}

// SAFETY: 1: `current::cpu` panics where the thread has entered no CPU of a machine, and `leave` where
// preemption is off; the scheduler suspends a CPU and returns to it with its number. 2: a CPU is a fiber, and
// runs nothing else; all fibers run on one thread, in turns; `handle_interrupts` asserts what a handler
// leaves. 3: the scheduler keeps one context for each
// fiber. 4: `relax` handles interrupts. 5: `sleep` loads the word, and leaves the fiber only where it may
// leave its CPU; `wake` takes the address. 6: `access` steps the scheduler, which uses nothing of the
// library. 7: `handle_interrupts` looks at the flag. 8: the number of the bus, which is given out once.
unsafe impl Cpu for Baton {
    cpu_of_thread!();

    const OBSERVED: bool = true;

    #[track_caller]
    fn access(addr: usize, _len: usize, kind: AccessKind) {
        if let Some(scheduler) = Scheduler::running() {
            scheduler.step(StepKind::Access { kind, addr, place: Location::caller() }, SwitchHint::Stay);
        }
    }

    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        match Scheduler::running() {
            Some(scheduler) => scheduler.with_context(f),
            None => current::with_context(f),
        }
    }

    fn relax() {
        current::handle_interrupts();
        if let Some(scheduler) = Scheduler::running() {
            scheduler.step(StepKind::Relax, SwitchHint::Yield);
            current::handle_interrupts();
        }
    }

    fn sleep(word: &AtomicU32, expected: u32) {
        if word.load(SeqCst) != expected {
            return;
        }
        current::assert_may_leave();
        let scheduler = Scheduler::running().expect("no CPU could wake a CPU that sleeps outside of a run");
        scheduler.sleep(word.as_ptr().addr(), || word.load(SeqCst) == expected);
    }

    fn wake(word: &AtomicU32, count: u32) {
        if let Some(scheduler) = Scheduler::running() {
            scheduler.wake(word.as_ptr().addr(), count);
        }
    }

    unsafe fn interrupts_restore(state: Irq) {
        // SAFETY: the caller's promise is the same.
        unsafe { current::interrupts_restore(state) };
    }

    fn now_ns() -> u64 {
        Scheduler::running().map_or(0, |scheduler| scheduler.now_ns())
    }
}

impl Flavour for Baton {
    fn boundary() {
        current::handle_interrupts();
    }

    fn raised(cpu: CpuId) {
        if let Some(scheduler) = Scheduler::running() {
            scheduler.raised(cpu);
        }
    }

    /// One CPU runs at a time and every switch is a full fence, so there is nothing to do but to let others
    /// run.
    #[track_caller]
    fn barrier_all(_membarrier: Membarrier) {
        Self::access(0, 0, AccessKind::Fence);
    }
}
