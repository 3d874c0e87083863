//! What a kind of software CPU adds to [`Cpu`].

use crate::os::membarrier::Membarrier;
use interleaf::machine::Cpu;
use interleaf::units::CpuId;

/// A kind of software CPU. Its [`id`](Cpu::id) is the [current CPU](super::current) of the thread.
pub trait Flavour: Cpu {
    /// Called between two instructions of user code: handles interrupts, gives the CPU to a task that waits
    /// for it.
    fn boundary();

    /// The line of `cpu` was raised by this CPU.
    #[inline(always)]
    fn raised(cpu: CpuId) {
        let _ = cpu;
    }

    /// Makes every CPU pass a full fence.
    fn barrier_all(membarrier: Membarrier) {
        membarrier.all_threads();
    }
}
