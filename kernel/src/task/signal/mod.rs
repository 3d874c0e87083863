//! Signals that a program's own instructions raise: they reach the handler with Linux's numbers, or end the
//! process.
//!
//! ```text
//!   exception, refused fault ─► force ─► blocked, ignored or without a handler: the process ends
//!                                 │
//!                                 └─► the frame is on its stack ─► the handler ─► rt_sigreturn ─► goes on
//!                                     no room for it: SIGSEGV instead, and then the end
//! ```
//! No signal comes from elsewhere: there is no `kill`, no timer, and a child's end is told to wait4 alone. So
//! none is ever pending, and a mask decides only whether a thread's own fault ends it.
//!
//! Sources: Linux's `force_sig_info_to_task`, `get_signal` and `signal_delivered` of `kernel/signal.c`, for
//! the order; `arch/x86/kernel/traps.c` and `mm/fault.c` for what each exception is told as. The frame is
//! `core::signal`'s.

mod actions;

pub use actions::{Action, Actions};

use crate::arch::percpu;
use crate::arch::spaces::Space;
use crate::arch::sse::SseState;
use crate::arch::trap::{Frame, Saved};
use crate::arch::user::{self, BadAddress};
use crate::memory;
use crate::task::process::{self, Status};
use interleaf::space::FaultError;
use interleaf::units::VirtAddr;
use interleaf_kernel::core::signal::*;
use interleaf_linux_abi::signal::*;

/// A debug trap's reasons, as DR6 has them: a single step, and the debug registers.
const SINGLE_STEP: u64 = 1 << 14;
const DEBUG_REGISTERS: u64 = 0xf;

/// The program raised an exception that is no page fault; of a debug trap DR6 says why.
pub fn exception(saved: &mut Saved, debug_status: u64) {
    let at = saved.frame.rip();
    let floating = |raised| float_code(raised).map(|code| (SIGFPE, code, at));
    let told = match saved.frame.vector() {
        0 => Some((SIGFPE, FPE_INTDIV, at)),
        1 if debug_status & SINGLE_STEP != 0 => Some((SIGTRAP, TRAP_TRACE, at)),
        1 if debug_status & DEBUG_REGISTERS != 0 => Some((SIGTRAP, TRAP_HWBKPT, at)),
        1 => Some((SIGTRAP, TRAP_BRKPT, at)),
        3 => Some((SIGTRAP, SI_KERNEL, 0)),
        6 => Some((SIGILL, ILL_ILLOPN, at)),
        11 | 12 => Some((SIGBUS, SI_KERNEL, 0)),
        16 => floating(saved.sse.x87_exceptions()),
        17 => Some((SIGBUS, BUS_ADRALN, 0)),
        19 => floating(saved.sse.sse_exceptions()),
        _ => Some((SIGSEGV, SI_KERNEL, 0)),
    };
    // A trap that has nothing to tell is tried again.
    if let Some((signal, code, address)) = told {
        force(saved, Info { signal, code, address }, 0, "an exception");
    }
}

/// A program's page fault could not be resolved: its handler is called, or it ends.
#[cold]
pub fn fault_failed(saved: &mut Saved, address: VirtAddr, error: FaultError) {
    let (signal, code, what) = match error {
        FaultError::NotMapped => (SIGSEGV, SEGV_MAPERR, "nothing is mapped there"),
        FaultError::NotAllowed => (SIGSEGV, SEGV_ACCERR, "what is mapped there does not allow it"),
        FaultError::HugetlbEmpty
            if percpu::thread()
                .with_space(|space| space.is_some_and(|space| is_taken_back(space, address))) =>
        {
            return;
        }
        FaultError::HugetlbEmpty => (SIGBUS, BUS_ADRERR, "no huge page is left of those that are reserved"),
        FaultError::Beyond => (SIGBUS, BUS_ADRERR, "the object that is mapped there has no such page"),
        FaultError::Stalled => (SIGBUS, BUS_ADRERR, "another party has the page, and does not go on"),
        _ => end_by(SIGKILL, &saved.frame, "there is no memory for a page"),
    };
    force(saved, Info { signal, code, address: address.0 }, address.0, what);
}

/// Whether a page of the hugetlb pool that the program has set aside was taken back from its children: the
/// access is to be tried again.
pub fn is_taken_back(space: &Space, address: VirtAddr) -> bool {
    memory::spaces().unmap_hugetlb_sharers(space, address) == Ok(true)
}

