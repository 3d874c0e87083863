//! Per-CPU state, found through GS.
//!
//! The first words have fixed places, because `trap.s` uses them. Words that running code reads often (the
//! number, the preemption count, the running thread) are read and written by single instructions with a GS
//! operand: they are right whichever CPU the thread runs on at that instant.
//!
//! # The preemption count
//!
//! ```text
//!   bit 31        0: a reschedule is due
//!   bits 0..31    depth of preempt_off
//! ```
//! So the word is zero exactly if preemption is on and a reschedule is due: the last `preempt_on` learns it
//! from the zero flag of its decrement.

use super::registers::{self, GS_BASE, KERNEL_GS_BASE};
use super::segments::Segments;
use super::spaces::SpaceSlot;
use super::thread::{Current, Thread, ThreadSlot};
use core::arch::asm;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use interleaf::units::CpuId;

/// The most CPUs: as many as a set of them in one word has bits.
pub const MAX_CPUS: usize = 64;

/// No reschedule is due.
pub const NO_RESCHED: u32 = 1 << 31;

/// One CPU. Other CPUs read the words from `apic_id` on, and only those; all the others are its own. They are
/// relaxed atomics, which are plain instructions, so that whatever code does with them is defined.
#[repr(C, align(128))]
pub struct PerCpu {
    /// The address of this structure.
    own: AtomicPtr<PerCpu>,
    /// Top of the running thread's kernel stack.
    kernel_stack: AtomicU64,
    /// A program's stack pointer during an entry.
    user_rsp: AtomicU64,
    /// Below this the running thread's stack is full.
    stack_limit: AtomicU64,
    /// The running thread: an element of the static.
    thread: AtomicPtr<Thread>,
    preempt: AtomicU32,
    id: AtomicU32,
    /// The thread that ran before, between the switch of stacks and the first instructions after it.
    pub(super) previous: ThreadSlot,
    /// The space whose root is loaded, perhaps lazily; emptied when another root is ([`root_is_gone`]).
    ///
    /// [`root_is_gone`]: super::spaces::root_is_gone
    pub(super) loaded: SpaceSlot,
    /// When interrupts went off, and the longest time they were, in cycles.
    off_since: AtomicU64,
    /// Its interrupt controller's number; written before the CPU counts as started.
    apic_id: AtomicU32,
    /// Read by others for a report. Relaxed: a count.
    longest_off: AtomicU64,
    /// Its descriptors.
    pub(super) segments: Segments,
    /// Moves on at each switch of threads and each barrier; odd while the CPU idles. Written by its CPU
    /// alone, by read-modify-writes, which are full fences; pairs with the loads in `barrier_all`.
    quiescent: AtomicU64,
    /// How often its helper is expedited; see [`PerCpu::spares_helper`]. Relaxed: a tick finds it.
    expedited: AtomicU32,
    /// A tick has found its helper expedited, and spared it. Written by its CPU alone.
    has_spared: AtomicBool,
}

/// Every CPU.
static ALL: [PerCpu; MAX_CPUS] = [const { PerCpu::new() }; MAX_CPUS];

impl PerCpu {
    const fn new() -> Self {
        Self {
            own: AtomicPtr::new(ptr::null_mut()),
            kernel_stack: AtomicU64::new(0),
            user_rsp: AtomicU64::new(0),
            stack_limit: AtomicU64::new(0),
            thread: AtomicPtr::new(ptr::null_mut()),
            preempt: AtomicU32::new(NO_RESCHED),
            id: AtomicU32::new(0),
            previous: ThreadSlot::new(),
            loaded: SpaceSlot::new(),
            off_since: AtomicU64::new(0),
            apic_id: AtomicU32::new(0),
            longest_off: AtomicU64::new(0),
            segments: Segments::new(),
            quiescent: AtomicU64::new(0),
            expedited: AtomicU32::new(0),
            has_spared: AtomicBool::new(false),
        }
    }

    /// Its interrupt controller's number.
    pub fn apic_id(&self) -> u32 {
        self.apic_id.load(Relaxed)
    }

    /// Notes its interrupt controller's number.
    pub fn set_apic_id(&self, id: u32) {
        self.apic_id.store(id, Relaxed);
    }

    /// Notes that interrupts went off at this time stamp.
    #[inline(always)]
    pub fn section_began(&self, at: u64) {
        self.off_since.store(at, Relaxed);
    }

    /// Notes that interrupts come on again at this time stamp.
    #[inline(always)]
    pub fn section_ended(&self, at: u64) {
        let cycles = at.wrapping_sub(self.off_since.load(Relaxed));
        if cycles > self.longest_off.load(Relaxed) {
            self.longest_off.store(cycles, Relaxed);
        }
    }

