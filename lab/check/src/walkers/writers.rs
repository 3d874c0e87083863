//! What changes tables while a walker is in them.

use crate::calls::{Call, MapFlags, PAGE, Prot, advice};
use crate::drive::Driver;
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, MemlockLimit};
use interleaf::units::{Access, PageSize, VirtAddr};
use interleaf_lab::machine::baton::Baton;
use std::ops::Range;

/// The memory that walkers walk and writers change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Private, pages in two tables.
    Private,
    /// A leaf of 2 MiB of PFN-mapped frames.
    Huge,
    /// A leaf of 1 GiB of PFN-mapped frames.
    Giant,
    /// Private memory of 2 MiB that was only read: a table of zeros, shown as a leaf, where the format has
    /// that.
    Zeros,
}

/// First byte of it: a multiple of all page sizes. Nothing else lies in its tables.
pub const BASE: u64 = (16 << 40) + (8 << 30);
/// Pages that writers change and walkers walk, from `BASE` on.
pub const PAGES: u64 = 6;
/// The second part of private memory, in another table.
pub const FAR: u64 = BASE + 512 * PAGE;
const BOTH: Prot = Prot::READ.union(Prot::WRITE);
/// How memory is mapped at a fixed place.
const FIXED: MapFlags = MapFlags::PRIVATE.union(MapFlags::ANONYMOUS).union(MapFlags::FIXED);

impl Memory {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Private, Self::Huge, Self::Giant, Self::Zeros];

    /// The size of its leaf, where frames are PFN-mapped.
    pub fn leaf(self) -> Option<PageSize> {
        match self {
            Self::Private | Self::Zeros => None,
            Self::Huge => Some(PageSize::Huge),
            Self::Giant => Some(PageSize::Giant),
        }
    }

    /// The writers that there are of it.
    pub fn writers(self) -> &'static [Writer] {
        match self {
            Self::Private | Self::Zeros => Writer::OF_PAGES,
            Self::Huge | Self::Giant => Writer::OF_LEAVES,
        }
    }

    /// Where it is mapped.
    fn len(self) -> u64 {
        match self {
            Self::Private => PAGES * PAGE,
            Self::Zeros | Self::Huge => PageSize::Huge.bytes(),
            Self::Giant => PageSize::Giant.bytes(),
        }
    }
}

/// What one CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// Stores to all pages: faults install tables and leaves.
    Store,
    /// Loads from all pages.
    Load,
    /// munmap of all, in both tables.
    UnmapWhole,
    /// munmap of a part; of a huge leaf, which is split.
    UnmapPart,
    /// mprotect of a part to read-only; of a huge leaf, which is split.
    ProtectPart,
    /// mprotect of all to nothing and back: a huge leaf changes in place.
    ForbidAndAllow,
    /// MADV_DONTNEED of all; PFN-mapped frames refuse it.
    DontNeed,
    /// MADV_FREE of all.
    Free,
    /// Private memory is mapped over a part, and stored to: a fault installs leaves, in the table that a huge
    /// leaf was split into.
    RenewPart,
    /// All is unmapped, private memory mapped at its start, and stored to: a fault installs a table where a
    /// huge leaf was.
    RenewWhole,
    /// fork, and the end of the child.
    Fork,
    /// All pages of the first part are pinned, those that are absent made present, and let go again.
    PinRange,
}

impl Writer {
    const OF_PAGES: &'static [Self] = &[
        Self::Store,
        Self::Load,
        Self::UnmapWhole,
        Self::UnmapPart,
        Self::ProtectPart,
        Self::ForbidAndAllow,
        Self::DontNeed,
        Self::Free,
        Self::RenewPart,
        Self::RenewWhole,
        Self::Fork,
        Self::PinRange,
    ];
    /// Those that touch no page whose frame is PFN-mapped: behind those frames there is no memory.
    const OF_LEAVES: &'static [Self] = &[
        Self::UnmapWhole,
        Self::UnmapPart,
        Self::ProtectPart,
        Self::ForbidAndAllow,
        Self::DontNeed,
        Self::RenewPart,
        Self::RenewWhole,
        Self::Fork,
    ];

    /// Does it. What the calls answer depends on what the other writer has done.
    pub(super) fn play<F: Format>(self, driver: &Driver<'_, '_, Baton, F>, memory: Memory) {
        let call = |call| drop(driver.call(&call));
        let map = |addr, pages| {
            call(Call::Mmap { hint: addr, len: pages * PAGE, prot: BOTH, flags: FIXED });
        };
        // The last page first: in their order pages get the frames back that they had.
        let store = |pages: Range<u64>| {
            pages.rev().for_each(|nr| call(Call::Write { addr: BASE + nr * PAGE, value: stamp(nr) }));
        };
        let protect = |addr, len, prot| call(Call::Mprotect { addr, len, prot });
        let advise = |advice| call(Call::Madvise { addr: BASE, len: memory.len(), advice });
        match self {
            Self::Store => each_page(memory, |addr, value| call(Call::Write { addr, value })),
            Self::Load => each_page(memory, |addr, _| call(Call::Read { addr })),
            Self::UnmapWhole => {
                call(Call::Munmap { addr: BASE, len: memory.len() });
                call(Call::Munmap { addr: FAR, len: PAGES * PAGE });
            }
            Self::UnmapPart => call(Call::Munmap { addr: BASE + PAGE, len: 2 * PAGE }),
            Self::ProtectPart => protect(BASE + 2 * PAGE, 2 * PAGE, Prot::READ),
            Self::ForbidAndAllow => {
                protect(BASE, memory.len(), Prot::empty());
                protect(BASE, memory.len(), BOTH);
            }
            Self::DontNeed => advise(advice::DONTNEED),
            Self::Free => advise(advice::FREE),
            Self::RenewPart => {
                map(BASE + PAGE, 2);
                store(1..3);
            }
            Self::RenewWhole => {
                call(Call::Munmap { addr: BASE, len: memory.len() });
                map(BASE, PAGES);
                store(0..3);
            }
            Self::Fork => drop(driver.space.fork()),
            Self::PinRange => {
                let (limit, slots) = (MemlockLimit::new(PAGES), [const { None }; PAGES as usize]);
                drop(driver.space.pin_range(VirtAddr(BASE), Access::Write, &limit, slots));
            }
        }
    }
}

/// The byte that is stored to the page of that number, and to no other.
pub fn stamp(nr: u64) -> u8 {
    1 + nr as u8
}

/// Calls `f` with each page of private memory, and its stamp.
fn each_page(memory: Memory, f: impl Fn(u64, u8)) {
    if memory.leaf().is_none() {
        (0..PAGES).for_each(|nr| f(BASE + nr * PAGE, stamp(nr)));
    }
    if memory == Memory::Private {
        (0..2).for_each(|nr| f(FAR + nr * PAGE, stamp(PAGES + nr)));
    }
}

/// Maps the memory, in a space that the CPU runs; private memory is stored to.
pub(super) fn prepare<F: Format>(
    driver: &Driver<'_, '_, Baton, F>,
    memory: Memory,
    map: impl FnOnce(&AddressSpace<'_, interleaf_lab::machine::soft::SoftMachine<Baton, F>>),
) {
    if memory.leaf().is_some() {
        return map(driver.space);
    }
    let map =
        |addr| drop(driver.call(&Call::Mmap { hint: addr, len: memory.len(), prot: BOTH, flags: FIXED }));
    map(BASE);
    if memory == Memory::Zeros {
        return drop(driver.call(&Call::Read { addr: BASE }));
    }
    map(FAR);
    each_page(memory, |addr, value| drop(driver.call(&Call::Write { addr, value })));
}
