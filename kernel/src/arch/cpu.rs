//! The library's `Cpu`: operations of running code on its CPU.

use super::upcalls::sched;
use super::{clock, percpu, registers};
use core::sync::atomic::{AtomicU32, Ordering::*};
use interleaf::machine::{Context, Cpu, Irq};
use interleaf::units::CpuId;

/// The CPU that this code runs on.
#[derive(Debug)]
pub enum Core {}

impl Core {
    /// Restores the interrupt state, for the kernel's own code.
    #[inline]
    pub fn interrupts_restore(state: Irq) {
        if state.0 != 0 {
            section_ends();
            registers::enable_interrupts();
        }
    }

    /// Ends one `preempt_off`, for the kernel's own code.
    #[inline(always)]
    pub fn preempt_on() {
        percpu::preempt_on();
    }
}

// SAFETY: 1: GS leads to this CPU's structure, whose number `percpu::init` has set; the scheduler moves no
// thread that has preemption off. 2: the scheduler switches where the count of `preempt_off` is 0, checked by
// `sched::sleep`, `yield_now`, in interrupts and in the last `preempt_on`; a switch is a full fence. 3: the
// context lies in the thread, which one CPU runs at a time. 4: interrupts are real. 5: the word is loaded
// under the lock of the waiters; `wake` takes the address. 6: nothing is observed. 7: the interrupt flag.
unsafe impl Cpu for Core {
    #[inline(always)]
    fn id() -> CpuId {
        percpu::id()
    }

    #[inline(always)]
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        f(percpu::thread().context())
    }

    /// Requests of other CPUs come as interrupts.
    #[inline(always)]
    fn relax() {
        core::hint::spin_loop();
    }

    fn yield_now() {
        if !percpu::is_preempt_off() {
            sched::yield_now();
        }
    }

    fn sleep(word: &AtomicU32, expected: u32) {
        sched::sleep(word.as_ptr().addr(), || word.load(SeqCst) == expected);
    }

    fn wake(word: &AtomicU32, count: u32) {
        sched::wake(word.as_ptr().addr(), count);
    }

    #[inline]
    fn interrupts_off() -> Irq {
        let flags = registers::flags() & registers::INTERRUPT_FLAG;
        registers::disable_interrupts();
        if flags != 0 {
            section_begins();
        }
        Irq(flags)
    }

    #[inline]
    unsafe fn interrupts_restore(state: Irq) {
        Core::interrupts_restore(state);
    }

    #[inline(always)]
    fn preempt_off() {
        percpu::preempt_off();
    }

    #[inline(always)]
    unsafe fn preempt_on() {
        percpu::preempt_on();
    }

    fn now_ns() -> u64 {
        clock::now_ns()
    }
}

/// Interrupts have just gone off on this CPU: notes when.
#[inline(always)]
pub fn section_begins() {
    percpu::this().section_began(registers::time_stamp());
}

/// Interrupts are about to come on again: notes for how long they were off, if never longer.
#[inline(always)]
pub fn section_ends() {
    percpu::this().section_ended(registers::time_stamp());
}

/// Whether interrupts are on.
pub fn interrupts_are_on() -> bool {
    registers::flags() & registers::INTERRUPT_FLAG != 0
}
