//! fork and vfork: a process with one thread, which goes on as the one that calls.
//!
//! ```text
//!   fork:   reserve ─► fork the space ─► put it into the registry ─► start the thread with its handle
//!   vfork:  reserve ─► another handle of the own space            ─► start the thread with it ─► wait
//! ```
//!
//! The child's first thread has the only handle of a forked space, and each further thread one more; the
//! last one ends the space. A child of vfork keeps the space of its parent, whichever of them ends first.

use super::process::{self, Process};
use super::sched;
use crate::arch::spaces::SpaceHandle;
use crate::arch::thread::Thread;
use crate::arch::trap::Frame;
use crate::arch::{percpu, user};
use crate::memory;
use core::sync::atomic::Ordering::*;
use interleaf::units::VirtAddr;

/// How the first thread of a child differs from the one that calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloneArgs {
    /// Its stack pointer; that of the caller where it is 0.
    pub stack: u64,
    /// The base of its FS; that of the caller where it is `None`.
    pub fs_base: Option<u64>,
    /// Where its memory gets its number; 0 for nowhere.
    pub set_tid: u64,
    /// Where a 0 is stored and woken when it ends; 0 for nowhere.
    pub clear_tid: u64,
}

/// Why there is no child, or no thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkError {
    /// Too many processes or threads.
    TooMany,
    /// No memory for its space or its stack.
    NoMemory,
}

/// Places that a child needs; given back where they are not used.
struct Places {
    process: &'static Process,
    thread: &'static Thread,
}

impl Places {
    fn reserve() -> Result<Self, ForkError> {
        let process = Process::reserve(Some(process::current())).ok_or(ForkError::TooMany)?;
        let thread = sched::alloc_thread().inspect_err(|_| process.cancel())?;
        Ok(Self { process, thread })
    }

    fn cancel(self) {
        sched::free_thread(self.thread);
        self.process.cancel();
    }

    /// Starts the child in `space`, as a copy of the running thread; its number. It has the alternate stack
    /// if that `is_its_own` memory, or the caller waits.
    fn start(self, frame: &Frame, args: CloneArgs, space: SpaceHandle, is_its_own: bool) -> u32 {
        let (Self { process, thread }, me) = (self, percpu::thread());
        let fs_base = args.fs_base.unwrap_or(me.fs_base());
        process.set_space(space.id());
        thread.prepare_user_thread(&child_frame(frame, args), space, fs_base);
        thread.clear_tid.store(args.clear_tid, Relaxed);
        thread.signals.set_blocked(me.signals.blocked());
        if is_its_own {
            thread.signals.set_stack(me.signals.stack());
        }
        let number = process.start(thread);
        if process.is_ending() {
            // Ended before it began; `end` may have passed the thread by.
            thread.exit_pending.store(1, Release);
        }
        sched::start(thread, me.affinity.load(Relaxed));
        number
    }
}

/// A child with a copy of the space; its number.
///
/// # Errors
/// Where it cannot be made: then nothing has changed.
pub fn fork(frame: &Frame, args: CloneArgs) -> Result<u32, ForkError> {
    let places = Places::reserve()?;
    let forked = percpu::thread().with_space(|space| space.expect("a program's thread has a space").fork());
    let Ok(space) = forked.and_then(|space| memory::spaces().insert(space)) else {
        places.cancel();
        return Err(ForkError::NoMemory);
    };
    let number = places.process.number().to_le_bytes();
    if args.set_tid != 0 {
        // Linux ignores a failure to store the number.
        let _ = space.copy_to(VirtAddr(args.set_tid), &number);
    }
    Ok(places.start(frame, args, space, true))
}

/// A child in the space of the caller, which goes on when the child has ended, if it `waits`; its number.
///
/// # Errors
/// As [`fork`].
pub fn vfork(frame: &Frame, args: CloneArgs, waits: bool) -> Result<u32, ForkError> {
    let places = Places::reserve()?;
    let (process, parent) = (places.process, process::current());
    let space = percpu::thread().space_handle().expect("a program's thread has a space");
    if args.set_tid != 0 {
        let _ = user::write(VirtAddr(args.set_tid), &process.number().to_le_bytes());
    }
    let number = places.start(frame, args, space, waits);
    if waits {
        process.wait_for_end(number, || parent.is_ending());
    }
    Ok(number)
}

/// The registers of a child, or of a thread of the same process.
pub fn child_frame(frame: &Frame, args: CloneArgs) -> Frame {
    let mut child = frame.twin();
    child.rax = 0;
    child.rsp = if args.stack == 0 { frame.rsp } else { args.stack };
    child
}
