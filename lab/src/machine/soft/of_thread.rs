//! What every kind of software CPU does alike.

/// The items of [`Cpu`](interleaf::machine::Cpu) that say which CPU the host thread is, and keep it there:
/// [`current`](super::current) knows. Within an implementation of `Cpu`, which derives its rules 1, 2 and 8
/// from them.
macro_rules! cpu_of_thread {
    () => {
        type CpuWords = [u64; 64];

        const SEVERAL_MACHINES: bool = true;

        #[inline]
        fn id() -> interleaf::units::CpuId {
            $crate::machine::soft::current::cpu()
        }

        #[inline]
        fn machine() -> std::num::NonZeroU32 {
            $crate::machine::soft::current::machine()
        }

        #[inline]
        fn interrupts_off() -> interleaf::machine::Irq {
            $crate::machine::soft::current::interrupts_off()
        }

        #[inline(always)]
        fn preempt_off() {
            $crate::machine::soft::current::preempt_off();
        }

        #[inline(always)]
        unsafe fn preempt_on() {
            // SAFETY: the caller's promise is the same.
            unsafe { $crate::machine::soft::current::preempt_on() };
        }
    };
}

pub(crate) use cpu_of_thread;
