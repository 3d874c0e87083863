//! The switch from one thread to another, and where a new thread begins.

use super::{Current, Thread, enter_stack};
use crate::arch::cpu::{self, InterruptsOff, PreemptOff};
use crate::arch::registers::{self, FS_BASE};
use crate::arch::upcalls::sched;
use crate::arch::{percpu, spaces};
use core::sync::atomic::Ordering::*;

unsafe extern "C" {
    fn switch_stacks(save: *mut u64, load: u64);
}

/// The thread whose stack this CPU has just left.
#[must_use = "no CPU can run the thread before it is released"]
pub struct Previous(&'static Thread);

impl Previous {
    /// From now on another CPU may run the thread.
    pub fn release(self) -> &'static Thread {
        self.0.on_cpu.store(false, Release);
        self.0
    }
}

/// Switches from the running thread to `next`; returns when a CPU, perhaps another, switches back.
///
/// # Panics
/// Where `next` runs or has nothing to continue, and where a part of the kernel relies on this thread
/// staying.
pub fn switch_to(next: &'static Thread, off: &InterruptsOff, _stay: &PreemptOff) {
    let me = percpu::thread();
    let load = take(next);
    // SAFETY: `take` has made `next` this CPU's and found where it goes on. What this thread was is kept in
    // its stack pointer, until a CPU takes it in the same way.
    unsafe { switch(me, next, me.0.stack_pointer.as_ptr(), load, off) };
    after_switch();
}

/// Switches to `next` for good: the running thread has nothing to continue, and may be prepared again.
///
/// # Panics
/// As [`switch_to`], and where the thread keeps a space.
pub fn end_and_switch_to(next: &'static Thread, off: &InterruptsOff, _stay: &PreemptOff) -> ! {
    let me = percpu::thread();
    assert!(!me.has_space(), "thread {} ends in a space", me.index());
    let load = take(next);
    me.0.stack_pointer.store(0, Relaxed);
    let mut nowhere = 0;
    // SAFETY: as in `switch_to`; this thread's stack is in use until the other one has released it.
    unsafe { switch(me, next, &raw mut nowhere, load, off) };
    unreachable!("a thread that ended runs");
}

/// Makes a thread this CPU's; its stack pointer.
fn take(next: &Thread) -> u64 {
    assert!(!cpu::interrupts_are_on(), "threads are switched with interrupts on");
    assert_eq!(percpu::preempt_depth(), 1, "a thread that must stay on its CPU is switched");
    assert!(!next.on_cpu.swap(true, Acquire), "thread {} runs twice", next.index());
    let load = next.stack_pointer.load(Relaxed);
    assert_ne!(load, 0, "thread {} has nothing to continue", next.index());
    load
}

/// # Safety
/// `me` runs, with interrupts and preemption off; this CPU has taken `next`, which goes on at `load`. `save`
/// is valid for a write.
unsafe fn switch(me: Current, next: &'static Thread, save: *mut u64, load: u64, off: &InterruptsOff) {
    let cpu = percpu::this();
    spaces::load_space_of(cpu, me.0.space.slot(), next.space.slot(), off);
    cpu.quiesced();
    cpu.previous.set(me.0);
    // SAFETY: this CPU runs `next` from here on: with interrupts off nothing comes in between.
    unsafe { enter_stack(cpu, next) };
    if next.fs_base() != me.fs_base() {
        // SAFETY: FS is the program's; the kernel does not use it. Bases are programs' addresses.
        unsafe { registers::write_msr(FS_BASE, next.fs_base()) };
    }
    // SAFETY: the caller's promise: the words at `load` are those that the routine has pushed, or
    // `FreshStack`.
    unsafe { switch_stacks(save, load) };
}

/// Called first on the new stack.
fn after_switch() {
    let previous = percpu::this().previous.take().expect("there was a thread before");
    sched::after_switch(Previous(previous));
}

/// The body of a kernel thread, called by `trap.s` with the words that `prepare_to_call` has pushed.
#[unsafe(no_mangle)]
extern "C" fn kernel_thread_begins(function: unsafe extern "C" fn(usize), argument: usize) -> ! {
    after_switch();
    // SAFETY: it ends the `PreemptOff` of the thread that switched to this one, which has its own depth again
    // when it runs.
    unsafe { percpu::preempt_on() };
    cpu::section_ends();
    // SAFETY: a thread begins with nothing that relies on interrupts being off.
    unsafe { registers::enable_interrupts() };
    // SAFETY: `prepare_to_call` was promised that this function may be called with this argument.
    unsafe { function(argument) };
    sched::exit_thread()
}

/// The start of a program's thread, called by `trap.s`; returns with interrupts off.
#[unsafe(no_mangle)]
extern "C" fn user_thread_begins() {
    after_switch();
    // SAFETY: as in `kernel_thread_begins`.
    unsafe { percpu::preempt_on() };
    registers::disable_interrupts();
}
