//! The machine's part of threads: a stack, the switch from one to another (`switch`), and kernel threads that
//! run functions to their ends (`run_all`). The scheduler is
//! `task::sched`; it may err, and the machine ends then, because this file checks what it is asked for:
//!
//! ```text
//!   stack_pointer = 0    nothing to continue: the thread was never prepared, or has ended
//!                 ≠ 0    where it goes on, if it is on no CPU
//!   on_cpu               taken to prepare it or to switch to it; given up when its stack was left
//! ```

mod run_all;
mod signals;
mod switch;

pub use run_all::{MAX_PARTS, run_all, run_on};
pub use signals::ThreadSignals;
pub use switch::{Previous, end_and_switch_to, switch_to};

use super::percpu::{self, PerCpu};
use super::registers::{self, FS_BASE};
use super::space::{self, STACKS};
use super::spaces::{Space, SpaceHandle, ThreadSpace};
use super::sse::SseState;
use super::trap::{Frame, Saved};
use super::upcalls::sched;
use super::{cpu, user};
use core::marker::PhantomData;
use core::ops::{Deref, Range};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use interleaf::machine::Context;
use interleaf::units::CpuId;
use interleaf_kernel::core::signal::AlternateStack;

/// Most threads, idle threads included. The memory for a stack is taken when a number is first used.
pub const MAX_THREADS: usize = 4096;
/// Bytes of a thread's kernel stack, and from one to the next.
pub const STACK_BYTES: usize = 32 << 10;
const STACK_STRIDE: usize = 64 << 10;
/// Bytes that an entry on a kernel stack may need: a frame, SSE state, and room to panic.
const STACK_RESERVE: u64 = 3 << 10;

/// The machine's part of a thread. Words without a comment are touched by the thread itself, or by the CPU
/// that prepares it, switches to it or from it; `on_cpu` hands them on.
pub struct Thread {
    context: OwnContext,
    stack_pointer: AtomicU64,
    stack_top: AtomicU64,
    stack_limit: AtomicU64,
    fs_base: AtomicU64,
    /// The space that the thread runs in.
    space: ThreadSpace,
    /// A CPU runs it or is about to leave its stack, or it is being prepared. The releasing clear pairs with
    /// the acquiring swap of the next CPU.
    on_cpu: AtomicBool,
    /// The scheduler's state; see `sched`.
    pub state: AtomicU32,
    /// CPUs that may run it, one bit each.
    pub affinity: AtomicU64,
    /// It runs only where no ordinary thread is ready.
    pub is_idle_priority: AtomicBool,
    /// The number that programs know it by.
    pub number: AtomicU32,
    /// The process that it is a thread of, as a place in the table of processes.
    pub process: AtomicU32,
    /// Not 0: the thread looks, before it returns to ring 3, whether its program ends, and what a tick asks.
    pub exit_pending: AtomicU32,
    /// Where a program wants a 0 stored and woken when the thread ends; 0 for nowhere.
    pub clear_tid: AtomicU64,
    /// Blocked signals, and the stack for handlers.
    pub signals: ThreadSignals,
    /// Set when the thread has exited; the joining thread sleeps on it.
    pub ended: AtomicU32,
}

/// The library's state of a thread, reached by the thread itself alone.
struct OwnContext(Context);

// SAFETY: the only way to the context is `Current::context`: a `Current` is the running thread's and never
// leaves it, so a context has one user at a time, and `on_cpu` orders them.
unsafe impl Sync for OwnContext {}

/// Every thread there can be. The first ones are the CPUs' idle threads; then the one that boots.
static THREADS: [Thread; MAX_THREADS] = [const { Thread::new() }; MAX_THREADS];

/// The thread that boots.
pub const BOOT_THREAD: usize = percpu::MAX_CPUS;

unsafe extern "C" {
    fn kernel_thread_entry();
    fn user_thread_entry();
}

impl Thread {
    /// Of a thread of the kernel's.
    pub const NO_PROCESS: u32 = u32::MAX;

    const fn new() -> Self {
        Self {
            context: OwnContext(Context::new()),
            stack_pointer: AtomicU64::new(0),
            stack_top: AtomicU64::new(0),
            stack_limit: AtomicU64::new(0),
            fs_base: AtomicU64::new(0),
            space: ThreadSpace::new(),
            on_cpu: AtomicBool::new(false),
            state: AtomicU32::new(sched::FREE),
            affinity: AtomicU64::new(u64::MAX),
            is_idle_priority: AtomicBool::new(false),
            number: AtomicU32::new(0),
            process: AtomicU32::new(Self::NO_PROCESS),
            exit_pending: AtomicU32::new(0),
            clear_tid: AtomicU64::new(0),
            signals: ThreadSignals::new(),
            ended: AtomicU32::new(0),
        }
    }

