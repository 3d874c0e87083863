//! What do frames cost that come from the zone and go back to it, do two CPUs get twice as far, and how many
//! blocks of 2 MiB does a long mixed load leave?

mod replaced;

use super::yardstick::frames::CountedBuddy;
use super::{Bar, Benchmark, Figure, Options, alone, ns_per, paired, pinned_threads};
use crate::error::Failure;
use crate::machine::soft::{Fill, MachineConfig, SoftMachine};
use crate::measure::timed_machine::{self, TimedMachine};
use crate::rng::Rng;
use interleaf::frame::{AllocRequest, Folio, Frame, Memory};
use interleaf::space::{AddressSpace, Counter, Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, Order, PageSize, Pfn, PfnRange, VirtAddr};
use interleaf::vma::HugePolicy;
use std::collections::BTreeSet;
use std::hint::black_box;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "zone",
    question: "What do frames cost that go through the zone, and how many blocks of 2 MiB are left?",
    figures: &[
        "zone.huge",
        "zone.refill_two_cpus",
        "zone.blocks_left",
        "zone.blocks_left_movable",
        "zone.blocks_left_pinned",
        "zone.huge_faults_left",
        "zone.blocks_left_one_region",
        "zone.blocks_left_buddy",
        "zone.blocks_back",
        "zone.blocks_back_one_region",
        "zone.blocks_back_buddy",
        "zone.blocks_back_bursts",
    ],
    run,
};

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let machine = timed_machine::machine(options, options.size(1 << 16, 1 << 14))?;
    let entered = machine.enter(CpuId(0));
    let memory = timed_machine::memory(&machine)?;
    let pinned = options.pin();
    let mut figures = vec![huge(options, &memory)];
    drop((pinned, entered));
    figures.push(refill_two_cpus(options, &machine, &memory));
    figures.extend(blocks_left(options)?);
    figures.push(blocks_left_one_region(options)?);
    figures.push(blocks_left_buddy(options));
    figures.extend(replaced::figures(options)?);
    figures.push(blocks_back_bursts(options)?);
    Ok(figures)
}

/// A block of 2 MiB taken and given back.
fn huge(options: &Options, memory: &Memory<'_, TimedMachine>) -> Figure {
    let times = options.size(4_000, 20);
    let pair = || {
        let block = memory.alloc(Order::HUGE, AllocRequest::DIRTY).expect("nothing else is in use");
        black_box(block.pfn());
    };
    alone(options, "zone.huge", "ns", || ns_per(times, pair))
}

/// Frames per second of two CPUs that take and give back more than their caches hold, against one.
fn refill_two_cpus(options: &Options, machine: &TimedMachine, memory: &Memory<'_, TimedMachine>) -> Figure {
    const FRAMES: usize = 2048;
    let times = options.size(100, 2);
    let rate = |cpus: &[usize]| {
        let took = pinned_threads::together(cpus, |index| {
            let _entered = machine.enter(CpuId(index as u32));
            let mut held = Vec::with_capacity(FRAMES);
            for _ in 0..times {
                held.extend((0..FRAMES).map_while(|_| memory.alloc_frame(AllocRequest::DIRTY)));
                held.drain(..).for_each(drop);
            }
        });
        cpus.len() as f64 * times as f64 * FRAMES as f64 / took.as_secs_f64()
    };
    let both = &options.cpus[..timed_machine::nr_cpus(options) as usize];
    let ours = || rate(both);
    let figure = paired(options, "zone.refill_two_cpus", "frames/s", ours, "one CPU", || rate(&both[..1]));
    if both.len() < 2 { figure } else { figure.with_bar(Bar::AtLeast(1.9)) }
}

/// CPUs of the loads that are counted. One thread plays them in turns, so that every run counts the same.
const CPUS: u32 = 16;

/// A machine of so many CPUs.
fn counted_machine(frames: u64, nr_cpus: u32) -> Result<TimedMachine, Failure> {
    let regions = vec![PfnRange::new(Pfn(1 << 8), Pfn((1 << 8) + frames))];
    Ok(SoftMachine::new(&MachineConfig { nr_cpus, regions, fill: Fill::Sparse })?)
}

/// Frames of the mixed load: 1 GiB.
fn mixed_frames(options: &Options) -> u64 {
    options.size(1 << 18, 1 << 16)
}

