//! The library's `Cpu`: operations of running code on its CPU.

use super::percpu::{self, Idle};
use super::upcalls::sched;
use super::{clock, registers};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering::*};
use interleaf::machine::{Context, Cpu, Irq};
use interleaf::sync::{self, PreemptGuard};
use interleaf::units::CpuId;

/// The CPU that this code runs on.
#[derive(Debug)]
pub enum Core {}

/// Preemption is off on this CPU, until this is dropped.
pub type PreemptOff = PreemptGuard<Core>;

/// Interrupts are off on this CPU: what [`with_interrupts_off`] lends.
#[derive(Debug)]
pub struct InterruptsOff(PhantomData<*const ()>);

/// Calls `f` with interrupts off on this CPU. Calls nest.
#[inline]
pub fn with_interrupts_off<R>(f: impl FnOnce(&InterruptsOff) -> R) -> R {
    sync::with_interrupts_off::<Core, R>(|| f(&InterruptsOff(PhantomData)))
}

/// Idles until an interrupt comes or something else ends the wait, if there is nothing to do, which is asked
/// with interrupts off.
///
/// # Panics
/// Where interrupts are off, or preemption is.
pub fn idle_if(nothing_to_do: impl FnOnce() -> bool) {
    assert!(interrupts_are_on() && !percpu::is_preempt_off(), "code idles that others rely on");
    with_interrupts_off(|_| {
        if nothing_to_do() {
            section_ends();
            // SAFETY: interrupts were on before this closure, as checked, and nothing in it relies on their
            // being off beyond this line.
            unsafe { Idle::wait() };
            section_begins();
        }
    });
}

/// Fetches the line of an address.
#[inline(always)]
fn prefetch(address: usize) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, which reads nothing and traps for no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::without_provenance(address)) };
}

// SAFETY: by the contract's numbers. 1: GS leads to this CPU's structure, whose number `percpu::init` has
// set; `thread::switch_to` asserts that only its own guard keeps the thread on the CPU. 2: that assertion,
// and a switch is a full fence; `Metal::call_handler` asserts what a handler leaves; the count's last bit but
// one would take 2^31 calls. 3: `percpu::thread` is the running thread, and `Current` alone leads to a
// context. 4: interrupts are real. 5: the word is loaded under the lock of the waiters; `wake` takes the
// address. 6: nothing is observed. 7: the interrupt flag; what turns it on says why nothing relies on it
// (`registers::enable_interrupts`). 8: there is one machine.
unsafe impl Cpu for Core {
    const SEVERAL_MACHINES: bool = false;
    const PREFETCH: Option<fn(usize)> = Some(prefetch);
    type CpuWords = [u64; percpu::MAX_CPUS.div_ceil(64)];

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

    /// Known at the CPU's next tick, or where it runs another thread before.
    fn expedite_helper(cpu: CpuId) {
        percpu::of(cpu).expedite();
        if cpu == Self::id() {
            percpu::this().helper_begins();
        }
    }

    fn end_expedite(cpu: CpuId) {
        percpu::of(cpu).end_expedite();
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
        if state.0 != 0 {
            section_ends();
            // SAFETY: by the caller's promise it ends the outermost section: they were on before it.
            unsafe { registers::enable_interrupts() };
        }
    }

    #[inline(always)]
    fn preempt_off() {
        percpu::preempt_off();
    }

    #[inline(always)]
    unsafe fn preempt_on() {
        // SAFETY: the caller's promise is the same.
        unsafe { percpu::preempt_on() };
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
