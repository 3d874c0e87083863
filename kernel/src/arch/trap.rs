//! Handlers of traps and system calls in Rust; `trap.s` has the entries.

mod text;

use super::apic::{self, Vector};
use super::spaces::Space;
use super::sse::SseState;
use super::upcalls::{process, report, sched, signal, system_call};
use super::{MACHINE, cpu, percpu, registers, segments, user};
use core::arch::global_asm;
use core::sync::atomic::Ordering::*;
use interleaf::space::{Fault, FaultError};
use interleaf::units::{Access, VirtAddr};

global_asm!(include_str!("trap.s"), options(att_syntax));

/// The registers of interrupted code, as `trap.s` pushes them.
///
/// Those that say where code goes on, and with which rights, are the entry's: what is made or changed outside
/// of this file is a frame of ring 3, with interrupts on and an address of a program's.
#[repr(C)]
#[derive(Debug)]
pub struct Frame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rax: u64,
    /// The vector; in a system call its number.
    vector: u64,
    /// The error code that the CPU pushes for some vectors.
    error: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    pub rsp: u64,
    ss: u64,
}

/// What `trap.s` has saved of interrupted code.
#[repr(C)]
pub struct Saved {
    /// The area of `fxsave64`.
    pub sse: SseState,
    /// The registers, right above it.
    pub frame: Frame,
}

/// The CPU was in ring 3.
const RING_3: u64 = 3;
const PAGE_FAULT: u64 = 14;
const ERROR_PRESENT: u64 = 1 << 0;
const ERROR_WRITE: u64 = 1 << 1;
const ERROR_FETCH: u64 = 1 << 4;
/// Flags that a signal's context sets: arithmetic, direction, trap, resume, alignment check. Those of Linux.
const CONTEXT_FLAGS: u64 = 0x5_0dd5;
/// Flags that a signal's handler begins without: trap, direction, resume.
const FLAGS_OFF_IN_HANDLERS: u64 = 0x1_0500;
/// Flags that every program has: interrupts on, and the bit that is always 1.
const FIXED_FLAGS: u64 = registers::INTERRUPT_FLAG as u64 | 2;

impl Frame {
    /// The registers that a program starts with.
    pub const fn at_start(entry: VirtAddr, stack: VirtAddr) -> Self {
        assert!(entry.0 < user::USER_END, "a program starts where programs are");
        Self {
            rip: entry.0,
            rsp: stack.0,
            cs: segments::USER_CODE as u64,
            ss: segments::USER_DATA as u64,
            rflags: FIXED_FLAGS,
            ..Self::ZERO
        }
    }

    const ZERO: Frame = Frame {
        r15: 0,
        r14: 0,
        r13: 0,
        r12: 0,
        rbp: 0,
        rbx: 0,
        r11: 0,
        r10: 0,
        r9: 0,
        r8: 0,
        rdi: 0,
        rsi: 0,
        rdx: 0,
        rcx: 0,
        rax: 0,
        vector: 0,
        error: 0,
        rip: 0,
        cs: 0,
        rflags: 0,
        rsp: 0,
        ss: 0,
    };

    /// The registers of a thread that goes on as this one of ring 3 does.
    pub fn twin(&self) -> Self {
        assert!(self.is_user(), "only a program's thread has a twin");
        Self { ..*self }
    }

    /// Whether ring 3 was interrupted.
    #[inline(always)]
    pub fn is_user(&self) -> bool {
        self.cs & RING_3 != 0
    }

    /// The vector; in a system call its number.
    #[inline(always)]
    pub fn vector(&self) -> u64 {
        self.vector
    }

    /// The address of the instruction.
    pub fn rip(&self) -> u64 {
        self.rip
    }

    /// The words that a program finds in a signal's context: rip, flags, segments, error, vector.
    pub fn for_a_signal(&self) -> [u64; 5] {
        [self.rip, self.rflags, self.segments(), self.error, self.vector]
    }

    /// Code segment, then GS and FS, which are 0, and stack segment.
    fn segments(&self) -> u64 {
        self.cs | self.ss << 48
    }

    /// Has the program call a signal's handler. False where no program can be there.
    #[must_use]
    pub fn call_handler_at(&mut self, rip: u64) -> bool {
        self.go_on_at(rip, self.rflags & !FLAGS_OFF_IN_HANDLERS, self.segments())
    }

