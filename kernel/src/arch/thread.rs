//! The machine's part of threads: a stack, the switch from one to another, and the space that must be
//! loaded meanwhile. The scheduler is `task::sched`.
//!
//! # Lazy roots
//!
//! A CPU keeps the root of the last space it ran while it runs threads that have none (idle, kernel threads):
//! coming back costs nothing. It stays in the space's mask and is flushed with it, until something else is
//! loaded, [`leave_lazy_space`] is called, or the space ends ([`OwnedSpace`]).

use super::percpu::{self, PerCpu};
use super::registers::{self, FS_BASE};
use super::space::{self, STACKS};
use super::sse::SseState;
use super::trap::Frame;
use super::upcalls::sched;
use super::{Metal, apic, cpu};
use core::cell::Cell;
use core::ops::{Deref, Range};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use interleaf::machine::{Context, Cpu};
use interleaf::space::AddressSpace;
use interleaf::sync::wait_until;
use interleaf::units::CpuId;

/// An address space of this machine.
pub type Space = AddressSpace<'static, Metal>;

/// Most threads, idle threads included.
pub const MAX_THREADS: usize = 128;
/// Bytes of a thread's kernel stack, and from one to the next.
pub const STACK_BYTES: usize = 32 << 10;
const STACK_STRIDE: usize = 64 << 10;
/// Bytes that an entry on a kernel stack may need: a frame, SSE state, and room to panic.
const STACK_RESERVE: u64 = 3 << 10;

/// A function and its argument.
type Beginning = (fn(usize), usize);

/// The machine's part of a thread. Cells are touched by the thread itself, or by the CPU that switches from
/// or to it.
pub struct Thread {
    context: Context,
    stack_pointer: Cell<u64>,
    stack_top: Cell<u64>,
    stack_limit: Cell<u64>,
    fs_base: Cell<u64>,
    /// Function of a kernel thread, and its argument.
    begins: Cell<Option<Beginning>>,
    /// The space that the thread runs in; null for none.
    space: Cell<*const Space>,
    /// A CPU runs it or is about to leave its stack. The releasing clear pairs with the acquiring swap of the
    /// next CPU.
    on_cpu: AtomicBool,
    /// The scheduler's state; see `sched`.
    pub state: AtomicU32,
    /// CPUs that may run it, one bit each.
    pub affinity: AtomicU64,
    /// It runs only where no ordinary thread is ready.
    pub is_idle_priority: AtomicBool,
    /// Not 0: the thread exits before it returns to ring 3, because its program ends.
    pub exit_pending: AtomicU32,
    /// Where a program wants a 0 stored and woken when the thread ends; 0 for nowhere.
    pub clear_tid: AtomicU64,
    /// Set when the thread has exited; the joining thread sleeps on it.
    pub ended: AtomicU32,
}

// SAFETY: see `Thread`: cells have one user at a time, and `on_cpu` hands them from CPU to CPU; everything
// else is atomic.
unsafe impl Sync for Thread {}

/// Every thread there can be. The first ones are the CPUs' idle threads; then the one that boots.
static THREADS: [Thread; MAX_THREADS] = [const { Thread::new() }; MAX_THREADS];

/// The thread that boots.
pub const BOOT_THREAD: usize = percpu::MAX_CPUS;

unsafe extern "C" {
    fn switch_stacks(save: *mut u64, load: u64);
    fn kernel_thread_entry();
    fn user_thread_entry();
}

impl Thread {
    const fn new() -> Self {
        Self {
            context: Context::new(),
            stack_pointer: Cell::new(0),
            stack_top: Cell::new(0),
            stack_limit: Cell::new(0),
            fs_base: Cell::new(0),
            begins: Cell::new(None),
            space: Cell::new(ptr::null()),
            on_cpu: AtomicBool::new(false),
            state: AtomicU32::new(sched::FREE),
            affinity: AtomicU64::new(u64::MAX),
            is_idle_priority: AtomicBool::new(false),
            exit_pending: AtomicU32::new(0),
            clear_tid: AtomicU64::new(0),
            ended: AtomicU32::new(0),
        }
    }

    /// The library's state of the thread.
    pub fn context(&self) -> &Context {
        &self.context
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

    /// Where its stack lies.
    pub fn stack_of(index: usize) -> Range<usize> {
        let top = STACKS + (index + 1) * STACK_STRIDE;
        top - STACK_BYTES..top
    }

    /// The space that it runs in.
    pub fn space(&self) -> Option<&'static Space> {
        // SAFETY: a space outlives the threads that run in it: `in_space` borrows it for as long, and
        // programs end before theirs.
        unsafe { self.space.get().as_ref() }
    }

    fn set_stack(&self, stack: Range<usize>) {
        self.stack_top.set(stack.end as u64);
        self.stack_limit.set(stack.start as u64 + STACK_RESERVE);
    }

