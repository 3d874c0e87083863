//! How fast is a frame table initialised, and how soon does the first allocation succeed?
//!
//! The yardstick is the best streaming store of the host over as many bytes, dirty and present as the records
//! are, by the same CPUs. Ours writes them block by block, links the heads, and gives every block to its
//! zone.

use super::{Bar, Benchmark, Figure, Options, alone, paired, pinned_threads};
use crate::error::Failure;
use crate::machine::soft::stream::{self, Width};
use crate::measure::init::boot::InitMode;
use crate::measure::init::{Boot, BootMachine, Holes, MemoryMap};
use crate::measure::timed_machine::TimedMachine;
use crate::os::memory::prefer_huge_pages;
use interleaf::frame::{AllocRequest, Frame, Memory, Priority};
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "init",
    question: "How fast is a frame table initialised, and how soon does the first allocation succeed?",
    figures: &[
        "init.written",
        "init.written_two_cpus",
        "init.speedup",
        "init.cpu_all_written",
        "init.cpu_at_start",
        "init.first",
        "init.all_written",
        "init.first_use",
        "init.record_size",
        "init.bytes_at_start",
        "init.bytes_all_written",
    ],
    run,
};

const GIB: u64 = 1 << 30;
const STORE: &str = "best streaming store, same bytes";

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let _pinned = options.pin();
    let mut figures = written_and_cpu(options)?;
    type Measure = fn(&Options) -> Result<Figure, Failure>;
    let alone: [(&str, Measure); 4] = [
        ("init.first", first),
        ("init.all_written", all_written),
        ("init.first_use", first_use),
        ("init.record_size", |options| Ok(record_size(options))),
    ];
    for (_, measure) in alone.iter().filter(|(name, _)| options.wants(name)) {
        figures.push(measure(options)?);
    }
    if COUNTED.iter().any(|name| options.wants(name)) {
        figures.extend(counted(options)?);
    }
    Ok(figures)
}

const COUNTED: [&str; 2] = ["init.bytes_at_start", "init.bytes_all_written"];

/// Bytes of records for each GiB of memory.
fn counted(options: &Options) -> Result<[Figure; 2], Failure> {
    let bytes = full_bytes(options);
    let boot = BootMachine::new(&map(bytes), &options.cpus[..1])?.boot(InitMode::Job(1))?;
    let (start, all) = (boot.first_bytes, boot.first_bytes + boot.rest_bytes);
    let per_gib = |bytes_written: u64| bytes_written as f64 / (bytes as f64 / GIB as f64);
    let figure = |name, bytes| Figure::count(name, per_gib(bytes), "bytes/GiB");
    Ok([figure(COUNTED[0], start), figure(COUNTED[1], all)])
}

/// The figures that are measured on the large machine.
fn written_and_cpu(options: &Options) -> Result<Vec<Figure>, Failure> {
    type Measure<'b> = fn(&Bench<'b>, &'static str) -> Result<Figure, Failure>;
    let large: [(&str, Measure); 5] = [
        ("init.written", |bench, name| bench.written(name, 1)),
        ("init.written_two_cpus", |bench, name| bench.written(name, bench.cpus())),
        ("init.speedup", Bench::speedup),
        ("init.cpu_all_written", |bench, name| {
            Ok(bench.cpu(name, InitMode::Job(1))?.with_bar(Bar::AtMost(2.0)))
        }),
        ("init.cpu_at_start", |bench, name| {
            Ok(bench.cpu(name, InitMode::Needed)?.with_bar(Bar::AtMost(0.2)))
        }),
    ];
    if !large.iter().any(|(name, _)| options.wants(name)) {
        return Ok(Vec::new());
    }
    let bench = Bench::new(options)?;
    large
        .iter()
        .filter(|(name, _)| options.wants(name))
        .map(|(name, measure)| measure(&bench, name))
        .collect()
}

/// Of the machine whose records are far larger than the caches.
fn full_bytes(options: &Options) -> u64 {
    options.size(16 * GIB, GIB / 8)
}

fn map(bytes: u64) -> MemoryMap {
    MemoryMap { frames: bytes / 4096, nodes: 1, holes: Holes::None }
}