    /// Its number.
    pub fn index(&self) -> usize {
        ((&raw const *self).addr() - (&raw const THREADS).addr()) / size_of::<Thread>()
    }

    /// The thread with this number.
    pub fn at(index: usize) -> &'static Thread {
        &THREADS[index]
    }

    /// Every thread.
    pub fn all() -> &'static [Thread] {
        &THREADS
    }

    /// Whether it is a thread of a process; stale at once.
    pub fn is_of_a_process(&self) -> bool {
        self.process.load(Relaxed) != Self::NO_PROCESS
    }

    /// Where its stack lies.
    pub fn stack_of(index: usize) -> Range<usize> {
        let top = STACKS + (index + 1) * STACK_STRIDE;
        top - STACK_BYTES..top
    }

    /// The base of its FS.
    pub fn fs_base(&self) -> u64 {
        self.fs_base.load(Relaxed)
    }

    fn set_stack(&self, stack: Range<usize>) {
        self.stack_top.store(stack.end as u64, Relaxed);
        self.stack_limit.store(stack.start as u64 + STACK_RESERVE, Relaxed);
    }

    /// Prepares the thread to run `function(argument)` on its stack.
    pub fn prepare_kernel_thread(&self, function: extern "C" fn(usize), argument: usize) {
        // SAFETY: a safe function may be called with any argument.
        unsafe { self.prepare_to_call(function, argument) };
    }

    /// Prepares the thread to run `function(argument)` on its stack.
    ///
    /// # Safety
    /// The function may be called with the argument when the thread runs.
    unsafe fn prepare_to_call(&self, function: unsafe extern "C" fn(usize), argument: usize) {
        let mut stack = FreshStack::of(self);
        self.fs_base.store(0, Relaxed);
        let entry = (kernel_thread_entry as *const ()).addr();
        // The entry passes rbx and r12 on to `kernel_thread_begins`.
        stack.push([0, 0, 0, argument, 0, (function as *const ()).addr(), entry]);
        stack.publish();
    }

    /// Prepares the thread to begin in ring 3 with the registers of `frame`, in the space and with the
    /// thread-local base given.
    ///
    /// # Panics
    /// Where the base is no program's address.
    pub fn prepare_user_thread(&self, frame: &Frame, space: SpaceHandle, fs_base: u64) {
        assert!(fs_base < user::USER_END, "{fs_base:#x} is no program's address");
        let mut stack = FreshStack::of(self);
        // SAFETY: the stack's owner has taken the thread, which runs nowhere.
        let left = unsafe { self.space.replace(Some(space)) };
        assert!(left.is_none(), "a thread that has ended keeps its space");
        self.fs_base.store(fs_base, Relaxed);
        self.exit_pending.store(0, Relaxed);
        self.clear_tid.store(0, Relaxed);
        self.signals.set_blocked(0);
        self.signals.set_stack(AlternateStack::default());
        stack.push(Saved { sse: SseState::fresh(), frame: frame.twin() });
        let entry = (user_thread_entry as *const ()).addr();
        stack.push([0, 0, 0, 0, 0, 0, entry]);
        stack.publish();
    }
}

/// The stack of a thread that runs nowhere and has nothing to continue: only what prepares it touches it.
struct FreshStack<'t> {
    thread: &'t Thread,
    bounds: Range<usize>,
    at: usize,
}

impl<'t> FreshStack<'t> {
    /// # Panics
    /// Where the thread runs, is prepared already or waits for a CPU; where its stack is not mapped.
    fn of(thread: &'t Thread) -> Self {
        let index = thread.index();
        assert!(!thread.on_cpu.swap(true, Acquire), "thread {index} is prepared while it runs");
        assert_eq!(thread.stack_pointer.load(Relaxed), 0, "thread {index} is prepared twice");
        assert!(space::is_mapped(Thread::stack_of(index)), "thread {index} has no stack");
        let bounds = Thread::stack_of(index);
        thread.set_stack(bounds.clone());
        Self { thread, at: bounds.end, bounds }
    }

    /// Puts a value below those before it.
    fn push<T>(&mut self, value: T) {
        self.at -= size_of::<T>();
        assert!(self.at >= self.bounds.start && self.at.is_multiple_of(align_of::<T>()));
        // SAFETY: aligned and within the stack, as just checked; it is mapped, and `of` has taken the thread,
        // which had nothing on it to continue.
        unsafe { ptr::with_exposed_provenance_mut::<T>(self.at).write(value) };
    }

