//! Single-byte accesses that survive SIGSEGV and SIGBUS, for the process that installed [`catch_segv`].
//!
//! An access notes where to go on in `RESUME` and then touches memory with one instruction. If that faults,
//! the handler puts the kernel's reason into the result register and lets the interrupted context continue
//! there.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Where an interrupted access goes on; zero when none is under way. Written and read by one thread and its
/// signal handler only.
static RESUME: AtomicU64 = AtomicU64::new(0);

/// What [`read_byte`] and [`write_byte`] give for an access that was refused: this plus `si_code`, and
/// [`BUS`].
pub const REFUSED: u64 = 0x1_0000;
/// `si_code`: nothing is mapped there.
pub const UNMAPPED: u64 = 1;
/// `si_code`: the mapping does not grant the right.
pub const RIGHTS: u64 = 2;
/// `si_code`: an address that no page could have.
pub const SENSELESS: u64 = 0x80;

/// Beside `si_code`: it was a SIGBUS.
pub const BUS: u64 = 0x100;

/// Installs the handler for SIGSEGV and SIGBUS in this process.
pub fn catch_segv() {
    // SAFETY: an all-zero sigaction is a valid one; the handler has the signature that SA_SIGINFO asks for
    // and touches only its arguments and an atomic, which is allowed in a signal handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_segv;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

extern "C" fn on_segv(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let resume = RESUME.swap(0, Relaxed);
    if resume == 0 {
        // A fault of our own making: no way on.
        // SAFETY: _exit is allowed in a signal handler and does not return.
        unsafe { libc::_exit(86) }
    }
    let bus = if signal == libc::SIGBUS { BUS } else { 0 };
    // SAFETY: the kernel passes valid pointers to both, exclusive to this handler while it runs; RESUME was
    // non-zero, thus the interrupted code is the access below, which expects its result in RAX and goes on at
    // RESUME.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        registers[libc::REG_RAX as usize] = (REFUSED + bus + (*info).si_code as u64) as i64;
        registers[libc::REG_RIP as usize] = resume as i64;
    }
}

/// Reads the byte at `addr`, or says why that was refused ([`REFUSED`]).
///
/// # Safety
/// [`catch_segv`] was called, this process has one thread, and reading `addr` has no effect beyond a page
/// fault.
#[cfg(target_arch = "x86_64")]
pub unsafe fn read_byte(addr: u64) -> u64 {
    let result: u64;
    // SAFETY: the load may fault; the handler then resumes at label 2 with the result in RAX, and no other
    // register or memory that Rust knows is changed. The address is memory of an experiment that Rust has no
    // reference to.
    unsafe {
        std::arch::asm!(
            "lea {next}, [rip + 2f]",
            "mov [{resume}], {next}",
            "movzx eax, byte ptr [{addr}]",
            "2:",
            next = out(reg) _, resume = in(reg) RESUME.as_ptr(), addr = in(reg) addr, out("rax") result,
            options(nostack, preserves_flags),
        );
    }
    RESUME.store(0, Relaxed);
    result
}

/// Writes the byte at `addr` and gives 0, or says why that was refused ([`REFUSED`]).
///
/// # Safety
/// As [`read_byte`], and nothing that Rust knows of lies at `addr`.
#[cfg(target_arch = "x86_64")]
pub unsafe fn write_byte(addr: u64, value: u8) -> u64 {
    let result: u64;
    // SAFETY: as in `read_byte`; the store changes only memory of the experiment.
    unsafe {
        std::arch::asm!(
            "lea {next}, [rip + 2f]",
            "mov [{resume}], {next}",
            "mov byte ptr [{addr}], {value}",
            "2:",
            next = out(reg) _, resume = in(reg) RESUME.as_ptr(), addr = in(reg) addr,
            value = in(reg_byte) value,
            inout("rax") 0u64 => result,
            options(nostack, preserves_flags),
        );
    }
    RESUME.store(0, Relaxed);
    result
}