    /// Has the program go on elsewhere, with these of [`CONTEXT_FLAGS`]. False where no program can be there,
    /// or the segments are none of a program's: there is one pair.
    #[must_use]
    pub fn go_on_at(&mut self, rip: u64, flags: u64, segments: u64) -> bool {
        let possible = self.is_user() && rip < user::USER_END && segments == self.segments();
        if possible {
            (self.rip, self.rflags) = (rip, self.rflags & !CONTEXT_FLAGS | flags & CONTEXT_FLAGS);
        }
        possible
    }

    fn interrupts_were_on(&self) -> bool {
        self.rflags & registers::INTERRUPT_FLAG as u64 != 0
    }

    fn access(&self) -> Access {
        match self.error {
            error if error & ERROR_FETCH != 0 => Access::Execute,
            error if error & ERROR_WRITE != 0 => Access::Write,
            _ => Access::Read,
        }
    }

    fn is_fetch_from_absent(&self) -> bool {
        self.error & (ERROR_FETCH | ERROR_PRESENT) == ERROR_FETCH
    }
}

/// Every vector that is returned from. Interrupts are off, here and when it returns.
#[unsafe(no_mangle)]
extern "C" fn trap_handler(saved: &mut Saved) {
    let frame = &mut saved.frame;
    if frame.vector == PAGE_FAULT {
        kernel_fault(frame, registers::fault_address());
    } else if let Some(vector) = Vector::of_number(frame.vector) {
        interrupt(vector);
    } else if frame.is_user() {
        let debug_status = registers::take_debug_status();
        // SAFETY: ring 3 was interrupted: no code of the kernel is under way below this.
        unsafe { registers::enable_interrupts() };
        signal::exception(saved, debug_status);
        registers::disable_interrupts();
    } else {
        report::unexpected(frame, None);
    }
    let frame = &mut saved.frame;
    if frame.is_user() {
        exit_to_user(frame);
    } else if percpu::preempt_word() == 0 && frame.interrupts_were_on() {
        sched::preempt();
    }
}

/// On the way back to ring 3. Interrupts are off.
#[inline(always)]
fn exit_to_user(frame: &mut Frame) {
    if percpu::preempt_word() == 0 || percpu::thread().exit_pending.load(Relaxed) != 0 {
        exit_work(frame);
    }
}

/// What is left to do after a page fault of ring 3. `trap.s` knows that `Return` is 0, and passes every other
/// value on as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum AfterFault {
    /// The fault is resolved: return to ring 3.
    Return = 0,
    /// It is resolved, and a reschedule is due, or the thread's program ends.
    ExitWork,
    /// Refused, see [`FaultError`].
    NotMapped,
    /// Refused, see [`FaultError`].
    NotAllowed,
    /// Refused, see [`FaultError`].
    NoMemory,
    /// Refused, see [`FaultError`].
    HugetlbEmpty,
    /// Refused, see [`FaultError`].
    Stalled,
    /// Refused, see [`FaultError`].
    Beyond,
}

impl From<FaultError> for AfterFault {
    #[cold]
    fn from(error: FaultError) -> Self {
        match error {
            FaultError::NotMapped => AfterFault::NotMapped,
            FaultError::NotAllowed => AfterFault::NotAllowed,
            FaultError::HugetlbEmpty => AfterFault::HugetlbEmpty,
            FaultError::Stalled => AfterFault::Stalled,
            FaultError::Beyond => AfterFault::Beyond,
            _ => AfterFault::NoMemory,
        }
    }
}

impl AfterFault {
    /// Why the fault was refused, if it was.
    fn error(self) -> Option<FaultError> {
        match self {
            AfterFault::Return | AfterFault::ExitWork => None,
            AfterFault::NotMapped => Some(FaultError::NotMapped),
            AfterFault::NotAllowed => Some(FaultError::NotAllowed),
            AfterFault::NoMemory => Some(FaultError::NoMemory),
            AfterFault::HugetlbEmpty => Some(FaultError::HugetlbEmpty),
            AfterFault::Stalled => Some(FaultError::Stalled),
            AfterFault::Beyond => Some(FaultError::Beyond),
        }
    }
}

/// A page fault of ring 3. Interrupts are on; they are off when it returns.
/// The frame has no registers that calls keep, and the address in the place of the vector.
#[unsafe(no_mangle)]
extern "C" fn user_fault_handler(frame: &Frame) -> AfterFault {
    let thread = percpu::thread();
    let fault = Fault { addr: VirtAddr(frame.vector), access: frame.access() };
    let in_space = |space: &Space| space.fault(fault);
    let resolved = thread.with_space(|space| space.map_or(Err(FaultError::NotMapped), in_space));
    registers::disable_interrupts();
    match resolved {
        Err(error) => error.into(),
        Ok(_) if percpu::preempt_word() == 0 || thread.exit_pending.load(Relaxed) != 0 => {
            AfterFault::ExitWork
        }
        Ok(_) => AfterFault::Return,
    }
}

