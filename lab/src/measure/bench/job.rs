//! What does it cost to have work done as a job, alone and by two CPUs, beside the loop it replaces and
//! beside rayon?
//!
//! Work is blocks of memory to be filled, each behind an uncontended lock, so that both sides call
//! the very same function. Helper and rayon's workers are pinned, one to each CPU; the caller is a worker on
//! both sides. Either side's workers look for more work for a while when theirs has ended, on the CPUs that
//! the other side needs next; so each begins when those have fallen asleep.

use super::yardstick::jobs;
use super::{
    Bar, Benchmark, Figure, Options, alone, ns_per, ns_per_rested, paired, pinned_threads as threads,
};
use crate::error::Failure;
use crate::machine::host::Host;
use crate::measure::timed_machine::{self, TimedMachine};
use crate::os::affinity;
use interleaf::machine::Cpu;
use interleaf::units::CpuId;
use interleaf::work::{Chunk, Job, WorkerPool};
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "job",
    question: "What does a job cost beside a serial loop and beside rayon, \
               and do two CPUs fill memory faster by it?",
    figures: &[
        "job.one_thread",
        "job.halves",
        "job.everywhere",
        "job.joined",
        "job.each",
        "job.each_by_hand",
        "job.two_cpus",
        "job.woken",
    ],
    run,
};

type BenchPool<'m> = WorkerPool<'m, TimedMachine>;
type Block = Mutex<Vec<u8>>;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let machine = timed_machine::machine(options, 64)?;
    let cpus = options.cpus[..timed_machine::nr_cpus(options) as usize].to_vec();
    let pool = jobs::pool(&cpus)?;
    let own = cpus.clone();
    let pin = move |cpu: CpuId| std::mem::forget(affinity::pin(own[cpu.index()]));
    machine.start_helpers((1..cpus.len() as u32).map(CpuId), pin);
    let _entered = machine.enter(CpuId(0));
    let mut memory = timed_machine::boot_map(&machine)?.claim(&machine).map_err(Failure::of)?;
    let workers = WorkerPool::spawn(&machine, &mut memory.early_allocator()).map_err(Failure::of)?;
    while (1..cpus.len() as u32).any(|cpu| !workers.has_helper_racy(CpuId(cpu))) {
        std::thread::yield_now();
    }
    let pinned = options.pin();
    let times = options.size(20_000, 20);
    let mut figures = vec![one_thread(options, &workers)];
    // rayon asks no helper before it has done its own half; ours asks at once.
    let (ours, theirs) = (|| halves(&workers, times), || jobs::halves(&pool, times));
    figures.push(paired(options, "job.halves", "ns", ours, "rayon, join", theirs));
    figures.push(everywhere(options, &workers, &pool, cpus.len() as u32));
    figures.push(joined(options, &workers, cpus.len()));
    figures.push(each(options, &workers, &pool));
    figures.push(each_by_hand(options, &workers, &cpus));
    drop(pinned);
    figures.push(two_cpus(options, &workers, &cpus));
    figures.push(alone(options, "job.woken", "ns", || woken(&workers, options.size(50, 3))));
    Ok(figures)
}

fn blocks(count: usize, bytes: usize) -> Vec<Block> {
    (0..count).map(|_| Mutex::new(vec![0xA5; bytes])).collect()
}

fn fill(block: &Block) {
    black_box(&mut *block.lock().expect("no thread panics")).fill(0);
}

/// The loop, alone and in chunks. Not in line: the compiler makes one of it.
#[inline(never)]
fn fill_each(blocks: &[Block]) {
    blocks.iter().for_each(fill);
}

/// Fills all blocks as a job of at most `helpers` helpers.
fn fill_all(workers: &BenchPool<'_>, blocks: &[Block], helpers: u32) {
    let job = Job::new(0..blocks.len() as u64, |chunk: &Chunk<'_>| {
        fill_each(&blocks[chunk.start as usize..chunk.end as usize]);
        Ok::<(), Infallible>(())
    });
    workers.run(&job.max_helpers(helpers)).expect("filling does not fail");
}

/// A MiB in blocks of a frame, by a job without helpers, against the loop.
fn one_thread(options: &Options, workers: &BenchPool<'_>) -> Figure {
    let (blocks, times) = (blocks(256, 4096), options.size(100, 2));
    let ours = || ns_per(times, || fill_all(workers, &blocks, 0));
    let theirs = || ns_per(times, || fill_each(&blocks));
    paired(options, "job.one_thread", "ns", ours, "the same, a loop", theirs).with_bar(Bar::AtMost(1.02))
}

/// Two empty halves, either of which may be done by either.
fn halves(workers: &BenchPool<'_>, times: u64) -> f64 {
    let job = Job::new(0..2, |chunk: &Chunk<'_>| {
        black_box(chunk.start);
        Ok::<(), Infallible>(())
    });
    let mut helpers = 0;
    let took = ns_per_rested(times, || helpers += workers.run(&job).expect("nothing does not fail").helpers);
    black_box(helpers);
    took
}

