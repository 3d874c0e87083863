//! The operations, as steps.

use crate::calls::{Call, MapFlags, PAGE, Prot, advice};
use interleaf::space::Path;
use interleaf_linux_abi::{MREMAP_DONTUNMAP as DONTUNMAP, MREMAP_FIXED as FIXED, MREMAP_MAYMOVE as MAY_MOVE};

/// Something that happens at one instant, as far as the other CPU can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A call; the library gets the same one.
    Call(Call),
    /// An access: in the model a fault that may come to nothing, then the access; in the library one
    /// instruction.
    Access(Call),
    /// Page by page in the model; one call in the library.
    Pages {
        /// First byte.
        addr: u64,
        /// Pages.
        pages: u64,
        /// The advice.
        advice: i32,
    },
    /// Another space, with memory in it, ends. The model knows nothing of it.
    OtherSpaceEnds,
    /// The CPU translates through another space and comes back. The model knows nothing of it.
    OtherSpaceRuns,
    /// The CPU's space forks.
    Fork,
    /// A store of another process to the CPU's space, which the mapping need not allow where it is private: a
    /// debugger's.
    Force {
        /// Where.
        addr: u64,
        /// The byte.
        value: u8,
    },
    /// Look for the entries of the frame that the page has. The model knows nothing of it.
    FindEntries {
        /// The page.
        addr: u64,
    },
    /// The pages are pinned for a device that writes to them, all or none, and let go again; page by page in
    /// the model, as a fault for a store to each.
    PinRange {
        /// First byte.
        addr: u64,
        /// Pages.
        pages: u64,
    },
    /// An access in the child of that fork, which the CPU runs for it.
    InChild(Call),
}

/// What one CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Load a byte.
    Read,
    /// Store a byte.
    Write,
    /// Load, then store: the zero page is replaced.
    Upgrade,
    /// mmap into a hole, and store there.
    MapHole,
    /// mmap with MAP_FIXED over pages, and store there.
    MapOver,
    /// mremap of pages to a place where nothing is, and a store there.
    MoveAway,
    /// mremap of other pages, which were stored to, over pages, and a store there.
    MoveOver,
    /// mremap of pages, whose mapping stays without what it held.
    MoveAndLeave,
    /// munmap of the whole mapping.
    UnmapWhole,
    /// munmap in the middle.
    UnmapMiddle,
    /// mprotect to read-only.
    ReadOnly,
    /// mprotect to nothing.
    Forbid,
    /// mprotect to nothing and back.
    ForbidAndAllow,
    /// MADV_DONTNEED.
    DontNeed,
    /// MADV_FREE.
    Free,
    /// MADV_POPULATE_WRITE.
    Populate,
    /// The heap grows, and a store to it.
    Grow,
    /// The heap shrinks.
    Shrink,
    /// mincore.
    Mincore,
    /// Another space ends.
    End,
    /// The CPU runs another space for a while.
    SwitchNotifier,
    /// fork, and a store by the parent.
    Fork,
    /// fork, and a store by the child.
    ForkAndStoreInChild,
    /// mprotect to read-only, and forced stores there: nothing changes that another space or page has.
    ForceStore,
    /// Two pages in two tables, and stores to the one and the other in turns: a copy of the space that has
    /// the second has the first.
    StoreInOrder,
    /// The reverse map is asked for the entries of a page's frame, and the page is written.
    FindEntries,
    /// Pages are pinned for a device, all or none, and let go again.
    PinRange,
    /// A store to the pages of the object that private memory is copied from.
    StoreToObject,
}

/// Which pages an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Both CPUs work on the same pages.
    Same,
    /// Each has its own, side by side.
    Neighbours,
}

/// What was touched before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing: entries and tables are absent.
    Nothing,
    /// Both CPUs have read all pages: the zero page is in their TLBs.
    Read,
    /// Both CPUs have the written pages in their TLBs; the tables die with the mapping.
    Written,
    /// As `Written`, and a neighbouring mapping keeps the tables.
    Anchored,
}

/// What the operations are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Private memory of one space that both CPUs run.
    Private,
    /// Shared memory, mapped once, in one space that both CPUs run.
    Shared,
    /// Shared memory that two spaces map; each CPU runs one of them.
    TwoSpaces,
    /// A private mapping of shared memory, which is mapped elsewhere too, in one space that both CPUs run.
    OfObject,
}

/// The circumstances of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variation {
    /// Same pages or neighbours.
    pub place: Place,
    /// What was touched.
    pub before: Before,
    /// Which way faults go.
    pub path: Path,
    /// Which kind of memory it is.
    pub memory: Memory,
}

impl Variation {
    /// Number of variations.
    pub const COUNT: u64 = 96;
    /// Of these, the first are those of two paths; the others are the third's.
    pub const OF_TWO: u64 = 64;

