//! A CPU of the seeded machine.

use super::policy::Urge;
use super::report::What;
use super::world::World;
use crate::machine::soft::{Flavour, seat};
use crate::os::membarrier::Membarrier;
use interleaf::machine::{AccessKind, Context, Cpu, Irq};
use interleaf::units::CpuId;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// A CPU that runs while it holds the baton. Outside of a run, before the scene starts and after it, it is a
/// plain CPU.
#[derive(Debug)]
pub enum Baton {}

impl Cpu for Baton {
    const OBSERVED: bool = true;

    #[track_caller]
    fn access(addr: usize, _len: usize, kind: AccessKind) {
        if let Some(world) = World::running() {
            world.step(What::Access { kind, addr, place: Location::caller() }, Urge::Stay);
        }
    }

    fn id() -> CpuId {
        seat::cpu()
    }

    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        match World::running() {
            Some(world) => world.with_context(f),
            None => seat::with_context(f),
        }
    }

    fn relax() {
        seat::answer();
        if let Some(world) = World::running() {
            world.step(What::Relax, Urge::Yield);
            seat::answer();
        }
    }

    fn sleep(word: &AtomicU32, expected: u32) {
        if word.load(SeqCst) != expected {
            return;
        }
        seat::assert_may_leave();
        let world = World::running().expect("nobody could wake a CPU that sleeps outside of a run");
        world.sleep(word.as_ptr().addr(), || word.load(SeqCst) == expected);
    }

    fn wake(word: &AtomicU32, count: u32) {
        if let Some(world) = World::running() {
            world.wake(word.as_ptr().addr(), count);
        }
    }

    fn interrupts_off() -> Irq {
        seat::interrupts_off()
    }

    fn interrupts_restore(state: Irq) {
        seat::interrupts_restore(state);
    }

    fn preempt_off() {
        seat::preempt_off();
    }

    fn preempt_on() {
        seat::preempt_on();
    }

    fn now_ns() -> u64 {
        World::running().map_or(0, |world| world.now_ns())
    }
}

impl Flavour for Baton {
    fn boundary() {
        seat::answer();
    }

    fn raised(cpu: CpuId) {
        if let Some(world) = World::running() {
            world.raised(cpu);
        }
    }

    /// One CPU runs at a time and every switch is a full fence, so there is nothing to do but to let others
    /// run.
    #[track_caller]
    fn barrier_all(_membarrier: Membarrier) {
        Self::access(0, 0, AccessKind::Fence);
    }
}