/// A table far larger than the caches, and as many bytes beside it for the yardstick.
struct Bench<'a> {
    options: &'a Options,
    bytes: u64,
    boot_machine: BootMachine,
    /// Half for each CPU.
    halves: [Bytes; 2],
    width: Width,
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options) -> Result<Self, Failure> {
        let bytes = full_bytes(options);
        let boot_machine = BootMachine::new(&map(bytes), &options.cpus[..options.cpus.len().min(2)])?;
        let records = boot_machine.boot(InitMode::Job(1))?.rest_bytes as usize;
        let halves = [0, 1].map(|_| present(records / 2));
        let width = best_width(&halves[0]);
        Ok(Self { options, bytes, boot_machine, halves, width })
    }

    fn cpus(&self) -> usize {
        self.options.cpus.len().min(2)
    }

    fn gib(&self) -> f64 {
        self.bytes as f64 / GIB as f64
    }

    /// ms for each GiB of memory that a job of this number of threads takes.
    fn ours(&self, threads: usize) -> Result<f64, Failure> {
        Ok(self.boot_machine.boot(InitMode::Job(threads))?.rest_ns / 1e6 / self.gib())
    }

    /// The same for the yardstick.
    fn theirs(&self, cpus: usize) -> f64 {
        self.halves.iter().for_each(soil);
        let zero = |half: &Bytes| zero(half, self.width);
        let took = if cpus == 1 {
            let start = Instant::now();
            self.halves.iter().for_each(zero);
            start.elapsed()
        } else {
            pinned_threads::together(&self.options.cpus[..cpus], |index| zero(&self.halves[index]))
        };
        took.as_secs_f64() * 1e3 / self.gib()
    }

    fn written(&self, name: &'static str, cpus: usize) -> Result<Figure, Failure> {
        let mut failed = Ok(());
        let ours = || or_note(self.ours(cpus), &mut failed);
        let figure = paired(self.options, name, "ms/GiB", ours, STORE, || self.theirs(cpus));
        failed.map(|()| figure.with_bar(Bar::AtMost(1.25)))
    }

    /// With one CPU there is nothing to ask and no bar.
    fn speedup(&self, name: &'static str) -> Result<Figure, Failure> {
        let (mut failed, cpus) = (Ok(()), self.cpus());
        let ours = || {
            let both = self.ours(1).and_then(|one| Ok(one / self.ours(cpus)?));
            or_note(both, &mut failed)
        };
        let theirs = || self.theirs(1) / self.theirs(cpus);
        let figure = paired(self.options, name, "times", ours, "the store's own", theirs);
        failed.map(|()| if cpus < 2 { figure } else { figure.with_bar(Bar::AtLeast(0.95)) })
    }

    /// CPU time of a boot, for each GiB of memory.
    fn cpu(&self, name: &'static str, when: InitMode) -> Result<Figure, Failure> {
        let mut failed = Ok(());
        let ours =
            || or_note(self.boot_machine.boot(when).map(|boot| boot.cpu_ns / 1e6 / self.gib()), &mut failed);
        let figure = alone(self.options, name, "ms/GiB", ours);
        failed.map(|()| figure)
    }
}

/// The value, or 1 and a note of what went wrong.
fn or_note(result: Result<f64, Failure>, failed: &mut Result<(), Failure>) -> f64 {
    result.unwrap_or_else(|failure| {
        *failed = Err(failure);
        1.0
    })
}

/// Bytes that are present, in memory like that of the machines that ours are timed on.
type Bytes = Mutex<Vec<u8>>;

fn present(len: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(len);
    prefer_huge_pages(bytes.spare_capacity_mut());
    bytes.resize(len, 0xA5);
    Mutex::new(bytes)
}

fn soil(bytes: &Bytes) {
    bytes.lock().unwrap_or_else(PoisonError::into_inner).fill(0xA5);
}

fn zero(bytes: &Bytes, width: Width) {
    stream::zero(black_box(&mut bytes.lock().unwrap_or_else(PoisonError::into_inner)), width);
}

/// The fastest of three over all that the host has.
fn best_width(half: &Bytes) -> Width {
    let once = |width| {
        soil(half);
        let start = Instant::now();
        zero(half, width);
        start.elapsed()
    };
    let best = |width: &Width| (0..3).map(|_| once(*width)).min();
    Width::on_this_host().into_iter().min_by_key(best).unwrap_or(Width::Sse)
}

/// From 64 MiB to the largest, four times as much each.
fn sizes(largest: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(GIB / 16), |size| Some(size * 4)).take_while(move |&size| size <= largest)
}

fn first_us(boot_machine: &BootMachine) -> Result<f64, Failure> {
    Ok(boot_machine.boot(InitMode::Needed)?.first_ns / 1e3)
}