    /// Makes the thread ready: it goes on with the last words pushed: those that `switch_stacks` pops, r15
    /// r14 r13 r12 rbp rbx, and where it returns to.
    fn publish(self) {
        self.thread.stack_pointer.store(self.at as u64, Relaxed);
        self.thread.on_cpu.store(false, Release);
    }
}

/// The running thread.
#[derive(Clone, Copy)]
pub struct Current(&'static Thread, PhantomData<*const ()>);

impl Deref for Current {
    type Target = Thread;
    #[inline(always)]
    fn deref(&self) -> &Thread {
        self.0
    }
}

impl Current {
    /// # Safety
    /// This thread runs the code.
    #[inline(always)]
    pub(super) unsafe fn new(thread: &'static Thread) -> Self {
        Self(thread, PhantomData)
    }

    /// The library's state of the thread.
    #[inline(always)]
    pub fn context(&self) -> &Context {
        &self.0.context.0
    }

    /// The base of the running thread's FS.
    ///
    /// # Panics
    /// Where it is no program's address.
    pub fn set_fs_base(&self, base: u64) {
        assert!(base < user::USER_END, "{base:#x} is no program's address");
        self.0.fs_base.store(base, Relaxed);
        // SAFETY: FS is the program's; the kernel does not use it.
        unsafe { registers::write_msr(FS_BASE, base) };
    }

    /// Whether the thread runs in a space.
    #[inline(always)]
    pub fn has_space(&self) -> bool {
        !self.0.space.slot().is_empty()
    }

    /// Calls `f` with the space that the thread runs in, which stays as long.
    #[inline(always)]
    pub fn with_space<R>(self, f: impl FnOnce(Option<&Space>) -> R) -> R {
        // SAFETY: the handle keeps the space, and this thread alone takes it out: behind the closure of
        // `in_space` in which `f` is, or in `leave_space`, which never comes back to `f`.
        f(unsafe { self.0.space.get() })
    }

    /// Another handle of the space that the thread runs in.
    pub fn space_handle(self) -> Option<SpaceHandle> {
        // SAFETY: this is the thread.
        unsafe { self.0.space.handle() }
    }

    pub(super) fn space(&self) -> &ThreadSpace {
        &self.0.space
    }
}

/// Makes the running code the boot thread.
///
/// # Safety
/// Called once, first of all on CPU 0, on the boot stack.
pub unsafe fn adopt_boot_thread() {
    // SAFETY: the caller's promise.
    unsafe { adopt(CpuId(0), BOOT_THREAD, space::boot_stack()) };
}

/// Makes the running code of a CPU that has just started its idle thread.
///
/// # Safety
/// Called once on each CPU but the first, first of all, on the stack of the thread that has the CPU's number.
pub unsafe fn adopt_idle_thread(cpu: CpuId) {
    // SAFETY: the caller's promise.
    unsafe { adopt(cpu, cpu.index(), Thread::stack_of(cpu.index())) };
}

/// # Safety
/// Called once on each CPU, first of all, on that stack.
unsafe fn adopt(cpu: CpuId, index: usize, stack: Range<usize>) {
    let thread = &THREADS[index];
    assert!(!thread.on_cpu.swap(true, Acquire), "thread {index} runs twice");
    thread.state.store(sched::READY, Relaxed);
    thread.set_stack(stack);
    // SAFETY: the CPU gets its number here, once, and runs the thread, as was just noted.
    unsafe { percpu::init(cpu, thread) };
    // SAFETY: as just said.
    unsafe { enter_stack(percpu::this(), thread) };
}

/// # Safety
/// As [`PerCpu::enter_thread`].
unsafe fn enter_stack(cpu: &PerCpu, thread: &'static Thread) {
    let (top, limit) = (thread.stack_top.load(Relaxed), thread.stack_limit.load(Relaxed));
    // SAFETY: the caller's promise.
    unsafe { cpu.enter_thread(thread, top, limit) };
}

/// A place for a thread.
pub struct ThreadSlot(AtomicPtr<Thread>);

impl ThreadSlot {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn set(&self, thread: &'static Thread) {
        self.0.store(ptr::from_ref(thread).cast_mut(), Relaxed);
    }

    fn take(&self) -> Option<&'static Thread> {
        let thread = self.0.swap(ptr::null_mut(), Relaxed);
        // SAFETY: null, or a reference that `set` has stored.
        unsafe { thread.as_ref() }
    }
}

/// Preemption came on while a reschedule is due. Does nothing where interrupts are off: the return from the
/// next interrupt reschedules.
#[cold]
pub fn preempt() {
    if cpu::interrupts_are_on() {
        sched::preempt();
    }
}