/// Something that every worker must come to: both sides wait for the last.
fn everywhere(
    options: &Options,
    workers: &BenchPool<'_>,
    pool: &rayon::ThreadPool,
    nr_workers: u32,
) -> Figure {
    let times = options.size(1000, 10);
    let here = AtomicU32::new(0);
    // The round ends when all have come: a multiple of the workers.
    let meet = || {
        let until = here.fetch_add(1, AcqRel) / nr_workers * nr_workers + nr_workers;
        while here.load(Acquire) < until {
            std::hint::spin_loop();
        }
    };
    let ours = || {
        here.store(0, SeqCst);
        let job = Job::new(0..nr_workers.into(), |chunk: &Chunk<'_>| {
            chunk.range().for_each(|_| meet());
            Ok::<(), Infallible>(())
        });
        ns_per_rested(times, || {
            let spent = workers.run(&job).expect("meeting does not fail");
            assert_eq!(spent.helpers + 1, nr_workers, "a helper that is idle is asked");
        })
    };
    let theirs = || {
        here.store(0, SeqCst);
        jobs::everywhere(pool, times, meet)
    };
    paired(options, "job.everywhere", "ns", ours, "rayon, broadcast", theirs)
}

/// A job of two empty halves that one helper joins, from the call of `run` to its return: each half waits for
/// the other to begin.
fn joined(options: &Options, workers: &BenchPool<'_>, nr_cpus: usize) -> Figure {
    let here = AtomicU32::new(0);
    let job = Job::new(0..2, |chunk: &Chunk<'_>| {
        for _ in chunk.range() {
            let until = here.fetch_add(1, AcqRel) / 2 * 2 + 2;
            while nr_cpus > 1 && here.load(Acquire) < until {
                std::hint::spin_loop();
            }
        }
        Ok::<(), Infallible>(())
    });
    let one_helper = job.max_helpers(1);
    let measure = || {
        ns_per_rested(options.size(1000, 10), || {
            let spent = workers.run(&one_helper).expect("meeting does not fail");
            assert_eq!(spent.helpers as usize, nr_cpus.min(2) - 1, "the helper joins");
        })
    };
    let figure = alone(options, "job.joined", "ns", measure);
    if nr_cpus < 2 { figure } else { figure.with_bar(Bar::AtMost(5000.0)) }
}

/// A MiB in blocks of a frame, by all.
fn each(options: &Options, workers: &BenchPool<'_>, pool: &rayon::ThreadPool) -> Figure {
    let (blocks, times) = (blocks(256, 4096), options.size(400, 2));
    let ours = || ns_per_rested(times, || fill_all(workers, &blocks, u32::MAX));
    let theirs = || jobs::each(pool, times, &blocks, fill);
    paired(options, "job.each", "ns", ours, "rayon, par_iter", theirs)
}

/// The same, against what no pool can do better: two threads that only wait for each other, and each have
/// their half.
fn each_by_hand(options: &Options, workers: &BenchPool<'_>, cpus: &[usize]) -> Figure {
    let (blocks, times) = (blocks(256, 4096), options.size(400, 2));
    let ours = || ns_per_rested(times, || fill_all(workers, &blocks, u32::MAX));
    let theirs = || jobs::by_hand(cpus.get(1).copied(), times, &blocks, fill);
    paired(options, "job.each_by_hand", "ns", ours, "two threads, a half each", theirs)
}

/// How many times faster two CPUs fill memory than one, by jobs, against threads that fill a half each.
fn two_cpus(options: &Options, workers: &BenchPool<'_>, cpus: &[usize]) -> Figure {
    let blocks = blocks(options.size(1024, 16), 64 << 10);
    let ours = || {
        let _pinned = options.pin();
        let alone = ns_per(1, || fill_all(workers, &blocks, 0));
        alone / ns_per(1, || fill_all(workers, &blocks, u32::MAX))
    };
    let by = |cpus: &[usize]| {
        let took = threads::together(cpus, |index| {
            let part = blocks.len() / cpus.len();
            blocks[index * part..(index + 1) * part].iter().for_each(fill);
        });
        took.as_secs_f64()
    };
    let theirs = || by(&cpus[..1]) / by(cpus);
    let figure = paired(options, "job.two_cpus", "times", ours, "threads, memset", theirs);
    if cpus.len() < 2 { figure } else { figure.with_bar(Bar::AtLeast(0.95)) }
}

/// As `everywhere`, where the helper sleeps when it is asked.
fn woken(workers: &BenchPool<'_>, times: u64) -> f64 {
    let here = AtomicU32::new(0);
    let job = Job::new(0..2, |_: &Chunk<'_>| {
        here.fetch_add(1, AcqRel);
        Ok::<(), Infallible>(())
    });
    let mut sum_ns = 0.0;
    for _ in 0..times {
        std::thread::sleep(std::time::Duration::from_millis(1));
        let began = Host::now_ns();
        workers.run(&job).expect("counting does not fail");
        sum_ns += (Host::now_ns() - began) as f64;
    }
    sum_ns / times as f64
}
