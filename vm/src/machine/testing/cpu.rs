//! One CPU for each thread, by number.

use super::interrupt_lines::InterruptLines;
use crate::machine::{Context, Cpu, Irq};
use crate::units::CpuId;
use core::cell::{Cell, RefCell};
use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;
#[cfg(not(loom))]
use core::sync::atomic::Ordering::SeqCst;
#[cfg(not(loom))]
use std::boxed::Box;
use std::sync::Arc;
#[cfg(not(loom))]
use std::time::Instant;

#[cfg(loom)]
use loom::thread::yield_now;
#[cfg(not(loom))]
use std::thread::yield_now;

#[cfg(not(loom))]
std::thread_local! {
    static ME: Cell<u32> = const { Cell::new(0) };
    static MACHINE: Cell<NonZeroU32> = const { Cell::new(NonZeroU32::MIN) };
    static LINES: RefCell<Option<Arc<InterruptLines>>> = const { RefCell::new(None) };
    static CONTEXT: Context = const { Context::new() };
    static INTERRUPTS_OFF: Cell<bool> = const { Cell::new(false) };
    static PREEMPT_DEPTH: Cell<u32> = const { Cell::new(0) };
    static WHEN_PREEMPTIBLE: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
    static PREFETCHED: RefCell<Option<std::vec::Vec<usize>>> = const { RefCell::new(None) };
}
#[cfg(loom)]
loom::thread_local! {
    static ME: Cell<u32> = Cell::new(0);
    static MACHINE: Cell<NonZeroU32> = Cell::new(NonZeroU32::MIN);
    static LINES: RefCell<Option<Arc<InterruptLines>>> = RefCell::new(None);
    static CONTEXT: Context = Context::new();
    static INTERRUPTS_OFF: Cell<bool> = Cell::new(false);
}

/// Notes an address where [`TestCpu::prefetched`] listens.
#[cfg(not(loom))]
fn note_prefetch(address: usize) {
    PREFETCHED.with_borrow_mut(|noted| noted.iter_mut().for_each(|all| all.push(address)));
}
#[cfg(loom)]
fn note_prefetch(_: usize) {}

/// The CPU of tests. Threads must be given different numbers, as CPUs are not threads.
#[derive(Debug)]
pub enum TestCpu {}

impl TestCpu {
    /// Addresses that `f` asks this thread's CPU to fetch, in order.
    #[cfg(not(loom))]
    pub fn prefetched(f: impl FnOnce()) -> std::vec::Vec<usize> {
        PREFETCHED.set(Some(std::vec::Vec::new()));
        f();
        PREFETCHED.take().expect("set above")
    }

    /// Handles an interrupt, if there is one, as between two instructions of a program.
    pub fn take_interrupt() {
        handle_interrupt();
    }

    /// Makes this thread run on CPU `id` from now on.
    pub fn become_cpu(id: u32) {
        ME.with(|me| me.set(id));
    }

    /// Makes this thread run on a machine with this number from now on. Every thread begins on the first.
    #[cfg(not(loom))]
    pub fn become_cpu_of_machine(machine: u32) {
        MACHINE.with(|mine| mine.set(NonZeroU32::new(machine).unwrap()));
    }
}

#[cfg(not(loom))]
impl TestCpu {
    /// How often preemption was turned off, less the times that it was turned on again.
    pub fn preempt_depth() -> u32 {
        PREEMPT_DEPTH.with(Cell::get)
    }

    /// From now on `f` is called wherever this thread turns preemption on, and where it sleeps: there a
    /// kernel may switch to another one. Not while the helper of this CPU is expedited: it would be back a
    /// tick later.
    pub fn when_preemptible(f: impl Fn() + 'static) {
        WHEN_PREEMPTIBLE.with(|when| *when.borrow_mut() = Some(Box::new(f)));
    }

    fn is_preemptible() {
        // Not again for what is called itself.
        let call = WHEN_PREEMPTIBLE.with(|when| when.take());
        if let Some(call) = call {
            if Self::nr_expedited() == 0 {
                call();
            }
            WHEN_PREEMPTIBLE.with(|when| *when.borrow_mut() = Some(call));
        }
    }

    /// How often the helper of this CPU is expedited.
    pub fn nr_expedited() -> u32 {
        let lines = LINES.with(|mine| mine.borrow().clone());
        lines.map_or(0, |lines| lines.expedited(Self::id()).load(SeqCst))
    }