/// Time until the first allocation has succeeded, on the largest machine against the smallest. What start
/// writes is present: it is the second boot of the machine. How much start writes goes by where the edges
/// fall in their blocks, and by one bit for each 4 MiB (32 KiB with a terabyte).
fn first(options: &Options) -> Result<Figure, Failure> {
    let largest = options.size(1024 * GIB, GIB);
    let boot_machines: Result<Vec<(u64, BootMachine)>, Failure> =
        sizes(largest).map(|size| Ok((size, BootMachine::new(&map(size), &options.cpus[..1])?))).collect();
    let boot_machines = boot_machines?;
    let mut points = Vec::new();
    for (size, boot_machine) in &boot_machines {
        let mut times = Vec::new();
        for _ in 0..1 + options.size(15, 3) {
            times.push(first_us(boot_machine)?);
        }
        times.sort_by(f64::total_cmp);
        points.push((*size as f64 / GIB as f64, times[times.len() / 2]));
    }
    let (smallest, largest) = (&boot_machines[0].1, &boot_machines[boot_machines.len() - 1].1);
    let mut failed = Ok(());
    let (mut noted, side) = (Ok(()), |boot_machine| first_us(boot_machine));
    let ours = || or_note(side(largest), &mut failed);
    let theirs = || or_note(side(smallest), &mut noted);
    let figure = paired(options, "init.first", "us", ours, "the same with 64 MiB", theirs);
    failed.and(noted)?;
    Ok(figure.with_bar(Bar::AtMost(2.5)).with_curve("memory, GiB", points))
}

/// Time until all records are written, by all CPUs, against everything before the first allocation.
fn all_written(options: &Options) -> Result<Figure, Failure> {
    let cpus = &options.cpus[..options.cpus.len().min(2)];
    let mut points = Vec::new();
    for size in sizes(options.size(64 * GIB, GIB / 4)) {
        let boot_machine = BootMachine::new(&map(size), cpus)?;
        let boots: Result<Vec<Boot>, Failure> =
            (0..3).map(|_| boot_machine.boot(InitMode::Job(cpus.len()))).collect();
        let best = boots?.iter().map(Boot::all_ns).fold(f64::INFINITY, f64::min);
        points.push((size as f64 / GIB as f64, best / 1e6));
    }
    let boot_machine = BootMachine::new(&map(options.size(8 * GIB, GIB / 8)), cpus)?;
    let (mut failed, mut noted) = (Ok(()), Ok(()));
    let ms = |when| boot_machine.boot(when).map(|boot| boot.all_ns() / 1e6);
    let ours = || or_note(ms(InitMode::Job(cpus.len())), &mut failed);
    let theirs = || or_note(ms(InitMode::First), &mut noted);
    let figure = paired(options, "init.all_written", "ms", ours, "before the first allocation", theirs);
    failed.and(noted)?;
    Ok(figure.with_curve("memory, GiB", points))
}

/// What a frame costs when its block's records are written for it, against one whose records were written
/// before.
fn first_use(options: &Options) -> Result<Figure, Failure> {
    let boot_machine = BootMachine::new(&map(options.size(4 * GIB, GIB / 8)), &options.cpus[..1])?;
    let frames = options.size(1 << 19, 1 << 13);
    let take_all = |memory: &Memory<'_, TimedMachine>| {
        let start = Instant::now();
        for _ in 0..frames {
            let frame = memory.alloc_frame(AllocRequest::DIRTY.with_priority(Priority::Reserve));
            black_box(frame.map(Frame::into_pfn));
        }
        start.elapsed().as_nanos() as f64 / frames as f64
    };
    let (mut failed, mut noted) = (Ok(()), Ok(()));
    let side = |when| boot_machine.with_booted(when, |memory, _| take_all(memory));
    // A boot whose records a job wrote leaves all of them dirty and present for the next.
    let ours =
        || or_note(boot_machine.boot(InitMode::Job(1)).and_then(|_| side(InitMode::Needed)), &mut failed);
    let theirs = || or_note(side(InitMode::Job(1)), &mut noted);
    let figure = paired(options, "init.first_use", "ns/frame", ours, "records written before", theirs);
    failed.and(noted)?;
    Ok(figure)
}

/// The store alone, over the records of a GiB, were they of another size.
fn record_size(options: &Options) -> Figure {
    let frames = options.size(GIB * 16, GIB / 64) / 4096;
    let gib = frames as f64 * 4096.0 / GIB as f64;
    let time = |bytes: u64| {
        let arena = present((frames * bytes) as usize);
        let width = Width::Sse;
        move || {
            soil(&arena);
            let start = Instant::now();
            zero(&arena, width);
            start.elapsed().as_secs_f64() * 1e3 / gib
        }
    };
    let median = |bytes| {
        let side = time(bytes);
        let mut times: Vec<f64> = (0..options.size(9, 3)).map(|_| side()).collect();
        times.sort_by(f64::total_cmp);
        (bytes as f64, times[times.len() / 2])
    };
    let points = [8, 16, 32, 64].map(median).to_vec();
    paired(options, "init.record_size", "ms/GiB", time(32), "64 bytes", time(64))
        .with_curve("bytes of a record", points)
}