/// Half of memory is in use; the CPUs replace frames and blocks of all orders at random. One frame in 32 that
/// is replaced is pinned from then on, until another pinned one takes its place.
fn blocks_left(options: &Options) -> Result<[Figure; 4], Failure> {
    let frames = mixed_frames(options);
    let machine = counted_machine(frames, CPUS)?;
    let vm = {
        let _entered = machine.enter(CpuId(0));
        timed_machine::vm_with(&machine, HugePolicy::Always)?
    };
    let memory = vm.memory();
    let load = Mixed::play(options, &machine, memory, CPUS);
    let _entered = machine.enter(CpuId(0));
    let free = free_blocks(memory);
    let with_pinned = areas(&load.pinned);
    let with_any = areas(&load.movable).union(&with_pinned).count() as u64;
    let percent = |blocks: u64| percent_of_half(frames, blocks);
    let of_movable = percent(with_any - with_pinned.len() as u64);
    let huge_faults = huge_faults(&vm, frames / 512)?;
    // While a CPU is entered: frames go back to its cache.
    drop(load);
    drop(vm);
    Ok([
        Figure::count("zone.blocks_left", percent(free), "% of half of memory is free blocks"),
        Figure::count("zone.blocks_left_movable", of_movable, "% of it is blocks of movable memory"),
        Figure::count(
            "zone.blocks_left_pinned",
            percent(with_pinned.len() as u64),
            "% of it is blocks with pinned memory",
        ),
        Figure::count("zone.huge_faults_left", percent(huge_faults), "% of it is given to huge faults"),
    ])
}

fn percent_of_half(frames: u64, blocks: u64) -> f64 {
    blocks as f64 * 100.0 / (frames / 2 / 512) as f64
}

/// The same load on a machine with one CPU, whose zone is one region with one lock.
fn blocks_left_one_region(options: &Options) -> Result<Figure, Failure> {
    let frames = mixed_frames(options);
    let machine = counted_machine(frames, 1)?;
    let memory = memory_of(&machine)?;
    let load = Mixed::play(options, &machine, &memory, 1);
    let _entered = machine.enter(CpuId(0));
    let percent = percent_of_half(frames, free_blocks(&memory));
    drop(load);
    Ok(Figure::count("zone.blocks_left_one_region", percent, "% of half of memory is free blocks"))
}

/// The same load, nothing pinned, on a buddy of ordered sets without caches, which takes the lowest address.
fn blocks_left_buddy(options: &Options) -> Figure {
    let frames = mixed_frames(options);
    let buddy = CountedBuddy::new(frames as usize);
    let mut rng = Rng::new(1);
    let mut held = Vec::new();
    let mut used = 0;
    while used < frames / 2 {
        let order = any_order(&mut rng);
        held.push((buddy.alloc(order).expect("half of memory is free"), order));
        used += order.frames();
    }
    for _ in 0..options.size(2_000, 40) {
        let mut olds = Vec::new();
        for _ in 0..300 {
            let at = rng.below(held.len() as u64) as usize;
            let order = held[at].1;
            if let Some(new) = buddy.alloc(order) {
                olds.push(std::mem::replace(&mut held[at], (new, order)));
            }
        }
        olds.into_iter().for_each(|(first, order)| buddy.free(first, order));
    }
    let percent = percent_of_half(frames, buddy.free_blocks());
    Figure::count("zone.blocks_left_buddy", percent, "% of half of memory is free blocks")
}

/// An order; of each order as many frames as of any other.
fn any_order(rng: &mut Rng) -> Order {
    Order((rng.bits() >> 20 | 1 << Order::MAX.0).trailing_zeros() as u8)
}

/// Stores to areas of 2 MiB, as many as memory has: how many get a huge page before one does not.
fn huge_faults(vm: &Vm<'_, TimedMachine>, areas: u64) -> Result<u64, Failure> {
    let layout = Layout::linux::<X86_64>().overcommit();
    let space = AddressSpace::new(vm, layout, Path::Speculative).map_err(Failure::of)?;
    let huge = PageSize::Huge.bytes();
    let start = space.map(&MapRequest::anonymous((areas + 1) * huge)).map_err(Failure::of)?;
    let first = start.0.next_multiple_of(huge);
    let fallbacks = || vm.totals().get(Counter::ThpFaultFallback);
    let before = fallbacks();
    let fault = |area: u64| {
        let fault = Fault { addr: VirtAddr(first + area * huge), access: Access::Write };
        space.fault(fault).is_ok() && fallbacks() == before
    };
    Ok((0..areas).take_while(|area| fault(*area)).count() as u64)
}

