//! Calls about threads.

use super::{Arguments, CallResult};
use crate::arch::thread::{MAX_THREADS, Thread};
use crate::arch::trap::Frame;
use crate::arch::{Core, MACHINE, percpu, user};
use crate::task::process::PROCESS;
use crate::task::sched;
use core::sync::atomic::Ordering::*;
use interleaf::machine::{Cpu, Machine};
use interleaf::units::VirtAddr;
use interleaf_linux_abi::Errno;
use interleaf_linux_abi::task::*;

/// A new thread that continues as this one, but for rax and the stack.
pub fn clone(frame: &Frame) -> CallResult {
    let [flags, stack, parent_tid, child_tid, tls] = [frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8];
    let has = |flag| flags & flag != 0;
    if !has(CLONE_VM) || !has(CLONE_THREAD) {
        return Err(Errno::ENOSYS);
    }
    let me = percpu::thread();
    if has(CLONE_SETTLS) && tls >= user::USER_END {
        return Err(Errno::EPERM);
    }
    let thread = sched::alloc_thread().ok_or(Errno::EAGAIN)?;
    let tid = (thread.index() as u32).to_le_bytes();
    let wishes = [(CLONE_PARENT_SETTID, parent_tid), (CLONE_CHILD_SETTID, child_tid)];
    for (_, at) in wishes.into_iter().filter(|&(flag, _)| has(flag)) {
        // Linux ignores a failure to store the number.
        let _ = user::write(VirtAddr(at), &tid);
    }
    let mut child = frame.twin();
    child.rax = 0;
    child.rsp = if stack == 0 { frame.rsp } else { stack };
    let fs_base = if has(CLONE_SETTLS) { tls } else { me.fs_base() };
    me.prepare_sibling(thread, &child, fs_base).expect("a program's thread has a space");
    if has(CLONE_CHILD_CLEARTID) {
        thread.clear_tid.store(child_tid, Relaxed);
    }
    PROCESS.add_thread(thread);
    sched::start(thread, me.affinity.load(Relaxed));
    if PROCESS.is_ending() {
        // The program's end may not have seen the new thread.
        thread.exit_pending.store(1, Release);
    }
    Ok(thread.index() as u64)
}

/// Ends the thread. A program whose last thread ends in this way has exit code 0.
pub fn exit() -> CallResult {
    PROCESS.leave()
}

pub fn exit_group(code: u64) -> CallResult {
    PROCESS.end(code as u32);
    PROCESS.leave()
}

pub fn gettid() -> u64 {
    percpu::thread().index() as u64
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
        GET_FS => user::write(VirtAddr(value), &percpu::thread().fs_base().to_le_bytes())?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// The thread of a number; 0 is the calling one.
fn thread_of(tid: u64) -> Result<&'static Thread, Errno> {
    match tid {
        0 => Ok(Thread::at(percpu::thread().index())),
        tid if (tid as usize) < MAX_THREADS => Ok(Thread::at(tid as usize)),
        _ => Err(Errno::ESRCH),
    }
}

/// Every CPU, one bit each.
fn every_cpu() -> u64 {
    (1 << MACHINE.nr_cpus()) - 1
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

pub fn futex(Arguments([at, operation, value, timeout, ..]): Arguments) -> CallResult {
    if !at.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    if at >= user::USER_END {
        return Err(Errno::EFAULT);
    }
    match operation & FUTEX_COMMAND {
        FUTEX_WAIT => futex_wait(VirtAddr(at), value as u32, deadline(timeout)?),
        FUTEX_WAKE => Ok(sched::wake(at as usize, value.min(i32::MAX as u64) as u32).into()),
        _ => Err(Errno::ENOSYS),
    }
}

/// When a relative timeout has passed; `None` for never.
fn deadline(timeout: u64) -> Result<Option<u64>, Errno> {
    if timeout == 0 {
        return Ok(None);
    }
    Ok(Some(Core::now_ns().saturating_add(super::misc::duration_ns(timeout)?)))
}

/// Sleeps while the word holds `expected`. The word is read once more under the lock of the waiters, where no
/// wake-up can be missed and no fault can be resolved. So its page is made present before, and the call
/// starts again where the page was unmapped in between.
fn futex_wait(at: VirtAddr, expected: u32, deadline: Option<u64>) -> CallResult {
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
            if PROCESS.is_ending() {
                return Ok(0);
            }
            sched::yield_now();
            continue;
        }
        let mut seen = None;
        sched::sleep(at.0 as usize, || {
            seen = user::try_load_u32(at);
            seen == Some(expected) && !PROCESS.is_ending()
        });
        match seen {
            Some(value) if value != expected => return Err(Errno::EAGAIN),
            Some(_) => return Ok(0),
            None => {}
        }
    }
}
