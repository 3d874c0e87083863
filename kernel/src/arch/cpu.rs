//! The library's `Cpu`: operations of running code on its CPU.

use super::upcalls::sched;
use super::{clock, percpu, registers};
use core::sync::atomic::{AtomicU32, Ordering::*};
use interleaf::machine::{Context, Cpu, Irq};
use interleaf::units::CpuId;

/// The CPU that this code runs on.
#[derive(Debug)]
pub enum Core {}

impl Cpu for Core {
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
        sched::yield_now();
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
    fn interrupts_restore(state: Irq) {
        if state.0 != 0 {
            section_ends();
            registers::enable_interrupts();
        }
    }

    #[inline(always)]
    fn preempt_off() {
        percpu::preempt_off();
    }

    #[inline(always)]
    fn preempt_on() {
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
