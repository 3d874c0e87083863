//! Helpers: a kernel thread on each CPU, behind all other threads, that runs what the library installs.
//!
//! ```text
//!   turn:   0 ─ installed ─► 1 ─ taken away ─► 2 ─ installed ─► 3 ...
//!                            │                 ▲
//!   helper: asleep ──wakes──►│ inside + 1      │ waits until inside = 0
//!                            │ turn still 1? ── no: inside - 1, sleeps
//!                            │ runs it, once; inside - 1
//! ```
//!
//! Of a helper that counts itself in and the thread that takes the program away, one sees the other: both
//! store first, then look, and all four are in one order (SeqCst).

use super::thread::Thread;
use super::upcalls::sched;
use super::{MACHINE, Metal};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use interleaf::machine::{Callback, Cpu, Machine};

/// Odd while a program is installed. Helpers sleep on it.
static TURN: AtomicU32 = AtomicU32::new(0);
/// Helpers that run the program, or look whether they may.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// The program's function and data. Written while the turn is even and nobody is inside.
static CALL: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static DATA: AtomicUsize = AtomicUsize::new(0);

/// Has helpers run a program, once each, or takes it away and waits until all have left it. One caller at a
/// time.
pub fn install(help: Option<Callback<Metal>>) {
    if TURN.load(Relaxed) & 1 == 1 {
        TURN.fetch_add(1, SeqCst);
        while INSIDE.load(SeqCst) != 0 {
            sched::yield_now();
        }
    }
    if let Some(Callback { call, data }) = help {
        CALL.store(call as *mut (), Relaxed);
        DATA.store(data, Relaxed);
        TURN.fetch_add(1, SeqCst);
        super::Core::wake(&TURN, u32::MAX);
    }
}

/// The program that is installed, to be put back later. Nobody changes it meanwhile.
pub fn installed() -> Option<Callback<Metal>> {
    (TURN.load(SeqCst) & 1 == 1).then(|| Callback { call: call(), data: DATA.load(Relaxed) })
}

/// What the turn says is installed.
fn call() -> unsafe fn(&Metal, usize) {
    // SAFETY: `install` stored a function of this type before it made the turn odd, which the caller saw.
    unsafe { core::mem::transmute::<*mut (), unsafe fn(&Metal, usize)>(CALL.load(Relaxed)) }
}

/// Starts a helper on each CPU that is there. Says how many, where there is no memory for all.
pub fn start() -> u32 {
    let cpus = 0..MACHINE.nr_cpus();
    cpus.map_while(|cpu| sched::spawn_behind_others(help, 1 << cpu)).map(|_: &Thread| 1).sum()
}

/// A helper's life.
fn help(_: usize) {
    let mut last = 0;
    loop {
        let turn = TURN.load(SeqCst);
        if turn & 1 == 0 || turn == last {
            super::Core::sleep(&TURN, turn);
            continue;
        }
        INSIDE.fetch_add(1, SeqCst);
        if TURN.load(SeqCst) == turn {
            last = turn;
            // SAFETY: the turn said, after this helper had counted itself in, that the program is installed;
            // who takes it away waits until nobody is inside. It may be called with its data on any CPU.
            unsafe { call()(&MACHINE, DATA.load(Relaxed)) };
        }
        INSIDE.fetch_sub(1, SeqCst);
    }
}
