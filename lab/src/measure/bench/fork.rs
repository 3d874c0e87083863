//! What does fork cost for each page that parent and child share, beside the host's own?
//!
//! 1 GiB of private memory in base pages where the host has 6 GiB to give, else 64 MiB, each written to,
//! whose frames the library has handed out in runs; 2 MiB at small size. The yardstick is the fork of a host
//! process of its own with as much memory, in CPU time ([`ForkingProcess`]); what else that process has drops
//! out. Our side is in elapsed time.
//!
//! `fork.share` is the fork, `fork.exit` the end of the child, which wrote nothing. `fork.unmap_shared` is
//! the parent's munmap while the child has the memory too, and `fork.unmap_flushes` counts its flushes.
//! `fork.*_touched` are the same three against loops that touch as many entries and records ([`Touched`]): on
//! one machine a locked instruction takes 5 ns, on another 11, and each page takes one, ours or the host's.
//! `fork.copy` is a write fault of the parent that copies its page, less the time of copying the same frames
//! taken right after, of 1 MiB. `fork.shuffled_*` are the same of a space whose pages were written in an
//! order drawn by chance, so that neighbours have frames far from each other; without a bar.
//!
//! A round of either side gives all three: what it takes to map, fill and share 1 GiB is paid once for them.
//! Of that size there are 11 pairs at most.

use super::touched::Touched;
use super::{Bar, Benchmark, Figure, Options, alone, paired};
use crate::error::Failure;
use crate::measure::timed_machine::{self, TimedMachine};
use crate::os::fork_cost::ForkingProcess;
use crate::os::memory::available_bytes;
use crate::rng::Rng;
use interleaf::frame::FrameRef;
use interleaf::space::{AddressSpace, Counter, Fault, Layout, MapRequest, Path, Place, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr, Vpn};
use std::cell::RefCell;
use std::time::Instant;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "fork",
    question: "What does fork cost for each page that parent and child share?",
    figures: &[
        "fork.share",
        "fork.exit",
        "fork.unmap_shared",
        "fork.share_touched",
        "fork.exit_touched",
        "fork.unmap_touched",
        "fork.unmap_flushes",
        "fork.shuffled_share",
        "fork.shuffled_exit",
        "fork.shuffled_unmap",
        "fork.copy",
    ],
    run,
};

const PAGE: u64 = PAGE_SIZE as u64;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let pages = options.size(full_pages(), 2 << 8);
    let copied = options.size(256, 16);
    let pinned = options.pin();
    // Before the machine has memory, which the process would get a copy of.
    let process = ForkingProcess::start((pages * PAGE) as usize).map_err(Failure::of)?;
    let machine = timed_machine::machine(options, 2 * pages + 4096)?;
    let entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    let parent = Parent::new(&vm, (0..pages).collect())?;
    let few = &fewer_pairs(options, pages);
    let bench = Bench { options: few, process: RefCell::new(process), parent };
    let [share, exit, unmap] = bench.against_host(["fork.share", "fork.exit", "fork.unmap_shared"]);
    let mut figures = vec![
        share.with_bar(Bar::AtMost(0.4)),
        exit.with_bar(Bar::AtMost(0.4)),
        unmap.with_bar(Bar::AtMost(0.4)),
    ];
    figures.extend(bench.against_loops().map(|figure| figure.with_bar(Bar::AtMost(2.0))));
    figures.push(bench.unmap_flushes());
    let Bench { process, parent, .. } = bench;
    drop(parent);
    let parent = Parent::new(&vm, shuffled(pages, options.seed))?;
    let bench = Bench { options: few, process, parent };
    let shuffled = bench.against_host(["fork.shuffled_share", "fork.shuffled_exit", "fork.shuffled_unmap"]);
    figures.extend(shuffled.map(|figure| figure.with_bar(Bar::AtMost(0.5))));
    drop(bench);
    figures.push(copy(options, &Parent::new(&vm, (0..copied).collect())?));
    drop((entered, pinned));
    Ok(figures)
}

/// Pages at full size: this library's machine has twice as many, the host's process and its child once.
pub(super) fn full_pages() -> u64 {
    let is_large = available_bytes().is_some_and(|bytes| bytes >= 6 << 30);
    if is_large { 1 << 18 } else { 64 << 8 }
}

/// The options with fewer pairs where each takes seconds.
pub(super) fn fewer_pairs(options: &Options, pages: u64) -> Options {
    let most = if pages >= 1 << 18 { 11 } else { usize::MAX };
    Options { pairs: options.pairs.min(most), ..options.clone() }
}

/// The numbers below `pages`, in an order drawn by chance.
fn shuffled(pages: u64, seed: u64) -> Vec<u64> {
    let (mut order, mut rng) = ((0..pages).collect::<Vec<_>>(), Rng::new(seed));
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    order
}

type Space<'v> = AddressSpace<'v, TimedMachine>;

type UserFrame<'s> = FrameRef<'s, TimedMachine>;

/// A space whose one mapping is present.
struct Parent<'v> {
    space: Space<'v>,
    base: VirtAddr,
    pages: u64,
    /// The order in which the pages are written.
    order: Vec<u64>,
}

impl<'v> Parent<'v> {
    fn new(vm: &'v Vm<'v, TimedMachine>, order: Vec<u64>) -> Result<Self, Failure> {
        let pages = order.len() as u64;
        let space =
            Space::new(vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative).map_err(Failure::of)?;
        let base = space.map(&MapRequest::anonymous(pages * PAGE)).map_err(Failure::of)?;
        let parent = Self { space, base, pages, order };
        parent.write();
        Ok(parent)
    }