    /// The variation that a seed plays.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let nth = seed % Self::COUNT;
        let (path, rest) = match nth.checked_sub(Self::OF_TWO) {
            None => ([Path::Speculative, Path::Locked][(nth >> 1 & 1) as usize], nth >> 2),
            Some(beyond) => (Path::VmaLock, beyond >> 1),
        };
        let place = if nth & 1 == 0 { Place::Same } else { Place::Neighbours };
        let before = [Before::Nothing, Before::Read, Before::Written, Before::Anchored];
        let memory = [Memory::Private, Memory::Shared, Memory::TwoSpaces, Memory::OfObject];
        let memory = memory[(rest / 4 % 4) as usize];
        Self { place, path, before: before[(rest & 3) as usize], memory }
    }

    /// How many spaces the CPUs run.
    #[must_use]
    pub fn spaces(self) -> usize {
        if self.memory == Memory::TwoSpaces { 2 } else { 1 }
    }

    /// How memory is mapped at a fixed place.
    fn flags(self) -> MapFlags {
        let kind = match self.memory {
            Memory::Private | Memory::OfObject => MapFlags::PRIVATE,
            Memory::Shared | Memory::TwoSpaces => MapFlags::SHARED,
        };
        kind | MapFlags::ANONYMOUS | MapFlags::FIXED
    }
}

/// Start of the mapping that the operations are about. Nothing else is in its tables, unless it is anchored.
pub const BASE: u64 = (16 << 40) + (8 << 30);
/// Pages of it.
pub const PAGES: u64 = 6;
/// Where the hole begins, beside the mapping.
const HOLE: u64 = BASE + (PAGES + 2) * PAGE;
/// The mapping that anchors tables.
const ANCHOR: u64 = BASE + 64 * PAGE;
/// Where a mapping of another table of leaves begins, beyond the first.
pub const FAR: u64 = BASE + 512 * PAGE;
/// Where pages go that are moved: in that table, at other slots.
const MOVED: u64 = FAR + 9 * PAGE;
/// Where the object is mapped shared that [`Memory::OfObject`] shows at [`BASE`].
pub const OBJECT: u64 = BASE + 1024 * PAGE;
/// Pages of the heap before.
const HEAP_PAGES: u64 = 4;

const BOTH: Prot = Prot::READ.union(Prot::WRITE);

/// The mapping that the operations are about; of [`Memory::OfObject`] the one of its object, which is mapped
/// once more then.
pub fn subject(variation: Variation) -> Call {
    let (hint, flags) = match variation.memory {
        Memory::OfObject => (OBJECT, MapFlags::SHARED | MapFlags::ANONYMOUS | MapFlags::FIXED),
        _ => (BASE, variation.flags()),
    };
    Call::Mmap { hint, len: PAGES * PAGE, prot: BOTH, flags }
}

/// What else is mapped in each space before a run.
pub fn setup(variation: Variation, heap_start: u64) -> Vec<Call> {
    let mut calls = Vec::new();
    if variation.before == Before::Anchored {
        calls.push(Call::Mmap { hint: ANCHOR, len: PAGE, prot: BOTH, flags: variation.flags() });
        calls.push(Call::Write { addr: ANCHOR, value: 9 });
    }
    if variation.memory == Memory::OfObject {
        // The last page is none of the object's yet.
        let store = |page| Call::Write { addr: OBJECT + page * PAGE, value: 80 + page as u8 };
        calls.extend((0..PAGES - 1).map(store));
    }
    calls.push(Call::Brk { addr: heap_start + HEAP_PAGES * PAGE });
    calls.push(Call::Write { addr: heap_start + PAGE, value: 7 });
    calls
}

/// What each CPU touches before a run, CPU 0 first.
pub fn touches(variation: Variation) -> Vec<Call> {
    let pages = (0..PAGES).map(|page| BASE + page * PAGE);
    match variation.before {
        Before::Nothing => Vec::new(),
        Before::Read => pages.map(|addr| Call::Read { addr }).collect(),
        Before::Written | Before::Anchored => {
            pages.enumerate().map(|(n, addr)| Call::Write { addr, value: 100 + n as u8 }).collect()
        }
    }
}

impl Operation {
    /// All operations.
    pub const ALL: &[Operation] = &[
        Operation::Read,
        Operation::Write,
        Operation::Upgrade,
        Operation::MapHole,
        Operation::MapOver,
        Operation::MoveAway,
        Operation::MoveOver,
        Operation::MoveAndLeave,
        Operation::UnmapWhole,
        Operation::UnmapMiddle,
        Operation::ReadOnly,
        Operation::Forbid,
        Operation::ForbidAndAllow,
        Operation::DontNeed,
        Operation::Free,
        Operation::Populate,
        Operation::Grow,
        Operation::Shrink,
        Operation::Mincore,
        Operation::End,
        Operation::SwitchNotifier,
        Operation::Fork,
        Operation::ForkAndStoreInChild,
        Operation::ForceStore,
        Operation::StoreInOrder,
        Operation::FindEntries,
        Operation::PinRange,
        Operation::StoreToObject,
    ];