/// What [`user_fault_handler`] left to do. The frame is complete but for the vector. Interrupts are off, here
/// and when it returns.
#[unsafe(no_mangle)]
extern "C" fn user_fault_unfinished(saved: &mut Saved, left: AfterFault) {
    let address = VirtAddr(core::mem::replace(&mut saved.frame.vector, PAGE_FAULT));
    if let Some(error) = left.error() {
        if address.0 >= user::USER_END {
            // A program is not told which of the kernel's pages there are.
            saved.frame.error |= ERROR_PRESENT;
        }
        // SAFETY: ring 3 faulted: no code of the kernel is under way below this.
        unsafe { registers::enable_interrupts() };
        let refused = if error == FaultError::NotAllowed && saved.frame.is_fetch_from_absent() {
            load_instead(address)
        } else {
            Err(error)
        };
        if let Err(error) = refused {
            signal::fault_failed(saved, address, error);
        }
        registers::disable_interrupts();
    }
    exit_to_user(&mut saved.frame);
}

/// A fetch from an absent page was refused. To Linux on x86-64 it is a load: the page is mapped if it may be
/// read, and the fetch that is tried again finds it and is refused for good.
fn load_instead(address: VirtAddr) -> Result<(), FaultError> {
    let load = Fault { addr: address, access: Access::Read };
    let in_space = |space: &Space| space.fault(load);
    percpu::thread().with_space(|space| space.map_or(Err(FaultError::NotMapped), in_space)).map(drop)
}

/// A page fault of the kernel: on a program's memory in a routine that recovers, or an error of the kernel.
#[cold]
fn kernel_fault(frame: &mut Frame, address: VirtAddr) {
    let Some(recovery) = user::recovery(frame.rip).filter(|_| address.0 < user::USER_END) else {
        report::unexpected(frame, Some(address));
    };
    let may_sleep = frame.interrupts_were_on() && !percpu::is_preempt_off();
    let resolve = |space: &Space| {
        // SAFETY: they were on when the access faulted (`may_sleep`).
        unsafe { registers::enable_interrupts() };
        let outcome = space.fault(Fault { addr: address, access: frame.access() });
        let is_mended = match outcome {
            Ok(_) => true,
            Err(FaultError::HugetlbEmpty) => signal::is_taken_back(space, address),
            Err(_) => false,
        };
        registers::disable_interrupts();
        is_mended
    };
    if !percpu::thread().with_space(|space| space.filter(|_| may_sleep).is_some_and(resolve)) {
        frame.rip = recovery;
    }
}

/// Interrupts of the controller. None of their handlers sleeps, or takes a lock that is held anywhere with
/// interrupts on.
fn interrupt(vector: Vector) {
    cpu::section_begins();
    percpu::this().idle_ends();
    match vector {
        Vector::TIMER => {
            percpu::set_need_resched();
            // Seen on the way to ring 3 where the kernel was interrupted, too.
            percpu::thread().exit_pending.store(1, Relaxed);
        }
        Vector::RESCHED => percpu::set_need_resched(),
        Vector::HANDLER => MACHINE.call_handler(),
        Vector::BARRIER => percpu::this().quiesced(),
        // Spurious: needs no acknowledgement.
        _ => return,
    }
    apic::end_of_interrupt();
    cpu::section_ends();
}

/// Work before the return to ring 3: a reschedule, or the end of the thread. Interrupts are off before and
/// after.
#[cold]
fn exit_work(frame: &mut Frame) {
    sched::yield_now();
    // SAFETY: only ring 3 is below this, to which the thread is about to return.
    unsafe { registers::enable_interrupts() };
    process::before_return_to_user(frame);
    registers::disable_interrupts();
}

/// A system call. Interrupts are off. Returns whether the frame must be restored as a whole.
#[unsafe(no_mangle)]
extern "C" fn syscall_handler(saved: &mut Saved) -> bool {
    // SAFETY: ring 3 made the call: no code of the kernel is under way below this.
    unsafe { registers::enable_interrupts() };
    let whole = system_call(saved);
    registers::disable_interrupts();
    exit_to_user(&mut saved.frame);
    whole
}

/// Vectors that are never returned from. Stays on the vector's stack.
#[unsafe(no_mangle)]
extern "C" fn fatal_handler(frame: &Frame) -> ! {
    let address = (frame.vector == PAGE_FAULT).then(registers::fault_address);
    report::unexpected(frame, address)
}
