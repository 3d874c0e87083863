//! The pairs of operations that are recorded against each other.

use super::Fights;
use super::turns::{Machine, Space, in_turns};
use interleaf::space::{Fault, Layout, MapRequest, Path, Place, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_lab::machine::soft::MachineConfig;
use interleaf_lab::machine::soft::boot_map;

/// What is recorded against what. Each has the first and the second half of its memory, or a mapping of its
/// own, in tables of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// Write faults on both CPUs, in the halves of one mapping.
    FaultsInOneMapping,
    /// Write faults on both CPUs, in mappings far from each other.
    FaultsInTwoMappings,
    /// Write faults on one CPU; on the other mmap and munmap of one page, far away.
    FaultAndMmapElsewhere,
}

impl Pair {
    /// All pairs.
    pub const ALL: [Pair; 3] =
        [Pair::FaultsInOneMapping, Pair::FaultsInTwoMappings, Pair::FaultAndMmapElsewhere];

    /// The pair's name in lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Pair::FaultsInOneMapping => "two faults in one mapping",
            Pair::FaultsInTwoMappings => "two faults in different mappings",
            Pair::FaultAndMmapElsewhere => "a fault and an mmap elsewhere",
        }
    }
}

const PAGE: u64 = PAGE_SIZE as u64;
/// Bytes that the tables of one CPU's part cover: parts begin at multiples of it.
const PART: u64 = 512 << 30;

/// Has two CPUs do `each` operations of the pair, in turns, and returns the lines for which they contend.
///
/// # Panics
/// Where the host has no memory for the machine.
#[must_use]
pub fn fight(pair: Pair, path: Path, each: u64) -> Fights {
    let frames = 2 * each + each / 128 + 4096;
    let machine = Machine::new(&MachineConfig::small(2, frames)).expect("memory for the machine");
    // On the second: what its caches keep of this is part of what is pinned.
    let cpu = machine.enter(CpuId(1));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory for the records");
    let space = Space::new(&vm, Layout::linux::<X86_64>(), path).expect("memory for a space");
    let parts = parts(&space, pair);
    drop(cpu);
    (0..2).for_each(|me| warm(&machine, &space, pair, me, parts[me as usize]));
    let operate = |me: u32, n| operate(&space, pair, me, parts[me as usize], n);
    let fights = in_turns([&space, &space], each, operate).fights();
    // A space ends on a CPU.
    let _cpu = machine.enter(CpuId(0));
    drop(space);
    fights
}

/// Where each CPU works.
fn parts(space: &Space<'_>, pair: Pair) -> [VirtAddr; 2] {
    let base = VirtAddr(PART);
    let map = |at: VirtAddr, len_bytes: u64| {
        let place = Place::Fixed(at);
        let flags = MapRequest::anonymous(0).flags | VmaFlags::NORESERVE;
        space.map(&MapRequest { place, flags, ..MapRequest::anonymous(len_bytes) }).expect("room")
    };
    let far = VirtAddr(base.0 + 2 * PART);
    match pair {
        Pair::FaultsInOneMapping => {
            let start = map(base, 2 * PART);
            [start, VirtAddr(start.0 + PART)]
        }
        Pair::FaultsInTwoMappings => [map(base, PART), map(far, PART)],
        // A neighbour that stays keeps the tables of the second part.
        Pair::FaultAndMmapElsewhere => {
            let neighbour = map(far, PAGE);
            space.fault(Fault { addr: neighbour, access: Access::Write }).expect("mapped");
            [map(base, PART), VirtAddr(neighbour.0 + 16 * PAGE)]
        }
    }
}

/// The first faults of a mapping do more than the others: its identity, upper tables. So does the second
/// CPU's first edit of a space: it revokes the first one's ownership, once.
fn warm(machine: &Machine, space: &Space<'_>, pair: Pair, me: u32, part: VirtAddr) {
    let _cpu = machine.enter(CpuId(me));
    if pair == Pair::FaultAndMmapElsewhere && me == 1 {
        // Until the pools hold what waits for readers.
        (0..1000).for_each(|_| operate(space, pair, me, part, 0));
    } else {
        space.fault(Fault { addr: part, access: Access::Write }).expect("mapped");
    }
}

fn operate(space: &Space<'_>, pair: Pair, me: u32, part: VirtAddr, n: u64) {
    if pair == Pair::FaultAndMmapElsewhere && me == 1 {
        let place = Place::FixedNoReplace(part);
        let at = space.map(&MapRequest { place, ..MapRequest::anonymous(PAGE) }).expect("room");
        space.unmap(at, PAGE).expect("it was mapped just now");
    } else {
        // The first page was touched when the mapping was made.
        let addr = VirtAddr(part.0 + (n + 1) * PAGE);
        space.fault(Fault { addr, access: Access::Write }).expect("mapped");
    }
}
