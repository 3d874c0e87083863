//! The one place of `unsafe`: system calls, the start of the program, and memory outside of Rust's.
//!
//! The interface is safe, because the memory that programs map, unmap and fault on is never Rust's: it is
//! reached only by single instructions through a [`Region`], never by a reference. Rust's own memory (text,
//! statics, the first stack, the threads' static stacks) is never inside of a `Region`, as a kernel maps over
//! mapped pages only on request, and a `Region` requests it only within itself.

mod code;
mod entry;
mod file;
mod memory;
mod process;
pub mod signal;
#[cfg(metal)]
mod string;
mod thread;
pub mod time;
pub mod trap;

pub use code::CodePage;
pub use entry::Args;
#[doc(hidden)]
pub use entry::start;
pub use file::{Whose, most_resident, number_in, read_file, set_thp_disable, thp_disable};
pub use memory::{HUGEPAGE, LEAVE, MAY_MOVE, MOVE_TO, NOHUGEPAGE, PAGE, Region, Rights, Shared, heap_end};
pub use process::{Child, Forked, Status, fork, fork_sharing, fork_sharing_beside, numbers, try_wait, wait};
pub use signal::{SegFault, on_segfault};
pub use thread::{AllowedCpus, THREADS, Thread, cpus, move_to_cpu, spawn, wait_on, wake, yield_now};

use core::arch::asm;

/// A refused call: the number, as Linux has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// No children.
pub const ECHILD: Errno = Errno(10);
/// Try again.
pub const EAGAIN: Errno = Errno(11);
/// Not permitted.
pub const EPERM: Errno = Errno(1);
/// Bad address.
pub const EFAULT: Errno = Errno(14);
/// No memory, or an address that is not mapped.
pub const ENOMEM: Errno = Errno(12);
/// A bad argument.
pub const EINVAL: Errno = Errno(22);
/// Not for this.
pub const EOPNOTSUPP: Errno = Errno(95);
/// The time is over.
pub const ETIMEDOUT: Errno = Errno(110);
/// No such system call.
pub const ENOSYS: Errno = Errno(38);

/// Numbers of system calls.
mod nr {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const BRK: usize = 12;
    pub const POLL: usize = 7;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const RT_SIGRETURN: usize = 15;
    pub const SCHED_YIELD: usize = 24;
    pub const MREMAP: usize = 25;
    pub const MINCORE: usize = 27;
    pub const MADVISE: usize = 28;
    pub const NANOSLEEP: usize = 35;
    pub const GETPID: usize = 39;
    pub const CLONE: usize = 56;
    pub const FORK: usize = 57;
    pub const EXIT: usize = 60;
    pub const WAIT4: usize = 61;
    pub const GETTIMEOFDAY: usize = 96;
    pub const GETRUSAGE: usize = 98;
    pub const SYSINFO: usize = 99;
    pub const GETUID: usize = 102;
    pub const GETPPID: usize = 110;
    pub const SIGALTSTACK: usize = 131;
    pub const PRCTL: usize = 157;
    pub const GETTID: usize = 186;
    pub const TIME: usize = 201;
    pub const FUTEX: usize = 202;
    pub const SCHED_SETAFFINITY: usize = 203;
    pub const SCHED_GETAFFINITY: usize = 204;
    pub const CLOCK_GETTIME: usize = 228;
    pub const CLOCK_NANOSLEEP: usize = 230;
    pub const EXIT_GROUP: usize = 231;
    pub const MBIND: usize = 237;
    pub const OPENAT: usize = 257;
}

/// Makes a system call.
///
/// # Safety
///
/// The call must not change Rust's memory, except for buffers that the caller passed for that.
#[inline(always)]
unsafe fn call(number: usize, a: [usize; 6]) -> Result<usize, Errno> {
    let answer: isize;
    // SAFETY: the instruction changes rax, rcx and r11 and, by our caller's word, no memory but its own
    // buffers.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => answer, in("rdi") a[0], in("rsi") a[1],
            in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    if (-4095..0).contains(&answer) { Err(Errno(-answer as i32)) } else { Ok(answer as usize) }
}

/// Writes to the console; bytes that cannot be written are lost.
pub fn write(bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        // SAFETY: the kernel only reads, and only the slice.
        let written = unsafe { call(nr::WRITE, [1, rest.as_ptr() as usize, rest.len(), 0, 0, 0]) };
        match written {
            Ok(length @ 1..) => rest = rest.get(length..).unwrap_or_default(),
            _ => return,
        }
    }
}

/// Ends the program with every thread.
pub fn exit_group(code: u8) -> ! {
    loop {
        // SAFETY: nothing runs after it.
        let _ = unsafe { call(nr::EXIT_GROUP, [usize::from(code), 0, 0, 0, 0, 0]) };
    }
}

/// Ends the calling thread alone; the process with its code, where it has no other.
pub fn exit(code: u32) -> ! {
    loop {
        // SAFETY: nothing of this thread runs after it; what its stack holds is not used again.
        let _ = unsafe { call(nr::EXIT, [code as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Calls that do nothing, `count` of them in a row: the cost of entering the kernel.
#[inline(never)]
pub fn ask_nothing(count: u64) {
    for _ in 0..count {
        // SAFETY: it takes nothing and writes nothing.
        let _ = unsafe { call(nr::GETPPID, [0; 6]) };
    }
}

/// Marks the begin of counting for the emulator: an instruction that does nothing (see the plugin's `mark`).
#[inline(always)]
pub fn mark_begin() {
    // SAFETY: it does nothing.
    unsafe {
        asm!(".byte 0x0f, 0x1f, 0x84, 0x00, 0x42, 0x4c, 0x49, 0x01", options(nostack, preserves_flags))
    };
}

/// Marks the end of counting.
#[inline(always)]
pub fn mark_end() {
    // SAFETY: it does nothing.
    unsafe {
        asm!(".byte 0x0f, 0x1f, 0x84, 0x00, 0x45, 0x4c, 0x49, 0x01", options(nostack, preserves_flags))
    };
}

/// The number of the user, where there are users.
pub fn user_id() -> Result<usize, Errno> {
    // SAFETY: it takes nothing and writes nothing.
    unsafe { call(nr::GETUID, [0; 6]) }
}

/// The number of the calling thread.
pub fn thread_number() -> usize {
    // SAFETY: it takes nothing and writes nothing.
    unsafe { call(nr::GETTID, [0; 6]) }.unwrap_or(0)
}

/// The CPU's time-stamp counter: guest instructions, in an emulator that counts them.
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction, and no kernel forbids it here.
    unsafe { core::arch::x86_64::_rdtsc() }
}