    /// The steps of CPU `cpu`: the operation, and a look at its page afterwards.
    #[must_use]
    pub fn steps(self, cpu: u64, variation: Variation, heap_start: u64) -> Vec<Step> {
        let first = if variation.place == Place::Same { 1 } else { 1 + 2 * cpu };
        let (addr, len) = (BASE + first * PAGE, 2 * PAGE);
        let probe = Step::Access(Call::Read { addr });
        let mut steps = self.own_steps(cpu, (addr, len), variation, heap_start);
        // Until MADV_DONTNEED returns, another CPU may still read a page through its TLB that the tables no
        // longer map, in Linux too. An operation that reads the tables (populate, mincore, a pin) could tell,
        // so those do not read the page as well.
        if !matches!(self, Operation::Populate | Operation::Mincore | Operation::PinRange) {
            steps.push(probe);
        }
        steps
    }

    fn own_steps(self, cpu: u64, range: (u64, u64), variation: Variation, heap_start: u64) -> Vec<Step> {
        let (addr, len) = range;
        let value = 10 + cpu as u8;
        let write = |addr| Step::Access(Call::Write { addr, value });
        let protect = |prot| Step::Call(Call::Mprotect { addr, len, prot });
        let pages = |advice, pages| Step::Pages { addr, pages, advice };
        let remap =
            |addr, to, flags| Step::Call(Call::Mremap { addr, old_len: len, new_len: len, flags, to });
        let moved = MOVED + 2 * cpu * PAGE;
        let map = |hint| Step::Call(Call::Mmap { hint, len, prot: BOTH, flags: variation.flags() });
        match self {
            Operation::Read => vec![],
            Operation::Write => vec![write(addr)],
            Operation::Upgrade => vec![Step::Access(Call::Read { addr }), write(addr)],
            Operation::MapHole => vec![map(HOLE + 2 * cpu * PAGE), write(HOLE + 2 * cpu * PAGE)],
            Operation::MapOver => vec![map(addr), write(addr + PAGE)],
            Operation::MoveAway => vec![remap(addr, moved, MAY_MOVE | FIXED), write(moved)],
            Operation::MoveOver => {
                vec![map(moved), write(moved), remap(moved, addr, MAY_MOVE | FIXED), write(addr + PAGE)]
            }
            Operation::MoveAndLeave => {
                vec![remap(addr, moved, MAY_MOVE | FIXED | DONTUNMAP), write(moved), write(addr)]
            }
            Operation::UnmapWhole => vec![Step::Call(Call::Munmap { addr: BASE, len: PAGES * PAGE })],
            Operation::UnmapMiddle => vec![Step::Call(Call::Munmap { addr, len })],
            Operation::ReadOnly => vec![protect(Prot::READ), write(addr)],
            Operation::Forbid => vec![protect(Prot::empty())],
            Operation::ForbidAndAllow => vec![protect(Prot::empty()), protect(BOTH), write(addr)],
            Operation::DontNeed => vec![pages(advice::DONTNEED, 1)],
            Operation::Free => vec![pages(advice::FREE, 2)],
            Operation::Populate => vec![pages(advice::POPULATE_WRITE, 2)],
            Operation::Grow => {
                let end = heap_start + (HEAP_PAGES + 1 + cpu) * PAGE;
                vec![Step::Call(Call::Brk { addr: end }), write(heap_start + HEAP_PAGES * PAGE)]
            }
            Operation::Shrink => vec![Step::Call(Call::Brk { addr: heap_start + (2 - cpu) * PAGE })],
            Operation::Mincore => vec![Step::Call(Call::Mincore { addr, len: PAGE })],
            Operation::End => vec![Step::OtherSpaceEnds],
            Operation::SwitchNotifier => vec![Step::OtherSpaceRuns],
            Operation::Fork => vec![Step::Fork, write(addr)],
            Operation::ForkAndStoreInChild => {
                vec![Step::Fork, Step::InChild(Call::Write { addr, value: 30 + cpu as u8 })]
            }
            Operation::ForceStore => {
                let force = |value| Step::Force { addr, value };
                vec![protect(Prot::READ), force(60 + cpu as u8), force(70 + cpu as u8)]
            }
            Operation::FindEntries => {
                vec![Step::FindEntries { addr }, write(addr), Step::FindEntries { addr }]
            }
            Operation::PinRange => vec![Step::PinRange { addr, pages: 2 }],
            Operation::StoreToObject if variation.memory == Memory::OfObject => {
                vec![write(addr - BASE + OBJECT), write(addr - BASE + OBJECT + PAGE)]
            }
            Operation::StoreToObject => vec![],
            Operation::StoreInOrder => {
                let far = FAR + 2 * cpu * PAGE;
                let store = |addr, value| Step::Access(Call::Write { addr, value });
                let rounds = [40 + cpu as u8, 50 + cpu as u8];
                let stores = rounds.into_iter().flat_map(|value| [store(addr, value), store(far, value)]);
                [map(far)].into_iter().chain(stores).collect()
            }
        }
    }
}
