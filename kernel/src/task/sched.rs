//! The scheduler: one run queue for all CPUs, first in, first out; sleeping and waking by key.
//!
//! # States
//!
//! ```text
//!              spawn                  sleep                 the CPU has left its stack
//!    FREE ──────────► READY ───────────────────► BLOCKING ─────────────────────────────► ASLEEP
//!      ▲                ▲ ▲ runs, or is queued      │ wake                                  │ wake
//!      │ join           │ └──── left its stack ── WOKEN                                     │
//!    ZOMBIE ◄─ exit ────┘ ◄─────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A thread is queued once it is ready and its CPU has left its stack. The two events come in either order:
//! the waker's, and that of the CPU which has left the stack. The state tells each whether the other has
//! happened: a waker that finds BLOCKING stores WOKEN and returns; the CPU that finds WOKEN queues the
//! thread itself.
//!
//! Stores of a state release, and the exchanges and loads that find it acquire. A store of READY pairs with
//! the load in `after_switch`, BLOCKING and WOKEN with each other's exchange, FREE with the exchange of
//! `alloc_thread`, which then has all words of the thread that was. The run queue's lock carries a ready
//! thread to the CPU that runs it.
//!
//! # Locks
//!
//! `WAITERS` (rank 48), then `QUEUE` (rank 50), both with interrupts off for a bounded loop over at most
//! [`MAX_THREADS`] numbers: behind the library's last lock, because the library wakes sleepers while it holds
//! its own.

use super::fork::ForkError;
use crate::arch::apic::{self, Vector};
use crate::arch::cpu::{InterruptsOff, PreemptOff};
use crate::arch::percpu;
use crate::arch::thread::{self, MAX_THREADS, Previous, Thread};
use crate::arch::{Core, MACHINE, cpu};
use crate::memory::{self, tables};
use core::sync::atomic::{AtomicU64, Ordering::*, fence};
use interleaf::machine::{Cpu, Machine};
use interleaf::space::SpaceId;
use interleaf::sync::SpinLock;
use interleaf::units::{CpuId, VirtAddr};

/// Not allocated.
pub const FREE: u32 = 0;
/// Running or in the run queue.
pub const READY: u32 = 1;
/// In the list of waiters; its CPU has not left its stack.
pub const BLOCKING: u32 = 2;
/// Woken before its CPU had left its stack.
pub const WOKEN: u32 = 3;
/// Asleep, on no CPU.
pub const ASLEEP: u32 = 4;
/// Exiting; its CPU has not left its stack.
pub const EXITING: u32 = 5;
/// Exited, not yet joined.
pub const ZOMBIE: u32 = 6;
/// As EXITING, of a detached thread: it is never joined.
pub const EXITING_DETACHED: u32 = 7;

/// Age in nanoseconds of garbage for which an idle CPU interrupts the others. Ticks wake it meanwhile.
const GARBAGE_AGE_NS: u64 = 1_000_000;
/// Nanoseconds between two ticks.
const TICK_NS: u64 = 2_000_000;

/// A list of at most all threads, oldest first.
struct List<T> {
    items: [T; MAX_THREADS],
    len: usize,
}

impl<T: Copy> List<T> {
    const fn new(empty: T) -> Self {
        Self { items: [empty; MAX_THREADS], len: 0 }
    }

    fn push(&mut self, item: T) {
        self.items[self.len] = item;
        self.len += 1;
    }

    fn has(&self, wanted: impl Fn(T) -> bool) -> bool {
        self.items[..self.len].iter().any(|&item| wanted(item))
    }

    /// Removes and returns the oldest that is `wanted`.
    fn take(&mut self, wanted: impl Fn(T) -> bool) -> Option<T> {
        let at = self.items[..self.len].iter().position(|&item| wanted(item))?;
        let item = self.items[at];
        self.items.copy_within(at + 1..self.len, at);
        self.len -= 1;
        Some(item)
    }
}

