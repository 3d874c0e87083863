//! Calls about threads.

use super::missing::{self, MissingFeature};
use super::{Arguments, CallResult, time};
use crate::arch::thread::Thread;
use crate::arch::{Core, MACHINE, percpu, user};
use crate::task::{process, sched};
use core::sync::atomic::Ordering::*;
use interleaf::machine::{Cpu, Machine};
use interleaf::units::VirtAddr;
use interleaf_linux_abi::Errno;
use interleaf_linux_abi::task::*;

/// Ends the thread. The code is the process's if it is the last one, and nothing else ends the process.
pub fn exit(code: u64) -> CallResult {
    process::current().exit_thread(code as u32)
}

pub fn gettid() -> u64 {
    percpu::thread().number.load(Relaxed).into()
}

pub fn set_tid_address(at: u64) -> CallResult {
    percpu::thread().clear_tid.store(at, Relaxed);
    Ok(gettid())
}

pub fn sched_yield() -> CallResult {
    sched::yield_now();
    Ok(0)
}

pub fn arch_prctl(what: u64, value: u64) -> CallResult {
    const SET_FS: u64 = 0x1002;
    const GET_FS: u64 = 0x1003;
    match what {
        SET_FS if value < user::USER_END => percpu::thread().set_fs_base(value),
        SET_FS => return Err(Errno::EPERM),
        GET_FS => user::write(VirtAddr(value), &percpu::thread().fs_base().to_le_bytes())?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// The thread of a number; 0 is the calling one.
fn thread_of(tid: u64) -> Result<&'static Thread, Errno> {
    if tid == 0 {
        return Ok(Thread::at(percpu::thread().index()));
    }
    let has_number = |thread: &&Thread| {
        thread.process.load(Acquire) != Thread::NO_PROCESS && u64::from(thread.number.load(Relaxed)) == tid
    };
    Thread::all().iter().find(has_number).ok_or(Errno::ESRCH)
}

/// Every CPU, one bit each.
fn every_cpu() -> u64 {
    u64::MAX >> (u64::BITS - MACHINE.nr_cpus())
}

pub fn sched_setaffinity(tid: u64, len: u64, at: u64) -> CallResult {
    let mut mask = [0; 8];
    let len = len.min(8) as usize;
    user::read(VirtAddr(at), &mut mask[..len])?;
    let mask = u64::from_le_bytes(mask) & every_cpu();
    if mask == 0 {
        return Err(Errno::EINVAL);
    }
    thread_of(tid)?.affinity.store(mask, Relaxed);
    // Moves, if this CPU is not among them any more.
    sched::yield_now();
    Ok(0)
}

pub fn sched_getaffinity(tid: u64, len: u64, at: u64) -> CallResult {
    if len < 8 || !len.is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let mask = thread_of(tid)?.affinity.load(Relaxed) & every_cpu();
    user::write(VirtAddr(at), &mask.to_le_bytes())?;
    Ok(8)
}

/// A futex is found by its address in its space. Sets of wake-ups are all there are.
pub fn futex(Arguments([at, operation, value, timeout, _, set]): Arguments) -> CallResult {
    let is_wall = operation & FUTEX_CLOCK_REALTIME != 0;
    if !at.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    if at >= user::USER_END {
        return Err(Errno::EFAULT);
    }
    match operation & FUTEX_COMMAND {
        FUTEX_WAIT | FUTEX_WAKE | FUTEX_WAKE_BITSET if is_wall => Err(Errno::ENOSYS),
        FUTEX_WAIT_BITSET | FUTEX_WAKE_BITSET if set as u32 == 0 => Err(Errno::EINVAL),
        FUTEX_WAIT_BITSET | FUTEX_WAKE_BITSET if u64::from(set as u32) != FUTEX_BITSET_MATCH_ANY => {
            Err(missing::refuse_feature(MissingFeature::Futex))
        }
        FUTEX_WAIT => {
            let until = deadline(timeout, |ns| Ok(Core::now_ns().saturating_add(ns)))?;
            futex_wait(VirtAddr(at), value as u32, until)
        }
        FUTEX_WAIT_BITSET => {
            let clock = if is_wall { CLOCK_REALTIME } else { CLOCK_MONOTONIC };
            let until = deadline(timeout, |ns| time::moment_ns(clock, ns))?;
            futex_wait(VirtAddr(at), value as u32, until)
        }
        FUTEX_WAKE | FUTEX_WAKE_BITSET => {
            Ok(sched::wake(process::key(VirtAddr(at)), value.min(i32::MAX as u64) as u32).into())
        }
        _ => Err(missing::refuse_feature(MissingFeature::Futex)),
    }
}

/// When a timeout has passed that `moment` says of its nanoseconds; `None` for never.
fn deadline(timeout: u64, moment: impl Fn(u64) -> Result<u64, Errno>) -> Result<Option<u64>, Errno> {
    if timeout == 0 {
        return Ok(None);
    }
    moment(time::duration_ns(timeout)?).map(Some)
}

/// Sleeps while the word holds `expected`. The word is read once more under the lock of the waiters, where no
/// wake-up can be missed and no fault can be resolved. So its page is made present before, and the call
/// starts again where the page was unmapped in between.
fn futex_wait(at: VirtAddr, expected: u32, deadline: Option<u64>) -> CallResult {
    let process = process::current();
    loop {
        let mut bytes = [0; 4];
        user::read(at, &mut bytes)?;
        if u32::from_le_bytes(bytes) != expected {
            return Err(Errno::EAGAIN);
        }
        if let Some(deadline) = deadline {
            // There is no list of timers: a thread with a deadline checks it whenever it is scheduled.
            if Core::now_ns() >= deadline {
                return Err(Errno::ETIMEDOUT);
            }
            if process.is_ending() {
                return Ok(0);
            }
            sched::yield_now();
            continue;
        }
        let mut seen = None;
        sched::sleep(process::key(at), || {
            seen = user::try_load_u32(at);
            seen == Some(expected) && !process.is_ending()
        });
        match seen {
            Some(value) if value != expected => return Err(Errno::EAGAIN),
            Some(_) => return Ok(0),
            None => {}
        }
    }
}
