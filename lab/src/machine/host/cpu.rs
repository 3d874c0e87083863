//! A CPU of the timed machine.

use super::task;
use crate::machine::soft::bus::RESCHEDULE;
use crate::machine::soft::{Flavour, cpu_of_thread, current};
use crate::os::futex;
use interleaf::machine::{Context, Cpu, Irq};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Instant;

/// A CPU that is a host thread. Nothing is observed: the door is plain instructions.
#[derive(Debug)]
pub enum Host {}

/// Number of calls of `relax` after which the thread yields to the host, which may have fewer cores than
/// CPUs.
const RELAXES_BEFORE_YIELD: u32 = 256;

/// Fetches the line of an address.
#[inline(always)]
fn prefetch(address: usize) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, which reads nothing and traps for no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::without_provenance(address)) };
}

// SAFETY: 1: `current::cpu` panics where the thread has entered no CPU of a machine, and `leave` where
// preemption is off. 2: `current::enter` occupies the CPU, in a word that one thread at a time can set, with
// acquire and release; a thread leaves its CPU in `current::leave` only; `handle_interrupts` asserts what a
// handler leaves. The count has 64 bits. 3:
// thread-local. 4: `relax` handles interrupts. 5: a futex, which reads the word and nothing else; the thread
// has left its CPU meanwhile, which it cannot with preemption or interrupts off. 6: nothing is observed. 7:
// `handle_interrupts` looks at the flag. 8: the number of the bus, which is given out once.
unsafe impl Cpu for Host {
    cpu_of_thread!();

    const PREFETCH: Option<fn(usize)> = Some(prefetch);

    #[inline]
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        current::with_context(f)
    }

    fn relax() {
        thread_local!(static RELAXED: Cell<u32> = const { Cell::new(0) });
        current::handle_interrupts();
        std::hint::spin_loop();
        let count = RELAXED.get() + 1;
        RELAXED.set(count % RELAXES_BEFORE_YIELD);
        if count == RELAXES_BEFORE_YIELD {
            std::thread::yield_now();
        }
    }

    fn yield_now() {
        task::yield_now();
        Self::relax();
    }

    fn sleep(word: &AtomicU32, expected: u32) {
        if word.load(SeqCst) == expected {
            task::without_cpu(|| futex::wait(word, expected));
        }
    }

    fn wake(word: &AtomicU32, count: u32) {
        futex::wake(word, count);
    }

    #[inline]
    unsafe fn interrupts_restore(state: Irq) {
        // SAFETY: the caller's promise is the same.
        unsafe { current::interrupts_restore(state) };
    }

    fn now_ns() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

impl Flavour for Host {
    #[inline]
    fn boundary() {
        let pending = current::pending();
        if pending != 0 {
            handle_pending(pending);
        }
    }
}

#[cold]
fn handle_pending(pending: u32) {
    current::handle_interrupts();
    if pending & RESCHEDULE != 0 {
        task::reschedule();
    }
}
