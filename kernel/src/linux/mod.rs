//! System calls, with Linux's numbers for x86-64: what the self-test programs need. Everything else is
//! `ENOSYS`, and is named on the console once.
//!
//! | file | calls |
//! |---|---|
//! | `memory` | mmap munmap mremap mprotect madvise mbind brk mincore, and prctl's PR_SET_THP_DISABLE |
//! | `processes` | clone fork vfork wait4 getrusage getpid getppid exit_group |
//! | `threads` | exit futex gettid set_tid_address arch_prctl, and sched_* |
//! | `files` | open openat read close poll, of the files of `vfs` |
//! | `signals` | rt_sigaction rt_sigprocmask rt_sigpending sigaltstack; rt_sigreturn is `task::signal`'s |
//! | `time` | clock_gettime clock_getres gettimeofday time nanosleep clock_nanosleep |
//! | `misc` | write writev sysinfo |
//! | `missing` | none: it names those that are not there |
//! | `words` | none: a program's structures |
//!
//! docs/design/kernel.md says of each what it does with every argument.

#![forbid(unsafe_code)]

mod files;
mod memory;
mod misc;
mod missing;
mod processes;
mod signals;
mod threads;
mod time;
mod words;

use crate::arch::trap::{Frame, Saved};
use crate::arch::user::BadAddress;
use crate::task::{process, signal};
use interleaf_linux_abi::{Errno, number};

impl From<BadAddress> for Errno {
    fn from(_: BadAddress) -> Self {
        Errno::EFAULT
    }
}

/// What a call returns: a number, or an error.
type CallResult = Result<u64, Errno>;

/// The arguments of a call.
#[derive(Clone, Copy, Debug)]
struct Arguments([u64; 6]);

/// Carries out a call. Returns whether the frame must be restored as a whole, because more of it changed than
/// rax.
#[inline(always)]
pub fn call(saved: &mut Saved) -> bool {
    let frame = &mut saved.frame;
    match frame.vector() {
        // The cheapest call there is; it shows what entering and leaving costs.
        number::GETPPID => frame.rax = process::current().parent().into(),
        number::RT_SIGRETURN => {
            signal::sigreturn(saved);
            return true;
        }
        other => {
            let result = dispatch(other, frame);
            frame.rax = result.unwrap_or_else(|error| error.as_return_value() as u64);
        }
    }
    false
}

#[inline(never)]
fn dispatch(call: u64, frame: &Frame) -> CallResult {
    let arguments = Arguments([frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9]);
    let a = arguments.0;
    match call {
        number::MMAP => memory::mmap(arguments),
        number::MPROTECT => memory::mprotect(a[0], a[1], a[2]),
        number::MUNMAP => memory::munmap(a[0], a[1]),
        number::BRK => memory::brk(a[0]),
        number::SCHED_YIELD => threads::sched_yield(),
        number::MINCORE => memory::mincore(a[0], a[1], a[2]),
        number::MADVISE => memory::madvise(a[0], a[1], a[2]),
        number::MBIND => memory::mbind(arguments),
        number::GETPID => Ok(process::current().number().into()),
        number::CLONE => processes::clone(frame),
        number::FORK => processes::fork(frame),
        number::VFORK => processes::vfork(frame),
        number::WAIT4 => processes::wait4(arguments),
        number::GETRUSAGE => processes::getrusage(a[0], a[1]),
        number::PRCTL => memory::prctl(arguments),
        number::EXIT => threads::exit(a[0]),
        number::ARCH_PRCTL => threads::arch_prctl(a[0], a[1]),
        number::GETTID => Ok(threads::gettid()),
        number::SCHED_SETAFFINITY => threads::sched_setaffinity(a[0], a[1], a[2]),
        number::SCHED_GETAFFINITY => threads::sched_getaffinity(a[0], a[1], a[2]),
        number::SET_TID_ADDRESS => threads::set_tid_address(a[0]),
        number::EXIT_GROUP => processes::exit_group(a[0]),
        number::READ
        | number::OPEN
        | number::OPENAT
        | number::CLOSE
        | number::WRITE
        | number::WRITEV
        | number::POLL
        | number::RT_SIGACTION
        | number::RT_SIGPROCMASK
        | number::RT_SIGPENDING
        | number::SIGALTSTACK
        | number::SYSINFO
        | number::NANOSLEEP
        | number::CLOCK_NANOSLEEP
        | number::CLOCK_GETTIME
        | number::CLOCK_GETRES
        | number::GETTIMEOFDAY
        | number::TIME
        | number::MREMAP
        | number::FUTEX => dispatch_others(call, frame),
        other => Err(missing::refuse(other)),
    }
}

/// Calls about files, signals and time, futexes, and mremap: apart, so that the registers that they need cost
/// those about memory nothing.
#[inline(never)]
fn dispatch_others(call: u64, frame: &Frame) -> CallResult {
    let arguments = Arguments([frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9]);
    let a = arguments.0;
    match call {
        number::READ => files::read(a[0], a[1], a[2]),
        number::OPEN => files::open(a[0], a[1]),
        number::OPENAT => files::open(a[1], a[2]),
        number::CLOSE => files::close(a[0]),
        number::WRITE => misc::write(a[0], a[1], a[2]),
        number::WRITEV => misc::writev(a[0], a[1], a[2]),
        number::POLL => files::poll(a[0], a[1], a[2]),
        number::MREMAP => memory::mremap([a[0], a[1], a[2], a[3], a[4]]),
        number::RT_SIGACTION => signals::rt_sigaction(a[0], a[1], a[2], a[3]),
        number::RT_SIGPROCMASK => signals::rt_sigprocmask(a[0], a[1], a[2], a[3]),
        number::RT_SIGPENDING => signals::rt_sigpending(a[0], a[1]),
        number::SIGALTSTACK => signals::sigaltstack(a[0], a[1], frame.rsp),
        number::SYSINFO => misc::sysinfo(a[0]),
        number::FUTEX => threads::futex(arguments),
        number::NANOSLEEP => time::nanosleep(a[0]),
        number::CLOCK_NANOSLEEP => time::clock_nanosleep(arguments),
        number::CLOCK_GETTIME => time::clock_gettime(a[0], a[1]),
        number::CLOCK_GETRES => time::clock_getres(a[0], a[1]),
        number::GETTIMEOFDAY => time::gettimeofday(a[0], a[1]),
        number::TIME => time::time(a[0]),
        other => Err(missing::refuse(other)),
    }
}
