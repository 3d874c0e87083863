//! SIGSEGV as the argument of a function; when it returns, the instruction is tried again.

use super::{Errno, call, nr};
use core::arch::naked_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

/// An access that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegFault {
    /// The address.
    pub address: usize,
    /// Whether the address is mapped, but not for this access.
    pub mapped: bool,
}

/// A signal's action, as the kernel reads it.
#[repr(C)]
struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

/// A fault, as the kernel reports it: the used part of Linux's `siginfo_t`.
#[repr(C)]
struct Info {
    signal: i32,
    errno: i32,
    code: i32,
    padding: i32,
    address: usize,
}

const SIGSEGV: usize = 11;
/// SA_SIGINFO | SA_RESTORER | SA_NODEFER.
const FLAGS: usize = 0x4 | 0x0400_0000 | 0x4000_0000;
/// The code of an address that is mapped, but not for this access.
const SEGV_ACCERR: i32 = 2;

/// The function that is called; 0 for none. Relaxed: it is set before the threads that may fault are started.
static HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Sets the function that is called at every refused access, on the thread that tried it, between two of its
/// instructions.
pub fn on_segfault(handler: fn(SegFault)) -> Result<(), Errno> {
    HANDLER.store(handler as usize, Ordering::Relaxed);
    let (handler, restorer) = (caught as *const () as usize, restore as *const () as usize);
    let action = Action { handler, flags: FLAGS, restorer, mask: 0 };
    // SAFETY: the kernel reads the action now and calls its functions later, which are made for that.
    unsafe { call(nr::RT_SIGACTION, [SIGSEGV, &raw const action as usize, 0, 8, 0, 0]) }.map(drop)
}

/// The handler that the kernel calls.
extern "C" fn caught(_signal: i32, info: *const Info, _context: usize) {
    // SAFETY: SA_SIGINFO has the kernel hand over a `siginfo_t` on the stack.
    let (address, code) = unsafe { ((*info).address, (*info).code) };
    let handler = HANDLER.load(Ordering::Relaxed);
    // SAFETY: only `on_segfault` stores there, and it stores a function of this type.
    let handler: fn(SegFault) = unsafe { core::mem::transmute(handler) };
    handler(SegFault { address, mapped: code == SEGV_ACCERR });
}

/// Where `caught` returns to: back to the interrupted instruction, by `rt_sigreturn`.
#[unsafe(naked)]
extern "C" fn restore() -> ! {
    naked_asm!("mov eax, 15", "syscall", "ud2")
}
