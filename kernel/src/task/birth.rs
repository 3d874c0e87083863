//! fork and vfork: a process with one thread, which goes on as the one that calls.
//!
//! ```text
//!   parent:  reserve ─► fork the space ─► start the supervisor ─► goes on
//!   supervisor:         owns the space ─► start the first thread ─► sleeps until the last has left ─► zombie
//! ```
//!
//! A child of vfork has no space of its own, and no supervisor.

use super::process::{self, Process};
use super::sched;
use crate::arch::spaces::{self, Space};
use crate::arch::thread::Thread;
use crate::arch::trap::Frame;
use crate::arch::{percpu, user};
use core::sync::atomic::Ordering::*;
use interleaf::units::VirtAddr;

/// How the first thread of a child differs from the one that calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Twin {
    /// Its stack pointer; that of the caller where it is 0.
    pub stack: u64,
    /// The base of its FS; that of the caller where it is `None`.
    pub fs_base: Option<u64>,
    /// Where its memory gets its number; 0 for nowhere.
    pub set_tid: u64,
    /// Where a 0 is stored and woken when it ends; 0 for nowhere.
    pub clear_tid: u64,
}

/// Why there is no child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBirth {
    /// Too many processes or threads.
    TooMany,
    /// No memory for its space.
    NoMemory,
}

/// A child that is about to start.
struct Birth {
    process: &'static Process,
    thread: &'static Thread,
    space: Space,
    frame: Frame,
    twin: Twin,
    fs_base: u64,
    affinity: u64,
}

/// Places that a child needs; given back where they are not used.
struct Places {
    process: &'static Process,
    thread: &'static Thread,
}

impl Places {
    fn reserve() -> Option<Self> {
        let process = Process::reserve(Some(process::current()))?;
        match sched::alloc_thread() {
            Some(thread) => Some(Self { process, thread }),
            None => {
                process.cancel();
                None
            }
        }
    }

    fn cancel(self) {
        sched::free_thread(self.thread);
        self.process.cancel();
    }
}

/// A child with a copy of the space; its number.
///
/// # Errors
/// Where it cannot be made: then nothing has changed.
pub fn fork(frame: &Frame, twin: Twin) -> Result<u32, NoBirth> {
    let places = Places::reserve().ok_or(NoBirth::TooMany)?;
    let Some(supervisor) = sched::alloc_thread() else {
        places.cancel();
        return Err(NoBirth::TooMany);
    };
    let me = percpu::thread();
    let forked = me.with_space(|space| space.expect("a program's thread has a space").fork());
    let Ok(space) = forked else {
        sched::free_thread(supervisor);
        places.cancel();
        return Err(NoBirth::NoMemory);
    };
    let Places { process, thread } = places;
    let (frame, fs_base) = (child_frame(frame, twin), twin.fs_base.unwrap_or(me.fs_base()));
    let number = process.start(thread);
    let affinity = me.affinity.load(Relaxed);
    supervisor.prepare_to_run(Birth { process, thread, space, frame, twin, fs_base, affinity }, supervise);
    sched::start(supervisor, u64::MAX);
    Ok(number)
}

/// A child in the space of the caller, which goes on when the child has ended, if it `waits`; its number.
///
/// # Errors
/// As [`fork`].
pub fn vfork(frame: &Frame, twin: Twin, waits: bool) -> Result<u32, NoBirth> {
    let Places { process, thread } = Places::reserve().ok_or(NoBirth::TooMany)?;
    let (me, parent) = (percpu::thread(), process::current());
    let Some(number) = process.start_sharing(thread, parent) else {
        Places { process, thread }.cancel();
        return Err(NoBirth::TooMany);
    };
    let (frame, fs_base) = (child_frame(frame, twin), twin.fs_base.unwrap_or(me.fs_base()));
    me.prepare_sibling(thread, &frame, fs_base).expect("a program's thread has a space");
    if twin.set_tid != 0 {
        let _ = user::write(VirtAddr(twin.set_tid), &number.to_le_bytes());
    }
    begin(process, thread, twin, me.affinity.load(Relaxed));
    if waits {
        process.wait_for_end(number, || parent.is_ending());
    }
    Ok(number)
}

/// The registers of a child, or of a thread of the same process.
pub fn child_frame(frame: &Frame, twin: Twin) -> Frame {
    let mut child = frame.twin();
    child.rax = 0;
    child.rsp = if twin.stack == 0 { frame.rsp } else { twin.stack };
    child
}

/// Owns the space of a child as long as the child runs.
fn supervise(birth: Birth) {
    let Birth { process, thread, space, frame, twin, fs_base, affinity } = birth;
    spaces::with_owned(space, |space| {
        if twin.set_tid != 0 {
            let number = process.number().to_le_bytes();
            // Linux ignores a failure to store the number.
            let _ = spaces::in_space(space, || user::write(VirtAddr(twin.set_tid), &number));
        }
        thread.prepare_user_thread(&frame, space, fs_base);
        begin(process, thread, twin, affinity);
        process.wait_for_all();
    });
    process.has_ended();
    sched::exit_detached()
}

/// Starts the first thread of a child, which is prepared.
fn begin(process: &Process, thread: &'static Thread, twin: Twin, affinity: u64) {
    thread.clear_tid.store(twin.clear_tid, Relaxed);
    if process.is_ending() {
        // Ended before it began; `end` may have passed the thread by.
        thread.exit_pending.store(1, Release);
    }
    sched::start(thread, affinity);
}
