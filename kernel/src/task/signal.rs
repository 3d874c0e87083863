//! Signals: an exception ends the process, and SIGSEGV is the one that a program may handle, by Linux's frame
//! on its stack and the way back from it.
//!
//! ```text
//!   rsp ─►  restorer            where the handler returns to: it calls rt_sigreturn
//!           ucontext            the registers, in Linux's order
//!           siginfo             signal, code, address
//!           512 bytes           SSE state
//!           ... red zone, then the interrupted stack
//! ```
//! Sources: Linux's `arch/x86/include/uapi/asm/sigcontext.h` and `ucontext.h` for the order of words.

use crate::arch::percpu;
use crate::arch::spaces::Space;
use crate::arch::trap::{Frame, Saved};
use crate::arch::user::{self, BadAddress};
use crate::memory;
use crate::task::process::{self, SIGKILL, Status};
use interleaf::space::FaultError;
use interleaf::units::VirtAddr;

const SIGILL: u32 = 4;
const SIGTRAP: u32 = 5;
const SIGBUS: u32 = 7;
const SIGFPE: u32 = 8;
const SIGSEGV: u32 = 11;
/// Bytes that compiled code may use below its stack pointer.
const RED_ZONE: u64 = 128;

/// Words of a ucontext up to and with the registers: five before them, then 23.
const CONTEXT_WORDS: usize = 5 + 23 + 9;
/// Words of the siginfo that are filled.
const INFO_WORDS: usize = 16;
/// All words of the frame before the SSE state.
const WORDS: usize = 1 + CONTEXT_WORDS + INFO_WORDS;
const BYTES: u64 = (WORDS * 8 + 512) as u64;

/// The program raised an exception that is no page fault.
pub fn exception(frame: &mut Frame) {
    let signal = match frame.vector() {
        0 | 16 | 19 => SIGFPE,
        1 | 3 => SIGTRAP,
        6 => SIGILL,
        17 => SIGBUS,
        _ => SIGSEGV,
    };
    kill(signal, frame, "an exception");
}

/// A signal ends the process.
pub fn kill(signal: u32, frame: &Frame, what: &str) -> ! {
    let process = process::current();
    crate::println!("process {} ends by signal {signal}: {what}\n{frame}", process.number());
    process.end(Status::killed(signal));
    process.leave()
}

/// A program's page fault could not be resolved: its handler is called, or it ends.
#[cold]
pub fn fault_failed(saved: &mut Saved, address: VirtAddr, error: FaultError) {
    let frame = &saved.frame;
    let code = match error {
        FaultError::NotMapped => 1,
        FaultError::NotAllowed => 2,
        FaultError::PoolEmpty
            if percpu::thread()
                .with_space(|space| space.is_some_and(|space| is_taken_back(space, address))) =>
        {
            return;
        }
        FaultError::PoolEmpty => kill(SIGBUS, frame, "no huge page is left of those that are reserved"),
        _ => kill(SIGKILL, frame, "there is no memory for a page"),
    };
    let (handler, restorer) = process::current().handler();
    if handler == 0 {
        crate::println!("at {address:?}: {error}");
        kill(SIGSEGV, frame, "segmentation fault");
    }
    if deliver(saved, handler, restorer, code, address).is_err() {
        kill(SIGSEGV, &saved.frame, "segmentation fault, and no stack or no code to handle it");
    }
}

/// Whether a page of the reserved pool that the program has set aside was taken back from its children: the
/// access is to be tried again.
pub fn is_taken_back(space: &Space, address: VirtAddr) -> bool {
    memory::spaces().take_back_pool_page(space, address) == Ok(true)
}

/// Makes the program call its handler instead of going on.
fn deliver(
    saved: &mut Saved,
    handler: u64,
    restorer: u64,
    code: u64,
    address: VirtAddr,
) -> Result<(), BadAddress> {
    let frame = &mut saved.frame;
    // As after a call: 8 below a multiple of 16.
    let at = (frame.rsp.wrapping_sub(RED_ZONE + BYTES) & !15).wrapping_sub(8);
    let mut words = [0; WORDS];
    words[0] = restorer;
    words[6..29].copy_from_slice(&registers(frame, address));
    let info = 1 + CONTEXT_WORDS;
    (words[info], words[info + 1], words[info + 2]) = (SIGSEGV.into(), code, address.0);
    let mut bytes = [0; WORDS * 8];
    bytes.chunks_exact_mut(8).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
    user::write(VirtAddr(at), &bytes)?;
    user::write(VirtAddr(at + bytes.len() as u64), saved.sse.bytes())?;
    if !frame.go_on_at(handler, 0) {
        return Err(BadAddress);
    }
    frame.rsp = at;
    (frame.rdi, frame.rsi, frame.rdx) = (SIGSEGV.into(), at + 8 * info as u64, at + 8);
    (frame.rax, frame.rcx, frame.r11) = (0, 0, 0);
    Ok(())
}

/// The registers in the order of Linux's sigcontext.
fn registers(frame: &Frame, address: VirtAddr) -> [u64; 23] {
    let f = frame;
    let [rip, flags, segments, error, vector] = f.for_a_signal();
    [
        f.r8, f.r9, f.r10, f.r11, f.r12, f.r13, f.r14, f.r15, f.rdi, f.rsi, f.rbp, f.rbx, f.rdx, f.rax,
        f.rcx, f.rsp, rip, flags, segments, error, vector, 0, address.0,
    ]
}

/// The way back: the handler has returned to the restorer, which called `rt_sigreturn`. Nothing on the stack
/// is trusted.
#[inline(never)]
pub fn sigreturn(saved: &mut Saved) {
    let frame = &mut saved.frame;
    let at = frame.rsp.wrapping_sub(8);
    let (mut bytes, mut sse) = ([0; WORDS * 8], [0; 512]);
    let read = user::read(VirtAddr(at), &mut bytes);
    let read = read.and_then(|()| user::read(VirtAddr(at.wrapping_add(bytes.len() as u64)), &mut sse));
    let word =
        |n: usize| bytes[8 * (6 + n)..][..8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    if read.is_err() || !frame.go_on_at(word(16), word(17)) {
        kill(SIGSEGV, frame, "it came back from a signal with nonsense");
    }
    saved.sse.set(sse);
    (frame.r8, frame.r9, frame.r10, frame.r11) = (word(0), word(1), word(2), word(3));
    (frame.r12, frame.r13, frame.r14, frame.r15) = (word(4), word(5), word(6), word(7));
    (frame.rdi, frame.rsi, frame.rbp, frame.rbx) = (word(8), word(9), word(10), word(11));
    (frame.rdx, frame.rax, frame.rcx, frame.rsp) = (word(12), word(13), word(14), word(15));
}
