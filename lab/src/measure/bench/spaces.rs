//! Do two CPUs that never meet map and unmap twice as much as one?
//!
//! Each CPU works in a space of its own, of one system; nothing that it asks for concerns the other. What
//! keeps the two from doing twice one CPU's work is therefore what the system shares: the epoch of RCU and
//! its barriers, the memory's free lists, lines that both write. Scaling is the rate of two CPUs divided by
//! that of one, and is held against the scaling of something that shares nothing, in the same moments: pure
//! computation, or zeroing the same amount of memory. The same in one space stands beside, without a bar:
//! there writers take one lock.
//!
//! `spaces.lines` is counted on the machine that records shared accesses, and lists the lines by name.

use super::{Bar, Benchmark, Figure, Options, alone, counted, paired, pinned_threads};
use crate::error::Failure;
use crate::machine::host::{Host, TaskSpace, with_switch_notifier};
use crate::machine::soft::Flavour;
use crate::measure::timed_machine::{self, TimedMachine};
use interleaf::frame::FrameRef;
use interleaf::space::{AddressSpace, Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr, Vpn};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Instant;

/// How two CPUs scale.
pub const SCALING: Benchmark = Benchmark {
    name: "spaces.scaling",
    question: "Do two CPUs map and unmap twice as much as one, in two spaces and in one?",
    figures: &[
        "spaces.compute",
        "spaces.map_unmap",
        "spaces.touch",
        "spaces.one_map_unmap",
        "spaces.one_touch",
    ],
    run: |options| with_spaces(options, scaling),
};

/// What they both write.
pub const SHARED: Benchmark = Benchmark {
    name: "spaces.shared",
    question: "Which lines do two CPUs both write that map and unmap in two spaces?",
    figures: &["spaces.lines"],
    run: |options| {
        counted::figures(options, "spaces.shared", [("spaces.lines", "writes/pair")], Bar::AtMost(0.5))
    },
};

/// What waits for readers meanwhile.
pub const WAITING: Benchmark = Benchmark {
    name: "spaces.waiting",
    question: "How much waits to be freed while two CPUs map and unmap, and how long is a grace period?",
    figures: &["spaces.garbage", "spaces.grace_period"],
    run: |options| with_spaces(options, |bench| vec![bench.garbage(), bench.grace_period()]),
};

/// Where the CPUs map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// Each in a space of its own.
    TwoSpaces,
    /// All in one.
    OneSpace,
}

pub(super) type Space<'v> = AddressSpace<'v, TimedMachine>;

type UserFrame<'s> = FrameRef<'s, TimedMachine>;

/// 256 MiB: as much garbage as a CPU of a large machine may hold.
pub(super) const FRAMES: u64 = 1 << 16;
const PAGE: u64 = PAGE_SIZE as u64;
/// Pairs of a MiB in two spaces that take about 10 ms.
pub(super) const PAIRS: u64 = 30_000;
/// Pages of a mapping that is touched.
const TOUCHED: u64 = 64;

fn scaling(bench: &Bench<'_, '_>) -> Vec<Figure> {
    vec![
        bench.compute(),
        bench.map_unmap("spaces.map_unmap", Where::TwoSpaces),
        bench.touch("spaces.touch", Where::TwoSpaces),
        bench.map_unmap("spaces.one_map_unmap", Where::OneSpace),
        bench.touch("spaces.one_touch", Where::OneSpace),
    ]
}

/// Measures with a space for each CPU.
fn with_spaces(
    options: &Options,
    measure: impl FnOnce(&Bench<'_, '_>) -> Vec<Figure>,
) -> Result<Vec<Figure>, Failure> {
    let machine = timed_machine::machine(options, FRAMES)?;
    let cpus = &options.cpus[..timed_machine::nr_cpus(options) as usize];
    let entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    let space = |_: &usize| Space::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative);
    let spaces: Vec<Space<'_>> = cpus.iter().map(space).collect::<Result<_, _>>().map_err(Failure::of)?;
    let frames: Vec<Vec<UserFrame<'_>>> = spaces.iter().map(touched_frames).collect();
    drop(entered);
    let figures = measure(&Bench { options, cpus, vm: &vm, spaces: &spaces, frames: &frames });
    // A space ends on a CPU.
    let _entered = machine.enter(CpuId(0));
    drop(frames);
    drop(spaces);
    Ok(figures)
}

/// The frames of a mapping that stays, in the order of its pages.
fn touched_frames<'s>(space: &'s Space<'_>) -> Vec<UserFrame<'s>> {
    let (base, memory) = (map_and_touch(space), space.vm().memory());
    let frame = |page| space.inspect().resident_frame(Vpn(base.vpn().0 + page)).expect("it was touched").0;
    (0..TOUCHED).map(|page| memory.try_get(frame(page)).expect("user memory")).collect()
}

fn map_and_touch(space: &Space<'_>) -> VirtAddr {
    let base = space.map(&MapRequest::anonymous(TOUCHED * PAGE)).expect("an empty space has room");
    for page in 0..TOUCHED {
        let addr = VirtAddr(base.0 + page * PAGE);
        space.fault(Fault { addr, access: Access::Write }).expect("the mapping is writable");
    }
    base
}

fn map_touch_unmap(space: &Space<'_>) {
    space.unmap(map_and_touch(space), TOUCHED * PAGE).expect("it is mapped");
}

/// A MiB, untouched.
pub(super) fn map_unmap(space: &Space<'_>) {
    let request = MapRequest::anonymous(1 << 20);
    let base = space.map(&request).expect("an empty space has room");
    space.unmap(base, request.len_bytes).expect("it is mapped");
}

