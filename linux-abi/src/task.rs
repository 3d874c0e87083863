//! Flags and operations of calls about threads.

use linux_raw_sys::general as raw;

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        $($(#[$doc])* pub const $name: u64 = raw::$name as u64;)+
    };
}

flags! {
    /// The child shares the address space.
    CLONE_VM,
    /// The child is a thread of the process.
    CLONE_THREAD,
    /// The parent waits until the child has ended or executes a program.
    CLONE_VFORK,
    /// An argument is the child's thread-local storage.
    CLONE_SETTLS,
    /// The child's number is stored in the parent's memory.
    CLONE_PARENT_SETTID,
    /// A word is cleared, and a waiter on it woken, when the child ends.
    CLONE_CHILD_CLEARTID,
    /// The child's number is stored in the child's memory.
    CLONE_CHILD_SETTID,
    /// Sleep while the word holds a value.
    FUTEX_WAIT,
    /// Wake sleepers.
    FUTEX_WAKE,
    /// wait4 returns at once.
    WNOHANG,
    /// The bits of an open's flags that say what is done with the file; none for reading.
    O_ACCMODE,
}

/// `getrusage` of the process.
pub const RUSAGE_SELF: i32 = raw::RUSAGE_SELF as i32;
/// Of its children that were waited for.
pub const RUSAGE_CHILDREN: i32 = raw::RUSAGE_CHILDREN;
/// Of the thread.
pub const RUSAGE_THREAD: i32 = raw::RUSAGE_THREAD as i32;

/// The bits of a futex operation that say what is done.
pub const FUTEX_COMMAND: u64 = !(raw::FUTEX_PRIVATE_FLAG as u64 | raw::FUTEX_CLOCK_REALTIME as u64);
/// `SIGSEGV`.
pub const SIGSEGV: u64 = raw::SIGSEGV as u64;
