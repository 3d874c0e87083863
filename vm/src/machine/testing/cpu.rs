//! One CPU for each thread, told by number.

use super::machine::Wires;
use crate::machine::{Context, Cpu, Irq};
use crate::units::CpuId;
use core::cell::{Cell, RefCell};
use core::sync::atomic::AtomicU32;
use std::sync::Arc;

#[cfg(loom)]
use loom::thread::yield_now;
#[cfg(not(loom))]
use std::thread::yield_now;

#[cfg(not(loom))]
std::thread_local! {
    static ME: Cell<u32> = const { Cell::new(0) };
    static WIRES: RefCell<Option<Arc<Wires>>> = const { RefCell::new(None) };
    static CONTEXT: Context = const { Context::new() };
}
#[cfg(loom)]
loom::thread_local! {
    static ME: Cell<u32> = Cell::new(0);
    static WIRES: RefCell<Option<Arc<Wires>>> = RefCell::new(None);
    static CONTEXT: Context = Context::new();
}

/// The CPU of tests. Threads must be given different numbers, as CPUs are not threads.
#[derive(Debug)]
pub enum TestCpu {}

impl TestCpu {
    /// Answers an interrupt, if there is one: what happens between two instructions of a program.
    pub fn take_interrupt() {
        answer();
    }

    /// Makes this thread run on CPU `id` from now on.
    pub fn become_cpu(id: u32) {
        ME.with(|me| me.set(id));
    }
}

/// Makes this thread run on CPU `id`, which hears interrupts through `wires`.
pub(super) fn plug(id: u32, wires: Arc<Wires>) {
    TestCpu::become_cpu(id);
    WIRES.with(|mine| *mine.borrow_mut() = Some(wires));
    answer();
}

/// Whether this CPU has an interrupt to answer.
#[cfg(loom)]
pub(super) fn is_interrupted() -> bool {
    WIRES.with(|mine| mine.borrow().clone()).is_some_and(|wires| wires.is_pending(TestCpu::id().0))
}

/// Answers an interrupt, if there is one.
pub(super) fn answer() {
    let wires = WIRES.with(|mine| mine.borrow().clone());
    if let Some(wires) = wires {
        wires.answer(TestCpu::id().0);
    }
}

impl Cpu for TestCpu {
    fn id() -> CpuId {
        CpuId(ME.with(Cell::get))
    }
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        CONTEXT.with(f)
    }
    fn relax() {
        answer();
        yield_now();
    }
    #[cfg(not(loom))]
    fn sleep(_word: &AtomicU32, _expected: u32) {
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
    fn interrupts_off() -> Irq {
        Irq(0)
    }
    fn interrupts_restore(_state: Irq) {}
    fn preempt_off() {}
    fn preempt_on() {}
    fn now_ns() -> u64 {
        0
    }
}