    fn change_expedited(cpu: CpuId, change: impl Fn(u32) -> u32) {
        if let Some(lines) = LINES.with(|mine| mine.borrow().clone()) {
            lines.expedited(cpu).fetch_update(SeqCst, SeqCst, |nr| Some(change(nr))).unwrap();
        }
    }
}

/// Makes this thread run on CPU `id`, whose interrupts come through `lines`.
pub(super) fn attach(id: u32, lines: Arc<InterruptLines>) {
    TestCpu::become_cpu(id);
    LINES.with(|mine| *mine.borrow_mut() = Some(lines));
    handle_interrupt();
}

/// Whether this CPU has an interrupt to handle.
#[cfg(loom)]
pub(super) fn is_interrupted() -> bool {
    LINES.with(|mine| mine.borrow().clone()).is_some_and(|lines| lines.is_pending(TestCpu::id().0))
}

/// Handles an interrupt, if there is one and interrupts are on.
pub(super) fn handle_interrupt() {
    let lines = LINES.with(|mine| mine.borrow().clone());
    if let Some(lines) = lines.filter(|_| !INTERRUPTS_OFF.with(Cell::get)) {
        lines.handle(TestCpu::id().0);
    }
}

// SAFETY: a CPU of tests is a thread. 1, 2: `run_as` and `become_cpu` give threads that run at once different
// numbers; both exist in the library's own tests only. A thread stays the CPU that it is until it calls them,
// and nothing here runs another thread on it. 3: thread-local. 4: `relax` takes the interrupt. 5: `sleep`
// accesses the word only where loom models it, by loads. 6: nothing is observed. 7: `handle_interrupt`
// looks at the flag. 8: tests share nothing between machines, but where they give them different numbers.
unsafe impl Cpu for TestCpu {
    /// Models have few CPUs; one word keeps them small.
    type CpuWords = [u64; if cfg!(loom) { 1 } else { 64 }];
    const SEVERAL_MACHINES: bool = true;
    /// Models read no word more.
    const PREFETCH: Option<fn(usize)> = if cfg!(loom) { None } else { Some(note_prefetch) };

    fn id() -> CpuId {
        CpuId(ME.with(Cell::get))
    }
    fn machine() -> NonZeroU32 {
        MACHINE.with(Cell::get)
    }
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        CONTEXT.with(f)
    }
    fn relax() {
        handle_interrupt();
        yield_now();
    }
    /// A turn of the host's scheduler is a round, and as many more as it takes 10 us: beside other work it
    /// takes milliseconds, and a wait that is given up must not take minutes then.
    #[cfg(not(loom))]
    fn spin(limit: u32) -> u32 {
        let began = Instant::now();
        Self::relax();
        let more = began.elapsed().as_micros() / 10;
        limit.min(u32::try_from(more + 1).unwrap_or(limit))
    }
    #[cfg(not(loom))]
    fn sleep(_word: &AtomicU32, _expected: u32) {
        TestCpu::is_preemptible();
        yield_now();
    }
    #[cfg(not(loom))]
    fn wake(_word: &AtomicU32, _count: u32) {}
    #[cfg(loom)]
    fn sleep(word: &AtomicU32, expected: u32) {
        super::sleepers::sleep(word, expected);
    }
    #[cfg(loom)]
    fn wake(word: &AtomicU32, count: u32) {
        super::sleepers::wake(word, count);
    }
    #[cfg(not(loom))]
    fn expedite_helper(cpu: CpuId) {
        TestCpu::change_expedited(cpu, |nr| nr + 1);
    }
    #[cfg(not(loom))]
    fn end_expedite(cpu: CpuId) {
        TestCpu::change_expedited(cpu, |nr| nr.saturating_sub(1));
    }
    fn interrupts_off() -> Irq {
        Irq(usize::from(INTERRUPTS_OFF.with(|off| off.replace(true))))
    }
    unsafe fn interrupts_restore(state: Irq) {
        INTERRUPTS_OFF.with(|off| off.set(state.0 != 0));
    }
    #[cfg(not(loom))]
    fn preempt_off() {
        PREEMPT_DEPTH.with(|depth| depth.set(depth.get() + 1));
    }
    #[cfg(not(loom))]
    unsafe fn preempt_on() {
        let depth = PREEMPT_DEPTH.with(|depth| depth.replace(depth.get() - 1));
        if depth == 1 {
            TestCpu::is_preemptible();
        }
    }
    #[cfg(loom)]
    fn preempt_off() {}
    #[cfg(loom)]
    unsafe fn preempt_on() {}
    fn now_ns() -> u64 {
        0
    }
}
