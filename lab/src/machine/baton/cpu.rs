//! A CPU of the seeded machine.

use super::policy::SwitchHint;
use super::report::StepKind;
use super::scheduler::Scheduler;
use crate::machine::soft::{Flavour, current};
use crate::os::membarrier::Membarrier;
use interleaf::machine::{AccessKind, Context, Cpu, Irq};
use interleaf::units::CpuId;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// A CPU that runs while it holds the baton. Outside of a run, before the scenario starts and after it, it is
/// an ordinary CPU.
#[derive(Debug)]
pub enum Baton {}

impl Cpu for Baton {
    const OBSERVED: bool = true;

    #[track_caller]
    fn access(addr: usize, _len: usize, kind: AccessKind) {
        if let Some(scheduler) = Scheduler::running() {
            scheduler.step(StepKind::Access { kind, addr, place: Location::caller() }, SwitchHint::Stay);
        }
    }

    fn id() -> CpuId {
        current::cpu()
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

    fn interrupts_off() -> Irq {
        current::interrupts_off()
    }

    fn interrupts_restore(state: Irq) {
        current::interrupts_restore(state);
    }

    fn preempt_off() {
        current::preempt_off();
    }

    fn preempt_on() {
        current::preempt_on();
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
