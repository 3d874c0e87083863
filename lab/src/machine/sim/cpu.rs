//! A CPU in virtual time.

use super::simulation::Simulation;
use crate::machine::soft::{Flavour, cpu_of_thread, current};
use crate::os::membarrier::Membarrier;
use interleaf::machine::{AccessKind, Context, Cpu, Irq};
use interleaf::units::CpuId;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// A CPU whose clock is virtual. Outside of a run, before the CPUs start and after they have ended, it is an
/// ordinary CPU, and takes no time.
#[derive(Debug)]
pub enum Sim {}

// SAFETY: 1: `current::cpu` panics where the thread has entered no CPU of a machine, and `leave` where
// preemption is off; the scheduler suspends a CPU and returns to it with its number. 2: a CPU is a fiber, and
// runs nothing else; all fibers run on one thread, in turns; `handle_interrupts` asserts what a handler
// leaves. 3: the scheduler keeps one context for each fiber. 4: `relax` and `spin` handle an interrupt that
// has arrived. 5: `sleep` loads the word, and leaves the fiber only where it may leave its CPU; `wake` takes
// the address. 6: `access` charges the simulation, which uses nothing of the library. 7: every way to a
// handler asks whether interrupts are on. 8: the number of the bus, which is given out once.
unsafe impl Cpu for Sim {
    cpu_of_thread!();

    const OBSERVED: bool = true;

    #[inline]
    #[track_caller]
    fn access(addr: usize, len: usize, kind: AccessKind) {
        let place = Location::caller();
        Simulation::with(|simulation| simulation.access(addr, len, kind, place));
    }

    #[inline]
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        let mut f = Some(f);
        let mut call = |context: &Context| (f.take().expect("called once"))(context);
        match Simulation::with(|simulation| simulation.with_context(&mut call)) {
            Some(result) => result,
            None => current::with_context(call),
        }
    }

    fn relax() {
        Self::spin(u32::MAX);
    }

    fn spin(limit: u32) -> u32 {
        Simulation::with(|simulation| simulation.spin(limit)).unwrap_or_else(|| {
            current::handle_interrupts();
            1
        })
    }

    fn sleep(word: &AtomicU32, expected: u32) {
        if word.load(SeqCst) == expected {
            current::assert_may_leave();
            let asleep = Simulation::with(|simulation| {
                simulation.sleep(word.as_ptr().addr(), || word.load(SeqCst) == expected);
            });
            asleep.expect("no CPU could wake a CPU that sleeps outside of a run");
        }
    }

    fn wake(word: &AtomicU32, count: u32) {
        Simulation::with(|simulation| simulation.wake(word.as_ptr().addr(), count));
    }

    #[inline]
    unsafe fn interrupts_restore(state: Irq) {
        // SAFETY: the caller's promise is the same, here and below.
        let in_a_run = Simulation::with(|simulation| unsafe {
            current::interrupts_set(state);
            simulation.handle_if_due();
        });
        if in_a_run.is_none() {
            // SAFETY: as above; without a run nothing was restored there.
            unsafe { current::interrupts_restore(state) };
        }
    }

    fn now_ns() -> u64 {
        super::now_ps() / 1000
    }
}

impl Flavour for Sim {
    #[inline]
    fn boundary() {
        if Simulation::with(Simulation::boundary).is_none() {
            current::handle_interrupts();
        }
    }

    #[inline]
    fn raised(cpu: CpuId) {
        Simulation::with(|simulation| simulation.raised(cpu));
    }

    /// One CPU runs at a time and every switch is a full fence, so only time passes.
    #[track_caller]
    fn barrier_all(_membarrier: Membarrier) {
        Self::access(0, 0, AccessKind::Fence);
        Simulation::with(Simulation::barrier_all);
    }
}