/// What threads sleep on and are woken by: a word of the kernel's, or one of a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitKey {
    /// The number of the space; 0 for the kernel's own memory.
    space: u64,
    at: usize,
}

impl WaitKey {
    const fn of(at: usize) -> Self {
        Self { space: 0, at }
    }

    /// A word of a space, in whichever processes the threads are that run there.
    pub fn in_space(space: SpaceId, at: VirtAddr) -> Self {
        Self { space: space.0, at: at.0 as usize }
    }
}

/// A word of the kernel's, by its address.
impl From<usize> for WaitKey {
    fn from(at: usize) -> Self {
        Self::of(at)
    }
}

/// Run queue: ready threads, by number.
static QUEUE: SpinLock<List<u16>, Core, 50> = SpinLock::new(List::new(0));
/// Waiters: what each sleeping thread waits for, and its number.
static WAITERS: SpinLock<List<(WaitKey, u16)>, Core, 48> = SpinLock::new(List::new((WaitKey::of(0), 0)));
/// Idle CPUs, one bit each. Set before the last look into the queue, read after a thread was queued:
/// with the fences between, either the CPU finds the thread or the other finds the CPU.
static IDLE: AtomicU64 = AtomicU64::new(0);

fn allows(index: u16, cpu: CpuId) -> bool {
    Thread::at(index.into()).affinity.load(Relaxed) >> cpu.0 & 1 == 1
}

/// Puts a ready thread into the run queue, and interrupts an idle CPU. Interrupts are off.
fn enqueue(thread: &Thread) {
    QUEUE.lock().push(thread.index() as u16);
    fence(SeqCst);
    let idle = IDLE.load(SeqCst) & thread.affinity.load(Relaxed);
    if idle != 0 {
        let cpu = CpuId(idle.trailing_zeros());
        // The CPU that clears the bit sends: one interrupt is enough.
        if IDLE.fetch_and(!(1 << cpu.0), SeqCst) >> cpu.0 & 1 == 1 {
            apic::send(percpu::of(cpu).apic_id(), Vector::RESCHED);
        }
    }
}

/// Interrupts every other CPU, so that a thread of ring 3 there looks whether its process ends.
pub fn interrupt_others() {
    let others = (0..MACHINE.nr_cpus()).map(CpuId).filter(|&cpu| cpu != Core::id());
    others.for_each(|cpu| apic::send(percpu::of(cpu).apic_id(), Vector::RESCHED));
}

/// Runs another ready thread, if there is one.
pub fn yield_now() {
    cpu::with_interrupts_off(|off| switch_away(off, true));
}

/// A reschedule is due: runs another ready thread, if there is one and it may have the CPU now. Never
/// inlined: each drop of a guard has a call of it.
#[inline(never)]
pub fn preempt() {
    if percpu::thread().is_idle_priority.load(Relaxed) && percpu::this().spares_helper() {
        percpu::clear_need_resched();
    } else {
        yield_now();
    }
}

/// Runs another thread: the oldest in the queue; else this one, if it `may_stay`; else the CPU's idle thread.
fn switch_away(off: &InterruptsOff, may_stay: bool) {
    let stay = PreemptOff::new();
    percpu::clear_need_resched();
    let cpu = Core::id();
    let taken = take_ready(cpu).map(|index| Thread::at(index.into()));
    match taken {
        Some(next) => thread::switch_to(next, off, &stay),
        None if may_stay && may_run_here(&percpu::thread(), cpu) => {}
        None => thread::switch_to(Thread::at(cpu.index()), off, &stay),
    }
}

/// The CPU's helper where it is expedited; else the oldest thread in the queue that may run there, one of
/// idle priority only where there is no other.
fn take_ready(cpu: CpuId) -> Option<u16> {
    let mut queue = QUEUE.lock();
    let is_ordinary = |index: u16| !Thread::at(index.into()).is_idle_priority.load(Relaxed);
    if percpu::this().prefers_helper()
        && let Some(helper) = queue.take(|index| allows(index, cpu) && !is_ordinary(index))
    {
        percpu::this().helper_begins();
        return Some(helper);
    }
    queue
        .take(|index| allows(index, cpu) && is_ordinary(index))
        .or_else(|| queue.take(|index| allows(index, cpu)))
}

