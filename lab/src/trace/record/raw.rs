//! Records of the sources of a recording, before they are put into one order.

use crate::trace::calls::Sys;
use crate::trace::event::{CacheChange, Fault, FileFacts, Inode, NewTask, ProcessExit, Signal, Started};

/// One record of one source. Times are those of the clock, not of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Its content.
    pub what: What,
}

/// Content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A page fault.
    Fault(Fault),
    /// A system call was entered with these arguments.
    Enter(Sys, [u64; 6]),
    /// A system call returned.
    Leave(Sys, i64),
    /// The file of this name was mapped by the call that this thread is in.
    Mapped(String, Option<Inode>),
    /// A file is mapped for the first time.
    File(FileFacts),
    /// Pages of a file came into the page cache, or left it.
    Cache(CacheChange),
    /// The thread made a task.
    Task(NewTask),
    /// A program was loaded; the thread that asked for it had this number until now.
    Exec(Started, u32),
    /// A signal about memory is about to be delivered.
    Signal(Signal),
    /// The thread ends.
    Exit(ProcessExit),
}