    /// Prepares the thread to run `function(argument)` on its stack, which is mapped. No CPU runs it.
    pub fn prepare_kernel_thread(&self, function: fn(usize), argument: usize) {
        let stack = Self::stack_of(self.index());
        self.set_stack(stack.clone());
        self.space.set(ptr::null());
        self.fs_base.set(0);
        self.begins.set(Some((function, argument)));
        // Popped by `switch_stacks`: r15 r14 r13 r12 rbp rbx, then where it returns to.
        let entry = (kernel_thread_entry as *const ()).addr();
        self.push(stack.end, &[0, 0, 0, 0, 0, 0, entry]);
    }

    /// Prepares the thread to begin in ring 3 with the registers of `frame`, in the space and with the
    /// thread-local base given. The space must outlive the thread: its owner waits for its threads.
    pub fn prepare_user_thread(&self, frame: &Frame, space: &Space, fs_base: u64) {
        let stack = Self::stack_of(self.index());
        self.set_stack(stack.clone());
        self.space.set(space);
        self.fs_base.set(fs_base);
        self.exit_pending.store(0, Relaxed);
        self.clear_tid.store(0, Relaxed);
        let sse = SseState::fresh();
        let frame_at = stack.end - size_of::<Frame>();
        let sse_at = frame_at - size_of::<SseState>();
        // SAFETY: the stack is mapped, its top aligned to 16, and it is not in use.
        unsafe {
            ptr::with_exposed_provenance_mut::<Frame>(frame_at).write(*frame);
            ptr::with_exposed_provenance_mut::<SseState>(sse_at).write(sse);
        }
        let entry = (user_thread_entry as *const ()).addr();
        self.push(sse_at, &[0, 0, 0, 0, 0, 0, entry]);
    }

    /// Puts words below `top` of this thread's stack and has it continue there.
    fn push(&self, top: usize, words: &[usize]) {
        let at = top - size_of_val(words);
        // SAFETY: the stack is mapped and not in use.
        unsafe { ptr::with_exposed_provenance_mut::<usize>(at).copy_from(words.as_ptr(), words.len()) };
        self.stack_pointer.set(at as u64);
    }

    /// The base of the running thread's FS.
    pub fn set_own_fs_base(&self, base: u64) {
        self.fs_base.set(base);
        // SAFETY: FS is the program's; the kernel does not use it.
        unsafe { registers::write_msr(FS_BASE, base) };
    }

    /// The base of its FS.
    pub fn fs_base(&self) -> u64 {
        self.fs_base.get()
    }
}

/// Makes the running code the boot thread. Called first.
pub fn adopt_boot_thread() -> &'static Thread {
    let thread = &THREADS[BOOT_THREAD];
    thread.on_cpu.store(true, Relaxed);
    thread.state.store(sched::READY, Relaxed);
    thread.set_stack(space::boot_stack());
    percpu::init(CpuId(0), thread);
    enter_stack(percpu::this(), thread);
    thread
}

/// Makes the running code of a CPU that has just started its idle thread.
pub fn adopt_idle_thread(cpu: CpuId) {
    let thread = &THREADS[cpu.index()];
    thread.on_cpu.store(true, Relaxed);
    thread.state.store(sched::READY, Relaxed);
    thread.set_stack(Thread::stack_of(cpu.index()));
    percpu::init(cpu, thread);
    enter_stack(percpu::this(), thread);
}

fn enter_stack(cpu: &PerCpu, thread: &Thread) {
    cpu.kernel_stack.set(thread.stack_top.get());
    cpu.stack_limit.set(thread.stack_limit.get());
}

/// Switches from the running thread to `next`; returns when a CPU, perhaps another, switches back. Interrupts
/// and preemption are off.
/// `sched::after_switch` must follow.
pub fn switch_to(next: &'static Thread) {
    let (cpu, me) = (percpu::this(), percpu::thread());
    debug_assert!(!cpu::interrupts_are_on());
    assert!(!next.on_cpu.swap(true, Acquire), "thread {} runs twice", next.index());
    load_space_of(cpu, next);
    cpu.quiesced();
    cpu.previous.set(me);
    cpu.thread.set(next);
    enter_stack(cpu, next);
    if next.fs_base.get() != me.fs_base.get() {
        // SAFETY: FS is the program's; the kernel does not use it.
        unsafe { registers::write_msr(FS_BASE, next.fs_base.get()) };
    }
    // SAFETY: `next` is on no CPU, as just checked, so its stack pointer is where it switched away or was
    // readied.
    unsafe { switch_stacks(me.stack_pointer.as_ptr(), next.stack_pointer.get()) };
}

/// The thread that ran here before the switch; from now on another CPU may run it.
pub fn release_previous() -> &'static Thread {
    // SAFETY: `switch_to` set it on this CPU just now; threads are static.
    let previous = unsafe { &*percpu::this().previous.get() };
    previous.on_cpu.store(false, Release);
    previous
}