/// As in LLFree's benchmark, but a CPU takes 600 frames at a time and then frees as many, of which its cache
/// has a good part: nearly half of the frames come back where they were.
fn blocks_back_bursts(options: &Options) -> Result<Figure, Failure> {
    let frames: u64 = options.size(1 << 18, 1 << 16);
    let machine = counted_machine(frames, CPUS)?;
    let memory = memory_of(&machine)?;
    let mut rng = Rng::new(1);
    let take = || memory.alloc_frame(AllocRequest::DIRTY);
    let mut held = Vec::new();
    while held.len() < frames as usize * 95 / 100 {
        let _entered = machine.enter(CpuId(rng.below(CPUS.into()) as u32));
        held.extend((0..300).map_while(|_| take()));
    }
    while held.len() > frames as usize / 2 {
        let _entered = machine.enter(CpuId(rng.below(CPUS.into()) as u32));
        for _ in 0..300 {
            held.swap_remove(rng.below(held.len() as u64) as usize);
        }
    }
    for _ in 0..options.size(100, 4) * (held.len() as u64 / 10 / 600) {
        let _entered = machine.enter(CpuId(rng.below(CPUS.into()) as u32));
        // More than a cache holds.
        for new in (0..600).map_while(|_| take()).collect::<Vec<_>>() {
            let at = rng.below(held.len() as u64) as usize;
            held[at] = new;
        }
    }
    let _entered = machine.enter(CpuId(0));
    let (blocks, free) = (free_blocks(&memory), memory.stats().free());
    held.clear();
    Ok(Figure::count(
        "zone.blocks_back_bursts",
        blocks as f64 * 51_200.0 / free as f64,
        "% of what is free is blocks",
    ))
}

fn memory_of(machine: &TimedMachine) -> Result<Memory<'_, TimedMachine>, Failure> {
    let _entered = machine.enter(CpuId(0));
    timed_machine::memory(machine)
}

/// Free blocks of 2 MiB, caches drained.
fn free_blocks(memory: &Memory<'_, TimedMachine>) -> u64 {
    memory.drain();
    let blocks = memory.stats().free_blocks;
    blocks[9] + 2 * blocks[10]
}

/// The blocks of 2 MiB that some memory lies in.
fn areas(held: &[Folio<'_, TimedMachine>]) -> BTreeSet<u64> {
    held.iter().flat_map(|folio| folio.frames().start.0 / 512..folio.frames().end.0.div_ceil(512)).collect()
}

struct Mixed<'m> {
    memory: &'m Memory<'m, TimedMachine>,
    rng: Rng,
    movable: Vec<Folio<'m, TimedMachine>>,
    pinned: Vec<Folio<'m, TimedMachine>>,
}

impl<'m> Mixed<'m> {
    /// Takes half of memory, in turns, and replaces what was taken, each time more than a cache holds.
    fn play(
        options: &Options,
        machine: &TimedMachine,
        memory: &'m Memory<'m, TimedMachine>,
        nr_cpus: u32,
    ) -> Self {
        let mut load = Self { memory, rng: Rng::new(1), movable: Vec::new(), pinned: Vec::new() };
        let mut used = 0;
        for turn in 0.. {
            let _entered = machine.enter(CpuId(turn % nr_cpus));
            if used >= mixed_frames(options) / 2 {
                break;
            }
            used += load.take();
        }
        for _ in 0..options.size(2_000, 40) {
            let _entered = machine.enter(CpuId(load.rng.below(nr_cpus.into()) as u32));
            load.replace(300);
        }
        load
    }

    fn block(&self, order: Order) -> Option<Folio<'m, TimedMachine>> {
        match order {
            Order::BASE => {
                self.memory.alloc_frame(AllocRequest::DIRTY).map(|frame: Frame<'_, _>| frame.into())
            }
            order => self.memory.alloc(order, AllocRequest::DIRTY),
        }
    }

    /// Takes a block, if one is free, each order as many frames as any other. Returns how many frames.
    fn take(&mut self) -> u64 {
        let order = any_order(&mut self.rng);
        let Some(taken) = self.block(order) else { return 0 };
        self.movable.push(taken);
        order.frames()
    }

    /// Takes blocks of the orders of some that are held, and gives those back.
    fn replace(&mut self, blocks: usize) {
        let is_pinned: Vec<_> = (0..blocks).map(|_| self.rng.chance(1, 32)).collect();
        let mut olds = Vec::new();
        for is_pinned in is_pinned {
            let at = self.rng.below(self.movable.len() as u64) as usize;
            let order = self.movable[at].order();
            let Some(new) = self.block(order) else { continue };
            let enough = self.pinned.len() * 32 > self.movable.len();
            if is_pinned && order == Order::BASE && !enough {
                self.pinned.push(new);
                olds.push(self.movable.swap_remove(at));
            } else if is_pinned && order == Order::BASE {
                let at = self.rng.below(self.pinned.len() as u64) as usize;
                olds.push(std::mem::replace(&mut self.pinned[at], new));
            } else {
                olds.push(std::mem::replace(&mut self.movable[at], new));
            }
        }
    }
}
