//! What does a huge page cost at a write fault, and what a fault that gets none?
//!
//! `thp.fault_write` makes huge pages present, one fault for each, in more memory than the caches hold;
//! the yardstick zeroes as much memory of the host, 2 MiB after 2 MiB. `thp.fallback` is the first store
//! to a region where no block of 2 MiB is free: a fault that wants a huge page, finds none, links a table
//! and zeroes a base page; the yardstick is the same fault in a space that refuses huge pages.

use super::{Arena, Bar, Benchmark, Figure, Options, paired};
use crate::error::Failure;
use crate::measure::timed_machine::{self, TimedMachine};
use interleaf::frame::{AllocRequest, Frame};
use interleaf::space::{AddressSpace, Counter, Fault, Layout, MapRequest, Path, Place, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, Order, PageSize, VirtAddr};
use interleaf::vma::{HugePolicy, ThpDisable};
use std::collections::HashSet;
use std::time::Instant;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "thp",
    question: "What does a fault with huge pages cost, where there is a block and where there is none?",
    figures: &["thp.fault_write", "thp.fallback"],
    run,
};

pub(super) const HUGE_BYTES: u64 = PageSize::Huge.bytes();
/// Where the spaces map their memory.
const BASE: u64 = 1 << 40;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let regions = options.size(64, 3);
    let pinned = options.pin();
    let machine = timed_machine::machine(options, (regions + 4) * 512 + 4096)?;
    let entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm_with(&machine, HugePolicy::Always)?;
    let figures = vec![fault_write(options, &vm, regions)?, fallback(options, &vm)?];
    drop((entered, pinned));
    Ok(figures)
}

/// A space with room for so many huge pages.
pub(super) struct Room<'v> {
    space: AddressSpace<'v, TimedMachine>,
    regions: u64,
}

impl<'v> Room<'v> {
    pub(super) fn new(
        vm: &'v Vm<'v, TimedMachine>,
        regions: u64,
        thp_disable: ThpDisable,
    ) -> Result<Self, Failure> {
        let space = AddressSpace::new(vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
            .map_err(Failure::of)?;
        space.set_thp_disable(thp_disable);
        Ok(Self { space, regions })
    }

    /// Stores to the first page of each region, in new memory; nanoseconds for one.
    pub(super) fn first_stores(&self) -> f64 {
        let len_bytes = self.regions * HUGE_BYTES;
        let request = MapRequest { place: Place::Fixed(VirtAddr(BASE)), ..MapRequest::anonymous(len_bytes) };
        self.space.map(&request).expect("nothing else is there");
        let start = Instant::now();
        for region in 0..self.regions {
            let addr = VirtAddr(BASE + region * HUGE_BYTES);
            self.space.fault(Fault { addr, access: Access::Write }).expect("the mapping is writable");
        }
        let taken = start.elapsed().as_nanos() as f64 / self.regions as f64;
        self.space.unmap(VirtAddr(BASE), len_bytes).expect("it is mapped");
        taken
    }
}

fn fault_write<'v>(options: &Options, vm: &'v Vm<'v, TimedMachine>, regions: u64) -> Result<Figure, Failure> {
    let room = Room::new(vm, regions, ThpDisable::None)?;
    let before = vm.totals().get(Counter::ThpFaultFallback);
    let mut arena = Arena::new((regions * HUGE_BYTES) as usize);
    let frames = PageSize::Huge.pages() as usize;
    let theirs = || {
        let start = Instant::now();
        for block in arena.frames().chunks_mut(frames) {
            std::hint::black_box(&mut *block).iter_mut().for_each(|frame| frame.0.fill(0));
        }
        start.elapsed().as_nanos() as f64 / regions as f64
    };
    let figure =
        paired(options, "thp.fault_write", "ns", || room.first_stores(), "memset of as much memory", theirs);
    let lacking = vm.totals().get(Counter::ThpFaultFallback) - before;
    if lacking > 0 {
        return Err(Failure::check(format!("{lacking} faults found no block")));
    }
    Ok(figure.with_bar(Bar::AtMost(1.25)))
}

fn fallback<'v>(options: &Options, vm: &'v Vm<'v, TimedMachine>) -> Result<Figure, Failure> {
    let fragments = fragment(vm);
    if vm.memory().alloc(Order::HUGE, AllocRequest::DIRTY).is_some() {
        return Err(Failure::check("a block of 2 MiB is free"));
    }
    // Each region takes a table and a page: more than the caches hold.
    let regions = options.size(4096, 16);
    let wants = Room::new(vm, regions, ThpDisable::None)?;
    let refuses = Room::new(vm, regions, ThpDisable::Completely)?;
    let figure = paired(
        options,
        "thp.fallback",
        "ns",
        || wants.first_stores(),
        "the same where huge pages are refused",
        || refuses.first_stores(),
    );
    drop(fragments);
    Ok(figure.with_bar(Bar::AtMost(1.10)))
}

/// Takes one frame of each block of 2 MiB.
fn fragment<'v>(vm: &'v Vm<'v, TimedMachine>) -> Vec<Frame<'v, TimedMachine>> {
    let all: Vec<_> = std::iter::from_fn(|| vm.memory().alloc_frame(AllocRequest::DIRTY)).collect();
    let mut blocks = HashSet::new();
    let kept = all.into_iter().filter(|frame| blocks.insert(frame.pfn().0 >> Order::HUGE.0)).collect();
    vm.trim();
    kept
}
