//! What does a pin without a lock cost, beside one under the lock of its table?
//!
//! Pages of private memory that were written, 256 of one table, are pinned to write and unpinned by one
//! call. `pin.fast` is a page of that, against the same through `pin_pages_slow`. `pin.fast_one` is a call
//! for one page, of which most is the charge to the limit and the counters. This CPU runs the space, alone,
//! so it owns the locks of its tables: the slow pin is as cheap as it can be. `pin.range` is a page of a
//! large range, all of which one call pins, against a call for each page; without helpers.

use super::{Bar, Benchmark, Figure, Options, ns_per, paired};
use crate::error::Failure;
use crate::measure::timed_machine::{self, TimedMachine};
use interleaf::frame::PinnedFrame;
use interleaf::machine::Machine;
use interleaf::space::{AddressSpace, Fault, Layout, MapRequest, MemlockLimit, Path};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "pin",
    question: "What does a pin without a lock cost, beside one under its table's lock?",
    figures: &["pin.fast", "pin.fast_one", "pin.range"],
    run,
};

const PAGE: u64 = PAGE_SIZE as u64;
const PAGES: usize = 256;

type Slot<'v> = Option<PinnedFrame<'v, TimedMachine>>;
type Limit = MemlockLimit<<TimedMachine as Machine>::Cpu>;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let pinned = options.pin();
    let large = options.size(1 << 14, 1 << 11);
    let machine = timed_machine::machine(options, 2 * large + 4096)?;
    let entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    let space = AddressSpace::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
        .map_err(Failure::of)?;
    let running = space.activate(None);
    let base = space.map(&MapRequest::anonymous(PAGES as u64 * PAGE)).map_err(Failure::of)?;
    for page in 0..PAGES as u64 {
        let addr = VirtAddr(base.0 + page * PAGE);
        space.fault(Fault { addr, access: Access::Write }).expect("the mapping is writable");
    }
    let limit = Limit::new(u64::MAX);
    let figures = [
        ("pin.fast", PAGES, options.size(400, 2), Some(Bar::AtMost(0.6))),
        ("pin.fast_one", 1, options.size(20_000, 20), None),
    ]
    .map(|(name, pages, times, bar)| {
        let figure = figure(options, name, &space, base, &limit, (pages, times));
        match bar {
            Some(bar) => figure.with_bar(bar),
            None => figure,
        }
    });
    let mut figures = Vec::from(figures);
    figures.push(range_figure(options, &space, &limit, large)?);
    drop(running);
    drop(space);
    drop((entered, pinned));
    Ok(figures)
}

/// Nanoseconds for a page of `pages`, which were written.
fn range_figure<'v>(
    options: &Options,
    space: &AddressSpace<'v, TimedMachine>,
    limit: &Limit,
    pages: u64,
) -> Result<Figure, Failure> {
    let request = MapRequest { populate: true, ..MapRequest::anonymous(pages * PAGE) };
    let base = space.map(&request).map_err(Failure::of)?;
    let [mut whole, mut each] =
        [(); 2].map(|()| (0..pages).map(|_| None).collect::<Vec<Slot<'v>>>().into_boxed_slice());
    let ours = || {
        let call =
            || space.pin_range(base, Access::Write, limit, &mut *whole).expect("pages are there").unpin();
        ns_per(1, call) / pages as f64
    };
    let theirs = || {
        let call = || {
            let pinned = each.chunks_mut(1).zip(0..).map(|(slot, page)| {
                let addr = VirtAddr(base.0 + page * PAGE);
                space.pin_pages(addr, Access::Write, limit, slot).expect("pages are there")
            });
            drop(pinned.collect::<Vec<_>>());
        };
        ns_per(1, call) / pages as f64
    };
    Ok(paired(options, "pin.range", "ns/page", ours, "a call for each page", theirs))
}

/// Nanoseconds for a page, of `times` calls for `pages` each.
fn figure<'v>(
    options: &Options,
    name: &'static str,
    space: &AddressSpace<'v, TimedMachine>,
    base: VirtAddr,
    limit: &Limit,
    (pages, times): (usize, u64),
) -> Figure {
    let [mut fast, mut slow] =
        [(); 2].map(|()| (0..pages).map(|_| None).collect::<Vec<Slot<'v>>>().into_boxed_slice());
    let ours = || {
        let call = || drop(space.pin_pages(base, Access::Write, limit, &mut *fast).expect("pages are there"));
        ns_per(times, call) / pages as f64
    };
    let theirs = || {
        let call =
            || drop(space.pin_pages_slow(base, Access::Write, limit, &mut *slow).expect("pages are there"));
        ns_per(times, call) / pages as f64
    };
    paired(options, name, "ns/page", ours, "under the lock of the table", theirs)
}
