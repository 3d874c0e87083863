//! What does it cost to find a mapping, and to find room for one, when there are many?

use super::yardstick::ranges::{self, Addresses, RANGE_BYTES};
use super::{Bar, Benchmark, Figure, Options, ns_per, paired};
use crate::error::Failure;
use crate::measure::timed_machine::{self, TimedMachine};
use interleaf::space::{AddressSpace, Layout, MapRequest, Path, Place, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, PAGE_SIZE, VirtAddr};
use std::hint::black_box;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "index",
    question: "What does it cost to find a mapping among many, and room for another?",
    figures: &["index.lookup10k", "index.gap_curve"],
    run,
};

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let sizes: &[u64] = options.size(&[100, 1_000, 10_000, 100_000, 1_000_000], &[100, 1_000, 2_000]);
    // Records and nodes take less than 256 bytes for each mapping, and all spaces together hold less than
    // twice the largest.
    let most = sizes.iter().max().copied().unwrap_or_default();
    let machine = timed_machine::machine(options, most / 8 + (1 << 13))?;
    let _entered = machine.enter(CpuId(0));
    let _pinned = options.pin();
    let vm = timed_machine::vm(&machine)?;
    Ok(vec![lookup(options, &vm)?, gap_curve(options, &vm, sizes)?])
}

fn space<'v>(vm: &'v Vm<'v, TimedMachine>) -> Result<AddressSpace<'v, TimedMachine>, Failure> {
    let layout = Layout { max_mappings: usize::MAX / 2, ..Layout::linux::<X86_64>().overcommit() };
    AddressSpace::new(vm, layout, Path::Speculative).map_err(Failure::of)
}

fn map_at(space: &AddressSpace<'_, TimedMachine>, addr: u64, len_bytes: u64) -> Result<(), Failure> {
    let place = Place::Fixed(VirtAddr(addr));
    space.map(&MapRequest { place, ..MapRequest::anonymous(len_bytes) }).map(drop).map_err(Failure::of)
}

/// Looking up addresses drawn by chance, the same ones on both sides.
fn lookup(options: &Options, vm: &Vm<'_, TimedMachine>) -> Result<Figure, Failure> {
    /// Where the mappings begin.
    const BASE: u64 = 1 << 30;
    let nr_mappings = options.size(10_000, 500);
    let times = options.size(20_000, 100);
    let space = space(vm)?;
    for index in 0..nr_mappings {
        map_at(&space, BASE + index * 2 * RANGE_BYTES, RANGE_BYTES)?;
    }
    let mut addresses = Addresses::new(nr_mappings, options.seed);
    let ours = || {
        let mut drawn = addresses.draw(times);
        ns_per(times, || {
            let address = drawn.next().expect("one is drawn for each lookup");
            black_box(space.inspect().vma_at(VirtAddr(BASE + address)));
        })
    };
    let theirs = ranges::rangemap_lookup(nr_mappings, times, options.seed);
    Ok(paired(options, "index.lookup10k", "ns", ours, "rangemap", theirs).with_bar(Bar::AtMost(1.0)))
}

/// How many sizes of holes there are, each once.
const HOLES: u64 = 64;

/// A space with a number of mappings of a page each, a page of hole after each, and larger holes at equal
/// distances, which grow downwards: each length asked for fits one place best, and they lie all over the
/// index.
fn with_holes<'v>(
    vm: &'v Vm<'v, TimedMachine>,
    nr_mappings: u64,
) -> Result<AddressSpace<'v, TimedMachine>, Failure> {
    let space = space(vm)?;
    let page = PAGE_SIZE as u64;
    let mut at = space.layout().areas.mmap_base.addr().0;
    for index in 0..nr_mappings {
        let hole = if (index + 1) % (nr_mappings / HOLES) == 0 {
            2 + (index + 1) / (nr_mappings / HOLES)
        } else {
            1
        };
        at -= (hole + 1) * page;
        map_at(&space, at, page)?;
    }
    Ok(space)
}

/// The time to find room, over the number of mappings; the largest against a thousand.
fn gap_curve(options: &Options, vm: &Vm<'_, TimedMachine>, sizes: &[u64]) -> Result<Figure, Failure> {
    let times = options.size(2_000, 50);
    let find = |space: &AddressSpace<'_, TimedMachine>| {
        let mut turn = 0;
        ns_per(times, || {
            turn = (turn + 1) % HOLES;
            let request = MapRequest::anonymous((2 + turn) * PAGE_SIZE as u64);
            black_box(space.choose_place(&request).expect("there is room below"));
        })
    };
    let mut points = Vec::new();
    for &size in sizes {
        let space = with_holes(vm, size)?;
        let mut took: Vec<f64> = (0..5).map(|_| find(&space)).collect();
        took.sort_by(f64::total_cmp);
        points.push((size as f64, took[2]));
    }
    let most = sizes.iter().max().copied().unwrap_or_default();
    let (large, small) = (with_holes(vm, most)?, with_holes(vm, 1_000)?);
    let figure =
        paired(options, "index.gap_curve", "ns", || find(&large), "among 1 000 mappings", || find(&small));
    Ok(figure.with_curve("mappings", points).with_bar(Bar::AtMost(4.0)))
}
