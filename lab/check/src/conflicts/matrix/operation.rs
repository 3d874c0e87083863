//! The memory operations, and the distances between two of them.

use crate::calls::{Call, MapFlags, PAGE, Prot, advice};
use std::fmt;

/// What a CPU does, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A load of private memory that was never touched.
    Read,
    /// A store to private memory that was never touched.
    Write,
    /// A store to private memory that was only read: the zero page is replaced.
    Upgrade,
    /// A store to shared memory.
    Shared,
    /// A store that the mapping does not allow.
    Refused,
    /// mmap into a hole.
    Map,
    /// mmap with MAP_FIXED over what is there.
    MapOver,
    /// munmap.
    Unmap,
    /// mprotect to read-only.
    Forbid,
    /// mprotect to read and write.
    Allow,
    /// MADV_DONTNEED.
    DontNeed,
    /// MADV_FREE.
    Free,
    /// MADV_POPULATE_WRITE.
    Populate,
    /// mincore.
    Mincore,
    /// mbind.
    Bind,
    /// The heap grows.
    Grow,
    /// The heap shrinks.
    Shrink,
    /// A pin for a device that writes, and its end.
    Pin,
    /// fork.
    Fork,
}

impl Operation {
    /// All of them, in the order of the matrix.
    pub const ALL: [Operation; 19] = [
        Operation::Read,
        Operation::Write,
        Operation::Upgrade,
        Operation::Shared,
        Operation::Refused,
        Operation::Populate,
        Operation::Pin,
        Operation::Mincore,
        Operation::DontNeed,
        Operation::Free,
        Operation::Forbid,
        Operation::Allow,
        Operation::Bind,
        Operation::Map,
        Operation::MapOver,
        Operation::Unmap,
        Operation::Grow,
        Operation::Shrink,
        Operation::Fork,
    ];

    /// Its name in lists, one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Upgrade => "upgrade",
            Operation::Shared => "shared",
            Operation::Refused => "refused",
            Operation::Map => "mmap",
            Operation::MapOver => "mmap-over",
            Operation::Unmap => "munmap",
            Operation::Forbid => "mprotect-",
            Operation::Allow => "mprotect+",
            Operation::DontNeed => "DONTNEED",
            Operation::Free => "FREE",
            Operation::Populate => "populate",
            Operation::Mincore => "mincore",
            Operation::Bind => "mbind",
            Operation::Grow => "brk+",
            Operation::Shrink => "brk-",
            Operation::Pin => "pin",
            Operation::Fork => "fork",
        }
    }

    /// Whether it is the first touch of a page of private memory, which the matrix is about first of all.
    #[must_use]
    pub const fn is_first_touch(self) -> bool {
        matches!(self, Operation::Read | Operation::Write)
    }

    /// Whether it is an access of a program.
    pub(super) const fn is_access(self) -> bool {
        matches!(
            self,
            Operation::Read | Operation::Write | Operation::Upgrade | Operation::Shared | Operation::Refused
        )
    }

    /// Every unordered pair, an operation with itself among them.
    pub fn pairs() -> impl Iterator<Item = [Operation; 2]> {
        let from = |at: usize| Self::ALL[at..].iter().map(move |&second| [Self::ALL[at], second]);
        (0..Self::ALL.len()).flat_map(from)
    }

    /// What it is for CPU `cpu`, whose area begins at `area` and whose heap at `heap`. A call is about so
    /// many pages; accesses of two CPUs to one page go to lines of their own.
    pub(super) fn act(self, cpu: usize, area: u64, pages: u64, heap: u64) -> Act {
        let (addr, len, byte) = (area, pages * PAGE, area + 64 * cpu as u64);
        let both = Prot::READ | Prot::WRITE;
        let advise = |advice| Call::Madvise { addr, len, advice };
        let anonymous = MapFlags::PRIVATE | MapFlags::ANONYMOUS;
        Act::Call(match self {
            Operation::Read => Call::Read { addr: byte },
            Operation::Write | Operation::Upgrade | Operation::Shared | Operation::Refused => {
                Call::Write { addr: byte, value: 10 + cpu as u8 }
            }
            Operation::Map => Call::Mmap {
                hint: addr + HOLE.start * PAGE,
                len: (HOLE.end - HOLE.start) * PAGE,
                prot: both,
                flags: anonymous | MapFlags::FIXED_NOREPLACE,
            },
            Operation::MapOver => {
                Call::Mmap { hint: addr, len, prot: both, flags: anonymous | MapFlags::FIXED }
            }
            Operation::Unmap => Call::Munmap { addr, len },
            Operation::Forbid => Call::Mprotect { addr, len, prot: Prot::READ },
            Operation::Allow => Call::Mprotect { addr, len, prot: both },
            Operation::DontNeed => advise(advice::DONTNEED),
            Operation::Free => advise(advice::FREE),
            Operation::Populate => advise(advice::POPULATE_WRITE),
            Operation::Mincore => Call::Mincore { addr, len },
            Operation::Bind => Call::Mbind { addr, len, mode: BIND, nodes: 1, flags: 0 },
            Operation::Grow => Call::Brk { addr: heap + (HEAP_PAGES + 1) * PAGE },
            Operation::Shrink => Call::Brk { addr: heap + (HEAP_PAGES - 2) * PAGE },
            Operation::Pin => return Act::Pin { addr, pages },
            Operation::Fork => return Act::Fork,
        })
    }
}

/// MPOL_BIND.
const BIND: u32 = 2;
/// Pages of a CPU's area.
pub(super) const AREA_PAGES: u64 = 8;
/// The most pages of it that a call is about, from the first on.
pub(super) const MOST_PAGES: u64 = 4;
/// Those of it in which nothing is mapped where the operation is to map them.
pub(super) const HOLE: std::ops::Range<u64> = 4..6;
/// Pages of the heap before.
pub(super) const HEAP_PAGES: u64 = 4;

/// An operation with its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// An access or a call.
    Call(Call),
    /// Pages are pinned, all or none, and let go.
    Pin {
        /// First byte.
        addr: u64,
        /// Pages.
        pages: u64,
    },
    /// The space is copied.
    Fork,
}

/// How far two operations are from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// The same pages.
    SamePage,
    /// 32 KiB: one table, another line of it.
    SameTable,
    /// 2 MiB: tables side by side, each linked before by the CPU that works there.
    Tables,
    /// The same, and neither is linked.
    NewTables,
    /// 1 GiB.
    Giant,
    /// The same addresses in another space.
    OtherSpace,
}

impl Distance {
    /// All of them, in the order of the matrix.
    pub const ALL: [Distance; 6] = [
        Distance::SamePage,
        Distance::SameTable,
        Distance::Tables,
        Distance::NewTables,
        Distance::Giant,
        Distance::OtherSpace,
    ];

    /// Its name in lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Distance::SamePage => "same page",
            Distance::SameTable => "32 KiB",
            Distance::Tables => "2 MiB",
            Distance::NewTables => "2 MiB, tables not linked",
            Distance::Giant => "1 GiB",
            Distance::OtherSpace => "another space",
        }
    }

    /// Bytes from the one area to the other.
    pub(super) const fn bytes(self) -> u64 {
        match self {
            Distance::SamePage | Distance::OtherSpace => 0,
            Distance::SameTable => AREA_PAGES * PAGE,
            Distance::Tables | Distance::NewTables => 2 << 20,
            Distance::Giant => 1 << 30,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