/// Raises a signal on the running thread, which cannot put it off: where it is blocked or ignored, the
/// process ends as it does where there is no handler. `cr2` is the address of a page fault, for the context.
fn force(saved: &mut Saved, info: Info, cr2: u64, what: &str) {
    let action = process::current().actions().take(info.signal);
    let is_blocked = percpu::thread().signals.blocked() & bit(info.signal) != 0;
    if is_blocked || action.handler <= SIG_IGN {
        crate::println!("at {:#x}: {what}", if info.address == 0 { saved.frame.rip() } else { info.address });
        end_by(
            info.signal,
            &saved.frame,
            if is_blocked { "which it has blocked" } else { "which it does not handle" },
        );
    }
    if deliver(saved, &action, &info, cr2).is_ok() {
        return;
    }
    match info.signal {
        SIGSEGV => end_by(SIGSEGV, &saved.frame, "and no stack or no code to handle it"),
        _ => force(saved, NO_ADDRESS, cr2, "there is no stack or no code to handle a signal"),
    }
}

/// SIGSEGV from the kernel itself.
const NO_ADDRESS: Info = Info { signal: SIGSEGV, code: SI_KERNEL, address: 0 };

/// A signal ends the process.
fn end_by(signal: u32, frame: &Frame, what: &str) -> ! {
    let process = process::current();
    crate::println!("process {} ends by signal {signal}, {what}\n{frame}", process.number());
    process.end(Status::killed(signal));
    process.leave()
}

/// Makes the program call its handler instead of going on, with the state of a new thread but for the
/// registers of calls.
fn deliver(saved: &mut Saved, action: &Action, info: &Info, cr2: u64) -> Result<(), BadAddress> {
    let (frame, signals) = (&mut saved.frame, &percpu::thread().signals);
    if !action.has(SA_RESTORER) {
        return Err(BadAddress);
    }
    let (blocked, stack) = (signals.blocked(), signals.stack());
    let places = Places::below(frame.rsp, stack, action.has(SA_ONSTACK)).ok_or(BadAddress)?;
    let registers = registers(frame, blocked, cr2);
    let context = Context { registers, state_at: places.state, stack, mask: blocked };
    user::write(VirtAddr(places.state), &saved.sse.for_a_program())?;
    user::write(VirtAddr(places.frame), &context.frame(action.restorer, info))?;
    if !frame.call_handler_at(action.handler) {
        return Err(BadAddress);
    }
    frame.rsp = places.frame;
    (frame.rdi, frame.rax) = (info.signal.into(), 0);
    (frame.rsi, frame.rdx) = (places.frame + INFO_AT, places.frame + CONTEXT_AT);
    saved.sse = SseState::fresh();
    let own = if action.has(SA_NODEFER) { 0 } else { bit(info.signal) };
    signals.set_blocked(blocked | action.mask | own);
    signals.set_stack(stack.in_handler());
    Ok(())
}

/// The registers in the order of Linux's sigcontext.
fn registers(frame: &Frame, blocked: u64, cr2: u64) -> [u64; REGISTERS] {
    let f = frame;
    let [rip, flags, segments, error, vector] = f.for_a_signal();
    [
        f.r8, f.r9, f.r10, f.r11, f.r12, f.r13, f.r14, f.r15, f.rdi, f.rsi, f.rbp, f.rbx, f.rdx, f.rax,
        f.rcx, f.rsp, rip, flags, segments, error, vector, blocked, cr2,
    ]
}

/// The way back: the handler has returned to the restorer, which called `rt_sigreturn`. Nothing on the stack
/// is trusted; nonsense is a SIGSEGV.
#[inline(never)]
pub fn sigreturn(saved: &mut Saved) {
    if go_back(saved).is_err() {
        force(saved, NO_ADDRESS, 0, "it came back from a signal with nonsense");
    }
}

fn go_back(saved: &mut Saved) -> Result<(), BadAddress> {
    let (frame, signals) = (&mut saved.frame, &percpu::thread().signals);
    let mut bytes = [0; FRAME_BYTES];
    user::read(VirtAddr(frame.rsp.wrapping_sub(8)), &mut bytes)?;
    let context = Context::of_frame(&bytes);
    signals.set_blocked(context.mask & !UNBLOCKABLE);
    let state = match context.state_at {
        0 => SseState::fresh().for_a_program(),
        at => {
            let mut state = [0; 512];
            user::read(VirtAddr(at), &mut state)?;
            state
        }
    };
    let r = context.registers;
    if !saved.sse.set(state) || !frame.go_on_at(r[16], r[17], r[18]) {
        return Err(BadAddress);
    }
    [frame.r8, frame.r9, frame.r10, frame.r11] = [r[0], r[1], r[2], r[3]];
    [frame.r12, frame.r13, frame.r14, frame.r15] = [r[4], r[5], r[6], r[7]];
    [frame.rdi, frame.rsi, frame.rbp, frame.rbx] = [r[8], r[9], r[10], r[11]];
    [frame.rdx, frame.rax, frame.rcx, frame.rsp] = [r[12], r[13], r[14], r[15]];
    // As Linux does: a stack that cannot be is left out.
    if let Ok(stack) = signals.stack().changed_to(context.stack, frame.rsp) {
        signals.set_stack(stack);
    }
    Ok(())
}
