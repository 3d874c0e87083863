//! What does a page fault cost, without the zeroing that no design can save?
//!
//! `fault.write_warm` is the handler alone: the time of a run of write faults less the time of zeroing the
//! very frames that they installed, in the order in which they did, taken right after. `fault.write_cold`
//! keeps the zeroing, over more memory than the caches hold.

use super::{Bar, Benchmark, Figure, Options, alone, paired};
use crate::error::Failure;
use crate::machine::soft::Entered;
use crate::measure::timed_machine::{self, TimedMachine};
use crate::os::affinity::AffinityGuard;
use interleaf::frame::FrameRef;
use interleaf::space::{AddressSpace, Advice, Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr, Vpn};
use std::cell::RefCell;
use std::time::Instant;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "fault",
    question: "What does a page fault cost?",
    figures: &["fault.write_warm", "fault.write_cold", "fault.read_warm", "fault.paths_one_cpu"],
    run,
};

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let warm = options.size(256, 16);
    let cold = options.size(96 << 10, 64);
    let machine = timed_machine::machine(options, cold + cold / 16 + 4096)?;
    let entered = machine.enter(CpuId(0));
    let pinned: (Option<AffinityGuard>, Entered) = (options.pin(), entered);
    let vm = timed_machine::vm(&machine)?;
    let speculative = Room::new(&vm, Path::Speculative, cold)?;
    let mut figures = vec![
        write_warm(options, &speculative, warm),
        write_cold(options, &speculative, cold),
        read_warm(options, &speculative, warm),
    ];
    drop(speculative);
    figures.push(paths(options, &vm, warm)?);
    drop(pinned);
    Ok(figures)
}

/// A space with one large mapping to fault in.
struct Room<'v> {
    space: AddressSpace<'v, TimedMachine>,
    base: VirtAddr,
}

impl<'v> Room<'v> {
    fn new(vm: &'v Vm<'v, TimedMachine>, path: Path, pages: u64) -> Result<Self, Failure> {
        let space =
            AddressSpace::new(vm, Layout::linux::<X86_64>().overcommit(), path).map_err(Failure::of)?;
        let base = space.map(&MapRequest::anonymous(pages * PAGE_SIZE as u64)).map_err(Failure::of)?;
        Ok(Self { space, base })
    }

    fn page(&self, index: u64) -> VirtAddr {
        VirtAddr(self.base.0 + index * PAGE_SIZE as u64)
    }

    /// Faults on `pages` pages from the first one on; nanoseconds for all.
    fn faults(&self, pages: u64, access: Access) -> f64 {
        let start = Instant::now();
        for index in 0..pages {
            self.space.fault(Fault { addr: self.page(index), access }).expect("the mapping allows it");
        }
        start.elapsed().as_nanos() as f64
    }

    /// The frames behind `pages` pages, in their order.
    fn frames<'r>(&'r self, pages: u64, into: &mut Vec<UserFrame<'r>>) {
        let (first, memory) = (self.base.vpn(), self.space.vm().memory());
        let frame =
            |index| self.space.inspect().resident_frame(Vpn(first.0 + index)).expect("it was touched").0;
        into.extend((0..pages).map(|index| memory.try_get(frame(index)).expect("user memory")));
    }

    fn forget(&self, pages: u64) {
        self.space.advise(self.base, pages * PAGE_SIZE as u64, Advice::DontNeed).expect("it is mapped");
    }
}

/// A frame of a page, which is not freed as long as this exists.
type UserFrame<'r> = FrameRef<'r, TimedMachine>;

/// Zeroes frames one by one; nanoseconds for all.
fn zero(machine: &TimedMachine, frames: &[UserFrame<'_>]) -> f64 {
    let start = Instant::now();
    frames.iter().for_each(|frame| machine.zero_user(frame));
    start.elapsed().as_nanos() as f64
}

fn write_warm(options: &Options, room: &Room<'_>, pages: u64) -> Figure {
    let rounds = options.size(40, 2);
    let frames = RefCell::new(Vec::with_capacity(pages as usize));
    let handler = || {
        let mut total = 0.0;
        for _ in 0..rounds {
            let faults = room.faults(pages, Access::Write);
            room.frames(pages, &mut frames.borrow_mut());
            total += faults - zero(room.space.vm().machine(), &frames.borrow());
            frames.borrow_mut().clear();
            room.forget(pages);
        }
        total / (rounds * pages) as f64
    };
    alone(options, "fault.write_warm", "ns", handler).with_bar(Bar::AtMost(150.0))
}

fn write_cold(options: &Options, room: &Room<'_>, pages: u64) -> Figure {
    let frames = RefCell::new(Vec::with_capacity(pages as usize));
    let ours = || {
        frames.borrow_mut().clear();
        let faults = room.faults(pages, Access::Write);
        room.frames(pages, &mut frames.borrow_mut());
        room.forget(pages);
        faults / pages as f64
    };
    let theirs = || zero(room.space.vm().machine(), &frames.borrow()) / pages as f64;
    paired(options, "fault.write_cold", "ns", ours, "memset of the same frames", theirs)
        .with_bar(Bar::AtMost(1.5))
}

fn read_warm(options: &Options, room: &Room<'_>, pages: u64) -> Figure {
    let rounds = options.size(40, 2);
    let handler = || {
        let mut total = 0.0;
        for _ in 0..rounds {
            total += room.faults(pages, Access::Read);
            room.forget(pages);
        }
        total / (rounds * pages) as f64
    };
    alone(options, "fault.read_warm", "ns", handler)
}

/// Speculative against locked on one CPU: the lock that is not taken.
fn paths(options: &Options, vm: &Vm<'_, TimedMachine>, pages: u64) -> Result<Figure, Failure> {
    let rounds = options.size(40, 2);
    let time = |room: &Room<'_>| {
        let mut total = 0.0;
        for _ in 0..rounds {
            total += room.faults(pages, Access::Write);
            room.forget(pages);
        }
        total / (rounds * pages) as f64
    };
    let speculative = Room::new(vm, Path::Speculative, pages)?;
    let locked = Room::new(vm, Path::Locked, pages)?;
    Ok(paired(
        options,
        "fault.paths_one_cpu",
        "ns",
        || time(&speculative),
        "under the space's lock",
        || time(&locked),
    )
    .with_bar(Bar::AtMost(1.0)))
}
