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
use super::thread::{Space, Thread};
use core::arch::asm;
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use interleaf::units::CpuId;

/// The most CPUs.
pub const MAX_CPUS: usize = 8;

/// No reschedule is due.
pub const NO_RESCHED: u32 = 1 << 31;

/// One CPU. Fields without atomics are its own: written by it alone, with interrupts off or by one
/// instruction.
#[repr(C, align(128))]
pub struct PerCpu {
    /// The address of this structure.
    own: Cell<*const PerCpu>,
    /// Top of the running thread's kernel stack.
    pub kernel_stack: Cell<u64>,
    /// A program's stack pointer during an entry.
    user_rsp: Cell<u64>,
    /// Below this the running thread's stack is full.
    pub stack_limit: Cell<u64>,
    /// The running thread.
    pub thread: Cell<*const Thread>,
    preempt: Cell<u32>,
    id: Cell<u32>,
    /// Its interrupt controller's number; written before the CPU counts as started.
    apic_id: AtomicU32,
    /// The thread that ran before, between the switch of stacks and `after_switch`.
    pub previous: Cell<*const Thread>,
    /// The space whose root is loaded, perhaps lazily; null for none.
    pub loaded: Cell<*const Space>,
    /// When interrupts went off, and the longest time they were, in cycles.
    off_since: Cell<u64>,
    /// Read by others for a report. Relaxed: a count.
    longest_off: AtomicU64,
    /// Its descriptors.
    pub segments: Segments,
    /// Moves on at each switch of threads and each barrier; odd while the CPU idles. Written by its CPU
    /// alone, by read-modify-writes, which are full fences; pairs with the loads in `barrier_all`.
    quiescent: AtomicU64,
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
    pub fn wait() {
        let _idle = Self::begin();
        registers::wait_for_interrupt();
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

/// Every CPU.
struct All([PerCpu; MAX_CPUS]);

// SAFETY: fields that other CPUs read are atomic; cells are accessed by their own CPU only.
unsafe impl Sync for All {}

static ALL: All = All([const { PerCpu::new() }; MAX_CPUS]);

impl PerCpu {
    const fn new() -> Self {
        Self {
            own: Cell::new(ptr::null()),
            kernel_stack: Cell::new(0),
            user_rsp: Cell::new(0),
            stack_limit: Cell::new(0),
            thread: Cell::new(ptr::null()),
            preempt: Cell::new(NO_RESCHED),
            id: Cell::new(0),
            apic_id: AtomicU32::new(0),
            previous: Cell::new(ptr::null()),
            loaded: Cell::new(ptr::null()),
            off_since: Cell::new(0),
            longest_off: AtomicU64::new(0),
            segments: Segments::new(),
            quiescent: AtomicU64::new(0),
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
        self.off_since.set(at);
    }

    /// Notes that interrupts come on again at this time stamp.
    #[inline(always)]
    pub fn section_ended(&self, at: u64) {
        let cycles = at.wrapping_sub(self.off_since.get());
        if cycles > self.longest_off.load(Relaxed) {
            self.longest_off.store(cycles, Relaxed);
        }
    }

    /// The longest time with interrupts off, in cycles.
    pub fn longest_off(&self) -> u64 {
        self.longest_off.load(Relaxed)
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

/// Makes this CPU number `id`, running `thread`. Once for each CPU, first of all.
pub fn init(id: CpuId, thread: &'static Thread) {
    let cpu = &ALL.0[id.index()];
    cpu.own.set(cpu);
    cpu.id.set(id.0);
    cpu.thread.set(thread);
    cpu.preempt.set(NO_RESCHED);
    // SAFETY: GS is how the kernel finds this structure, which is static. Programs start with a base of 0.
    unsafe {
        registers::write_msr(GS_BASE, (&raw const *cpu).addr() as u64);
        registers::write_msr(KERNEL_GS_BASE, 0);
    }
}

/// The CPU that this runs on. Interrupts are off, or the thread cannot leave the CPU.
#[inline(always)]
pub fn this() -> &'static PerCpu {
    let own: *const PerCpu;
    // SAFETY: the first word of the structure that GS points to is its own address.
    unsafe { asm!("mov {}, gs:[0]", out(reg) own, options(nostack, preserves_flags, readonly, pure)) };
    // SAFETY: `init` set it to an element of the static.
    unsafe { &*own }
}

/// A CPU by number.
pub fn of(id: CpuId) -> &'static PerCpu {
    &ALL.0[id.index()]
}

/// The number of the CPU that this runs on.
#[inline(always)]
pub fn id() -> CpuId {
    let id;
    // SAFETY: a word of the structure that GS points to. Not `pure`: the thread may be elsewhere the next
    // time.
    unsafe {
        asm!("mov {:e}, gs:[{}]", out(reg) id, const offset_of!(PerCpu, id),
             options(nostack, preserves_flags, readonly));
    }
    CpuId(id)
}

/// The running thread.
#[inline(always)]
pub fn thread() -> &'static Thread {
    let thread: *const Thread;
    // SAFETY: a word of the structure that GS points to; it changes only where this thread does not run.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) thread, const offset_of!(PerCpu, thread),
             options(nostack, preserves_flags, readonly));
    }
    // SAFETY: threads are static.
    unsafe { &*thread }
}

/// Turns preemption off; nests.
#[inline(always)]
pub fn preempt_off() {
    // SAFETY: one instruction on this CPU's own word. Not `nomem`: what follows must not move before it.
    unsafe { asm!("inc dword ptr gs:[{}]", const offset_of!(PerCpu, preempt), options(nostack)) };
}

/// Undoes one `preempt_off`; reschedules if that was the last and a reschedule is due.
#[inline(always)]
pub fn preempt_on() {
    // SAFETY: as `preempt_off`; the label is reached with the same stack.
    unsafe {
        asm!("dec dword ptr gs:[{}]", "jz {}", const offset_of!(PerCpu, preempt),
             label { super::thread::preempt() }, options(nostack));
    }
}

/// Notes that a reschedule is due on this CPU.
pub fn set_need_resched() {
    // SAFETY: one instruction on this CPU's own word.
    unsafe {
        asm!("and dword ptr gs:[{}], {}", const offset_of!(PerCpu, preempt), const i32::MAX,
             options(nostack));
    }
}

/// Notes that the scheduler has run.
pub fn clear_need_resched() {
    // SAFETY: one instruction on this CPU's own word.
    unsafe {
        asm!("or dword ptr gs:[{}], {}", const offset_of!(PerCpu, preempt), const i32::MIN,
             options(nostack));
    }
}

/// The word itself: 0 means that the CPU should reschedule now.
#[inline(always)]
pub fn preempt_word() -> u32 {
    let word;
    // SAFETY: a word of the structure that GS points to.
    unsafe {
        asm!("mov {:e}, gs:[{}]", out(reg) word, const offset_of!(PerCpu, preempt),
             options(nostack, preserves_flags, readonly));
    }
    word
}

/// Whether preemption is off.
pub fn is_preempt_off() -> bool {
    preempt_word() & !NO_RESCHED != 0
}

// `trap.s` knows these.
const _: () = assert!(offset_of!(PerCpu, kernel_stack) == 8);
const _: () = assert!(offset_of!(PerCpu, user_rsp) == 16);
const _: () = assert!(offset_of!(PerCpu, stack_limit) == 24);