    /// The longest time with interrupts off, in cycles.
    pub fn longest_off(&self) -> u64 {
        self.longest_off.load(Relaxed)
    }

    /// Expedites its helper once more: its scheduler runs it before other threads.
    pub fn expedite(&self) {
        self.expedited.fetch_add(1, Relaxed);
    }

    /// Ends one [`PerCpu::expedite`], if there is one.
    pub fn end_expedite(&self) {
        let less = |nr: u32| nr.checked_sub(1);
        let _none = self.expedited.fetch_update(Relaxed, Relaxed, less);
    }

    /// Whether its helper comes before other threads.
    #[inline(always)]
    pub fn prefers_helper(&self) -> bool {
        self.expedited.load(Relaxed) > 0
    }

    /// Whether a tick leaves the CPU to its helper, which runs: it is expedited, and no tick has done so
    /// since [`PerCpu::helper_begins`]. So a visit is hardly ever interrupted, and one that is longer than a
    /// tick takes turns with other threads.
    pub fn spares_helper(&self) -> bool {
        self.prefers_helper() && !self.has_spared.swap(true, Relaxed)
    }

    /// The helper begins to have the CPU, or to be expedited.
    pub fn helper_begins(&self) {
        self.has_spared.store(false, Relaxed);
    }

    /// Has entries use the stack of a thread from now on, and says that the thread runs.
    ///
    /// # Safety
    /// This is the running CPU, and the thread runs on it next, on a stack from `limit` to `top`.
    pub(super) unsafe fn enter_thread(&self, thread: &'static Thread, top: u64, limit: u64) {
        self.thread.store(ptr::from_ref(thread).cast_mut(), Relaxed);
        self.kernel_stack.store(top, Relaxed);
        self.stack_limit.store(limit, Relaxed);
    }

    /// Notes an operation that orders all accesses of the CPU: a switch of threads, a barrier.
    pub fn quiesced(&self) {
        debug_assert!(self.quiescence().is_some(), "a CPU that counts as idle runs");
        self.quiescent.fetch_add(2, SeqCst);
    }

    /// The CPU stops idling, if it did: called first in every interrupt.
    pub fn idle_ends(&self) {
        if self.quiescent.load(Relaxed) & 1 == 1 {
            self.quiescent.fetch_add(1, SeqCst);
        }
    }

    /// How often the CPU's accesses were ordered, the times included that it began and ended to idle.
    pub fn nr_quiescences(&self) -> u64 {
        self.quiescent.load(SeqCst)
    }

    /// Where the CPU's accesses were last ordered; `None` while it idles and makes none.
    pub fn quiescence(&self) -> Option<u64> {
        let word = self.quiescent.load(SeqCst);
        (word & 1 == 0).then_some(word)
    }
}

/// This CPU idles: it makes no access that a barrier would have to order, and `barrier_all` passes it by.
/// That ends with the first interrupt or when the value is dropped, whichever comes first. Interrupts are off
/// where it is made and where it is dropped.
#[derive(Debug)]
#[must_use = "the CPU idles as long as the value lives"]
pub struct Idle(PhantomData<*const ()>);

impl Idle {
    /// Idles until an interrupt comes, or something else ends the wait: system management interrupts do, and
    /// no handler of the kernel runs then. Interrupts are off, here and when it returns.
    ///
    /// # Safety
    /// As [`registers::wait_for_interrupt`].
    pub unsafe fn wait() {
        let _idle = Self::begin();
        // SAFETY: the caller's promise.
        unsafe { registers::wait_for_interrupt() };
    }

    fn begin() -> Self {
        debug_assert!(registers::flags() & registers::INTERRUPT_FLAG == 0);
        let cpu = this();
        debug_assert!(cpu.quiescence().is_some(), "{:?} idles twice", id());
        cpu.quiescent.fetch_add(1, SeqCst);
        Idle(PhantomData)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        debug_assert!(registers::flags() & registers::INTERRUPT_FLAG == 0);
        this().idle_ends();
    }
}

/// Makes this CPU number `id`, running `thread`. First of all.
///
/// # Safety
/// No other CPU is told the number, and this one is told none after it. The running code is on the thread's
/// stack, and no other CPU runs the thread.
pub unsafe fn init(id: CpuId, thread: &'static Thread) {
    let cpu = &ALL[id.index()];
    cpu.own.store(ptr::from_ref(cpu).cast_mut(), Relaxed);
    cpu.id.store(id.0, Relaxed);
    cpu.thread.store(ptr::from_ref(thread).cast_mut(), Relaxed);
    cpu.preempt.store(NO_RESCHED, Relaxed);
    // SAFETY: GS is how the kernel finds this structure, which is static and filled. Programs start with a
    // base of 0.
    unsafe {
        registers::write_msr(GS_BASE, (&raw const *cpu).addr() as u64);
        registers::write_msr(KERNEL_GS_BASE, 0);
    }
}

