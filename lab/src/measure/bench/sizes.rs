//! What does memory cost that comes in mTHP folios?
//!
//! Each figure is the time for a page of 64 MiB that a program stores to from the first page to the last:
//! those of its stores that fault, one for each block. The yardstick is the same on a machine without such
//! sizes, one fault for each page. Both zero as much memory.

use super::{Benchmark, Figure, Options, paired};
use crate::error::Failure;
use crate::measure::timed_machine::{self, TimedMachine};
use interleaf::space::{AddressSpace, Counter, Fault, Layout, MapRequest, Path, Place, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, Order, VirtAddr};
use interleaf::vma::{HugePolicy, MthpPolicies, MthpPolicy};
use std::time::Instant;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "thp.sizes",
    question: "What does memory cost that comes in blocks of 16 KiB to 1 MiB?",
    figures: &FIGURES,
    run,
};

/// By size, upwards.
const FIGURES: [&str; 7] = [
    "thp.populate_16k",
    "thp.populate_32k",
    "thp.populate_64k",
    "thp.populate_128k",
    "thp.populate_256k",
    "thp.populate_512k",
    "thp.populate_1m",
];

const PAGE: u64 = 4096;
/// Where the spaces map their memory.
const BASE: u64 = 1 << 40;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let pages = options.size(16384, 1024);
    let pinned = options.pin();
    let plain = timed_machine::machine(options, pages + 4096)?;
    let entered = plain.enter(CpuId(0));
    let vm = timed_machine::vm(&plain)?;
    let space = new_space(&vm)?;
    drop(entered);
    let mut figures = Vec::new();
    for (name, order) in FIGURES.into_iter().zip(MthpPolicies::orders()) {
        let base = || {
            let _entered = plain.enter(CpuId(0));
            populate(&space, pages, 1)
        };
        figures.push(of_size(options, (name, order), pages, base)?);
    }
    let entered = plain.enter(CpuId(0));
    drop(space);
    drop(vm);
    drop((entered, pinned));
    Ok(figures)
}

/// The figure of one size, on a machine of its own.
fn of_size(
    options: &Options,
    (name, order): (&'static str, Order),
    pages: u64,
    base: impl FnMut() -> f64,
) -> Result<Figure, Failure> {
    let machine = timed_machine::machine(options, pages + 4096)?;
    let entered = machine.enter(CpuId(0));
    let sizes = MthpPolicies::NEVER.with(order, MthpPolicy::Always);
    let vm = timed_machine::vm_with_sizes(&machine, HugePolicy::Never, sizes)?;
    let space = new_space(&vm)?;
    drop(entered);
    let mut rounds = 0;
    let ours = || {
        let _entered = machine.enter(CpuId(0));
        rounds += 1;
        populate(&space, pages, order.frames())
    };
    let figure = paired(options, name, "ns/page", ours, "base pages", base);
    let _entered = machine.enter(CpuId(0));
    let counter = Counter::anon_fault_alloc(order);
    let blocks = counter.map_or(0, |counter| vm.totals().get(counter));
    if blocks != rounds * pages / order.frames() {
        return Err(Failure::check(format!("{name}: {blocks} blocks in {rounds} rounds")));
    }
    drop(space);
    drop(vm);
    Ok(figure)
}

fn new_space<'v>(vm: &'v Vm<'v, TimedMachine>) -> Result<AddressSpace<'v, TimedMachine>, Failure> {
    AddressSpace::new(vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative).map_err(Failure::of)
}

/// The stores that fault, where each fault makes so many pages present; nanoseconds for a page.
fn populate(space: &AddressSpace<'_, TimedMachine>, pages: u64, step: u64) -> f64 {
    let request = MapRequest { place: Place::Fixed(VirtAddr(BASE)), ..MapRequest::anonymous(pages * PAGE) };
    space.map(&request).expect("nothing else is there");
    let start = Instant::now();
    for page in (0..pages).step_by(step as usize) {
        let addr = VirtAddr(BASE + page * PAGE);
        space.fault(Fault { addr, access: Access::Write }).expect("the mapping is writable");
    }
    let taken = start.elapsed().as_nanos() as f64 / pages as f64;
    space.unmap(VirtAddr(BASE), pages * PAGE).expect("it is mapped");
    space.vm().trim();
    taken
}