/// Independent chains of multiplications, which fill the CPU.
fn compute() {
    let mut lanes = black_box([1u64, 2, 3, 4]);
    for _ in 0..64 {
        for lane in &mut lanes {
            *lane = lane.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17) ^ 0x9E37_79B9;
        }
    }
    black_box(lanes);
}

/// The rate of all CPUs divided by that of the first alone.
pub(super) fn scaling_on(cpus: &[usize], rate: impl Fn(&[usize]) -> f64) -> f64 {
    rate(cpus) / rate(&cpus[..1])
}

pub(super) fn scaling_of_compute(options: &Options, cpus: &[usize]) -> f64 {
    let times = options.size(50_000, 20);
    scaling_on(cpus, |cpus| pinned_threads::rate(cpus, times, |_| compute()))
}

struct Bench<'a, 'v> {
    options: &'a Options,
    /// The host CPUs under the machine's, two where the host has them.
    cpus: &'a [usize],
    vm: &'a Vm<'v, TimedMachine>,
    /// One for each CPU.
    spaces: &'a [Space<'v>],
    /// For each CPU, frames of its space.
    frames: &'a [Vec<UserFrame<'a>>],
}

impl Bench<'_, '_> {
    fn scaling(&self, rate: impl Fn(&[usize]) -> f64) -> f64 {
        scaling_on(self.cpus, rate)
    }

    fn scaling_of_compute(&self) -> f64 {
        scaling_of_compute(self.options, self.cpus)
    }

    /// Each CPU zeroes frames of its own again and again.
    fn scaling_of_memset(&self) -> f64 {
        let (times, machine) = (self.options.size(1500, 2), self.vm.machine());
        let zero = |index: usize| self.frames[index].iter().for_each(|frame| machine.zero_user(frame));
        self.scaling(|cpus| pinned_threads::rate(cpus, times, zero))
    }

    /// Runs `work` on the CPUs, each with its number among them and the space that it runs.
    fn together(&self, cpus: &[usize], place: Where, work: impl Fn(usize, &Space<'_>) + Sync) -> f64 {
        let took = pinned_threads::together(cpus, |index| {
            let _entered = self.vm.machine().enter(CpuId(index as u32));
            let space = &self.spaces[if place == Where::TwoSpaces { index } else { 0 }];
            let running = TaskSpace::new(space);
            with_switch_notifier(&running, || work(index, space));
        });
        took.as_secs_f64()
    }

    /// Scaling of `work`, done `times` times by each CPU.
    fn scaling_of(&self, place: Where, times: u64, work: fn(&Space<'_>)) -> f64 {
        self.scaling(|cpus| {
            let took = self.together(cpus, place, |_, space| repeat(times, || work(space)));
            cpus.len() as f64 * times as f64 / took
        })
    }

    fn compute(&self) -> Figure {
        alone(self.options, "spaces.compute", "times", || self.scaling_of_compute())
    }

    fn map_unmap(&self, name: &'static str, place: Where) -> Figure {
        let times = self.options.size(self.pairs(place), 20);
        let ours = || self.scaling_of(place, times, map_unmap);
        let theirs = || self.scaling_of_compute();
        self.judged(paired(self.options, name, "times", ours, "computation", theirs), place)
    }

    fn touch(&self, name: &'static str, place: Where) -> Figure {
        let times = self.options.size(self.pairs(place) / 20, 2);
        let ours = || self.scaling_of(place, times, map_touch_unmap);
        let theirs = || self.scaling_of_memset();
        self.judged(paired(self.options, name, "times", ours, "memset", theirs), place)
    }

    /// Pairs that take about 10 ms.
    fn pairs(&self, place: Where) -> u64 {
        if place == Where::TwoSpaces { PAIRS } else { 10_000 }
    }

    /// With one CPU nothing scales; in one space writers take a lock.
    fn judged(&self, figure: Figure, place: Where) -> Figure {
        let has_bar = self.cpus.len() > 1 && place == Where::TwoSpaces;
        if has_bar { figure.with_bar(Bar::AtLeast(0.92)) } else { figure }
    }

    /// The most objects that waited for their grace period, while each CPU maps and unmaps in its space.
    fn garbage(&self) -> Figure {
        let times = self.options.size(20_000, 20);
        let peak = || {
            let most = AtomicU64::new(0);
            self.together(self.cpus, Where::TwoSpaces, |_, space| {
                repeat(times, || {
                    map_unmap(space);
                    // Relaxed: a figure that nothing depends on.
                    most.fetch_max(self.vm.garbage(), Relaxed);
                });
            });
            most.load(Relaxed) as f64
        };
        alone(self.options, "spaces.garbage", "objects", peak)
    }

    /// The longest wait for a grace period on one CPU, while the other maps and unmaps in its space.
    fn grace_period(&self) -> Figure {
        let times = self.options.size(200, 5);
        let longest = || {
            let (most, done) = (AtomicU64::new(0), AtomicBool::new(false));
            let synchronize = || {
                let start = Instant::now();
                self.vm.synchronize();
                most.fetch_max(start.elapsed().as_nanos() as u64, Relaxed);
            };
            self.together(self.cpus, Where::TwoSpaces, |index, space| {
                if index + 1 == self.cpus.len() {
                    repeat(times, synchronize);
                    done.store(true, Relaxed);
                }
                while !done.load(Relaxed) {
                    repeat(1, || map_unmap(space));
                }
            });
            most.load(Relaxed) as f64 / 1000.0
        };
        alone(self.options, "spaces.grace_period", "us", longest)
    }
}

/// Does `work` again and again, as user code does that may be interrupted.
pub(super) fn repeat(times: u64, mut work: impl FnMut()) {
    for _ in 0..times {
        work();
        Host::boundary();
    }
}