    /// Writes to every page, so that its frame is this space's alone; nanoseconds for all.
    fn write(&self) -> f64 {
        time(|| {
            for index in &self.order {
                let addr = VirtAddr(self.base.0 + index * PAGE);
                self.space.fault(Fault { addr, access: Access::Write }).expect("the mapping is writable");
            }
        })
    }

    fn fork(&self) -> Space<'v> {
        self.space.fork().expect("there is memory for the child's tables")
    }

    /// Ends the child; nanoseconds of that. The next fork finds the parent as this one did.
    fn end(&self, child: Space<'v>) -> f64 {
        let took = time(|| drop(child));
        self.write();
        self.space.vm().synchronize();
        took
    }

    /// Nanoseconds of a fork, of the end of the child, and of a munmap of what another child has too.
    fn costs(&self) -> [f64; 3] {
        let start = Instant::now();
        let child = self.fork();
        let share = start.elapsed().as_nanos() as f64;
        let exit = self.end(child);
        let child = self.fork();
        let unmap = time(|| self.unmap());
        self.map_again();
        self.end(child);
        [share, exit, unmap]
    }

    fn unmap(&self) {
        self.space.unmap(self.base, self.pages * PAGE).expect("it is mapped");
    }

    fn map_again(&self) {
        let request = MapRequest::anonymous(self.pages * PAGE);
        let request = MapRequest { place: Place::Fixed(self.base), ..request };
        self.space.map(&request).expect("it was unmapped");
    }

    /// The frames of `space`, this one or its child, in the order of their pages.
    fn frames<'s>(&self, space: &'s Space<'v>) -> Vec<UserFrame<'s>> {
        let (first, memory) = (self.base.vpn(), space.vm().memory());
        let frame = |index| space.inspect().resident_frame(Vpn(first.0 + index)).expect("it was written").0;
        (0..self.pages).map(|index| memory.try_get(frame(index)).expect("user memory")).collect()
    }
}

/// Nanoseconds of `work`.
fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64
}

struct Bench<'a, 'v> {
    options: &'a Options,
    process: RefCell<ForkingProcess>,
    parent: Parent<'v>,
}

/// What a round of a side takes for a page: a fork, the end of its child, and a munmap of shared memory.
type Costs = [f64; 3];

impl Bench<'_, '_> {
    /// The three costs against the host's.
    fn against_host(&self, names: [&'static str; 3]) -> [Figure; 3] {
        self.against(names, "the host's own, of as much memory", |pages| {
            let cost = self.process.borrow_mut().measure().expect("the host forks");
            [cost.fork, cost.exit, cost.unmap_shared].map(|ns| ns as f64 / pages)
        })
    }

    /// The three costs against loops over as many entries and records.
    fn against_loops(&self) -> [Figure; 3] {
        let touched = Touched::new(self.parent.pages);
        let names = ["fork.share_touched", "fork.exit_touched", "fork.unmap_touched"];
        self.against(names, "entries and records touched", |_| {
            [touched.share(), touched.give_up(), touched.unmap()]
        })
    }

    /// Our three costs against those of `theirs`, which is given the number of pages, of the same rounds.
    fn against(
        &self,
        names: [&'static str; 3],
        yardstick: &'static str,
        theirs: impl Fn(f64) -> Costs,
    ) -> [Figure; 3] {
        let pages = self.parent.pages as f64;
        let rounds = [const { RefCell::new(Vec::<Costs>::new()) }; 2];
        let [ours, others] = &rounds;
        let noted = |side: &RefCell<Vec<Costs>>, costs: Costs| {
            side.borrow_mut().push(costs);
            costs[0]
        };
        let running = self.parent.space.activate(None);
        let our_round = || noted(ours, self.parent.costs().map(|ns| ns / pages));
        let their_round = || noted(others, theirs(pages));
        let share = paired(self.options, names[0], "ns/page", our_round, yardstick, their_round);
        drop(running);
        let again = |which: usize| {
            let [ours, others] = [ours, others].map(|side| side.borrow());
            let mut ours = ours.iter().map(|costs| costs[which]);
            let mut others = others.iter().map(|costs| costs[which]);
            let ours = || ours.next().expect("as many rounds as before");
            let others = || others.next().expect("as many rounds as before");
            paired(self.options, names[which], "ns/page", ours, yardstick, others)
        };
        [share, again(1), again(2)]
    }

    fn unmap_flushes(&self) -> Figure {
        let flushes = || self.parent.space.vm().totals().get(Counter::TlbFlush);
        let running = self.parent.space.activate(None);
        let child = self.parent.fork();
        let before = flushes();
        self.parent.unmap();
        let flushed = flushes() - before;
        self.parent.map_again();
        self.parent.end(child);
        drop(running);
        Figure::count("fork.unmap_flushes", flushed as f64, "flushes").with_bar(Bar::Exactly(1.0))
    }
}

fn copy(options: &Options, parent: &Parent<'_>) -> Figure {
    let rounds = options.size(40, 2);
    let machine = parent.space.vm().machine();
    let handler = || {
        let mut total = 0.0;
        for _ in 0..rounds {
            let child = parent.fork();
            let faults = parent.write();
            let (from, to) = (parent.frames(&child), parent.frames(&parent.space));
            let copies = time(|| from.iter().zip(&to).for_each(|(from, to)| machine.copy_user(from, to)));
            total += faults - copies;
            drop((from, to));
            parent.end(child);
        }
        total / (rounds * parent.pages) as f64
    };
    let running = parent.space.activate(None);
    let figure = alone(options, "fork.copy", "ns/page", handler);
    drop(running);
    figure
}
