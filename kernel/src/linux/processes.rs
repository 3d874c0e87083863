//! Calls about processes: how threads and processes are made, and how processes end.

use super::missing::{self, MissingFeature};
use super::{Arguments, CallResult};
use crate::arch::percpu;
use crate::arch::trap::Frame;
use crate::arch::user::{self, BadAddress};
use crate::task::family::{Children, Reaped};
use crate::task::fork::{self, CloneArgs, ForkError};
use crate::task::process::{self, Status};
use crate::task::sched;
use core::sync::atomic::Ordering::*;
use interleaf::units::{PAGE_SIZE, VirtAddr};
use interleaf_linux_abi::Errno;
use interleaf_linux_abi::signal::SIGCHLD;
use interleaf_linux_abi::task::*;

impl From<ForkError> for Errno {
    fn from(why: ForkError) -> Self {
        match why {
            ForkError::TooMany => Errno::EAGAIN,
            ForkError::NoMemory => Errno::ENOMEM,
        }
    }
}

/// What a clone may ask for beside the kinds of children that there are: what decides nothing here.
const CLONE_ANYWAY: u64 = CLONE_FS | CLONE_SYSVSEM | CLONE_DETACHED | CLONE_UNTRACED | CLONE_IO;
/// What every child may ask for.
const CLONE_EACH: u64 =
    CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | CLONE_ANYWAY;
/// What a thread shares, each of which it must.
const CLONE_OF_THREADS: u64 = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_FILES;

/// Refuses what Linux refuses, and then what is neither a thread, which shares all, nor a process with files
/// and actions of its own, whose parent would get SIGCHLD.
fn check_clone(flags: u64) -> Result<(), Errno> {
    let has = |flag| flags & flag != 0;
    if has(CLONE_THREAD) && !has(CLONE_SIGHAND) || has(CLONE_SIGHAND) && !has(CLONE_VM) {
        return Err(Errno::EINVAL);
    }
    let known = match (has(CLONE_THREAD), has(CLONE_VM)) {
        (true, _) => flags & !(CLONE_EACH | CLONE_SIGNAL) == CLONE_OF_THREADS,
        (false, true) => flags & !(CLONE_EACH | CLONE_VM | CLONE_VFORK) == SIGCHLD.into(),
        (false, false) => flags & !CLONE_EACH == SIGCHLD.into(),
    };
    if known { Ok(()) } else { Err(missing::refuse_feature(MissingFeature::Clone)) }
}

/// A new thread or process that continues as this one, but for rax and the stack. No signal is sent when a
/// process ends: see `rt_sigaction`.
pub fn clone(frame: &Frame) -> CallResult {
    let [flags, stack, parent_tid, child_tid, tls] = [frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8];
    // What lies above is for clone3.
    let flags = u64::from(flags as u32);
    let has = |flag| flags & flag != 0;
    check_clone(flags)?;
    if has(CLONE_SETTLS) && tls >= user::USER_END {
        return Err(Errno::EPERM);
    }
    let at = |flag, address| if has(flag) { address } else { 0 };
    let args = CloneArgs {
        stack,
        fs_base: has(CLONE_SETTLS).then_some(tls),
        set_tid: at(CLONE_CHILD_SETTID, child_tid),
        clear_tid: at(CLONE_CHILD_CLEARTID, child_tid),
    };
    let parent_tid = at(CLONE_PARENT_SETTID, parent_tid);
    if has(CLONE_THREAD) {
        return thread(frame, args, parent_tid);
    }
    let number =
        if has(CLONE_VM) { fork::vfork(frame, args, has(CLONE_VFORK)) } else { fork::fork(frame, args) }?;
    // Linux ignores a failure to store the number.
    let _ = store(parent_tid, &number.to_le_bytes());
    Ok(number.into())
}

/// A new thread of the process.
fn thread(frame: &Frame, args: CloneArgs, parent_tid: u64) -> CallResult {
    let (me, process) = (percpu::thread(), process::current());
    let thread = sched::alloc_thread()?;
    let number = process.add_thread(thread);
    for at in [parent_tid, args.set_tid] {
        // As above.
        let _ = store(at, &number.to_le_bytes());
    }
    let frame = fork::child_frame(frame, args);
    let fs_base = args.fs_base.unwrap_or(me.fs_base());
    let space = me.space_handle().expect("a program's thread has a space");
    thread.prepare_user_thread(&frame, space, fs_base);
    thread.clear_tid.store(args.clear_tid, Relaxed);
    thread.signals.set_blocked(me.signals.blocked());
    if process.is_ending() {
        // The process's end may not have seen the new thread.
        thread.exit_pending.store(1, Release);
    }
    sched::start(thread, me.affinity.load(Relaxed));
    Ok(number.into())
}

pub fn fork(frame: &Frame) -> CallResult {
    Ok(fork::fork(frame, CloneArgs::default())?.into())
}

pub fn vfork(frame: &Frame) -> CallResult {
    Ok(fork::vfork(frame, CloneArgs::default(), true)?.into())
}

pub fn exit_group(code: u64) -> CallResult {
    let process = process::current();
    process.end(Status::exited(code as u32));
    process.leave()
}

/// Waits for children by number, or for any. There are no process groups; of the usage there is memory alone.
/// No child is ever stopped, and all are of one kind.
pub fn wait4(Arguments([number, status_at, options, usage_at, ..]): Arguments) -> CallResult {
    if options & !(WNOHANG | WUNTRACED | WCONTINUED | __WALL) != 0 {
        return Err(Errno::EINVAL);
    }
    let children = match number as i32 {
        number @ 1.. => Children::Number(number as u32),
        0 | -1 => Children::Any,
        _ => return Err(Errno::ECHILD),
    };
    let process = process::current();
    loop {
        let seen = process.nr_children_ended();
        match process.reap(children) {
            Reaped::NoChild => return Err(Errno::ECHILD),
            Reaped::NoneYet if options & WNOHANG != 0 || process.is_ending() => return Ok(0),
            Reaped::NoneYet => process.wait_for_children(seen),
            Reaped::Ended(number, Status(status), peak) => {
                store(status_at, &status.to_le_bytes())?;
                store(usage_at, &usage(peak))?;
                return Ok(number.into());
            }
        }
    }
}

/// Stores bytes at a program's address; nothing where that is 0.
fn store(at: u64, bytes: &[u8]) -> Result<(), BadAddress> {
    if at == 0 { Ok(()) } else { user::write(VirtAddr(at), bytes) }
}

/// Memory that this process had at most, or its children that were waited for.
pub fn getrusage(of: u64, at: u64) -> CallResult {
    let process = process::current();
    let peak = match of as i32 {
        RUSAGE_SELF | RUSAGE_THREAD => {
            process.count_resident();
            process.peak_pages()
        }
        RUSAGE_CHILDREN => process.children_peak_pages(),
        _ => return Err(Errno::EINVAL),
    };
    user::write(VirtAddr(at), &usage(peak))?;
    Ok(0)
}

/// A `struct rusage` that says how many pages were resident at most, and nothing else.
fn usage(peak_pages: u64) -> [u8; USAGE_BYTES] {
    let mut usage = [0; USAGE_BYTES];
    usage[MAXRSS_AT..][..8].copy_from_slice(&(peak_pages * PAGE_SIZE as u64 / 1024).to_le_bytes());
    usage
}

/// Bytes of a `struct rusage`.
const USAGE_BYTES: usize = 144;
/// Where it says the most resident memory, in KiB.
const MAXRSS_AT: usize = 32;