/// The CPU that this runs on; another, where the thread has moved meanwhile. Nothing is undefined then, but
/// the caller sees to it that interrupts are off, or the thread stays.
#[inline(always)]
pub fn this() -> &'static PerCpu {
    let own: *const PerCpu;
    // SAFETY: the first word of the structure that GS points to is its own address. `init` has set GS, before
    // any function but `boot.rs`'s runs on the CPU, and nothing else does.
    unsafe { asm!("mov {}, gs:[0]", out(reg) own, options(nostack, preserves_flags, readonly, pure)) };
    // SAFETY: `init` stored the address of an element of the static, which is shared by all its fields'
    // types.
    unsafe { &*own }
}

/// A CPU by number.
pub fn of(id: CpuId) -> &'static PerCpu {
    &ALL[id.index()]
}

/// The number of the CPU that this runs on.
#[inline(always)]
pub fn id() -> CpuId {
    let id;
    // SAFETY: a word of the structure that GS points to (`this`). Not `pure`: the thread may be elsewhere the
    // next time.
    unsafe {
        asm!("mov {:e}, gs:[{}]", out(reg) id, const offset_of!(PerCpu, id),
             options(nostack, preserves_flags, readonly));
    }
    CpuId(id)
}

/// The running thread.
#[inline(always)]
pub fn thread() -> Current {
    let thread: *const Thread;
    // SAFETY: a word of the structure that GS points to (`this`); it changes only where this thread does not
    // run.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) thread, const offset_of!(PerCpu, thread),
             options(nostack, preserves_flags, readonly));
    }
    // SAFETY: `init` and `enter_thread` store references to statics, and by their contracts the thread that
    // runs.
    unsafe { Current::new(&*thread) }
}

/// Turns preemption off; nests.
#[inline(always)]
pub fn preempt_off() {
    // SAFETY: one instruction on this CPU's own word (`this`). Not `nomem`: what follows must not move before
    // it.
    unsafe { asm!("inc dword ptr gs:[{}]", const offset_of!(PerCpu, preempt), options(nostack)) };
}

/// Undoes one `preempt_off`; reschedules if that was the last and a reschedule is due.
///
/// # Safety
/// It ends a `preempt_off` of this thread, on which nothing relies any more.
#[inline(always)]
pub unsafe fn preempt_on() {
    // SAFETY: one instruction on this CPU's own word (`this`), and the caller's promise; the label is reached
    // with the same stack.
    unsafe {
        asm!("dec dword ptr gs:[{}]", "jz {}", const offset_of!(PerCpu, preempt),
             label { super::thread::preempt() }, options(nostack));
    }
}

/// Notes that a reschedule is due on this CPU.
pub fn set_need_resched() {
    // SAFETY: one instruction on this CPU's own word (`this`), on a bit that is no part of the count.
    unsafe {
        asm!("and dword ptr gs:[{}], {}", const offset_of!(PerCpu, preempt), const i32::MAX,
             options(nostack));
    }
}

/// Notes that the scheduler has run.
pub fn clear_need_resched() {
    // SAFETY: one instruction on this CPU's own word (`this`), on a bit that is no part of the count.
    unsafe {
        asm!("or dword ptr gs:[{}], {}", const offset_of!(PerCpu, preempt), const i32::MIN,
             options(nostack));
    }
}

/// The word itself: 0 means that the CPU should reschedule now.
#[inline(always)]
pub fn preempt_word() -> u32 {
    let word;
    // SAFETY: a word of the structure that GS points to (`this`).
    unsafe {
        asm!("mov {:e}, gs:[{}]", out(reg) word, const offset_of!(PerCpu, preempt),
             options(nostack, preserves_flags, readonly));
    }
    word
}

/// How often preemption was turned off, less the times that it was turned on again.
pub fn preempt_depth() -> u32 {
    preempt_word() & !NO_RESCHED
}

/// Whether preemption is off.
pub fn is_preempt_off() -> bool {
    preempt_depth() != 0
}

// `trap.s` knows these.
const _: () = assert!(offset_of!(PerCpu, kernel_stack) == 8);
const _: () = assert!(offset_of!(PerCpu, user_rsp) == 16);
const _: () = assert!(offset_of!(PerCpu, stack_limit) == 24);
