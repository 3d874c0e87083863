//! What the programs for ring 3 have in common: a start, a few system calls, threads, a way to fail.
//!
//! The programs are static ELF files that ask for nothing but Linux's system calls on x86-64, by Linux's
//! numbers. So the host's Linux is their oracle: each must end with code 0 there, and then in the kernel.
//! They use twenty calls:
//!
//! | call | used for |
//! |---|---|
//! | `write`, `exit`, `exit_group` | saying and ending |
//! | `mmap`, `munmap`, `mprotect`, `madvise`, `mincore`, `brk` | what is tested |
//! | `clone`, `futex`, `sched_yield`, `gettid` | threads, which share everything |
//! | `sched_getaffinity`, `sched_setaffinity` | one thread for each CPU; may be refused |
//! | `rt_sigaction`, `rt_sigreturn` | SIGSEGV that is handled; may be refused with ENOSYS |
//! | `getppid` | a call that does nothing |
//!
//! `clone` is asked for threads of one process only (VM, FS, FILES, SIGHAND, THREAD, SYSVSEM); a thread's
//! stack is a static one, and its end is a futex that it wakes itself. `futex` is only private WAIT and WAKE,
//! without timeouts.
//!
//! A program ends with 0 if everything held, 1 if something did not (it says what), 2 if the kernel refused a
//! call that it must grant, 3 if the program itself is wrong. Its words come on the stack, as the System V
//! ABI has them.
//!
//! Every `unsafe` is in [`sys`].
#![no_std]

pub mod dice;
pub mod say;
pub mod sys;

/// Code of a program in which everything held.
pub const GOOD: u8 = 0;
/// Code of a program in which something did not.
pub const BROKEN: u8 = 1;
/// Code of a program that was refused a call it needs.
pub const REFUSED: u8 = 2;
/// Code of a program that is wrong itself.
pub const WRONG: u8 = 3;
