//! Threads: started, numbered, joined.
//!
//! Each has one of a few static stacks and a slot beside it. A slot's `done` word is 0 while its thread runs
//! and 1 when it has ended; the thread itself stores the 1 and wakes the joining thread, so that `clone` and
//! `futex` suffice. The stack is used for a few instructions after that, so a slot is never used twice.

use super::memory::FUTEX_WAIT;
use super::{Errno, call, nr};
use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Most threads that a program starts in its life.
pub const THREADS: usize = 64;
const STACK_BYTES: usize = 64 << 10;

/// CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM.
const FLAGS: usize = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000 | 0x4_0000;
/// FUTEX_WAKE, private.
const FUTEX_WAKE: usize = 129;

#[repr(C, align(4096))]
struct Stack(UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: a stack is touched only by the thread that it was given to.
unsafe impl Sync for Stack {}

static STACKS: [Stack; THREADS] = [const { Stack(UnsafeCell::new([0; STACK_BYTES])) }; THREADS];

struct Slot {
    body: AtomicUsize,
    argument: AtomicUsize,
    done: AtomicU32,
}

static SLOTS: [Slot; THREADS] =
    [const { Slot { body: AtomicUsize::new(0), argument: AtomicUsize::new(0), done: AtomicU32::new(0) } };
        THREADS];

/// Slots handed out. Relaxed: only the number counts.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// A thread that was started.
#[derive(Debug)]
#[must_use]
pub struct Thread(usize);

/// Starts a thread that calls `body` with `argument`.
pub fn spawn(body: fn(usize), argument: usize) -> Result<Thread, Errno> {
    let (index, _) = clone(FLAGS, run, body, argument)?;
    Ok(Thread(index))
}

/// Clones by `flags`, of which CLONE_VM is one; the new thread calls `run` with its slot, where it finds
/// `body` and `argument`. Returns slot and number.
pub(super) fn clone(
    flags: usize,
    run: extern "C" fn(usize) -> !,
    body: fn(usize),
    argument: usize,
) -> Result<(usize, usize), Errno> {
    let index = TAKEN.fetch_add(1, Ordering::Relaxed);
    assert!(index < THREADS, "more threads than stacks");
    let slot = &SLOTS[index];
    // Relaxed: clone(2) orders what came before it with what its child does.
    slot.body.store(body as usize, Ordering::Relaxed);
    slot.argument.store(argument, Ordering::Relaxed);
    let top = STACKS[index].0.get() as usize + STACK_BYTES;
    let answer: isize;
    // SAFETY: the child has registers of its own and a stack that no other thread uses; it never returns to
    // this code, but calls `run` with its slot on a stack that is aligned as at a call.
    unsafe {
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "mov rdi, r12", "call r13", "ud2", "2:",
            in("r12") index, in("r13") run, inlateout("rax") 56isize => answer, in("rdi") flags,
            in("rsi") top, in("rdx") 0, in("r10") 0, in("r8") 0, lateout("rcx") _, lateout("r11") _);
    }
    if answer < 0 { Err(Errno(-answer as i32)) } else { Ok((index, answer as usize)) }
}

/// Calls the body of a slot with its argument.
pub(super) fn call_body(index: usize) {
    let slot = &SLOTS[index];
    let body = slot.body.load(Ordering::Relaxed);
    assert!(body != 0, "a slot without a body");
    // SAFETY: only `clone` stores there, and it stores a function of this type.
    let body: fn(usize) = unsafe { core::mem::transmute(body) };
    body(slot.argument.load(Ordering::Relaxed));
}

/// The body of a thread.
extern "C" fn run(index: usize) -> ! {
    let slot = &SLOTS[index];
    call_body(index);
    // Release: pairs with the Acquire of `join`.
    slot.done.store(1, Ordering::Release);
    wake(&slot.done, u32::MAX);
    loop {
        // SAFETY: the thread ends here; its stack is never used again.
        let _ = unsafe { call(nr::EXIT, [0; 6]) };
    }
}

impl Thread {
    /// Waits until the thread has ended.
    pub fn join(self) {
        // Acquire: pairs with the Release at the end of `run`.
        while SLOTS[self.0].done.load(Ordering::Acquire) == 0 {
            wait_on(&SLOTS[self.0].done, 0);
        }
    }
}

/// Sleeps while `word` holds `value`; may wake for no reason.
pub fn wait_on(word: &AtomicU32, value: u32) {
    // SAFETY: the kernel only reads the word. Any result means: check again.
    let _ = unsafe { call(nr::FUTEX, [word.as_ptr() as usize, FUTEX_WAIT, value as usize, 0, 0, 0]) };
}

/// Wakes up to `count` of the threads that sleep on `word`.
pub fn wake(word: &AtomicU32, count: u32) {
    let count = count.min(i32::MAX as u32) as usize;
    // SAFETY: the kernel does not touch memory. It only returns the number of woken threads.
    let _ = unsafe { call(nr::FUTEX, [word.as_ptr() as usize, FUTEX_WAKE, count, 0, 0, 0]) };
}

/// Yields the CPU.
pub fn yield_now() {
    // SAFETY: it takes nothing and writes nothing.
    let _ = unsafe { call(nr::SCHED_YIELD, [0; 6]) };
}

/// The CPUs that a thread may run on, also after it was kept on one of them.
#[derive(Clone, Copy, Debug)]
pub struct AllowedCpus {
    mask: [u64; 16],
}

impl AllowedCpus {
    /// Those of the calling thread; `None` where the kernel refuses to tell.
    pub fn of_this_thread() -> Option<Self> {
        let mut mask = [0u64; 16];
        let bytes = size_of_val(&mask);
        // SAFETY: the kernel writes at most `bytes` bytes to the array.
        let answer = unsafe { call(nr::SCHED_GETAFFINITY, [0, bytes, mask.as_mut_ptr() as usize, 0, 0, 0]) };
        (answer.is_ok() && mask != [0; 16]).then_some(Self { mask })
    }

    /// Their number.
    pub fn count(&self) -> usize {
        self.mask.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Keeps the calling thread on the `index`th of them, and returns whether the kernel agreed.
    pub fn move_to(&self, index: usize) -> bool {
        let is_allowed = |cpu: &usize| self.mask[cpu / 64] >> (cpu % 64) & 1 != 0;
        let Some(cpu) = (0..self.mask.len() * 64).filter(is_allowed).nth(index) else { return false };
        let mut only = [0u64; 16];
        only[cpu / 64] = 1 << (cpu % 64);
        let bytes = size_of_val(&only);
        // SAFETY: the kernel only reads the array.
        unsafe { call(nr::SCHED_SETAFFINITY, [0, bytes, only.as_ptr() as usize, 0, 0, 0]) }.is_ok()
    }
}

/// Number of CPUs that the program may run on; 2 where the kernel refuses to tell.
pub fn cpus() -> usize {
    AllowedCpus::of_this_thread().map_or(2, |cpus| cpus.count())
}

/// Keeps the calling thread on the `index`th of the CPUs that it may run on, and returns whether the kernel
/// agreed.
pub fn move_to_cpu(index: usize) -> bool {
    AllowedCpus::of_this_thread().is_some_and(|cpus| cpus.move_to(index))
}
