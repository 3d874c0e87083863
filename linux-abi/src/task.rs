//! Flags and operations of calls about threads and processes, and the numbers of clocks.

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
    /// The child's working folder is the parent's.
    CLONE_FS,
    /// The child's open files are the parent's.
    CLONE_FILES,
    /// The child's actions of signals are the parent's.
    CLONE_SIGHAND,
    /// The child's undo list of semaphores is the parent's.
    CLONE_SYSVSEM,
    /// Means nothing any more.
    CLONE_DETACHED,
    /// No tracer may follow the child.
    CLONE_UNTRACED,
    /// The child's priority of input and output is the parent's.
    CLONE_IO,
    /// Sleep while the word holds a value.
    FUTEX_WAIT,
    /// Wake sleepers.
    FUTEX_WAKE,
    /// As FUTEX_WAIT, until a moment, for wake-ups of a set.
    FUTEX_WAIT_BITSET,
    /// Wake sleepers of a set.
    FUTEX_WAKE_BITSET,
    /// The set of all.
    FUTEX_BITSET_MATCH_ANY,
    /// A flag of a futex operation: the moment is one of CLOCK_REALTIME.
    FUTEX_CLOCK_REALTIME,
    /// wait4 returns at once.
    WNOHANG,
    /// wait4 tells of children that are stopped, too.
    WUNTRACED,
    /// wait4 tells of children that go on, too.
    WCONTINUED,
    /// wait4 waits for children of every kind.
    __WALL,
    /// An open makes a file that is not there.
    O_CREAT,
    /// It must not be there.
    O_EXCL,
    /// It loses its contents.
    O_TRUNC,
    /// It must be a folder.
    O_DIRECTORY,
    /// The bits of an open's flags that say what is done with the file; none for reading.
    O_ACCMODE,
}

/// `getrusage` of the process.
pub const RUSAGE_SELF: i32 = raw::RUSAGE_SELF as i32;
/// Of its children that were waited for.
pub const RUSAGE_CHILDREN: i32 = raw::RUSAGE_CHILDREN;
/// Of the thread.
pub const RUSAGE_THREAD: i32 = raw::RUSAGE_THREAD as i32;

macro_rules! clocks {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        $($(#[$doc])* pub const $name: i32 = raw::$name as i32;)+
    };
}

clocks! {
    /// The time of day.
    CLOCK_REALTIME,
    /// Time that passes.
    CLOCK_MONOTONIC,
    /// The CPU time of a process.
    CLOCK_PROCESS_CPUTIME_ID,
    /// The CPU time of a thread.
    CLOCK_THREAD_CPUTIME_ID,
    /// Time that passes, by the hardware alone.
    CLOCK_MONOTONIC_RAW,
    /// The time of day at the last tick.
    CLOCK_REALTIME_COARSE,
    /// Time that passes, at the last tick.
    CLOCK_MONOTONIC_COARSE,
    /// Time that passes, also while the machine sleeps.
    CLOCK_BOOTTIME,
    /// The time of day, that wakes a machine.
    CLOCK_REALTIME_ALARM,
    /// Time that passes, that wakes a machine.
    CLOCK_BOOTTIME_ALARM,
    /// The time of day without leap seconds.
    CLOCK_TAI,
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        $($(#[$doc])* pub const $name: u16 = raw::$name as u16;)+
    };
}

events! {
    /// A read does not wait.
    POLLIN,
    /// A write does not wait.
    POLLOUT,
    /// Nothing is open there.
    POLLNVAL,
}

/// A flag of a sleep: until a moment, not for a time.
pub const TIMER_ABSTIME: u64 = raw::TIMER_ABSTIME as u64;

/// The bits of a clone's flags that are the signal at the child's end.
pub const CLONE_SIGNAL: u64 = 0xff;

/// The bits of a futex operation that say what is done.
pub const FUTEX_COMMAND: u64 = !(raw::FUTEX_PRIVATE_FLAG as u64 | raw::FUTEX_CLOCK_REALTIME as u64);
