//! The common parts of the programs for ring 3: a start, a few system calls, threads, a way to fail.
//!
//! The programs are static ELF files that ask for nothing but Linux's system calls on x86-64, by Linux's
//! numbers. So the host's Linux is their oracle: each must end with code 0 there, and then in the kernel.
//! They use these calls:
//!
//! | call | used for |
//! |---|---|
//! | `write`, `exit`, `exit_group` | printing and ending |
//! | `mmap`, `munmap`, `mremap`, `mprotect`, `madvise`, `mincore`, `mbind`, `brk` | the calls under test |
//! | `fork`, `clone` with VM and VFORK, `wait4`, `getpid` | processes |
//! | `clone`, `futex`, `sched_yield`, `gettid` | threads, which share everything |
//! | `sched_getaffinity`, `sched_setaffinity` | one thread for each CPU; may be refused |
//! | `rt_sigaction`, `rt_sigreturn` | handling signals; `protect` alone does without, where they are ENOSYS |
//! | `rt_sigprocmask`, `sigaltstack` | signals under test |
//! | `clock_gettime`, `gettimeofday`, `time`, `nanosleep`, `clock_nanosleep` | clocks under test |
//! | `sysinfo`, `poll` | calls under test |
//! | `openat`, `read`, `close`, `getrusage`, `prctl` | what the kernel says of memory; may be missing |
//! | `getppid` | a call that does nothing |
//!
//! For threads `clone` is asked for those of one process (VM, FS, FILES, SIGHAND, THREAD, SYSVSEM); a
//! thread's stack is a static one, and its end is a futex that it wakes itself. `futex` is only private WAIT
//! and WAKE, without timeouts.
//!
//! A program ends with 0 if every check held, 1 if one did not (it prints which), 2 if the kernel refused a
//! call that it must grant, 3 if the program itself is wrong. Its arguments come on the stack, in the System
//! V ABI's order.
//!
//! Every `unsafe` is in [`sys`].
#![no_std]

pub mod dice;
pub mod say;
pub mod sys;

/// Exit code: every check held.
pub const GOOD: u8 = 0;
/// Exit code: a check did not hold.
pub const BROKEN: u8 = 1;
/// Exit code: the kernel refused a call that the program needs.
pub const REFUSED: u8 = 2;
/// Exit code: the program itself is wrong.
pub const WRONG: u8 = 3;
