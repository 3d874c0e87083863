//! Functions that each run in a kernel thread of their own.

use super::{BOOT_THREAD, Thread};
use crate::arch::upcalls::sched;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering::*};

/// Most functions at once: they are kept on the stack.
pub const MAX_PARTS: usize = 128;

/// One thread's part of [`run_all`].
struct ThreadWork<'a> {
    program: &'a (dyn Fn() + Sync),
    /// Threads that have not ended their parts.
    left: &'a AtomicU32,
}

/// Runs `programs[n]` in a thread of its own, on CPU `n` where `pinned`, and returns when all have ended.
pub fn run_all(programs: &[&(dyn Fn() + Sync)], pinned: bool) {
    run_on(programs, |n| if pinned { 1 << n } else { u64::MAX });
}

/// As [`run_all`], on the CPUs that `cpus_of(n)` has a bit for.
pub fn run_on(programs: &[&(dyn Fn() + Sync)], cpus_of: impl Fn(usize) -> u64) {
    let left = AtomicU32::new(programs.len() as u32);
    let nothing = ThreadWork { program: &|| (), left: &left };
    let mut parts = [const { None }; MAX_PARTS];
    let mut threads = [BOOT_THREAD; MAX_PARTS];
    for (n, &program) in programs.iter().enumerate() {
        let part = parts[n].insert(ThreadWork { program, ..nothing });
        let thread = sched::alloc_thread().expect("there are threads and memory for stacks");
        // SAFETY: the part is not moved or dropped before the assertion below has found that every thread has
        // run its own, and no thread uses it after that.
        unsafe { thread.prepare_to_call(run_part, ptr::from_ref(part).expose_provenance()) };
        sched::start(thread, cpus_of(n));
        threads[n] = thread.index();
    }
    threads[..programs.len()].iter().for_each(|&index| sched::join(Thread::at(index)));
    assert_eq!(left.load(Acquire), 0, "a thread that was joined still runs");
}

/// # Safety
/// `argument` is the exposed address of a [`ThreadWork`] that lives until its `left` is counted down.
unsafe extern "C" fn run_part(argument: usize) {
    // SAFETY: the caller's promise.
    let ThreadWork { program, left } = unsafe { &*ptr::with_exposed_provenance::<ThreadWork<'_>>(argument) };
    program();
    left.fetch_sub(1, Release);
}
