//! System calls, with Linux's numbers for x86-64: what the self-test programs need. Everything else is
//! `ENOSYS`.
//!
//! | file | calls |
//! |---|---|
//! | `memory` | mmap munmap mprotect madvise brk mincore |
//! | `threads` | clone exit exit_group futex gettid set_tid_address arch_prctl, and sched_* |
//! | `misc` | write rt_sigaction rt_sigprocmask rt_sigreturn getpid getppid clock_gettime nanosleep |

#![forbid(unsafe_code)]

mod memory;
mod misc;
mod threads;

use crate::arch::trap::Frame;
use crate::arch::user::BadAddress;
use crate::task::signal;
use interleaf::space::Error;

/// Linux's error numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Errno(i32);

const ESRCH: Errno = Errno(3);
const EBADF: Errno = Errno(9);
const EAGAIN: Errno = Errno(11);
const ENOMEM: Errno = Errno(12);
const EFAULT: Errno = Errno(14);
const EINVAL: Errno = Errno(22);
const ENOSYS: Errno = Errno(38);
const ETIMEDOUT: Errno = Errno(110);

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        Errno(error.errno())
    }
}

impl From<BadAddress> for Errno {
    fn from(_: BadAddress) -> Self {
        EFAULT
    }
}

/// What a call returns: a number, or an error.
type Answer = Result<u64, Errno>;

/// The arguments of a call.
#[derive(Clone, Copy, Debug)]
struct Arguments([u64; 6]);

/// Carries out a call. Returns whether the frame must be restored as a whole, because more of it changed than
/// rax.
#[inline(always)]
pub fn call(frame: &mut Frame) -> bool {
    const RT_SIGRETURN: u64 = 15;
    const GETPPID: u64 = 110;
    match frame.vector {
        // The cheapest call there is; it shows what entering and leaving costs.
        GETPPID => frame.rax = 0,
        RT_SIGRETURN => {
            signal::come_back(frame);
            return true;
        }
        number => {
            let answer = dispatch(number, frame);
            frame.rax = answer.unwrap_or_else(|Errno(number)| (-i64::from(number)) as u64);
        }
    }
    false
}

#[inline(never)]
fn dispatch(number: u64, frame: &Frame) -> Answer {
    let arguments = Arguments([frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9]);
    let a = arguments.0;
    match number {
        1 => misc::write(a[0], a[1], a[2]),
        9 => memory::mmap(arguments),
        10 => memory::mprotect(a[0], a[1], a[2]),
        11 => memory::munmap(a[0], a[1]),
        12 => memory::brk(a[0]),
        13 => misc::rt_sigaction(a[0], a[1], a[2]),
        14 => Ok(0),
        24 => threads::sched_yield(),
        27 => memory::mincore(a[0], a[1], a[2]),
        28 => memory::madvise(a[0], a[1], a[2]),
        35 => misc::nanosleep(a[0]),
        39 => Ok(1),
        56 => threads::clone(frame),
        60 => threads::exit(),
        158 => threads::arch_prctl(a[0], a[1]),
        186 => Ok(threads::gettid()),
        202 => threads::futex(arguments),
        203 => threads::sched_setaffinity(a[0], a[1], a[2]),
        204 => threads::sched_getaffinity(a[0], a[1], a[2]),
        218 => threads::set_tid_address(a[0]),
        228 => misc::clock_gettime(a[0], a[1]),
        231 => threads::exit_group(a[0]),
        _ => Err(ENOSYS),
    }
}
