//! What happened, one value per event.
//!
//! Events come in one order, that of their `time_ns`. A fault, a signal and a new task have one instant; a
//! system call has a start and an end, and takes effect at some instant between them, which cannot be
//! observed. `time_ns` of a call is an instant at which its effect explains every other event (see
//! [`order`](super::order)); `start_ns` and `end_ns` say what was measured.

use super::calls::Sys;
use super::image::Image;
use serde::Serialize;
use std::sync::Arc;

/// One event in one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Nanoseconds since the start of the recording; never less than that of the event before.
    pub time_ns: u64,
    /// The process (thread group) it happened in.
    pub pid: u32,
    /// The thread it happened in.
    pub tid: u32,
    /// What happened.
    #[serde(flatten)]
    pub kind: Kind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// A page fault was taken.
    Fault(Fault),
    /// A system call took effect.
    Call(Call),
    /// This thread made a new thread or process.
    Task(NewTask),
    /// A new program replaced the process's image; other threads of the process are gone.
    Exec(Started),
    /// A signal about memory was about to be delivered.
    Signal(Signal),
    /// A file was mapped for the first time in the recording.
    File(FileFacts),
    /// Pages of a mapped file came into the page cache, or left it.
    Cache(CacheChange),
    /// This thread ended. The last thread of a process carries the final map.
    Exit(ProcessExit),
}

/// A page fault, as the processor reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The address that was touched, to the byte.
    pub address: u64,
    /// What was tried.
    pub access: Access,
    /// The mode that touched it.
    pub mode: Mode,
    /// Whether a present entry forbade it, or none was there.
    pub cause: Cause,
}

/// What a fault tried to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An instruction fetch.
    Execute,
    /// Not known: recorded without privilege.
    Unknown,
}

/// The mode in which a fault was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The program itself.
    User,
    /// The kernel, on the program's behalf, copying to or from its memory.
    Kernel,
}

/// The state of the translation that the processor found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No translation was present.
    Absent,
    /// A translation was present and forbade the access.
    Protection,
    /// Not known: recorded without privilege.
    Unknown,
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    /// Which.
    pub sys: Sys,
    /// Its arguments as the registers held them; those beyond [`Sys::arity`] are zero.
    pub args: [u64; 6],
    /// What it returned (a negative error number if it failed), or `None` if the thread ended inside it.
    pub result: Option<i64>,
    /// When it was entered, nanoseconds since the start of the recording.
    pub start_ns: u64,
    /// When it returned, nanoseconds since the start of the recording; the last that is known if it never
    /// did.
    pub end_ns: u64,
    /// The file that an `mmap` mapped, if it mapped one and the name was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Arc<str>>,
    /// What the kernel knows that file by; none in traces of format 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inode: Option<Inode>,
}

/// What the kernel knows a file by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Inode {
    /// Its device: the major number, and below it the minor number in 20 bits.
    pub device: u32,
    /// Its number there.
    pub number: u64,
}

impl Inode {
    /// Of a device as it has two numbers.
    pub fn of_device(major: u32, minor: u32, number: u64) -> Inode {
        Inode { device: major << 20 | minor & 0xf_ffff, number }
    }

    /// Of a line of a map: `fe:00`, and the number; none for what is of no file.
    pub fn of_map(device: &str, number: u64) -> Option<Inode> {
        let (major, minor) = device.split_once(':')?;
        let hex = |text| u32::from_str_radix(text, 16).ok();
        (number != 0).then_some(Inode::of_device(hex(major)?, hex(minor)?, number))
    }
}

/// What is known of a file that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FileFacts {
    /// Which.
    pub inode: Inode,
    /// Its length, bytes.
    pub len_bytes: u64,
    /// Whether it lives in memory alone: on a tmpfs.
    pub is_in_memory: bool,
}

/// Pages of a file, and the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CacheChange {
    /// The file.
    pub inode: Inode,
    /// The first page.
    pub first: u64,
    /// How many.
    pub pages: u64,
    /// What became of them.
    pub cached: Cached,
}

/// What became of pages in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cached {
    /// They were there when the recorder looked, after the file was mapped.
    Found,
    /// They came.
    Added,
    /// They left.
    Removed,
}

/// A new thread or process, said by the thread that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NewTask {
    /// Its thread number; also its process number if it is a process.
    pub tid: u32,
    /// The flags of `clone`: `CLONE_VM` shares the address space, `CLONE_THREAD` makes a thread.
    pub flags: u64,
}

impl NewTask {
    /// `CLONE_VM` of Linux.
    pub const VM: u64 = 0x100;
    /// `CLONE_VFORK` of Linux.
    pub const VFORK: u64 = 0x4000;
    /// `CLONE_THREAD` of Linux.
    pub const THREAD: u64 = 0x1_0000;

    /// Whether it is a thread of the same process.
    pub fn is_thread(self) -> bool {
        self.flags & Self::THREAD != 0
    }

    /// Whether it runs in the same address space, as threads and the children of `vfork` do.
    pub fn shares_memory(self) -> bool {
        self.flags & Self::VM != 0
    }
}

/// A program that has been loaded and has not run an instruction yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Started {
    /// What it starts with.
    pub image: Arc<Image>,
}

/// A signal about memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Signal {
    /// Its number: SIGSEGV or SIGBUS.
    pub number: i32,
    /// Its `si_code`: 1 no mapping, 2 rights, ...
    pub code: i32,
    /// The address it names.
    pub address: u64,
}

/// The end of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessExit {
    /// The wait status that its exit will have.
    pub status: i32,
    /// The map of the address space, if this was the last thread of its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Arc<Image>>,
}
