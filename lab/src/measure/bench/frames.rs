//! What does a frame cost to get and to give back, beside a buddy of ordered sets, and do two CPUs get twice
//! as far?

use super::{Bar, Benchmark, Figure, Options, ns_per, paired, pinned_threads, yardstick};
use crate::error::Failure;
use crate::machine::host::Host;
use crate::measure::timed_machine::{self, TimedMachine};
use interleaf::frame::{AllocRequest, Frame, FrameMeta, Memory};
use interleaf::units::CpuId;
use std::hint::black_box;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "frame",
    question: "What does it cost to get a frame and to give it back, on one CPU and on two?",
    figures: &["frame.pair", "frame.pair_used", "frame.batch", "frame.two_cpus", "frame.bytes"],
    run,
};

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let nr_frames = options.size(1 << 16, 1 << 12);
    let machine = timed_machine::machine(options, nr_frames as u64)?;
    let entered = machine.enter(CpuId(0));
    let memory = timed_machine::memory(&machine)?;
    let pinned = options.pin();
    let mut figures = pairs(options, &memory, nr_frames);
    figures.push(batch(options, &memory, nr_frames));
    drop((pinned, entered));
    figures.push(two_cpus(options, &machine, &memory));
    figures.push(Figure::count("frame.bytes", size_of::<FrameMeta<Host>>() as f64, "bytes per frame"));
    Ok(figures)
}

#[inline(always)]
fn take<'a>(memory: &'a Memory<'_, TimedMachine>) -> Frame<'a, TimedMachine> {
    memory.alloc_frame(AllocRequest::DIRTY).expect("a benchmark never uses up its frames")
}

#[inline(always)]
fn pair(memory: &Memory<'_, TimedMachine>) {
    // The number alone: what passes through memory there is no part of the pair.
    let frame = take(memory);
    black_box(frame.pfn());
    drop(frame);
}

/// One frame, against their best and their worst case; ours has one case.
fn pairs(options: &Options, memory: &Memory<'_, TimedMachine>, nr_frames: usize) -> Vec<Figure> {
    let times = options.size(10_000, 50);
    let ours = || ns_per(times, || pair(memory));
    let fresh = yardstick::frames::buddy_pair_fresh(nr_frames, times);
    let used = yardstick::frames::buddy_pair_used(nr_frames, times);
    vec![
        paired(options, "frame.pair", "ns", ours, "buddy_system_allocator, all free", fresh)
            .with_bar(Bar::AtMost(0.05)),
        paired(options, "frame.pair_used", "ns", ours, "buddy_system_allocator, half in use", used),
    ]
}

/// Many frames taken, then given back: what no cache of a few frames can hide.
fn batch(options: &Options, memory: &Memory<'_, TimedMachine>, nr_frames: usize) -> Figure {
    let batch = options.size(4096, 64);
    let mut taken = Vec::with_capacity(batch);
    let ours = || {
        let all = ns_per(1, || {
            taken.extend((0..batch).map(|_| take(memory)));
            taken.drain(..).for_each(drop);
        });
        all / batch as f64
    };
    let theirs = yardstick::frames::buddy_batch(nr_frames, batch);
    paired(options, "frame.batch", "ns", ours, "buddy_system_allocator", theirs)
        .with_bar(Bar::AtMost(1.0 / 3.0))
}

/// Pairs per second of two CPUs against one; with one CPU there is nothing to ask and no bar.
fn two_cpus(options: &Options, machine: &TimedMachine, memory: &Memory<'_, TimedMachine>) -> Figure {
    let times = options.size(200_000, 100);
    let rate = |cpus: &[usize]| {
        let took = pinned_threads::together(cpus, |index| {
            let _entered = machine.enter(CpuId(index as u32));
            (0..times).for_each(|_| pair(memory));
        });
        cpus.len() as f64 * f64::from(times) / took.as_secs_f64()
    };
    let both = &options.cpus[..timed_machine::nr_cpus(options) as usize];
    let ours = || rate(both);
    let figure = paired(options, "frame.two_cpus", "pairs/s", ours, "one CPU", || rate(&both[..1]));
    if both.len() < 2 { figure } else { figure.with_bar(Bar::AtLeast(1.8)) }
}
