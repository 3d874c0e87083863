//! The pairs of operations that are recorded against each other.

use super::Fights;
use super::names::Names;
use crate::check::library::boot_map;
use crate::machine::soft::{MachineConfig, SoftMachine};
use crate::machine::watch::{Watch, footprint};
use interleaf::space::{AddressSpace, Fault, Layout, MapRequest, Path, Place, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};
use interleaf::vma::VmaFlags;
use std::sync::Barrier;
use std::thread;

type Machine = SoftMachine<Watch, X86_64>;
type Space<'v> = AddressSpace<'v, Machine>;

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

/// Pages that each CPU touches between two turns: more than a cache of frames holds, so that every turn
/// refills it.
const TURN: u64 = 100;
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
    let turns = Barrier::new(2);
    let work = |me: u32| {
        let _cpu = machine.enter(CpuId(me));
        let _running = space.activate(None);
        let (_, footprint) = footprint(|| take_turns(&space, pair, me, parts[me as usize], each, &turns));
        footprint
    };
    let (first, second) = thread::scope(|scope| {
        let second = scope.spawn(|| work(1));
        (work(0), second.join().expect("the second CPU comes to its end"))
    });
    // A space ends on a CPU, and its parts have names while it stays where it is.
    let _cpu = machine.enter(CpuId(0));
    let names = Names::of_now(&machine, &vm, &space);
    drop(space);
    Fights::of(&first, &second, &names, &names.labels())
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
        operate(space, pair, me, part, 0);
    } else {
        space.fault(Fault { addr: part, access: Access::Write }).expect("mapped");
    }
}

fn take_turns(space: &Space<'_>, pair: Pair, me: u32, part: VirtAddr, each: u64, turns: &Barrier) {
    for turn in 0..each.div_ceil(TURN) {
        for whose in 0..2 {
            turns.wait();
            if whose == me {
                (turn * TURN..each.min((turn + 1) * TURN)).for_each(|n| operate(space, pair, me, part, n));
            }
        }
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