/// The body of a kernel thread, called by `trap.s`.
#[unsafe(no_mangle)]
extern "C" fn kernel_thread_begins() -> ! {
    sched::after_switch();
    percpu::preempt_on();
    cpu::section_ends();
    registers::enable_interrupts();
    if let Some((function, argument)) = percpu::thread().begins.take() {
        function(argument);
    }
    sched::exit_thread()
}

/// The start of a program's thread, called by `trap.s`; returns with interrupts off.
#[unsafe(no_mangle)]
extern "C" fn user_thread_begins() {
    sched::after_switch();
    percpu::preempt_on();
    registers::disable_interrupts();
}

/// Preemption came on while a reschedule is due. Does nothing where interrupts are off: the return from the
/// next interrupt reschedules.
#[cold]
pub fn preempt() {
    if cpu::interrupts_are_on() {
        sched::yield_now();
    }
}

/// Loads the space of a thread that is about to run, unless it has none or it is loaded.
fn load_space_of(cpu: &PerCpu, next: &Thread) {
    let (wanted, loaded) = (next.space.get(), cpu.loaded.get());
    if wanted == loaded {
        return;
    }
    if wanted.is_null() {
        // SAFETY: a loaded space leaves every CPU before it ends (`OwnedSpace`).
        return unsafe { loaded.as_ref() }.map_or((), Space::enter_lazy_tlb);
    }
    // SAFETY: a thread's space outlives it (`Thread::space`), and a loaded one leaves every CPU before it
    // ends (`OwnedSpace`).
    match unsafe { (loaded.as_ref(), &*wanted) } {
        (None, wanted) => wanted.enter_cpu(),
        (Some(loaded), wanted) => wanted.switch_from(loaded),
    }
    cpu.loaded.set(wanted);
}

/// Leaves the space that this CPU keeps although the running thread has none. Interrupts are off.
pub fn leave_lazy_space() {
    let (cpu, thread) = (percpu::this(), percpu::thread());
    let loaded = cpu.loaded.get();
    if !loaded.is_null() && thread.space.get() != loaded {
        // SAFETY: as in `load_space_of`.
        unsafe { &*loaded }.leave_cpu();
        cpu.loaded.set(ptr::null());
    }
}

/// A space that is never moved, because threads and CPUs keep its address, and that is loaded on no CPU when
/// it is dropped.
#[derive(Debug)]
pub struct OwnedSpace(Space);

/// Keeps a space in place while `f` uses it, then drops it.
pub fn with_owned<R>(space: Space, f: impl FnOnce(&OwnedSpace) -> R) -> R {
    let owned = OwnedSpace(space);
    f(&owned)
}

impl OwnedSpace {
    /// Makes every CPU that keeps the space lazily leave it, and waits until they have.
    pub fn evict(&self) {
        let state = super::Core::interrupts_off();
        leave_lazy_space();
        super::Core::interrupts_restore(state);
        let cpus = self.0.cpus_racy();
        cpus.iter().for_each(|cpu| apic::send(percpu::of(cpu).apic_id(), apic::LEAVE_SPACE_VECTOR));
        wait_until::<super::Core>(|| self.0.runs_nowhere());
    }
}

impl Deref for OwnedSpace {
    type Target = Space;
    fn deref(&self) -> &Space {
        &self.0
    }
}

impl Drop for OwnedSpace {
    fn drop(&mut self) {
        self.evict();
    }
}

/// Runs `f` on this thread in a space, of which it has none yet.
pub fn in_space<R>(owned: &OwnedSpace, f: impl FnOnce() -> R) -> R {
    let thread = percpu::thread();
    assert!(thread.space.get().is_null(), "a thread runs in one space at a time");
    set_own_space(thread, &owned.0);
    let result = f();
    set_own_space(thread, ptr::null());
    result
}

/// The running thread runs in no space from now on.
pub fn leave_space() {
    set_own_space(percpu::thread(), ptr::null());
}

fn set_own_space(thread: &Thread, space: *const Space) {
    let state = super::Core::interrupts_off();
    percpu::preempt_off();
    thread.space.set(space);
    load_space_of(percpu::this(), thread);
    percpu::preempt_on();
    super::Core::interrupts_restore(state);
}

/// Runs `programs[n]` in a thread of its own, on CPU `n` where `pinned`, and returns when all have ended.
pub fn run_all(programs: &[&(dyn Fn() + Sync)], pinned: bool) {
    let mut threads = [BOOT_THREAD; MAX_THREADS];
    for (n, program) in programs.iter().enumerate() {
        let affinity = if pinned { 1 << n } else { u64::MAX };
        let argument = (&raw const *program).expose_provenance();
        threads[n] =
            sched::spawn(run_program, argument, affinity).expect("there are threads and memory for stacks");
    }
    threads[..programs.len()].iter().for_each(|&index| sched::join(Thread::at(index)));
}

fn run_program(argument: usize) {
    // SAFETY: `run_all` exposed the reference's address and does not return before this thread has ended.
    let program = unsafe { &*ptr::with_exposed_provenance::<&(dyn Fn() + Sync)>(argument) };
    program();
}
