//! Scenes: every operation beside every other, each on a CPU of its own, in two spaces and in one.

use super::Fights;
use super::turns::{Machine, Space, in_turns};
use interleaf::space::{Advice, Fault, Layout, MapRequest, Path, Place, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_lab::machine::soft::MachineConfig;
use interleaf_lab::machine::soft::boot_map;

/// What a CPU does again and again, in its part of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// mmap and munmap of a page.
    MapUnmap,
    /// mmap of a page, a write fault there, munmap.
    Touch,
    /// mprotect of a touched page to read-only and back.
    Protect,
    /// A write fault on a page, and MADV_DONTNEED of it.
    DontNeed,
    /// A write fault on an untouched page of a mapping that stays.
    Fault,
}

impl Operation {
    /// All operations.
    pub const ALL: [Operation; 5] =
        [Operation::MapUnmap, Operation::Touch, Operation::Protect, Operation::DontNeed, Operation::Fault];

    const fn name(self) -> &'static str {
        match self {
            Operation::MapUnmap => "map+unmap",
            Operation::Touch => "map+touch+unmap",
            Operation::Protect => "protect",
            Operation::DontNeed => "DONTNEED",
            Operation::Fault => "fault",
        }
    }
}

/// Where the two CPUs of a scene work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In a space each.
    TwoSpaces,
    /// In one space, in mappings and tables far from each other's.
    OneSpace,
}

/// Two operations beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scene {
    /// What CPU 0 does.
    pub first: Operation,
    /// What CPU 1 does.
    pub second: Operation,
    /// Where.
    pub place: Where,
}

impl Scene {
    /// Every operation beside each other and itself, once.
    pub fn all(place: Where) -> impl Iterator<Item = Scene> {
        let scene = move |(first, second)| Scene { first, second, place };
        let seconds = |first| Operation::ALL.into_iter().filter(move |&second| second >= first);
        Operation::ALL.into_iter().flat_map(move |first| seconds(first).map(move |s| (first, s))).map(scene)
    }

    /// The scene's name in lists.
    #[must_use]
    pub fn name(self) -> String {
        let place = match self.place {
            Where::TwoSpaces => "two spaces",
            Where::OneSpace => "one space",
        };
        format!("{} beside {}, {place}", self.first.name(), self.second.name())
    }

    /// Has two CPUs do `each` operations, in turns, and returns the lines for which they contend.
    ///
    /// # Panics
    /// Where the host has no memory for the machine.
    #[must_use]
    pub fn fight(self, path: Path, each: u64) -> Fights {
        let machine = Machine::new(&MachineConfig::small(2, 2 * each + 8192)).expect("memory");
        let cpu = machine.enter(CpuId(0));
        let vm = Vm::new(&machine, boot_map(&machine)).expect("memory for the records");
        let space = || Space::new(&vm, Layout::linux::<X86_64>(), path).expect("memory for a space");
        let (one, other) = (space(), space());
        drop(cpu);
        let spaces = [&one, if self.place == Where::OneSpace { &one } else { &other }];
        let operations = [self.first, self.second];
        let parts: [CpuPart<'_, '_>; 2] = [0, 1].map(|me| {
            let _cpu = machine.enter(CpuId(me as u32));
            CpuPart::new(spaces[me], me as u64, operations[me], each)
        });
        let fights = in_turns(spaces, each, |me, n| parts[me as usize].operate(n + 1)).fights();
        let _cpu = machine.enter(CpuId(0));
        drop((one, other));
        fights
    }
}

const PAGE: u64 = PAGE_SIZE as u64;
/// Bytes that the tables of one CPU's part cover: parts begin at multiples of it.
const PART: u64 = 512 << 30;
/// Mappings that stay beside those that come and go: so many that each CPU edits leaves of its own in the
/// index.
const NEIGHBOURS: u64 = 24;

/// Operations that a CPU does before it is recorded.
const WARM: u64 = 1000;

/// Where one CPU works, and what it does there.
struct CpuPart<'s, 'v> {
    space: &'s Space<'v>,
    start: VirtAddr,
    operation: Operation,
}

impl<'s, 'v> CpuPart<'s, 'v> {
    /// Prepares the part, and does the operation as often as it does more than later: the first of all, and
    /// those until the pools hold what waits for readers.
    fn new(space: &'s Space<'v>, number: u64, operation: Operation, each: u64) -> Self {
        let part = Self { space, start: VirtAddr((1 + 2 * number) * PART), operation };
        // A touched page that stays keeps the tables.
        part.map(0, 1);
        part.write(0);
        (0..NEIGHBOURS).for_each(|n| part.map(64 + 2 * n, 1));
        match operation {
            Operation::MapUnmap | Operation::Touch => {}
            Operation::Protect | Operation::DontNeed => part.map(16, 1),
            Operation::Fault => part.map(1024, each + 1),
        }
        let warm = if operation == Operation::Fault { 1 } else { WARM };
        (0..warm).for_each(|_| part.operate(0));
        part
    }

    fn operate(&self, n: u64) {
        match self.operation {
            Operation::MapUnmap => {
                self.map(16, 1);
                self.unmap(16);
            }
            Operation::Touch => {
                self.map(16, 1);
                self.write(16);
                self.unmap(16);
            }
            Operation::Protect => {
                self.write(16);
                self.space.protect(self.page(16), PAGE, VmaFlags::READ).expect("mapped");
                self.space.protect(self.page(16), PAGE, VmaFlags::READ | VmaFlags::WRITE).expect("mapped");
            }
            Operation::DontNeed => {
                self.write(16);
                self.space.advise(self.page(16), PAGE, Advice::DontNeed).expect("mapped");
            }
            Operation::Fault => self.write(1024 + n),
        }
    }

    fn page(&self, n: u64) -> VirtAddr {
        VirtAddr(self.start.0 + n * PAGE)
    }

    fn map(&self, page: u64, pages: u64) {
        let place = Place::FixedNoReplace(self.page(page));
        let request = MapRequest { place, ..MapRequest::anonymous(pages * PAGE) };
        self.space.map(&request).expect("room");
    }

    fn unmap(&self, page: u64) {
        self.space.unmap(self.page(page), PAGE).expect("it was mapped just now");
    }

    fn write(&self, page: u64) {
        self.space.fault(Fault { addr: self.page(page), access: Access::Write }).expect("mapped");
    }
}
