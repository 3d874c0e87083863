//! The only CPU, with the only thread: nothing to wait for, no CPU to interrupt.

use core::sync::atomic::AtomicU32;
use interleaf::machine::{Context, Cpu, Irq};
use interleaf::units::CpuId;

/// The CPU.
#[derive(Debug)]
pub enum Only {}

struct OneThread(Context);

// SAFETY: the program has one thread, so nothing is shared.
unsafe impl Sync for OneThread {}

static CONTEXT: OneThread = OneThread(Context::new());

// SAFETY: 1: CPU 0 of 1. 2, 3: the program has one thread. 4: no CPU sends an interrupt. 5: `sleep` returns
// at once. 6: nothing is observed. 7: there is no handler. 8: there is one machine.
unsafe impl Cpu for Only {
    type CpuWords = [u64; 1];
    const SEVERAL_MACHINES: bool = false;

    fn id() -> CpuId {
        CpuId(0)
    }
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        f(&CONTEXT.0)
    }
    fn relax() {
        core::hint::spin_loop();
    }
    fn sleep(_word: &AtomicU32, _expected: u32) {}
    fn wake(_word: &AtomicU32, _count: u32) {}
    fn interrupts_off() -> Irq {
        Irq(0)
    }
    unsafe fn interrupts_restore(_state: Irq) {}
    fn preempt_off() {}
    unsafe fn preempt_on() {}
    fn now_ns() -> u64 {
        0
    }
}
