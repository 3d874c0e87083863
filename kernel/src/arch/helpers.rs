//! Helpers: a kernel thread of idle priority on each CPU, which runs the handler that the library installs.
//! While one is waited for it is expedited: it then comes before other threads (`PerCpu::spares_helper`).
//!
//! ```text
//!   generation:  0 ─ installed ─► 1 ─ removed ─► 2 ─ installed ─► 3 ...
//!                                 │              ▲
//!   helper:      asleep ──wakes──►│ running + 1  │ waits until running = 0
//!                                 │ generation still 1? ── no: running - 1, sleeps
//!                                 │ calls the handler once; running - 1
//! ```
//!
//! Of a helper that counts itself and the thread that removes the handler, one sees the other: both store
//! first, then load, and all four are SeqCst.

use super::thread::Thread;
use super::upcalls::sched;
use super::{Core, MACHINE, Metal};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use interleaf::machine::{Callback, Cpu, Machine};
use interleaf::units::CpuId;

/// Odd while a handler is installed. Helpers sleep on it.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Helpers that call the handler, or check whether they may.
static RUNNING: AtomicU32 = AtomicU32::new(0);
/// The handler's function and data. Written while the generation is even and no helper is counted.
static CALL: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static DATA: AtomicUsize = AtomicUsize::new(0);

/// A handler is being installed or removed.
static INSTALLING: AtomicBool = AtomicBool::new(false);

/// Makes the helpers call a handler, once each, or removes it and waits until all have returned from it.
/// False, and no change, where they have another one.
///
/// # Panics
/// Where another caller is at it.
///
/// # Safety
/// As for [`Machine::set_helper_handler`].
pub unsafe fn install(help: Option<Callback<Metal>>) -> bool {
    assert!(!INSTALLING.swap(true, Acquire), "two handlers for helpers at once");
    let is_installed = GENERATION.load(Relaxed) & 1 == 1;
    if is_installed && help.is_some() {
        INSTALLING.store(false, Release);
        return false;
    }
    if is_installed {
        remove(|| ());
    }
    if let Some(Callback { call, data }) = help {
        CALL.store(call as *mut (), Relaxed);
        DATA.store(data, Relaxed);
        GENERATION.fetch_add(1, SeqCst);
        Core::wake(&GENERATION, u32::MAX);
    }
    INSTALLING.store(false, Release);
    true
}

/// Removes the handler that is installed, whose helpers leave it when `dismiss` is called.
///
/// # Panics
/// Where another caller is at it.
pub fn take_away(dismiss: impl Fn()) {
    assert!(!INSTALLING.swap(true, Acquire), "two handlers for helpers at once");
    if GENERATION.load(Relaxed) & 1 == 1 {
        remove(dismiss);
    }
    INSTALLING.store(false, Release);
}

/// Waits until all helpers have returned from the handler. `dismiss` is called again and again: a helper that
/// has looked at the generation may come to where it is dismissed only after a call.
fn remove(dismiss: impl Fn()) {
    GENERATION.fetch_add(1, SeqCst);
    // Other threads may keep them from their CPUs.
    let cpus = || (0..MACHINE.nr_cpus()).map(CpuId);
    cpus().for_each(Core::expedite_helper);
    while RUNNING.load(SeqCst) != 0 {
        dismiss();
        sched::yield_now();
    }
    cpus().for_each(Core::end_expedite);
}

/// The handler that is installed, to be restored later. The caller excludes `install` meanwhile.
pub fn handler() -> Option<Callback<Metal>> {
    let is_installed = GENERATION.load(SeqCst) & 1 == 1;
    call().filter(|_| is_installed).map(|call| Callback { call, data: DATA.load(Relaxed) })
}

/// The function of the handler that was installed last; `None` before the first.
fn call() -> Option<unsafe fn(&Metal, usize)> {
    let call = CALL.load(Relaxed);
    // SAFETY: what is not null is a function of this type: `install` alone stores there.
    (!call.is_null()).then(|| unsafe { core::mem::transmute::<*mut (), unsafe fn(&Metal, usize)>(call) })
}

/// Starts a helper on each CPU. Returns their number, which is less where memory runs out.
pub fn start() -> u32 {
    let cpus = 0..MACHINE.nr_cpus();
    cpus.map_while(|cpu| sched::spawn_idle_priority(helper_main, 1 << cpu)).map(|_: &Thread| 1).sum()
}

/// The main loop of a helper.
extern "C" fn helper_main(_: usize) {
    let mut last = 0;
    loop {
        let generation = GENERATION.load(SeqCst);
        if generation & 1 == 0 || generation == last {
            Core::sleep(&GENERATION, generation);
            continue;
        }
        RUNNING.fetch_add(1, SeqCst);
        if GENERATION.load(SeqCst) == generation
            && let Some(call) = call()
        {
            last = generation;
            // SAFETY: the generation said, after this helper had counted itself, that the handler is
            // installed, function and data; `install` waits until no helper is counted. It may be called with
            // its data on any CPU, by the contract of `install`.
            unsafe { call(&MACHINE, DATA.load(Relaxed)) };
        }
        RUNNING.fetch_sub(1, SeqCst);
    }
}