fn may_run_here(thread: &Thread, cpu: CpuId) -> bool {
    thread.affinity.load(Relaxed) >> cpu.0 & 1 == 1
}

/// Queues, puts to sleep or frees the previous thread, whose stack the CPU has left. Called first on the new
/// stack, with interrupts off.
pub fn after_switch(previous: Previous) {
    let previous = previous.release();
    if is_idle_thread(previous) {
        return;
    }
    // Acquire: pairs with `make_ready`, where a waker was faster; else the store was this CPU's own.
    match previous.state.load(Acquire) {
        READY => enqueue(previous),
        EXITING => {
            previous.state.store(ZOMBIE, Relaxed);
            // Pairs with the load of `join`: the stack is free, and the state is ZOMBIE.
            previous.ended.store(1, Release);
            wake(previous.ended.as_ptr().addr(), u32::MAX);
        }
        // As `free_thread`.
        EXITING_DETACHED => previous.state.store(FREE, Release),
        _ => {
            // Acquire and release: a waker that comes after this sees the whole stack.
            if previous.state.compare_exchange(BLOCKING, ASLEEP, AcqRel, Acquire).is_err() {
                previous.state.store(READY, Release);
                enqueue(previous);
            }
        }
    }
}

fn is_idle_thread(thread: &Thread) -> bool {
    thread.index() < percpu::MAX_CPUS
}

/// Sleeps on `key` if `still` is true, which is evaluated under the lock of the waiters. May return early.
pub fn sleep(key: impl Into<WaitKey>, still: impl FnOnce() -> bool) {
    assert!(!percpu::is_preempt_off(), "a thread sleeps that must stay on its CPU");
    cpu::with_interrupts_off(|off| {
        let me = percpu::thread();
        let mut waiters = WAITERS.lock();
        if still() {
            me.state.store(BLOCKING, Relaxed);
            waiters.push((key.into(), me.index() as u16));
            drop(waiters);
            switch_away(off, false);
        }
    });
}

/// Wakes up to `count` of the threads that sleep on `key`, oldest first. Returns their number.
pub fn wake(key: impl Into<WaitKey>, count: u32) -> u32 {
    let key = key.into();
    cpu::with_interrupts_off(|_| {
        let mut waiters = WAITERS.lock();
        let mut woken = 0;
        while woken < count
            && let Some((_, index)) = waiters.take(|(waits_for, _)| waits_for == key)
        {
            make_ready(Thread::at(index.into()));
            woken += 1;
        }
        woken
    })
}

/// Wakes one thread, whatever it sleeps on.
pub fn wake_thread(thread: &Thread) {
    cpu::with_interrupts_off(|_| {
        let mut waiters = WAITERS.lock();
        if waiters.take(|(_, index)| index as usize == thread.index()).is_some() {
            make_ready(thread);
        }
    });
}

/// Makes a thread ready that was removed from the waiters, whose lock is held.
fn make_ready(thread: &Thread) {
    // Release: what came before the wake-up. Acquire: pairs with ASLEEP of `after_switch`, the whole stack.
    if thread.state.compare_exchange(BLOCKING, WOKEN, AcqRel, Acquire).is_err() {
        thread.state.store(READY, Release);
        enqueue(thread);
    }
}

/// Allocates a thread and maps its stack. `None` where there is no thread or no memory.
pub fn alloc_thread() -> Result<&'static Thread, ForkError> {
    // Acquire: pairs with each store of FREE.
    let free = |thread: &&Thread| thread.state.compare_exchange(FREE, BLOCKING, AcqRel, Relaxed).is_ok();
    let thread = Thread::all()[thread::BOOT_THREAD + 1..].iter().find(free).ok_or(ForkError::TooMany)?;
    thread.ended.store(0, Relaxed);
    if tables::map_stack(thread.index()).is_none() {
        thread.state.store(FREE, Release);
        return Err(ForkError::NoMemory);
    }
    Ok(thread)
}

