//! A CPU whose accesses are recorded.

use super::nmi;
use super::recorder::{Touch, note_access};
use crate::machine::host::Host;
use crate::machine::soft::{Flavour, cpu_of_thread, current};
use interleaf::machine::{AccessKind, Context, Cpu, Irq};
use std::panic::Location;
use std::sync::atomic::AtomicU32;

/// A [`Host`] CPU that reports every access through the door to the recorder.
#[derive(Debug)]
pub enum Watch {}

// SAFETY: 1 to 5, 8: a `Host` CPU. 6: the recorder keeps what it hears in memory of its own. 7: the same, but
// for a handler of NMIs that a test has come at an access, as the rule says.
unsafe impl Cpu for Watch {
    cpu_of_thread!();

    const OBSERVED: bool = true;

    #[inline]
    #[track_caller]
    fn access(addr: usize, len: usize, kind: AccessKind) {
        note_access(Touch {
            cpu: current::binding().cpu,
            addr,
            len_bytes: len,
            kind,
            place: Location::caller(),
        });
        nmi::note_access();
    }

    #[inline]
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        Host::with_context(f)
    }

    fn relax() {
        Host::relax();
    }

    fn yield_now() {
        Host::yield_now();
    }

    fn sleep(word: &AtomicU32, expected: u32) {
        Host::sleep(word, expected);
    }

    fn wake(word: &AtomicU32, count: u32) {
        Host::wake(word, count);
    }

    unsafe fn interrupts_restore(state: Irq) {
        // SAFETY: the caller's promise is the same.
        unsafe { Host::interrupts_restore(state) };
    }

    fn now_ns() -> u64 {
        Host::now_ns()
    }
}

impl Flavour for Watch {
    #[inline]
    fn boundary() {
        Host::boundary();
    }
}

#[cfg(test)]
#[path = "tests/cpu.rs"]
mod tests;
