//! What does a mapping cost that is made, touched and unmapped, beside the crates that kernels use for it
//! today?

use super::yardstick::spaces::{self, Frames};
use super::{Bar, Benchmark, Figure, Options, alone, ns_per, paired};
use crate::error::Failure;
use crate::measure::timed_machine::{self, TimedMachine};
use interleaf::space::{AddressSpace, Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "space",
    question: "What does a mapping cost that is made, touched and unmapped?",
    figures: &["space.map64", "space.map64_floor", "space.map_unmap"],
    run,
};

/// Frames of the machine, and of the yardstick.
const FRAMES: usize = 1 << 13;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let machine = timed_machine::machine(options, FRAMES as u64)?;
    let entered = machine.enter(CpuId(0));
    let pinned = options.pin();
    let vm = timed_machine::vm(&machine)?;
    let [same, floor] = map64(options, &vm)?;
    let figures = vec![same, floor, untouched(options, &vm)?];
    drop((pinned, entered));
    Ok(figures)
}

/// A MiB mapped and unmapped without a touch.
fn untouched(options: &Options, vm: &Vm<'_, TimedMachine>) -> Result<Figure, Failure> {
    let times = options.size(10_000, 10);
    let space = AddressSpace::new(vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
        .map_err(Failure::of)?;
    let request = MapRequest::anonymous(1 << 20);
    let ours = || {
        ns_per(times, || {
            let base = space.map(&request).expect("an empty space has room");
            space.unmap(base, request.len_bytes).expect("it is mapped");
        })
    };
    Ok(alone(options, "space.map_unmap", "ns", ours))
}

/// 64 pages mapped, faulted in for writing, and unmapped: beside crates that do the same work, with an
/// allocator of the same size, and beside the same crates with a stack of ready frames, whose cost is zeroing
/// and little else. Neither side translates addresses in software; the CPU runs our space, so that unmapping
/// has a CPU to flush.
fn map64(options: &Options, vm: &Vm<'_, TimedMachine>) -> Result<[Figure; 2], Failure> {
    const PAGES: u64 = 64;
    let times = options.size(200, 2);
    let space = AddressSpace::new(vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
        .map_err(Failure::of)?;
    let running = space.activate(None);
    let request = MapRequest::anonymous(PAGES * PAGE_SIZE as u64);
    let ours = || {
        ns_per(times, || {
            let base = space.map(&request).expect("an empty space has room");
            for page in 0..PAGES {
                let addr = VirtAddr(base.0 + page * PAGE_SIZE as u64);
                space.fault(Fault { addr, access: Access::Write }).expect("the mapping is writable");
            }
            space.unmap(base, request.len_bytes).expect("it is mapped");
        })
    };
    let theirs = |frames| spaces::map_touch_unmap(PAGES as usize, frames, times);
    let (same, stack) = (theirs(Frames::Buddy(FRAMES)), theirs(Frames::Stack));
    let crates = "ax-memory-set + ax-page-table-multiarch + buddy_system_allocator";
    let floor = "the same without an allocator";
    let figures = [
        paired(options, "space.map64", "ns", ours, crates, same).with_bar(Bar::AtMost(1.0)),
        paired(options, "space.map64_floor", "ns", ours, floor, stack),
    ];
    drop(running);
    Ok(figures)
}