/// Gives back a thread that was allocated and not prepared.
pub fn free_thread(thread: &Thread) {
    // Pairs with `alloc_thread`.
    thread.state.store(FREE, Release);
}

/// Makes an allocated and prepared thread ready.
pub fn start(thread: &'static Thread, affinity: u64) {
    thread.affinity.store(affinity, Relaxed);
    thread.state.store(READY, Release);
    cpu::with_interrupts_off(|_| enqueue(thread));
}

/// Runs `function(0)` in a new kernel thread of idle priority, which never ends.
/// `None` where there is no thread or no memory.
pub fn spawn_idle_priority(function: extern "C" fn(usize), affinity: u64) -> Option<&'static Thread> {
    spawn_with(function, affinity, true)
}

/// Runs `function(0)` in a new kernel thread, which never ends. `None` where there is no thread or no memory.
pub fn spawn(function: extern "C" fn(usize), affinity: u64) -> Option<&'static Thread> {
    spawn_with(function, affinity, false)
}

fn spawn_with(
    function: extern "C" fn(usize),
    affinity: u64,
    is_idle_priority: bool,
) -> Option<&'static Thread> {
    let thread = alloc_thread().ok()?;
    thread.is_idle_priority.store(is_idle_priority, Relaxed);
    thread.prepare_kernel_thread(function, 0);
    start(thread, affinity);
    Some(thread)
}

/// Waits until a thread has exited, and frees it.
pub fn join(thread: &'static Thread) {
    // Pairs with the store in `after_switch`.
    while thread.ended.load(Acquire) == 0 {
        Core::sleep(&thread.ended, 0);
    }
    // Pairs with `alloc_thread`.
    thread.state.store(FREE, Release);
}

/// Exits the running thread, which another joins.
pub fn exit_thread() -> ! {
    exit_as(EXITING)
}

/// Exits the running thread, which is never joined.
pub fn exit_detached() -> ! {
    exit_as(EXITING_DETACHED)
}

fn exit_as(state: u32) -> ! {
    cpu::with_interrupts_off(|off| {
        percpu::thread().state.store(state, Relaxed);
        let stay = PreemptOff::new();
        let cpu = Core::id();
        let next = take_ready(cpu).map_or(Thread::at(cpu.index()), |index| Thread::at(index.into()));
        thread::end_and_switch_to(next, off, &stay)
    })
}

/// The loop of an idle CPU.
pub extern "C" fn idle(_: usize) {
    let cpu = Core::id();
    loop {
        yield_now();
        memory::vm().idle(GARBAGE_AGE_NS);
        cpu::idle_if(|| {
            IDLE.fetch_or(1 << cpu.0, SeqCst);
            fence(SeqCst);
            !QUEUE.lock().has(|index| allows(index, cpu))
        });
        IDLE.fetch_and(!(1 << cpu.0), SeqCst);
    }
}

/// Turns this CPU's ticks on, at the rate that the boot CPU has measured.
pub fn start_ticks() {
    let per_10_ms = TICKS.load(Relaxed);
    if per_10_ms > 0 {
        apic::tick_every((per_10_ms * TICK_NS / 10_000_000) as u32);
    }
}

/// Makes the boot CPU's idle thread, and measures the timer where there shall be ticks. Before the other CPUs
/// start.
pub fn begin(ticking: bool) {
    let idle_thread = Thread::at(0);
    tables::map_stack(0).expect("there is memory for the first stack");
    idle_thread.prepare_kernel_thread(idle, 0);
    idle_thread.state.store(READY, Relaxed);
    if ticking {
        TICKS.store(apic::calibrate().into(), Relaxed);
        start_ticks();
    }
}

/// Ticks of the timer in 10 ms; 0 for no preemption.
static TICKS: AtomicU64 = AtomicU64::new(0);
